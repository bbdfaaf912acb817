//! What came out of a run, and the checks that most tests share.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;

pub struct Report {
    status: ExitStatus,
    pub took: Duration,
    paste: String,
    pub stdout: String,
    pub stderr: String,
    json: Value,
}

impl Report {
    /// Where JSON was asked for, standard output is one JSON document in every run of every test; in front of it fio itself says «fio: …»
    /// where a job failed, with every engine. Where fio ended before it had jobs there is no document.
    pub fn new(status: ExitStatus, took: Duration, paste: String, stdout: String, stderr: String, json: bool) -> Self {
        let mut report = Self { status, took, paste, stdout, stderr, json: Value::Null };
        let own = report.stdout.lines().any(|line| line.starts_with("gpuio: "));
        report.assert(!own, "the library has printed on standard output");
        if let Some(start) = document(&report.stdout).filter(|_| json) {
            let (before, document) = report.stdout.split_at(start);
            // A client prefixes what its server has said with the server's name.
            let fios = |line: &str| {
                line.is_empty() || ["fio: ", "note: both iodepth >= 1", "<", "client <"].iter().any(|own| line.starts_with(own))
            };
            report.assert(before.lines().all(fios), "something else than fio's own lines stands before the JSON");
            match serde_json::from_str(document) {
                Ok(document) => report.json = document,
                Err(error) => report.fail(&format!("standard output is not JSON: {error}")),
            }
        }
        report
    }

    /// Fails the test with everything that is needed to see the failure again.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let shown: String = self.stdout.chars().take(1500).collect();
        panic!(
            "{why}\n--- to see it again\n{}\n--- {}, standard error\n{}\n--- standard output\n{shown}",
            self.paste, self.status, self.stderr
        );
    }

    #[track_caller]
    pub fn assert(&self, holds: bool, why: &str) -> &Self {
        if !holds {
            self.fail(why);
        }
        self
    }

    /// Ended well: status 0, and no job with an error.
    #[track_caller]
    pub fn ok(&self) -> &Self {
        self.assert(self.code() == Some(0), "fio did not end with status 0");
        let wrong = self.jobs().iter().find(|job| job["error"] != 0);
        self.assert(wrong.is_none(), "a job has an error")
    }

    /// Ended as fio ends a failed job: status 1 (no signal), the errno in the first job's JSON.
    #[track_caller]
    pub fn fails_with(&self, errno: i32) -> &Self {
        self.assert(self.code() == Some(1), "fio did not end with status 1");
        let error = &self.jobs()[0]["error"];
        self.assert(*error == errno, &format!("the job's error is {error}, expected {errno}"))
    }

    /// Ended with status 1 before any job had run.
    #[track_caller]
    pub fn refused(&self) -> &Self {
        self.assert(self.code() == Some(1), "fio did not end with status 1");
        let ios: u64 = self.jobs().iter().map(|job| number(&job["read"]["total_ios"]) + number(&job["write"]["total_ios"])).sum();
        self.assert(ios == 0, "a job did I/O")
    }

    /// The library has said this line, and no other.
    #[track_caller]
    pub fn says(&self, line: &str) -> &Self {
        self.assert(self.lines() == [line], &format!("the library was to say one line:\n    {line}"))
    }

    /// The library has said one line that contains all of `parts`, and no other.
    #[track_caller]
    pub fn says_one_with(&self, parts: &[&str]) -> &Self {
        let lines = self.lines();
        let fits = lines.len() == 1 && parts.iter().all(|part| lines[0].contains(part));
        self.assert(fits, &format!("the library was to say one line with {parts:?}"))
    }

    #[track_caller]
    pub fn says_nothing(&self) -> &Self {
        self.assert(self.lines().is_empty(), "the library was to say nothing")
    }

    /// The lines of the library on fio's log, without their prefix.
    pub fn lines(&self) -> Vec<&str> {
        self.stderr
            .lines()
            .filter_map(|line| line.split_once("gpuio: ").filter(|(before, _)| !before.contains("fio:")))
            .map(|(_, line)| line)
            .collect()
    }

    /// The status, or `None` where a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The jobs in JSON; none where fio ended before it had any.
    pub fn jobs(&self) -> &[Value] {
        self.json["jobs"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The jobs as a client of a server reports them.
    pub fn client_jobs(&self) -> &[Value] {
        self.json["client_stats"].as_array().map_or(&[], Vec::as_slice)
    }

    /// A figure of all jobs together: `("read", "total_ios")`.
    pub fn sum(&self, direction: &str, count: &str) -> u64 {
        self.jobs().iter().map(|job| number(&job[direction][count])).sum()
    }

    #[track_caller]
    pub fn counts(&self, direction: &str, count: &str, expected: u64) -> &Self {
        let found = self.sum(direction, count);
        self.assert(found == expected, &format!("{direction}.{count} is {found}, expected {expected}"))
    }
}

/// Where fio's JSON document starts.
fn document(stdout: &str) -> Option<usize> {
    if stdout.starts_with("{\n") { Some(0) } else { stdout.find("\n{\n").map(|at| at + 1) }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
