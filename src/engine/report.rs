//! `gpu_report`: what the job did, as JSON, for the jobs of one run in one file.
//!
//! The file holds `{"run": …, "jobs": [ … ]}`. Every job adds itself when it ends, under a lock, so that `numjobs` and several sections
//! share one file; the first job of a later run starts it anew. A file that holds anything else is left alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
    errors: u64,
    bytes: u64,
    short: u64,
}

/// What a job did with one of its files.
#[derive(Default, Clone)]
pub struct Counts {
    read: Count,
    write: Count,
    trim: Count,
    sync: Count,
}

impl Counts {
    /// A transfer that has moved all of `bytes`.
    #[inline]
    pub fn add_all(&mut self, transfer: Transfer, bytes: usize) {
        let count = self.of(transfer);
        count.calls += 1;
        count.bytes += bytes as u64;
    }

    #[inline]
    pub fn add(&mut self, transfer: Transfer, wanted: usize, moved: Moved) {
        self.add_all(transfer, moved.bytes);
        let count = self.of(transfer);
        if moved.bytes < wanted {
            count.errors += u64::from(moved.errno != 0);
            count.short += u64::from(moved.errno == 0);
        }
    }

    #[inline]
    fn of(&mut self, transfer: Transfer) -> &mut Count {
        match transfer {
            Transfer::Read => &mut self.read,
            Transfer::Write => &mut self.write,
        }
    }

    pub fn add_trim(&mut self, wanted: usize, errno: i32) {
        self.trim.calls += 1;
        self.trim.errors += u64::from(errno != 0);
        self.trim.bytes += if errno == 0 { wanted as u64 } else { 0 };
    }

    pub fn add_sync(&mut self, errno: i32) {
        self.sync.calls += 1;
        self.sync.errors += u64::from(errno != 0);
    }

    fn to_json(&self, name: &str, path: &str) -> Value {
        let count = |c: &Count| json!({ "calls": c.calls, "bytes": c.bytes, "errors": c.errors, "short": c.short });
        json!({
            "name": name,
            "path": path,
            "read": count(&self.read),
            "write": count(&self.write),
            "trim": { "calls": self.trim.calls, "bytes": self.trim.bytes, "errors": self.trim.errors },
            "sync": { "calls": self.sync.calls, "errors": self.sync.errors },
        })
    }
}

/// A report is far smaller; a larger file is somebody's data.
const LARGEST: u64 = 64 << 20;

impl Report {
    /// Checks that the file can be written and is a report or new, so that a job with a bad path fails before its first I/O and nobody's
    /// data is overwritten.
    pub fn new(path: &str, job: &fio::Job, about: Value) -> Result<Self, String> {
        let refuse = |why: String| format!("gpu_report={path}: {why}; name a new file, or one with an earlier report");
        let file = open(path.as_ref()).map_err(|error| refuse(error.to_string()))?;
        read(&file).map_err(refuse)?;
        let owner = if job.fio.int("thread") == Some(1) { std::process::id() } else { std::os::unix::process::parent_id() };
        Ok(Self { path: path.into(), run: run_of(owner), about })
    }

    /// Adds the job to the file. A file without a name was never opened.
    pub fn write<'a>(&self, files: impl Iterator<Item = (&'a str, &'a Counts)>, path: &str) -> Result<(), String> {
        let mut job = self.about.clone();
        job["files"] = files.filter(|(name, _)| !name.is_empty()).map(|(name, counts)| counts.to_json(name, path)).collect();
        self.append(job).map_err(|why| format!("gpu_report={}: {why}; the report of this job is lost", self.path.display()))
    }

    fn append(&self, job: Value) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        let mut file = open(&self.path).map_err(text)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| error.to_string())?; // released when the file is closed
        let mut all = read(&file)?;
        if all["run"] != self.run.as_str() {
            all = json!({ "run": self.run, "jobs": [] });
        }
        if let Some(jobs) = all["jobs"].as_array_mut() {
            jobs.push(job);
        }
        // The old text stays until the new one is there: a longer one is written over it, and then cut to size.
        let text_now = format!("{all:#}\n");
        file.seek(SeekFrom::Start(0)).map_err(text)?;
        file.write_all(text_now.as_bytes()).map_err(text)?;
        file.set_len(text_now.len() as u64).map_err(text)
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A fifo without a reader would be waited for.
    OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NONBLOCK).open(path)
}

/// The report in a file; an empty one for a new file. The error says why it is neither.
fn read(file: &File) -> Result<Value, String> {
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("not a regular file".to_owned());
    }
    if about.len() == 0 {
        return Ok(json!({ "run": null, "jobs": [] }));
    }
    let mut text = String::new();
    let mut part = file.take(LARGEST);
    let all: Value = part.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_default();
    let is_report = all["run"].is_string() && all["jobs"].is_array();
    if is_report { Ok(all) } else { Err("the file is there and holds something else".to_owned()) }
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
        let mut counts = Counts::default();
        counts.add(Transfer::Read, 4096, Moved::bytes(4096));
        counts.add(Transfer::Read, 4096, Moved::bytes(100));
        counts.add(Transfer::Write, 4096, Moved::failed(5, 0));
        let files = [("", &Counts::default()), ("/data/f", &counts)];
        for run in ["a", "a", "b"] {
            report(run).write(files.into_iter(), "posix").unwrap();
        }
        let read = |path: &PathBuf| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
        let all = read(&path);
        assert_eq!(all["run"], "b");
        assert_eq!(all["jobs"].as_array().unwrap().len(), 1);
        assert_eq!(all["jobs"][0]["files"].as_array().unwrap().len(), 1);
        let file = &all["jobs"][0]["files"][0];
        assert_eq!(file["read"], json!({ "calls": 2, "bytes": 4196, "errors": 0, "short": 1 }));
        assert_eq!(file["write"], json!({ "calls": 1, "bytes": 0, "errors": 1, "short": 0 }));
        report("b").write(files.into_iter(), "posix").unwrap();
        assert_eq!(read(&path)["jobs"].as_array().unwrap().len(), 2);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_no_report_is_left_alone() {
        let path = std::env::temp_dir().join(format!("gpuio-data-{}.txt", std::process::id()));
        std::fs::write(&path, "somebody's data").unwrap();
        let report = Report { path: path.clone(), run: "a".to_owned(), about: json!({}) };
        let line = report.write(std::iter::empty(), "posix").unwrap_err();
        assert!(line.contains("holds something else"), "{line}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's data");
        std::fs::remove_file(path).unwrap();
        for device in ["/dev/full", "/dev/zero", "/dev/null"] {
            assert_eq!(read(&open(device.as_ref()).unwrap()).unwrap_err(), "not a regular file");
        }
    }

    #[test]
    fn a_run_is_named_by_more_than_its_process_id() {
        let run = run_of(std::process::id());
        assert!(run.starts_with(&format!("{}-", std::process::id())) && !run.ends_with("-0"), "{run}");
    }
}
