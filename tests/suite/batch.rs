//! gpu_mode=batch: cuFile's batch call on the real libcufile of either generation, and on the simulated one for what the real one cannot be made
//! to do. What does not depend on fio runs on fio 3.33 alone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::harness::machine::wait_until_open;
use crate::harness::{Fio, Report, Run, library, on_every_fio, target};

/// Makes one `#[test]` a libcufile of each function named.
macro_rules! on_every_libcufile {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[test]
            fn cuda_12() { super::$test(&super::Stage::new("cufile12")) }
            #[test]
            fn cuda_13() { super::$test(&super::Stage::new("cufile13")) }
            #[test]
            fn simulated() { super::$test(&super::Stage::new("cufile-sim")) }
        }
    )*};
}

on_every_libcufile![
    mixed_block_sizes_are_verified_at_every_depth,
    large_blocks_are_verified_at_every_depth,
    every_manner_of_waiting_in_threads_and_forks,
    jobs_of_one_process_share_the_bounce_buffers,
    a_buffer_of_any_size_loses_nothing,
];

/// A fio under one of the environments of `cargo xtask env`.
struct Stage {
    fio: Fio,
    variables: Vec<(String, String)>,
    backend: &'static str,
}

impl Stage {
    fn new(environment: &str) -> Self {
        Self::on(environment, "3.33")
    }

    fn on(environment: &str, fio: &'static str) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let variables = sim_env::prepare(environment, target(), &[]).unwrap_or_else(|why| panic!("{environment}: {why}"));
        let backend = if environment.starts_with("hipfile") { "hipfile" } else { "cufile" };
        Self { fio: Fio::get(fio), variables, backend }
    }

    fn simulated() -> Self {
        Self::new("cufile-sim")
    }

    /// A job file; `text` goes on where `[global]` has begun. `knobs` are the simulated library's, as in `SLABS=64 STUCK=3!`.
    fn job(&self, knobs: &str, text: &str) -> Run {
        let (library, backend) = (library().display().to_string(), self.backend);
        let head = format!("[global]\nioengine=external:{library}\ngpu_backend={backend}\ngpu_mode=batch\ndirect=1\nthread=1\n");
        let run = self.fio.job_file(&format!("{head}{text}"));
        let run = self.variables.iter().fold(run, |run, (name, value)| run.env(name, value));
        knobs
            .split_whitespace()
            .filter_map(|knob| knob.split_once('='))
            .fold(run, |run, (name, value)| run.env(&format!("GPUIO_SIM_{}_{name}", self.backend.to_uppercase()), value))
    }

    /// Runs a verifying job, which must end well with all of its data there, and returns what the library said but for what it always says here.
    #[track_caller]
    fn verifies(&self, knobs: &str, text: &str) -> (Report, Vec<String>) {
        let report = self.job(knobs, &format!("rw=randrw\nverify=crc32c\nfilename=f\n{text}[a]\n")).run();
        report.ok();
        report.assert(report.sum("read", "io_bytes") > 0 && report.sum("write", "io_bytes") > 0, "the job has not read and written");
        let lines = lines(&report);
        (report, lines)
    }
}

fn lines(report: &Report) -> Vec<String> {
    let is_usual = |line: &&str| line.starts_with("nvidia-fs is not loaded") || (line.starts_with("job ") && line.contains(" uses "));
    report.lines().into_iter().filter(|line| !is_usual(line)).map(str::to_owned).collect()
}

const SPLIT: &str = "bssplit=4k/50:16k/50\nsize=2m\n";

/// fio's own count says that the depth was reached, and for most of the job; a bucket's name is its lowest depth.
#[track_caller]
fn was_deep(report: &Report, depth: u32) {
    let levels: BTreeMap<String, f64> = serde_json::from_value(report.jobs()[0]["iodepth_level"].clone()).expect("fio's IO depths");
    let bucket = match depth {
        64.. => ">=64".to_owned(),
        _ => (1 << depth.ilog2()).to_string(),
    };
    let share = levels[&bucket];
    report.assert(share > 60.0, &format!("only {share} % of the I/Os were issued at a depth of {bucket} ({depth} was asked for)"));
}

