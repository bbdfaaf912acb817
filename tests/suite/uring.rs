//! gpu_io=uring: the depth that was asked for, the bytes that psync leaves, and a line where io_uring is not as it should be.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::machine::{self, LoopDevice};
use crate::harness::{Fio, Report, Run, faulty_library, library, noise, on_every_fio, on_two_fios, skip, target};

on_every_fio![mixed_sizes_are_verified_at_the_depth_asked_for];

on_two_fios![
    mixed_sizes_leave_the_bytes_that_psync_leaves,
    several_files_opened_in_turn_leave_the_bytes_that_psync_leaves,
    a_sync_waits_for_the_writes_before_it,
    trimmed_parts_of_a_file_are_zeros,
    a_loop_device_is_written_and_read_back,
    batches_of_submissions_and_completions_are_verified,
    a_rate_is_kept,
    asynchronous_verification_finds_what_was_written,
    threads_and_forked_jobs_write_each_their_own_file,
    a_signal_ends_a_deep_job_in_time,
    every_manner_of_waiting_ends_the_job_well,
    short_transfers_are_resumed,
    a_failing_transfer_is_the_jobs_error,
    a_file_that_ends_early_is_answered_as_with_psync,
    a_write_to_a_full_device_is_the_jobs_error,
    where_io_uring_is_forbidden_the_job_fails_with_a_line,
    buffers_that_cannot_be_registered_are_said_and_used_unregistered,
    files_that_cannot_be_registered_are_said_and_used_unregistered,
    options_that_contradict_a_ring_are_refused,
    the_report_names_the_path,
];

const RING: &str = "gpu_io=uring\n";
/// What a job writes hangs on fio's seeds alone.
const SEEDED: &str = "allrandrepeat=1\nrandseed=3\nscramble_buffers=0\nrefill_buffers=1\nsize=2m\n";
const MIX: &str = "bssplit=4k/60:8k/25:20k/15\n";

fn ring(fio: &Fio, text: &str) -> Run {
    fio.job(&format!("{RING}{text}[a]\n"))
}

/// Most I/Os were in flight with as many others as the job asked for.
#[track_caller]
fn was_deep(report: &Report, depth: u32) {
    let level = match depth {
        64.. => ">=64".to_owned(),
        _ => (1 << depth.ilog2()).to_string(),
    };
    let share = report.jobs()[0]["iodepth_level"][&level].as_f64().unwrap_or(0.0);
    report.assert(share > 80.0, &format!("only {share} % of the I/Os were at depth {depth}"));
}

fn mixed_sizes_are_verified_at_the_depth_asked_for(fio: &Fio) {
    for depth in [1, 7, 32, 128, 512] {
        for more in [format!("direct=1\n{MIX}"), "bssplit=512/20:4k/40:5000/30:20k/10\nbs_unaligned=1\n".to_owned()] {
            let text = format!("filename=f\nsize=8m\nrw=randrw\niodepth={depth}\nverify=crc32c\nverify_fatal=1\n{more}");
            let report = ring(fio, &text).run();
            report.ok().says_nothing().assert(report.sum("write", "io_bytes") > 2 << 20, "hardly anything was written");
            was_deep(&report, depth);
        }
    }
}

/// Both leave the same bytes in `files`.
#[track_caller]
fn as_psync(fio: &Fio, text: &str, files: &[&str]) -> Report {
    let (ours, theirs) = (ring(fio, text).run(), fio.psync(&format!("{text}[a]\n")).run());
    ours.ok().says_nothing();
    theirs.ok();
    for direction in ["read", "write"] {
        for count in ["total_ios", "io_bytes"] {
            ours.counts(direction, count, theirs.sum(direction, count));
        }
    }
    files.iter().for_each(|file| fio.same_bytes(file));
    ours
}

fn mixed_sizes_leave_the_bytes_that_psync_leaves(fio: &Fio) {
    for more in ["direct=1\niodepth=32\n", "iodepth=7\n", "iodepth=128\niodepth_batch=16\n"] {
        fio.file("f", &noise(2 << 20));
        as_psync(fio, &format!("{SEEDED}{MIX}filename=f\nrw=randrw\n{more}"), &["f"]);
    }
}

