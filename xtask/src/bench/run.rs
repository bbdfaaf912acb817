//! One run of fio: its command line, and what its report and the kernel say of it.

use super::plan::{Benchmark, Contender};
use crate::command::run;
use serde_json::Value;
use std::{fs, path::PathBuf, process::Command};

/// How fio is run here.
pub(super) struct Fio {
    pub program: PathBuf,
    pub file: String,
    /// The core that synchronous contenders are pinned to.
    pub core: usize,
}

/// What one run did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub iops: f64,
    /// Microseconds of CPU time per I/O, of all threads of the process.
    pub cpu_us: f64,
    /// Percent of one core in user mode, and in the kernel.
    pub user: f64,
    pub system: f64,
}

/// CPU time in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CpuTime {
    user: f64,
    system: f64,
}

impl CpuTime {
    fn without(self, part: Self) -> Self {
        Self { user: (self.user - part.user).max(0.0), system: (self.system - part.system).max(0.0) }
    }
}

impl Fio {
    /// fio's words for this contender, without those that end the run.
    pub fn words(&self, benchmark: &Benchmark, contender: &Contender) -> Vec<String> {
        let mut words = benchmark.words(contender);
        words.push(format!("--filename={}", self.file));
        words.push(format!("--size={}", super::plan::FILE_BYTES));
        if contender.is_synchronous {
            words.push(format!("--cpus_allowed={}", self.core));
        }
        words
    }

    /// The CPU time that this contender takes to start and to end: a run of one I/O a job.
    pub fn start_up(&self, benchmark: &Benchmark, contender: &Contender) -> Result<CpuTime, String> {
        self.run(benchmark, contender, &["--number_ios=1"]).map(|(_, used)| used)
    }

    /// One run of `seconds`; what it took to start and end is left out of its CPU time.
    pub fn sample(&self, benchmark: &Benchmark, contender: &Contender, start_up: CpuTime, seconds: u32) -> Result<Sample, String> {
        let (said, used) = self.run(benchmark, contender, &["--time_based", &format!("--runtime={seconds}")])?;
        read(&said, used.without(start_up)).map_err(|error| format!("{}: fio's report: {error}", contender.name))
    }

    fn run(&self, benchmark: &Benchmark, contender: &Contender, end: &[&str]) -> Result<(String, CpuTime), String> {
        let before = children()?;
        let said = run(Command::new(&self.program).args(self.words(benchmark, contender)).args(end).arg("--output-format=json"))?;
        Ok((said, children()?.without(before)))
    }
}

/// Takes the figures from fio's JSON, which may stand after lines of its log.
fn read(said: &str, used: CpuTime) -> Result<Sample, String> {
    let start = said.find('{').ok_or_else(|| format!("no JSON in «{said}»"))?;
    let report: Value = serde_json::from_str(&said[start..]).map_err(|error| error.to_string())?;
    let job = &report["jobs"][0];
    match job["error"].as_i64() {
        Some(0) => {}
        error => return Err(format!("the job's error is {error:?}")),
    }
    let figure = |name: &str| {
        let found = job["read"][name].as_f64().filter(|&figure| figure > 0.0);
        found.ok_or_else(|| format!("read.{name} is {}", job["read"][name]))
    };
    let seconds = figure("runtime")? / 1e3;
    Ok(Sample {
        iops: figure("iops")?,
        cpu_us: (used.user + used.system) * 1e6 / figure("total_ios")?,
        user: used.user / seconds * 100.0,
        system: used.system / seconds * 100.0,
    })
}

/// The CPU time of all child processes that this one has waited for, with all their threads: fio's own figures leave out threads that
/// an engine starts.
fn children() -> Result<CpuTime, String> {
    const STAT: &str = "/proc/self/stat";
    let text = fs::read_to_string(STAT).map_err(|error| format!("{STAT}: {error}"))?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    // proc(5): cutime and cstime are the fields 16 and 17; the name in field 2 may hold spaces and ends with the last parenthesis.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_whitespace().skip(13).map(|field| field.parse::<f64>().map(|n| n / ticks));
    match (fields.next(), fields.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok(CpuTime { user, system }),
        _ => Err(format!("{STAT}: no times of children in «{}»", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: CpuTime = CpuTime { user: 0.25, system: 0.75 };

    #[test]
    fn figures_are_read_from_behind_the_log() {
        let said = "a line of the log\n{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 500.5, \"runtime\": 2000, \"total_ios\": 1000}}]}";
        assert_eq!(read(said, USED), Ok(Sample { iops: 500.5, cpu_us: 1000.0, user: 12.5, system: 37.5 }));
    }

    #[test]
    fn a_failed_or_idle_job_is_an_error() {
        for (said, complaint) in [
            ("{\"jobs\": [{\"error\": 5, \"read\": {}}]}", "Some(5)"),
            ("{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 0, \"runtime\": 1000}}]}", "read.iops is 0"),
            ("nothing", "no JSON"),
        ] {
            let error = read(said, USED).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn the_time_of_a_child_is_seen() {
        let before = children().unwrap();
        run(Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])).unwrap();
        let after = children().unwrap();
        assert!(after.user + after.system > before.user + before.system);
    }
}
