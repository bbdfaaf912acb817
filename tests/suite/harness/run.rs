//! One run of fio: its command line, its environment, its time limit; it never hangs and leaves no process behind.

use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Report;

/// Generous: only a hang takes so long.
const LIMIT: Duration = Duration::from_secs(150);

pub struct Run {
    program: PathBuf,
    folder: PathBuf,
    args: Vec<String>,
    job: Option<String>,
    env: Vec<(String, String)>,
    limit: Duration,
    json: bool,
    through: Vec<String>,
}

impl Run {
    pub fn new(program: &Path, folder: &Path) -> Self {
        Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            args: Vec::new(),
            job: None,
            env: Vec::new(),
            limit: LIMIT,
            json: true,
            through: Vec::new(),
        }
    }

    pub fn job_text(mut self, text: &str) -> Self {
        self.job = Some(text.to_owned());
        self
    }

    pub fn args<S: AsRef<str>>(mut self, args: &[S]) -> Self {
        self.args.extend(args.iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.env.push((name.to_owned(), value.as_ref().display().to_string()));
        self
    }

    /// Where the run's relative paths start.
    pub fn inside(mut self, folder: &Path) -> Self {
        self.folder = folder.to_owned();
        self
    }

    /// Started by another program, whose own words stand before fio's.
    pub fn through(mut self, words: &[&str]) -> Self {
        self.through = words.iter().map(|w| (*w).to_owned()).collect();
        self
    }

    /// Where a hang is what the test looks for.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// fio's report for people instead of JSON.
    pub fn plain(mut self) -> Self {
        self.json = false;
        self
    }

    pub fn run(self) -> Report {
        self.start().finish()
    }

    pub fn start(self) -> Running {
        let words = self.words();
        if let Some(text) = &self.job {
            std::fs::write(self.folder.join("job.fio"), text).expect("the job file");
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&self.folder).envs(self.env.iter().map(|(n, v)| (n, v)));
        // A group of its own, so that what a run goes through ends with it when the time is over.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", words[0]));
        let stdout = collect(child.stdout.take().expect("piped"));
        let stderr = collect(child.stderr.take().expect("piped"));
        Running {
            started: Instant::now(),
            limit: self.limit,
            paste: self.paste(&words),
            json: self.json,
            folder: self.folder,
            child,
            stdout,
            stderr,
        }
    }

    /// The whole command line.
    fn words(&self) -> Vec<String> {
        let mut words = self.through.clone();
        words.push(self.program.display().to_string());
        words.extend(self.json.then(|| "--output-format=json".to_owned()));
        words.extend_from_slice(&self.args);
        words.extend(self.job.as_ref().map(|_| "job.fio".to_owned()));
        words
    }

    /// What to type to see the same again.
    fn paste(&self, words: &[String]) -> String {
        let mut lines = String::from("cd \"$(mktemp -d)\"\n");
        if let Some(job) = &self.job {
            let _ = writeln!(lines, "cat > job.fio <<'END'\n{}\nEND", job.trim_end());
        }
        for (name, value) in &self.env {
            let _ = write!(lines, "{name}={} ", quoted(value));
        }
        lines.push_str(&words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
        lines
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.:,+%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe from a child");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A fio that runs now.
pub struct Running {
    started: Instant,
    limit: Duration,
    paste: String,
    json: bool,
    folder: PathBuf,
    child: Child,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

impl Running {
    /// Sends a signal to fio itself, not to its jobs.
    pub fn signal(&self, signal: libc::c_int) {
        super::machine::signal(self.id(), signal);
    }

    pub fn id(&self) -> i32 {
        self.child.id().try_into().expect("a process id")
    }

    /// Waits for the end; past the time limit the whole group is killed and the test fails.
    pub fn finish(mut self) -> Report {
        let status = self.wait();
        let took = self.started.elapsed();
        if status.is_none() {
            // fio's jobs have left its group, and one that is left would keep the pipes open.
            let jobs = super::machine::children(self.id());
            super::machine::signal(-self.id(), libc::SIGKILL);
            jobs.into_iter().for_each(|job| super::machine::signal(job, libc::SIGKILL));
            self.child.wait().expect("a child to wait for");
        }
        if status.is_some_and(|status| status.signal().is_some()) {
            // A job that fio has left behind would keep the pipes open.
            super::machine::processes_in(&self.folder).into_iter().for_each(|job| super::machine::signal(job, libc::SIGKILL));
        }
        let stdout = self.stdout.join().expect("standard output");
        let stderr = self.stderr.join().expect("standard error");
        let Some(status) = status else {
            panic!("still running after {:?}; killed\n{}\n{stdout}\n{stderr}", self.limit, self.paste);
        };
        Report::new(status, took, self.paste, stdout, stderr, self.json)
    }

    fn wait(&mut self) -> Option<ExitStatus> {
        while self.started.elapsed() < self.limit {
            if let Some(status) = self.child.try_wait().expect("a child to wait for") {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }
}