fn mixed_block_sizes_are_verified_at_every_depth(stage: &Stage) {
    for depth in [1, 7, 32, 128, 512] {
        let (report, lines) = stage.verifies("", &format!("{SPLIT}iodepth={depth}\n"));
        if depth <= 128 {
            was_deep(&report, depth);
        }
        if depth <= 32 {
            report.assert(lines.is_empty(), &format!("the library has said {lines:?}"));
        }
    }
}

fn large_blocks_are_verified_at_every_depth(stage: &Stage) {
    for depth in [1, 7, 32] {
        let (report, lines) = stage.verifies("", &format!("bs=1m\nsize=16m\niodepth={depth}\n"));
        report.assert(lines.is_empty(), &format!("the library has said {lines:?}"));
    }
    // Larger than any bounce buffer of compat mode: 1.14 refuses that, which is told, and blocking calls do it.
    let report = stage.job("", "rw=write\nverify=crc32c\nbs=17m\nsize=34m\niodepth=2\nfilename=g\n[a]\n").run();
    report.ok().counts("read", "total_ios", 2).counts("write", "total_ios", 2);
    let lines = lines(&report);
    report.assert(lines.iter().all(|line| line.contains("done one by one by blocking calls")), &format!("the library has said {lines:?}"));
}

fn every_manner_of_waiting_in_threads_and_forks(stage: &Stage) {
    for wait in ["spin", "yield", "block"] {
        for thread in [0, 1] {
            let text = format!("{SPLIT}thread={thread}\niodepth=32\nnumjobs=2\ngpu_wait={wait}\nfilename_format=f.$jobnum\n");
            let report = stage.job("", &format!("rw=randrw\nverify=crc32c\n{text}[a]\n")).run();
            report.ok();
            was_deep(&report, 32);
        }
    }
}

fn jobs_of_one_process_share_the_bounce_buffers(stage: &Stage) {
    // 128 in all where there are 64.
    let report = stage.job("SLABS=64", "rw=write\nbs=1m\nsize=32m\niodepth=32\nnumjobs=4\nfilename_format=f.$jobnum\n[a]\n").run();
    report.ok().counts("write", "total_ios", 128);
}

fn a_buffer_of_any_size_loses_nothing(stage: &Stage) {
    // libcufile 1.20 forgets operations in compat mode that end beyond 983,040 bytes of a registered buffer.
    for (block, depth) in [("16k", 60), ("16k", 61), ("16k", 62), ("4k", 246), ("64k", 32), ("1m", 8)] {
        let report = stage.job("", &format!("rw=randwrite\nbs={block}\nsize=8m\niodepth={depth}\nfilename=f\n[a]\n")).run();
        report.ok().counts("write", "io_bytes", 8 << 20);
    }
}

#[test]
fn what_the_vendors_threads_do_is_not_forgotten() {
    let stage = Stage::simulated();
    for sizes in ["bssplit=512/50:4k/50", "bs=512", "bssplit=4k/90:512/10"] {
        let (report, lines) = stage.verifies("POOLED=4096", &format!("{sizes}\nsize=512k\niodepth=32\n"));
        report.assert(lines.len() == 1 && lines[0].contains("is not a multiple of 4096"), &format!("the library has said {lines:?}"));
        was_deep(&report, 32);
    }
}

#[test]
fn short_operations_are_resumed() {
    let stage = Stage::simulated();
    for knobs in ["SHORT_EVERY=3 SHORT_BYTES=4096", "SHORT_EVERY=2 SHORT_BYTES=5000", "SHORT_EVERY=3 SHORT_BYTES=5000 POOLED=4096"] {
        let (report, lines) = stage.verifies(knobs, &format!("{SPLIT}iodepth=32\n"));
        report.assert(lines.is_empty(), &format!("the library has said {lines:?}")).counts("read", "short_ios", 0);
    }
    let report = stage.job("SHORT_EVERY=2 SHORT_BYTES=50000000", "rw=write\nbs=64m\nsize=128m\niodepth=2\nfilename=f\n[a]\n").run();
    report.ok().counts("write", "total_ios", 2).counts("write", "short_ios", 0);
}

