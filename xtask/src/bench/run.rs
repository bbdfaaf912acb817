//! One run of fio: its command line, and what its report and the kernel say of it.

use super::plan::{Benchmark, Contender};
use crate::command::run;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// How fio is run here.
pub(super) struct Fio {
    pub program: PathBuf,
    /// The environment that it runs under, beside this process's own.
    pub variables: Vec<(String, String)>,
    pub file: String,
    /// The bare loop and its first word, where a contender is one.
    pub bare: Option<(PathBuf, &'static str)>,
    /// The core that synchronous contenders are pinned to.
    pub core: usize,
}

/// What one contender did in one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub iops: f64,
    /// Microseconds of CPU time per I/O, of all threads that belong to the contender.
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
    /// A program that is fio, or starts it, in fio's surroundings.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// fio's words for this contender, without those that end the run.
    pub fn words(&self, benchmark: &Benchmark, contender: &Contender) -> Vec<String> {
        let mut words = vec![format!("--name={}", contender.name)];
        words.extend(benchmark.words(contender));
        words.push(format!("--filename={}", self.file));
        words.push(format!("--size={}", super::plan::FILE_BYTES));
        if contender.is_synchronous {
            words.push(format!("--cpus_allowed={}", self.core));
        }
        words
    }

    /// All contenders as jobs of one fio on one core, in the order given; the samples are in the benchmark's order. They share the
    /// core's time evenly and in slices of milliseconds, so whatever slows it down slows all of them.
    pub fn together(&self, benchmark: &Benchmark, order: &[usize], seconds: u32) -> Result<Vec<Sample>, String> {
        let mut command = self.command(&self.program);
        for &n in order {
            command.args(self.words(benchmark, &benchmark.contenders[n])).args(timed(seconds));
        }
        let report = parse(&run(command.arg("--output-format=json"))?)?;
        let of = |contender: &Contender| {
            let job = report["jobs"].as_array().into_iter().flatten().find(|job| job["jobname"] == contender.name).unwrap_or(&Value::Null);
            read(job, None).map_err(|error| format!("{}: fio's report: {error}", contender.name))
        };
        benchmark.contenders.iter().map(of).collect()
    }

    /// The CPU time that this contender takes to start and to end: a run of one I/O a job.
    pub fn start_up(&self, benchmark: &Benchmark, contender: &Contender) -> Result<CpuTime, String> {
        self.alone(benchmark, contender, &["--number_ios=1".to_owned()]).map(|(_, used)| used)
    }

    /// One contender in a fio of its own; what that takes to start and end is left out of its CPU time.
    pub fn apart(&self, benchmark: &Benchmark, contender: &Contender, start_up: CpuTime, seconds: u32) -> Result<Sample, String> {
        let (said, used) = self.alone(benchmark, contender, &timed(seconds))?;
        let sample = parse(&said).and_then(|report| read(&report["jobs"][0], Some(used.without(start_up))));
        sample.map_err(|error| format!("{}: fio's report: {error}", contender.name))
    }

    fn alone(&self, benchmark: &Benchmark, contender: &Contender, end: &[String]) -> Result<(String, CpuTime), String> {
        let before = children()?;
        let said = match (contender.bare, &self.bare) {
            (Some(depth), Some((program, kind))) => {
                let seconds = end.iter().find_map(|word| word.strip_prefix("--runtime=")).unwrap_or("0");
                let words =
                    [(*kind).to_owned(), self.file.clone(), super::plan::FILE_BYTES.to_string(), depth.to_string(), seconds.to_owned()];
                run(self.command(program).args(words))?
            }
            _ => run(self.command(&self.program).args(self.words(benchmark, contender)).args(end).arg("--output-format=json"))?,
        };
        Ok((said, children()?.without(before)))
    }
}

fn timed(seconds: u32) -> [String; 2] {
    ["--time_based".to_owned(), format!("--runtime={seconds}")]
}

/// fio's JSON, which may stand after lines of its log.
fn parse(said: &str) -> Result<Value, String> {
    let start = said.find('{').ok_or_else(|| format!("no JSON in «{said}»"))?;
    serde_json::from_str(&said[start..]).map_err(|error| error.to_string())
}

/// Takes the figures of one job. Without `used` its CPU time is what fio says, which is that of the job's own thread.
fn read(job: &Value, used: Option<CpuTime>) -> Result<Sample, String> {
    match job["error"].as_i64() {
        Some(0) => {}
        error => return Err(format!("the job's error is {error:?}")),
    }
    let positive = |name: &str, value: &Value| {
        let found = value.as_f64().filter(|&figure| figure > 0.0);
        found.ok_or_else(|| format!("{name} is {value}"))
    };
    let read = &job["read"];
    let (iops, ios) = (positive("read.iops", &read["iops"])?, positive("read.total_ios", &read["total_ios"])?);
    let seconds = positive("read.runtime", &read["runtime"])? / 1e3;
    let (user, system) = match used {
        Some(used) => (used.user / seconds * 100.0, used.system / seconds * 100.0),
        None => (positive("usr_cpu", &job["usr_cpu"])?, job["sys_cpu"].as_f64().ok_or("no sys_cpu")?), // null calls no kernel
    };
    Ok(Sample { iops, cpu_us: (user + system) / 100.0 * seconds * 1e6 / ios, user, system })
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

    const USED: Option<CpuTime> = Some(CpuTime { user: 0.25, system: 0.75 });

    #[test]
    fn figures_are_read_from_behind_the_log() {
        let report = parse(
            "a line of the log\n{\"jobs\": [{\"error\": 0, \"usr_cpu\": 20.0, \"sys_cpu\": 30.0, \
            \"read\": {\"iops\": 500.5, \"runtime\": 2000, \"total_ios\": 1000}}]}",
        )
        .unwrap();
        let job = &report["jobs"][0];
        assert_eq!(read(job, USED), Ok(Sample { iops: 500.5, cpu_us: 1000.0, user: 12.5, system: 37.5 }));
        assert_eq!(read(job, None), Ok(Sample { iops: 500.5, cpu_us: 1000.0, user: 20.0, system: 30.0 }));
    }

    #[test]
    fn a_failed_or_idle_or_absent_job_is_an_error() {
        for (job, complaint) in [
            ("{\"error\": 5, \"read\": {}}", "Some(5)"),
            ("{\"error\": 0, \"read\": {\"iops\": 0, \"runtime\": 1000}}", "read.iops is 0"),
            ("null", "None"),
        ] {
            let error = read(&serde_json::from_str(job).unwrap(), USED).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
        assert!(parse("nothing").unwrap_err().contains("no JSON"));
    }

    #[test]
    fn the_time_of_a_child_is_seen() {
        let before = children().unwrap();
        run(Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])).unwrap();
        let after = children().unwrap();
        assert!(after.user + after.system > before.user + before.system);
    }
}
