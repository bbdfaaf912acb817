//! Everything that was opened is given back, in order, whichever way a job ends; the driver is opened by the first job and closed by the last.

use super::{Gpu, MIB, on_every_library, on_every_simulated_library};
use crate::harness::machine::wait_until_open;

on_every_library![
    a_posix_job_that_starts_first_does_not_break_a_direct_job,
    closing_the_driver_leaves_other_jobs_their_device,
    a_forked_job_after_a_thread_is_told_why_it_cannot_run,
    what_the_job_allocated_is_freed,
];
on_every_simulated_library![
    each_step_of_an_init_that_fails_gives_back_what_was_taken,
    the_driver_is_opened_once_and_closed_by_the_last_job,
    the_driver_is_closed_where_jobs_fail,
    the_driver_is_closed_on_signals,
    files_are_registered_once_and_given_back,
    two_runs_in_one_process_open_the_driver_twice,
];

const JOB: &str = "filename=f\nsize=128k\nbs=4k\nrw=write\n";

fn each_step_of_an_init_that_fails_gives_back_what_was_taken(gpu: &Gpu) {
    let deep = &format!("iodepth=8\n{}", gpu.vendor.deep);
    for (knob, value, more) in [
        ("GPUIO_SIM_CUFILE_FAIL_OPEN", "1", ""),
        ("GPUIO_SIM_CUFILE_FAIL_STREAM", "1", "gpu_mode=stream\n"),
        ("GPUIO_SIM_CUFILE_FAIL_STREAM", "3", "gpu_mode=stream\niodepth=8\n"),
        ("GPUIO_SIM_FAIL_ALLOC", "1", ""),
        ("GPUIO_SIM_FAIL_ALLOC", "1", deep),
        ("GPUIO_SIM_CUFILE_FAIL_BUF", "1", ""),
        ("GPUIO_SIM_CUFILE_FAIL_BUF", "1", deep),
        ("GPUIO_SIM_FAIL_COPY", "1", ""),
        ("GPUIO_SIM_FAIL_ASYNC", "1", ""),
        ("GPUIO_SIM_CUFILE_FAIL_HANDLE", "1", ""),
        ("GPUIO_SIM_CUFILE_FAIL_HANDLE", "1", deep),
        ("GPUIO_SIM_CUFILE_FAIL_HANDLE", "1", "gpu_mode=pool\niodepth=4\n"),
        ("GPUIO_SIM_FAIL_REGISTER", "1", "gpu_mem=pinned\n"),
        ("NOTHING", "1", "gpu_report=/none/report.json\n"),
    ] {
        let report = gpu.job(&format!("{JOB}{more}thread=1\n[a]\n")).env(&gpu.words(knob), value).run();
        report.assert(report.code() == Some(1), &format!("{knob}: fio did not end with status 1"));
        report.assert(!gpu.unusual(&report).is_empty(), &format!("{knob}: nothing was said"));
        let calls = gpu.calls();
        calls.nothing_is_left();
        assert_eq!(calls.count("cuFileDriverOpen"), calls.count("cuFileDriverClose"), "{knob}: the driver is open");
        assert_eq!(calls.count("cuFileBatchIOSetUp"), calls.count("cuFileBatchIODestroy"), "{knob}: a batch is left");
        assert_eq!(calls.count("cuFileStreamRegister"), calls.count("cuFileStreamDeregister"), "{knob}: a stream is left");
        let contexts = calls.count("cuDevicePrimaryCtxRetain");
        assert!(gpu.vendor.is_amd() || contexts == calls.count("cuDevicePrimaryCtxRelease"), "{knob}: a context is left");
    }
}

/// The simulated library's log in order: opened first, closed last, nothing left in it.
#[track_caller]
fn opened_and_closed(gpu: &Gpu, times: usize) {
    let calls = gpu.calls();
    assert_eq!((calls.count("cuFileDriverOpen"), calls.count("cuFileDriverClose")), (times, times));
    calls.nothing_is_left();
    for pid in calls.processes() {
        let own = || calls.0.iter().filter(move |call| call.pid == pid);
        let closed = own().rposition_of("cuFileDriverClose");
        let used = own().rposition_of("cuFileHandleDeregister").max(own().rposition_of("cuFileBufDeregister"));
        assert!(closed >= used, "process {pid}: the driver was closed before the last job was done with it");
    }
}

trait Position {
    fn rposition_of(self, name: &str) -> Option<usize>;
}

impl<'a, I: Iterator<Item = &'a super::calls::Call>> Position for I {
    fn rposition_of(self, name: &str) -> Option<usize> {
        self.enumerate().filter(|(_, call)| call.name == name).map(|(index, _)| index).last()
    }
}

fn the_driver_is_opened_once_and_closed_by_the_last_job(gpu: &Gpu) {
    let text = "size=128k\nbs=4k\nrw=write\nverify=crc32c\nnumjobs=4\nthread=1\n[a]\nfilename_format=f.$jobnum\n";
    gpu.job(text).run().ok();
    let times = gpu.calls().count("cuFileDriverOpen");
    // One that is done before another has begun closes it; they all start within milliseconds.
    assert!(times < 4, "every job opened the driver for itself");
    opened_and_closed(gpu, times);
    assert_eq!(gpu.calls().count("cuFileBufRegister"), 4);
}