fn several_files_opened_in_turn_leave_the_bytes_that_psync_leaves(fio: &Fio) {
    let names: Vec<String> = (0..12).map(|n| format!("f.{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = format!("{SEEDED}filename_format=f.$filenum\nnrfiles=12\nbs=4k\nrw=randwrite\niodepth=16\n");
    as_psync(fio, &text, &names);
    // Where not all may be open, fio's choice of the next file hangs on the depth, with every engine.
    for more in ["openfiles=3\n", "file_service_type=sequential\nopenfiles=1\n"] {
        let report = ring(fio, &format!("{text}{more}verify=crc32c\n")).run();
        report.ok().says_nothing().assert(report.sum("read", "io_bytes") > 1 << 20, "hardly anything was read back");
    }
}

fn a_sync_waits_for_the_writes_before_it(fio: &Fio) {
    for option in ["fsync=8\n", "fdatasync=5\ndirect=1\n", "sync_file_range=write:4\n"] {
        let text = format!("filename=f\nsize=1m\nbs=4k\nrw=randwrite\niodepth=32\nbuffer_pattern=0x2b\n{option}");
        let report = ring(fio, &text).run();
        report.ok().says_nothing().counts("write", "total_ios", 256);
        // The other kinds fio counts for blocking engines only.
        let counted = !option.starts_with("fsync") || report.sum("sync", "total_ios") > 0;
        report.assert(counted, "nothing was synced");
        assert!(fio.read("f") == vec![0x2b; 1 << 20], "{option}");
    }
}

fn trimmed_parts_of_a_file_are_zeros(fio: &Fio) {
    let mut expected = noise(1 << 20);
    fio.file("f", &expected);
    let report = ring(fio, "filename=f\noffset=256k\nsize=128k\nbs=32k\nrw=randtrim\niodepth=8\n").run();
    report.ok().counts("trim", "io_bytes", 128 << 10);
    expected[256 << 10..384 << 10].fill(0);
    assert!(fio.read("f") == expected, "other bytes than those of the range are zeros");
}

fn a_loop_device_is_written_and_read_back(fio: &Fio) {
    std::fs::write(fio.path("backing"), vec![0; 4 << 20]).expect("a backing file");
    let Some(device) = LoopDevice::over(&fio.path("backing"), &[]) else { skip!("a loop device needs root") };
    for direct in [0, 1] {
        let text = format!("filename={}\nrw=randwrite\ndirect={direct}\n{MIX}iodepth=64\nverify=crc32c\n", device.name());
        ring(fio, &text).run().ok().says_nothing().counts("write", "io_bytes", 4 << 20).counts("read", "io_bytes", 4 << 20);
    }
}

fn batches_of_submissions_and_completions_are_verified(fio: &Fio) {
    for more in [
        "iodepth_batch=8\niodepth_batch_complete_min=4\niodepth_low=8\n",
        "iodepth_batch=32\niodepth_batch_complete_min=32\niodepth_batch_complete_max=32\n",
        "iodepth_batch_complete_min=0\n",
        "serialize_overlap=1\nnorandommap=1\nverify=0\n",
    ] {
        let text = format!("filename=f\nsize=4m\nrw=randwrite\nbs=4k\niodepth=32\nverify=crc32c\n{more}");
        ring(fio, &text).run().ok().says_nothing().counts("write", "io_bytes", 4 << 20);
    }
}

fn a_rate_is_kept(fio: &Fio) {
    let report = ring(fio, "filename=f\nsize=400k\nbs=4k\nrw=randwrite\nrate_iops=100\niodepth=8\n").run();
    report.ok().counts("write", "total_ios", 100);
    let runtime = report.jobs()[0]["write"]["runtime"].as_u64().unwrap_or(0);
    report.assert((850..=1500).contains(&runtime), &format!("it ran for {runtime} ms"));
}

fn asynchronous_verification_finds_what_was_written(fio: &Fio) {
    let text = "filename=f\nsize=4m\nrw=randwrite\nbs=4k\niodepth=32\nverify=crc32c\nverify_async=2\nverify_backlog=64\n";
    let report = ring(fio, text).run();
    report.ok().says_nothing().assert(report.sum("read", "io_bytes") >= 4 << 20, "not all was read back");
}

fn threads_and_forked_jobs_write_each_their_own_file(fio: &Fio) {
    for how in ["thread=1\n", "thread=0\n"] {
        let text = format!("{how}numjobs=4\nsize=512k\nrw=randwrite\nbs=4k\niodepth=32\nfilename_format=j.$jobnum\nbuffer_pattern=0x3d\n");
        ring(fio, &text).run().ok().says_nothing().counts("write", "io_bytes", 2 << 20);
        (0..4).for_each(|job| assert!(fio.read(&format!("j.{job}")) == vec![0x3d; 512 << 10], "job {job}"));
    }
}

fn a_signal_ends_a_deep_job_in_time(fio: &Fio) {
    fio.file("f", &noise(4 << 20));
    for wait in ["spin", "yield", "block"] {
        let text = format!("filename=f\nrw=randread\ntime_based=1\nruntime=30\nsize=4m\niodepth=64\ndirect=1\ngpu_wait={wait}\n");
        let running = ring(fio, &text).start();
        machine::wait_until_open(running.id(), &fio.path("f"));
        thread::sleep(Duration::from_millis(200));
        running.signal(libc::SIGINT);
        let then = Instant::now();
        let report = running.finish();
        report.assert(report.signal().is_none(), "fio was killed");
        report.assert(then.elapsed() < Duration::from_secs(2), &format!("it took {:?} to end with gpu_wait={wait}", then.elapsed()));
        was_deep(&report, 64);
    }
}

fn every_manner_of_waiting_ends_the_job_well(fio: &Fio) {
    for wait in ["spin", "yield", "block"] {
        let text = format!("filename=f\nsize=4m\nrw=randwrite\nbs=4k\niodepth=32\nverify=crc32c\ndirect=1\ngpu_wait={wait}\n");
        ring(fio, &text).run().ok().says_nothing().counts("read", "io_bytes", 4 << 20);
    }
}

fn faulty(fio: &Fio, fault: &str, text: &str) -> Report {
    let text = format!("[global]\nioengine=external:{}\ngpu_backend=host\n{RING}{text}[a]\n", faulty_library().display());
    fio.job_file(&text).env("GPUIO_FAULT", fault).run()
}

fn short_transfers_are_resumed(fio: &Fio) {
    for depth in [1, 32] {
        let text = format!("filename=f\nsize=1m\nrw=randwrite\nbs=16k\niodepth={depth}\nverify=crc32c\n");
        faulty(fio, "short:1000", &text).ok().counts("write", "io_bytes", 1 << 20).counts("read", "io_bytes", 1 << 20);
    }
}

fn a_failing_transfer_is_the_jobs_error(fio: &Fio) {
    faulty(fio, "errno:20:74", "filename=f\nsize=1m\nrw=write\nbs=4k\niodepth=8\n").fails_with(libc::EBADMSG).says_nothing();
    // What is to be tried again is.
    faulty(fio, "errno:20:4", "filename=f\nsize=1m\nrw=write\nbs=4k\niodepth=8\n").ok().counts("write", "io_bytes", 1 << 20);
}

fn a_file_that_ends_early_is_answered_as_with_psync(fio: &Fio) {
    for length in [100_000, 98_304, 1] {
        fio.file("f", &noise(length));
        let text = "filename=f\nrw=read\nbs=16k\niodepth=4\n";
        let (ours, theirs) = (ring(fio, text).run(), fio.psync(&format!("{text}[a]\n")).run());
        ours.assert(ours.code() == theirs.code(), "the status is not psync's");
        ours.counts("read", "io_bytes", theirs.sum("read", "io_bytes"));
    }
}

fn a_write_to_a_full_device_is_the_jobs_error(fio: &Fio) {
    ring(fio, "filename=/dev/full\nsize=64k\nrw=write\nbs=4k\niodepth=4\n").run().fails_with(libc::ENOSPC).says_nothing();
}

/// The job with a system call that fails; `None` where strace cannot trace.
fn with_failing(fio: &Fio, what: &str, text: &str) -> Option<Report> {
    machine::try_tool("strace", &["-o", "/dev/null", "true"]).ok()?;
    let call = what.split(':').next().unwrap_or(what);
    let (trace, inject) = (format!("trace={call}"), format!("inject={what}"));
    Some(ring(fio, text).through(&["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]).run())
}

const WRITES: &str = "filename=f\nsize=512k\nbs=4k\nrw=randwrite\niodepth=16\nverify=crc32c\n";

fn where_io_uring_is_forbidden_the_job_fails_with_a_line(fio: &Fio) {
    for (error, parts) in [("EPERM", ["seccomp", "io_uring_setup"]), ("ENOSYS", ["built without it", "io_uring_setup"])] {
        let Some(report) = with_failing(fio, &format!("io_uring_setup:error={error}"), WRITES) else { skip!("strace cannot trace here") };
        report.refused().says_one_with(&["gpu_io=uring", parts[0], parts[1], "gpu_io=posix"]);
    }
}

fn buffers_that_cannot_be_registered_are_said_and_used_unregistered(fio: &Fio) {
    let failing = "io_uring_register:error=ENOMEM:when=1";
    let Some(report) = with_failing(fio, failing, WRITES) else { skip!("strace cannot trace here") };
    report.ok().says_one_with(&["I/O buffers cannot be registered", "RLIMIT_MEMLOCK", "ulimit -l"]).counts("read", "io_bytes", 512 << 10);
    let asked = with_failing(fio, failing, &format!("{WRITES}gpu_register=0\n")).expect("strace traced before");
    asked.ok().says_one_with(&["no table of registered files"]);
    ring(fio, &format!("{WRITES}gpu_register=0\n")).run().ok().says_nothing();
}

fn files_that_cannot_be_registered_are_said_and_used_unregistered(fio: &Fio) {
    let Some(report) = with_failing(fio, "io_uring_register:error=EINVAL:when=2", WRITES) else { skip!("strace cannot trace here") };
    report.ok().says_one_with(&["no table of registered files"]).counts("read", "io_bytes", 512 << 10);
    let report = with_failing(fio, "io_uring_register:error=EINVAL:when=3", WRITES).expect("strace traced before");
    report.ok().says_one_with(&["a file cannot be registered"]);
}

fn options_that_contradict_a_ring_are_refused(fio: &Fio) {
    for (option, part) in [("gpu_mode=pool\n", "gpu_mode=pool"), ("gpu_mode=sync\n", "gpu_mode=sync"), ("gpu_threads=4\n", "gpu_threads=4")]
    {
        ring(fio, &format!("{WRITES}{option}")).run().refused().says_one_with(&[part, "gpu_io=uring"]);
    }
    ring(fio, &format!("{WRITES}gpu_require_direct=1\n")).run().refused().says_one_with(&["gpu_require_direct=1"]);
}

#[track_caller]
fn path_in_report(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    report["jobs"][0]["files"][0]["path"].clone()
}

fn the_report_names_the_path(fio: &Fio) {
    ring(fio, &format!("{WRITES}gpu_report=r.json\n")).run().ok();
    assert_eq!(path_in_report(&fio.path("r.json")), "uring");
}

/// The same on the memory of simulated devices, CUDA's on every fio and HIP's on one.
mod device {
    use super::*;

    /// The environment, and the backend in it.
    type Place = (&'static str, &'static str);

    macro_rules! on_each_device {
        ($($test:ident),* $(,)?) => {
            mod cuda {
                const CUDA: super::Place = ("cufile12", "cufile");
                crate::harness::on_two_fios![$($test),*];
                $(fn $test(fio: &crate::harness::Fio) { super::$test(fio, CUDA) })*
            }
            mod hipfile_sim {
                $(#[test] fn $test() { super::$test(&crate::harness::Fio::get("3.33"), ("hipfile-sim", "hipfile")) })*
            }
        };
    }

    on_each_device![
        mixed_sizes_are_verified_at_the_depth_asked_for,
        mixed_sizes_leave_the_bytes_that_psync_leaves,
        every_kind_of_memory_is_verified,
        threads_and_forked_jobs_are_verified,
        short_transfers_are_resumed,
        a_failing_copy_fails_its_operation,
        the_report_names_the_path,
    ];

    /// `text` on device memory; it goes on where `[global]` has begun.
    fn on_device(fio: &Fio, (environment, backend): Place, library: &Path, text: &str) -> Run {
        let variables = sim_env::prepare(environment, target(), &[]).unwrap_or_else(|why| panic!("{environment}: {why}"));
        let text = format!("[global]\nioengine=external:{}\ngpu_backend={backend}\n{RING}{text}[a]\n", library.display());
        variables.iter().fold(fio.job_file(&text), |run, (name, value)| run.env(name, value))
    }

    fn job(fio: &Fio, place: Place, text: &str) -> Run {
        on_device(fio, place, &library(), text)
    }

    fn mixed_sizes_are_verified_at_the_depth_asked_for(fio: &Fio, place: Place) {
        for depth in [1, 7, 32, 128, 512] {
            let text = format!("filename=f\nsize=8m\nrw=randrw\niodepth={depth}\nverify=crc32c\nverify_fatal=1\ndirect=1\n{MIX}");
            let report = job(fio, place, &text).run();
            report.ok().says_one_with(&["job 0 uses device 0"]);
            was_deep(&report, depth);
        }
    }

    fn mixed_sizes_leave_the_bytes_that_psync_leaves(fio: &Fio, place: Place) {
        let text = format!("{SEEDED}{MIX}filename=f\nrw=randrw\niodepth=32\n");
        fio.file("f", &noise(2 << 20));
        job(fio, place, &text).run().ok();
        fio.psync(&format!("{text}[a]\n")).run().ok();
        fio.same_bytes("f");
    }

    fn every_kind_of_memory_is_verified(fio: &Fio, place: Place) {
        for memory in ["device", "managed", "pinned", "host"] {
            let text =
                format!("filename=f\nsize=2m\nrw=randrw\niodepth=16\nverify=crc32c\ndirect=1\ngpu_mem={memory}\ngpu_report=r.json\n{MIX}");
            job(fio, place, &text).run().ok();
            let path = if ["device", "managed"].contains(&memory) { "uring-bounce" } else { "uring" };
            assert_eq!(path_in_report(&fio.path("r.json")), path, "gpu_mem={memory}");
        }
    }

    fn threads_and_forked_jobs_are_verified(fio: &Fio, place: Place) {
        for how in ["thread=1\n", "thread=0\n"] {
            let text = format!("{how}numjobs=3\nsize=1m\nrw=randwrite\nbs=4k\niodepth=32\nverify=crc32c\n");
            job(fio, place, &text).run().ok().counts("read", "io_bytes", 3 << 20);
        }
    }

    fn short_transfers_are_resumed(fio: &Fio, place: Place) {
        let text = "filename=f\nsize=1m\nrw=randwrite\nbs=16k\niodepth=32\nverify=crc32c\n";
        let report = on_device(fio, place, &faulty_library(), text).env("GPUIO_FAULT", "short:1000").run();
        report.ok().counts("write", "io_bytes", 1 << 20).counts("read", "io_bytes", 1 << 20);
    }

    fn a_failing_copy_fails_its_operation(fio: &Fio, place: Place) {
        let text = "filename=f\nsize=1m\nrw=randread\nbs=4k\niodepth=8\n";
        fio.file("f", &noise(1 << 20));
        for fault in ["GPUIO_SIM_FAIL_COPY", "GPUIO_SIM_FAIL_ASYNC"] {
            let report = job(fio, place, text).env(fault, "40").run();
            report.fails_with(libc::EIO);
            report.assert(
                report
                    .lines()
                    .iter()
                    .any(|line| line.contains("read of") && ["CUDA_ERROR", "hipError"].iter().any(|name| line.contains(name))),
                "no line names the error",
            );
        }
    }

    fn the_report_names_the_path(fio: &Fio, place: Place) {
        job(fio, place, &format!("{WRITES}gpu_report=r.json\n")).run().ok();
        assert_eq!(path_in_report(&fio.path("r.json")), "uring-bounce");
    }
}