/// Three entries fail, and nothing else does: as many errors, and as many blocks that are not on disk.
fn three_entries_fail(knobs: &str, said: usize) {
    let stage = Stage::simulated();
    let text = "rw=randwrite\nbs=4k\nsize=1m\niodepth=16\nfilename=f\ngpu_data=exact\nbuffer_pattern=0x79\ncontinue_on_error=io\n[a]\n";
    let report = stage.job(knobs, text).run();
    let job = &report.jobs()[0];
    report.assert(report.code() == Some(0), "fio did not end with status 0");
    report.assert(
        job["total_err"] == 3 && job["first_error"] == libc::EIO,
        &format!("{} errors, the first {}", job["total_err"], job["first_error"]),
    );
    let lines = lines(&report);
    report.assert(lines.len() == said, &format!("the library has said {lines:?}"));
    let written = stage.fio.read("f").chunks(4096).filter(|block| block.iter().all(|&byte| byte == 0x79)).count();
    assert_eq!(written, 256 - 3, "blocks on disk");
}

#[test]
fn a_failing_entry_fails_alone() {
    three_entries_fail("BATCH_FAIL=5,70,177", 0);
}

#[test]
fn a_failing_entry_fails_alone_where_its_batch_is_lost() {
    three_entries_fail("BATCH_FAIL=5,70,177 BATCH_LOSES=1", 1);
}

#[test]
fn no_more_are_in_flight_than_there_are_bounce_buffers() {
    let report = Stage::simulated().job("SLABS=64", "rw=write\nbs=1m\nsize=160m\niodepth=128\nfilename=f\n[a]\n").run();
    let lines = lines(&report);
    let told = lines.len() == 1 && lines[0].contains("64 bounce buffers of 1024 KiB") && lines[0].contains("posix_pool_slab_count");
    report.ok().counts("write", "total_ios", 160).assert(told, &format!("the library has said {lines:?}"));
}

#[test]
fn the_limit_of_a_batch_is_found() {
    let stage = Stage::simulated();
    let limits = [("BATCH_LIMIT=20", 64), ("BATCH_LIMIT=1", 32), ("BATCH_LIMIT=256 BATCH_MAX=128 SLABS=256", 256), ("BATCH_MAX=8", 32)];
    for (knobs, depth) in limits {
        let (report, lines) = stage.verifies(knobs, &format!("{SPLIT}iodepth={depth}\n"));
        report.assert(lines.is_empty(), &format!("the library has said {lines:?}"));
        was_deep(&report, depth);
    }
}

#[test]
fn a_batch_that_fails_is_made_anew_and_its_operations_are_done_one_by_one() {
    let stage = Stage::simulated();
    for (knobs, call) in [
        ("FAIL_SUBMIT=9", "cuFileBatchIOSubmit"),
        ("FAIL_SUBMIT=9!", "cuFileBatchIOSubmit"),
        ("FAIL_STATUS=9", "cuFileBatchIOGetStatus"),
        ("FAIL_STATUS=9!", "cuFileBatchIOGetStatus"),
        ("FAIL_STATUS=9! FAIL_SETUP=2", "cuFileBatchIOGetStatus"),
    ] {
        let (report, lines) = stage.verifies(knobs, &format!("{SPLIT}iodepth=32\n"));
        let told = lines.len() == 1 && lines[0].starts_with(call) && lines[0].contains("CU_FILE_INTERNAL_ERROR (5030)");
        report.assert(told, &format!("the library has said {lines:?}"));
    }
}

#[test]
fn a_batch_that_cannot_be_made_is_a_refusal() {
    for knobs in ["FAIL_SETUP=1", "FAIL_SETUP=2"] {
        let report = Stage::simulated().job(knobs, "rw=read\nbs=4k\nsize=1m\niodepth=256\nfilename=f\n[a]\n").run();
        report.refused();
        let lines = lines(&report);
        let told = lines.len() == 1 && lines[0].starts_with("cuFileBatchIOSetUp: CU_FILE_INTERNAL_ERROR (5030)");
        report.assert(told && lines[0].contains("gpu_mode=pool"), &format!("the library has said {lines:?}"));
    }
}

