//! GPU memory through the vendors' libraries, by the same tests on each: the real libcufile of CUDA 12 and of CUDA 13 on the simulated driver,
//! and the simulated libcufile and libhipfile for what the real ones cannot be made to do here. Device memory is out of the CPU's reach
//! there, so a copy that was forgotten ends in a crash, not in luck.
//!
//! The tests speak CUDA's words; [`vendor`] has HIP's for them.

mod amd;
mod calls;
mod data;
mod devices;
mod failures;
mod jobs;
mod latency;
mod lifetime;
mod moves;
mod names;
mod nvidia;
mod real_hip;
mod refusals;
mod vendor;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::harness::{Fio, Report, Run, library, target};
use calls::Calls;
use vendor::Vendor;

/// Makes one `#[test]` an environment of each function named, on fio 3.33. The function gets a [`Gpu`] of its own.
macro_rules! on {
    ($environments:tt: [$($test:ident),* $(,)?]) => { $(mod $test { crate::gpu::on!(@ $test $environments); })* };
    (@ $test:ident [$($environment:ident = $name:literal),*]) => {$(
        #[test]
        fn $environment() { super::$test(&crate::gpu::Gpu::get($name, "3.33")) }
    )*};
}
use on;

/// On the real libraries, and on the simulated one of a vendor whose real one is not to be had.
macro_rules! on_every_library {
    ($($test:ident),* $(,)?) => {
        crate::gpu::on!([cuda_12 = "cufile12", cuda_13 = "cufile13", hipfile_sim = "hipfile-sim"]: [$($test),*]);
    };
}
use on_every_library;

macro_rules! on_every_simulated_library {
    ($($test:ident),* $(,)?) => { crate::gpu::on!([cufile_sim = "cufile-sim", hipfile_sim = "hipfile-sim"]: [$($test),*]); };
}
use on_every_simulated_library;

const MIB: u64 = 1 << 20;

/// A fio under one of the environments of `cargo xtask env`.
pub struct Gpu {
    vendor: &'static Vendor,
    pub fio: Fio,
    variables: Vec<(String, String)>,
}

impl Gpu {
    pub fn get(environment: &str, fio: &'static str) -> Self {
        // One at a time: an environment that is there already is found by the next.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let variables = sim_env::prepare(environment, target(), &[]).unwrap_or_else(|why| panic!("{environment}: {why}"));
        Self { vendor: Vendor::of(environment), fio: Fio::get(fio), variables }
    }

    /// A job file for the vendor's backend with direct=1. `text` goes on where `[global]` has begun.
    pub fn job(&self, text: &str) -> Run {
        let text = format!("[global]\nioengine=external:{}\ngpu_backend=cufile\ndirect=1\n{text}", library().display());
        self.under(self.fio.job_file(&self.vendor.words(&text)))
    }

    /// What a test has in CUDA's words.
    fn words(&self, text: &str) -> String {
        self.vendor.words(text)
    }

    /// A run of any kind, in this environment.
    fn under(&self, run: Run) -> Run {
        let run = self.variables.iter().fold(run, |run, (name, value)| run.env(name, value));
        run.env("GPUIO_SIM_LOG", self.log())
    }

    /// A variable of the environment.
    fn variable(&self, name: &str) -> &str {
        self.variables.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    fn log(&self) -> std::path::PathBuf {
        self.fio.path("calls.log")
    }

    /// What the simulated libraries were called for, in all runs of this test so far.
    fn calls(&self) -> Calls {
        Calls::read(&self.log(), self.vendor)
    }

    /// Runs the job on cuFile and on psync; the bytes on disk must be the same by another program's word. What a job writes hangs on fio's
    /// seeds alone where it refills its buffers without scrambling them.
    #[track_caller]
    fn same_bytes_as_psync(&self, text: &str, files: &[&str]) -> Report {
        let text = format!("refill_buffers=1\nscramble_buffers=0\n{text}");
        let psyncs: String = text.lines().filter(|line| !is_own(line)).map(|line| format!("{line}\n")).collect();
        let (ours, theirs) = (self.job(&text).run(), self.fio.psync(&format!("direct=1\n{psyncs}")).run());
        ours.ok();
        theirs.ok();
        for (job, yardstick) in ours.jobs().iter().zip(theirs.jobs()) {
            for direction in ["read", "write", "trim", "sync"] {
                let (own, expected) = (&job[direction]["total_ios"], &yardstick[direction]["total_ios"]);
                ours.assert(own == expected, &format!("{direction}.total_ios is {own}, with psync {expected}"));
            }
        }
        files.iter().for_each(|file| self.fio.same_bytes(file));
        ours
    }

    /// psync reads with verification what a job of this library has written.
    #[track_caller]
    fn psync_verifies(&self, text: &str) {
        self.fio.job_file(&format!("[global]\nioengine=psync\nrw=read\n{text}")).run().ok();
    }

    /// What the library has said beside what every job here is told.
    fn unusual<'a>(&self, report: &'a Report) -> Vec<&'a str> {
        let usual = |line: &str| self.vendor.usual.contains(&line) || (line.starts_with("job ") && line.contains(" uses device "));
        report.lines().into_iter().filter(|line| !usual(line)).collect()
    }

    /// The library has said one line beside the usual ones, with all of `parts`.
    #[track_caller]
    fn says_one_more_with(&self, report: &Report, parts: &[&str]) {
        let (lines, parts) = (self.unusual(report), parts.iter().map(|part| self.words(part)).collect::<Vec<_>>());
        let fits = lines.len() == 1 && parts.iter().all(|part| lines[0].contains(part));
        report.assert(fits, &format!("the library was to say one more line with {parts:?}, and said {lines:#?}"));
    }

    #[track_caller]
    fn says_no_more(&self, report: &Report) {
        report.assert(self.unusual(report).is_empty(), "the library was to say nothing unusual");
    }

    /// Refused in one line, beside those that say how the job would have run.
    #[track_caller]
    pub fn refused_with(&self, report: &Report, parts: &[&str]) {
        report.refused();
        self.says_one_more_with(report, parts);
        report.assert(report.jobs()[0]["error"] != 0, "the job has no error");
    }
}

/// Whether a line of a job file is an option of this library.
fn is_own(line: &str) -> bool {
    ["gpu_", "cuda_", "rocm_"].iter().any(|own| line.starts_with(own))
}

/// The report that a job wrote with `gpu_report=`.
#[track_caller]
fn gpu_report(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