fn the_driver_is_closed_where_jobs_fail(gpu: &Gpu) {
    for how in ["thread=1\n", "thread=0\n"] {
        let text = format!("{JOB}{how}[a]\n[b]\nfilename=g\n");
        let report = gpu.job(&text).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_IO"), "5").run();
        report.assert(report.code() == Some(2), "two jobs have failed");
        let calls = gpu.calls();
        calls.nothing_is_left();
        assert_eq!(calls.count("cuFileDriverOpen"), calls.count("cuFileDriverClose"));
    }
}

fn the_driver_is_closed_on_signals(gpu: &Gpu) {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        for how in ["thread=1\n", "thread=0\n", "thread=1\niodepth=8\ngpu_mode=pool\n"] {
            let text = format!("{JOB}time_based=1\nruntime=30\n{how}[a]\n");
            let running = gpu.job(&text).start();
            wait_until_open(running.id(), &gpu.fio.path("f"));
            running.signal(signal);
            let then = std::time::Instant::now();
            let report = running.finish();
            report.assert(then.elapsed().as_millis() < 2000, "it took too long to end");
            report.assert(report.signal().is_none(), "a signal ended it");
            let calls = gpu.calls();
            calls.nothing_is_left();
            assert_eq!(calls.count("cuFileDriverOpen"), calls.count("cuFileDriverClose"), "signal {signal}, {how}");
            std::fs::remove_file(gpu.log()).expect("the log");
        }
    }
}

fn files_are_registered_once_and_given_back(gpu: &Gpu) {
    gpu.job("size=256k\nnrfiles=8\nfilename_format=f.$filenum\nbs=4k\nrw=randwrite\nloops=2\n[a]\n").run().ok();
    let calls = gpu.calls();
    assert_eq!(calls.count("cuFileHandleRegister"), calls.count("cuFileHandleDeregister"));
    assert!(calls.count("cuFileHandleRegister") >= 8);
    opened_and_closed(gpu, 1);
}

fn two_runs_in_one_process_open_the_driver_twice(gpu: &Gpu) {
    gpu.job(&format!("{JOB}thread=1\nverify=crc32c\n[a]\n[b]\nstonewall\nfilename=g\n")).run().ok();
    opened_and_closed(gpu, 2);
}

fn what_the_job_allocated_is_freed(gpu: &Gpu) {
    let text = "size=256k\nbs=16k\nrw=randwrite\nverify=crc32c\nthread=1\n[a]\nfilename=f\n[b]\nfilename=g\niodepth=8\n[c]\nfilename=h\n\
                gpu_io=posix\n[d]\nfilename=i\ngpu_mem=pinned\n";
    gpu.job(&format!("{text}{}", gpu.vendor.host_memory)).run().ok();
    let calls = gpu.calls();
    for (taken, given) in [("cuMemAlloc", "cuMemFree"), ("cuMemHostAlloc", "cuMemFreeHost")] {
        let all: Vec<_> = calls.good(given).iter().filter_map(|call| call.word("ptr").map(str::to_owned)).collect();
        // 64 KiB is what libcufile 1.14 tries a context with; it frees that with the context.
        let own = calls.good(taken).into_iter().filter(|call| call.number("size") != Some(65_536));
        for call in own {
            assert!(call.word("ptr").is_some_and(|ptr| all.iter().any(|other| other == ptr)), "not freed: {call:?}");
        }
    }
}

fn a_posix_job_that_starts_first_does_not_break_a_direct_job(gpu: &Gpu) {
    let text = "gpu_dev_ids=1\nsize=256k\nbs=16k\nrw=randwrite\nverify=md5\nthread=1\n[posix]\ncuda_io=posix\nfilename=f\n\
                [cufile]\nstartdelay=0\nstonewall\ncuda_io=cufile\nfilename=g\n[both]\nstonewall\ncuda_io=posix\nfilename=h\n[and]\ncuda_io=cufile\nfilename=i\n";
    let report = gpu.job(text).env("GPUIO_SIM_DEVICES", "2").run();
    report.ok().counts("read", "io_bytes", MIB);
}

fn closing_the_driver_leaves_other_jobs_their_device(gpu: &Gpu) {
    // 1.20 gives back a context of every GPU when its driver is closed, also that of a job which has nothing to do with cuFile.
    let text = "size=256k\nbs=4k\nrw=randwrite\nthread=1\n[posix]\ngpu_dev_ids=0\ncuda_io=posix\nfilename=f\ntime_based=1\nruntime=2\n\
                [cufile]\ngpu_dev_ids=1\nfilename=g\nverify=crc32c\n";
    gpu.job(text).env("GPUIO_SIM_DEVICES", "2").run().ok();
}

fn a_forked_job_after_a_thread_is_told_why_it_cannot_run(gpu: &Gpu) {
    let report = gpu.job(&format!("{JOB}[first]\nthread=1\n[second]\nstonewall\nfilename=g\n")).run();
    report.assert(report.code() == Some(1), "fio did not end with status 1");
    report.assert(report.jobs()[0]["error"] == 0 && report.jobs()[1]["error"] != 0, "not the second job alone has failed");
    gpu.says_one_more_with(
        &report,
        &["CUDA was initialised before this job was forked", "use thread=1 for all jobs of this run, or for none"],
    );
}