/// A job with an operation that never ends is told to stop: it does so in time, and says which. On a busy machine it may be late now and then.
fn stuck(environment: &str, fio: &'static str, mode: &str, wait: &str, thread: u32) {
    const IN_TIME: Duration = Duration::from_secs(2);
    let all = (0..3).map(|_| time_to_end(environment, fio, mode, wait, thread));
    let late: Vec<_> = all.take_while(|took| *took >= IN_TIME).collect();
    assert!(late.len() < 3, "gpu_mode={mode}, gpu_wait={wait}: it took {late:?} to end");
}

fn time_to_end(environment: &str, fio: &'static str, mode: &str, wait: &str, thread: u32) -> Duration {
    let stage = Stage::on(environment, fio);
    stage.fio.file("f", &[0; 1 << 20]);
    let text = format!(
        "rw=randread\nbs=4k\niodepth=64\nfilename=f\ntime_based=1\nruntime=60\nthread={thread}\ngpu_mode={mode}\ngpu_wait={wait}\n[a]\n"
    );
    let running = stage.job("STUCK=20!", &text).start();
    wait_until_open(running.id(), &stage.fio.path("f"));
    running.signal(libc::SIGINT);
    let then = Instant::now();
    let report = running.finish();
    let took = then.elapsed();
    report.assert(report.signal().is_none(), "fio was killed");
    report.assert(report.jobs()[0]["error"] == libc::ECANCELED, "the job's error is not ECANCELED");
    let lines: Vec<_> = lines(&report).into_iter().filter(|line| line.contains("was given up")).collect();
    let is_told = |line: &String| {
        line.starts_with("read of ")
            && line.contains("f at offset ")
            && line.contains(", 4096 bytes is not back after ")
            && line.contains(" s ")
    };
    // A stream is stuck as a whole, and every operation comes to it sooner or later.
    let count = if mode == "stream" { 1..=64 } else { 1..=1 };
    report.assert(count.contains(&lines.len()) && lines.iter().all(is_told), &format!("the library has said {lines:?}"));
    took
}

// Whether fio wants a job to end is told by a field of its own.
on_every_fio![an_operation_that_is_stuck_does_not_hold_up_a_job_that_is_to_end];

fn an_operation_that_is_stuck_does_not_hold_up_a_job_that_is_to_end(fio: &Fio) {
    stuck("cufile-sim", fio.version, "batch", "yield", 1);
}

#[test]
fn an_operation_that_is_stuck_holds_nobody_up_in_any_mode() {
    let cases = [
        ("batch", "spin", 1),
        ("batch", "block", 0),
        ("pool", "spin", 0),
        ("pool", "yield", 1),
        ("pool", "block", 0),
        ("stream", "block", 1),
    ];
    for (mode, wait, thread) in cases {
        stuck("cufile-sim", "3.33", mode, wait, thread);
    }
    for (mode, wait, thread) in [("pool", "yield", 0), ("pool", "block", 1), ("stream", "spin", 0), ("stream", "block", 1)] {
        stuck("hipfile-sim", "3.33", mode, wait, thread);
    }
}

#[test]
fn a_slow_operation_is_seen_and_does_not_delay_the_others() {
    let stage = Stage::simulated();
    stage.fio.file("f", &[0; 1 << 20]);
    for wait in ["spin", "yield", "block"] {
        let knobs = "DELAY_US=1000,1000,1000,1000,1000,1000,1000,1000,1000,10000";
        let text = format!("rw=randread\nbs=4k\niodepth=16\nfilename=f\nloops=8\ngpu_wait={wait}\n[a]\n");
        let report = stage.job(knobs, &text).run();
        report.ok();
        let percentile = |name: &str| report.jobs()[0]["read"]["clat_ns"]["percentile"][name].as_u64().unwrap_or(0) / 1000;
        let (half, most) = (percentile("50.000000"), percentile("95.000000"));
        report.assert((900..7000).contains(&half), &format!("half of them took {half} µs, where 1000 is due"));
        report.assert(most >= 9800, &format!("a twentieth took {most} µs, where 10000 is due"));
    }
}
