//! What the figures depend on: the machine, its kernel, the fio, and the commit that is measured.

use crate::command::run;
use serde_json::{Value, json};
use std::{fmt, fs, path::Path, process::Command, thread};

pub(super) struct Machine {
    date: String,
    fio: String,
    kernel: String,
    cpu: String,
    cores: usize,
    /// Average number of running tasks in the minute before.
    load: f64,
    /// With «+changes» where the tree is not what was committed; `None` outside a git checkout.
    commit: Option<String>,
}

impl Machine {
    pub fn look(root: &Path, fio: &Path) -> Result<Self, String> {
        let one_line = |command: &mut Command| run(command).map(|said| said.trim().to_owned());
        Ok(Self {
            date: one_line(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?,
            fio: one_line(Command::new(fio).arg("--version"))?,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
            cpu: cpu(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            load: load(&fs::read_to_string("/proc/loadavg").unwrap_or_default()),
            commit: commit(root),
        })
    }

    pub fn to_json(&self) -> Value {
        json!({
            "date": self.date, "fio": self.fio, "kernel": self.kernel, "cpu": self.cpu,
            "cores": self.cores, "load": self.load, "commit": self.commit,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let commit = self.commit.as_deref().unwrap_or("not a git checkout");
        let Self { date, fio, kernel, cpu, cores, load, .. } = self;
        write!(f, "{date}, {commit}\n{fio}, kernel {kernel}, {cpu}, {cores} cores, load {load}")?;
        if *load > 0.5 { write!(f, " (others are at work here: expect noise)") } else { Ok(()) }
    }
}

fn cpu(cpuinfo: &str) -> String {
    let field = |name: &str| cpuinfo.lines().find_map(|line| line.strip_prefix(name)?.split_once(':').map(|(_, value)| value.trim()));
    match (field("model name"), field("model\t")) {
        (Some(name), Some(model)) => format!("{name} (model {model})"),
        (Some(name), None) => name.to_owned(),
        (None, _) => std::env::consts::ARCH.to_owned(),
    }
}

fn load(loadavg: &str) -> f64 {
    loadavg.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn commit(root: &Path) -> Option<String> {
    let git = |words: &[&str]| run(Command::new("git").arg("-C").arg(root).args(words)).ok();
    let head = git(&["rev-parse", "--short=12", "HEAD"])?.trim().to_owned();
    // What is built into the library; the rest of the tree changes nothing here.
    let changes = git(&["status", "--porcelain", "--", "src", "layout", "build.rs", "Cargo.toml"])?;
    Some(if changes.trim().is_empty() { head } else { head + "+changes" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_with_its_model_where_there_is_one() {
        assert_eq!(cpu("model\t\t: 207\nmodel name\t: A CPU\n"), "A CPU (model 207)");
        assert_eq!(cpu("processor\t: 0\n"), std::env::consts::ARCH);
    }

    #[test]
    fn the_load_of_the_last_minute_is_the_first_figure() {
        assert_eq!(load("1.39 1.49 0.88 2/300 77"), 1.39);
        assert_eq!(load(""), 0.0);
    }
}
