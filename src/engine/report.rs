//! `gpu_report`: what the job did, as JSON, for the jobs of one run in one file.
//!
//! The file holds `{"run": …, "jobs": [ … ]}`. Every job adds itself when it ends, under a lock, so that `numjobs` and several sections
//! share one file; the first job of a later run starts it anew.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::common::transport::{Moved, Transfer};
use crate::fio;

/// Where a job's report goes.
pub struct Report {
    path: PathBuf,
    /// Tells the runs apart: the id and the start of the fio process that owns the job.
    run: String,
    /// What is known of the job at its start.
    about: Value,
}

/// Calls, bytes and errors in one direction.
#[derive(Default, Clone, Copy)]
struct Count {
    calls: u64,
    bytes: u64,
    errors: u64,
    short: u64,
}

/// One file's share of the job.
#[derive(Default, Clone)]
struct FileCounts {
    name: String,
    read: Count,
    write: Count,
}

/// What a job moved, by file. The files are named when they are opened; counting allocates nothing.
#[derive(Default)]
pub struct Counters {
    files: Vec<FileCounts>,
}

impl Counters {
    /// Makes room for file number `index` of the job.
    pub fn opened(&mut self, index: usize, name: &str) {
        if self.files.len() <= index {
            self.files.resize(index + 1, FileCounts::default());
        }
        if self.files[index].name != name {
            name.clone_into(&mut self.files[index].name);
        }
    }

    #[inline]
    pub fn add(&mut self, index: usize, transfer: Transfer, wanted: usize, moved: Moved) {
        let Some(file) = self.files.get_mut(index) else { return };
        let count = match transfer {
            Transfer::Read => &mut file.read,
            Transfer::Write => &mut file.write,
        };
        count.calls += 1;
        count.bytes += moved.bytes as u64;
        count.errors += u64::from(moved.errno != 0);
        count.short += u64::from(moved.errno == 0 && moved.bytes < wanted);
    }

    fn to_json(&self, path: &str) -> Value {
        let count = |c: &Count| json!({ "calls": c.calls, "bytes": c.bytes, "errors": c.errors, "short": c.short });
        let file = |f: &FileCounts| json!({ "name": f.name, "path": path, "read": count(&f.read), "write": count(&f.write) });
        self.files.iter().filter(|f| !f.name.is_empty()).map(file).collect()
    }
}

impl Report {
    /// Checks that the file can be written, so that a job with a bad path fails before its first I/O.
    pub fn new(path: &str, job: &fio::Job, about: Value) -> Result<Self, String> {
        open(path).map_err(|error| format!("gpu_report={path}: {error}; name a file in a folder that can be written"))?;
        let owner = if job.fio.int("thread") == Some(1) { std::process::id() } else { std::os::unix::process::parent_id() };
        Ok(Self { path: path.into(), run: run_of(owner), about })
    }

    /// Adds the job to the file.
    pub fn write(&self, counters: &Counters, path: &str) -> Result<(), String> {
        let mut job = self.about.clone();
        job["files"] = counters.to_json(path);
        self.append(job).map_err(|error| format!("gpu_report={}: {error}; the report of this job is lost", self.path.display()))
    }

    fn append(&self, job: Value) -> io::Result<()> {
        let mut file = open(&self.path)?;
        flock(&file, FlockOperation::LockExclusive)?; // released when the file is closed
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut all: Value = serde_json::from_str(&text).unwrap_or_default();
        if all["run"] != self.run.as_str() || !all["jobs"].is_array() {
            all = json!({ "run": self.run, "jobs": [] });
        }
        if let Some(jobs) = all["jobs"].as_array_mut() {
            jobs.push(job);
        }
        file.seek(SeekFrom::Start(0))?;
        file.set_len(0)?;
        file.write_all(format!("{all:#}\n").as_bytes())
    }
}

fn open(path: impl AsRef<std::path::Path>) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// A name for the run of the process `owner` that a later process with the same id does not have.
fn run_of(owner: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{owner}/stat")).unwrap_or_default();
    // The start time is the 22nd field; the second is in brackets and may hold spaces.
    let start = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)).unwrap_or("0");
    format!("{owner}-{start}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_one_run_share_the_file_and_a_later_run_starts_it_anew() {
        let path = std::env::temp_dir().join(format!("gpuio-report-{}.json", std::process::id()));
        let report = |run: &str| Report { path: path.clone(), run: run.to_owned(), about: json!({ "subjob": 0 }) };
        let mut counters = Counters::default();
        counters.opened(1, "/data/f");
        counters.add(1, Transfer::Read, 4096, Moved::bytes(4096));
        counters.add(1, Transfer::Read, 4096, Moved::bytes(100));
        counters.add(1, Transfer::Write, 4096, Moved::failed(5, 0));
        counters.add(7, Transfer::Write, 4096, Moved::failed(5, 0));
        for run in ["a", "a", "b"] {
            report(run).write(&counters, "posix").unwrap();
        }
        let read = |path: &PathBuf| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
        let all = read(&path);
        assert_eq!(all["run"], "b");
        assert_eq!(all["jobs"].as_array().unwrap().len(), 1);
        assert_eq!(all["jobs"][0]["files"].as_array().unwrap().len(), 1);
        let file = &all["jobs"][0]["files"][0];
        assert_eq!(file["read"], json!({ "calls": 2, "bytes": 4196, "errors": 0, "short": 1 }));
        assert_eq!(file["write"], json!({ "calls": 1, "bytes": 0, "errors": 1, "short": 0 }));
        report("b").write(&counters, "posix").unwrap();
        assert_eq!(read(&path)["jobs"].as_array().unwrap().len(), 2);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_run_is_named_by_more_than_its_process_id() {
        let run = run_of(std::process::id());
        assert!(run.starts_with(&format!("{}-", std::process::id())) && !run.ends_with("-0"), "{run}");
    }
}
