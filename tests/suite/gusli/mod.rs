//! GUSLI: the real client library, from its wheel, on files and loop devices, and on the library's own devices that fail or never answer.
//! Servers are in no registry, so what is special to them was tried by hand: see docs/gusli.md.

mod data;
mod failures;
mod files;
mod limits;
mod memory;
mod pinned;
mod refusals;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::harness::machine::children;
use crate::harness::{Fio, Run, Running, library, target};

/// Makes one `#[test]` of each function named, on fio 3.33. The function gets a [`Gusli`] of its own.
macro_rules! on_the_real_library {
    ($($test:ident),* $(,)?) => {$(
        #[test]
        fn $test() { run::$test(&crate::gusli::Gusli::get("3.33")) }
    )*};
}
use on_the_real_library;

/// The same on each of the four fios.
macro_rules! on_the_real_library_and_every_fio {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[test]
            fn fio_3_25() { super::run::$test(&crate::gusli::Gusli::get("3.25")) }
            #[test]
            fn fio_3_33() { super::run::$test(&crate::gusli::Gusli::get("3.33")) }
            #[test]
            fn fio_3_39() { super::run::$test(&crate::gusli::Gusli::get("3.39")) }
            #[test]
            fn fio_3_41() { super::run::$test(&crate::gusli::Gusli::get("3.41")) }
        }
    )*};
}
use on_the_real_library_and_every_fio;

const MIB: u64 = 1 << 20;

/// A fio with GUSLI's client library.
struct Gusli {
    fio: Fio,
    variables: Vec<(String, String)>,
}

impl Gusli {
    fn get(version: &'static str) -> Self {
        Self::with(version, &["gusli"])
    }

    /// The same in further environments.
    fn with(version: &'static str, environments: &[&str]) -> Self {
        let fio = Fio::get(version);
        let prepare = |name: &&str| sim_env::prepare(name, target(), &[]).unwrap_or_else(|why| panic!("{name}: {why}"));
        let mut variables: Vec<_> = environments.iter().flat_map(prepare).collect();
        variables.push(("GPUIO_SIM_LOG".to_owned(), fio.path("calls.log").display().to_string()));
        Self { fio, variables }
    }

    /// A job file for GUSLI. `text` goes on where `[global]` has begun.
    fn job(&self, text: &str) -> Run {
        self.file(&format!("[global]\nioengine=external:{}\ngpu_backend=gusli\n{text}", library().display()))
    }

    /// A job file just as it is.
    fn file(&self, text: &str) -> Run {
        self.under(self.fio.job_file(text))
    }

    fn under(&self, run: Run) -> Run {
        self.variables.iter().fold(run, |run, (name, value)| run.env(name, value))
    }

    /// psync reads with verification what a job of this library has written.
    #[track_caller]
    fn psync_verifies(&self, text: &str) {
        self.fio.job_file(&format!("[global]\nioengine=psync\nrw=read\n{text}[a]\n")).run().ok();
    }

    fn path(&self, name: &str) -> String {
        self.fio.path(name).display().to_string()
    }
}

/// The library's shared memory of a job is gone when the job is. Other jobs may have some of the same name meanwhile.
#[track_caller]
fn left_nothing(run: impl FnOnce()) {
    let names = || -> HashSet<PathBuf> {
        let all = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|file| file.path());
        all.filter(|path| is_ours(path)).collect()
    };
    let before = names(); // of what was killed, for instance
    run();
    for _ in 0..500 {
        if names().is_subset(&before) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("something is left in /dev/shm");
}

/// Ends in 2 s, by no signal of its own.
#[track_caller]
fn ends_in_time(running: Running, since: Instant) {
    let report = running.finish();
    report.assert(since.elapsed() < Duration::from_millis(2000), &format!("it took {:?} to end", since.elapsed()));
    report.assert(report.signal().is_none(), "a signal ended it");
}

/// Waits until fio or a job of it has registered its memory: its I/O starts next.
#[track_caller]
fn wait_until_registered(fio: i32) {
    let has = |id: &i32| std::fs::read_to_string(format!("/proc/{id}/maps")).is_ok_and(|maps| maps.contains("/dev/shm/gs_"));
    for _ in 0..1000 {
        if [fio].iter().chain(&children(fio)).any(has) {
            std::thread::sleep(Duration::from_millis(300));
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no memory was registered");
}

fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gs_"))
}
