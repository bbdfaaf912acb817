//! What goes wrong inside: a panic becomes one line and EIO, short and failing transfers are told as they are. Only the library built with
//! the feature `faults` can be made to do so.

use crate::harness::{Fio, Report, Run, faulty_library, on_every_fio};

on_every_fio![
    a_panic_in_init_fails_the_job,
    a_panic_in_iomem_alloc_fails_the_job,
    a_panic_in_queue_fails_the_job_with_eio,
    a_later_panic_in_queue_fails_the_job_with_eio,
    a_panic_in_reap_fails_the_job,
    a_panic_in_cleanup_harms_nobody,
    memory_that_is_not_there_fails_the_job,
    short_transfers_are_resumed_and_verified,
    short_transfers_are_resumed_at_depth,
    a_failing_transfer_is_the_jobs_error,
    a_failing_transfer_is_counted_where_errors_are_to_be_continued,
    without_a_fault_the_faulty_library_works,
];

const VERIFIED: &str = "filename=f\nsize=1m\nbs=16k\nrw=randwrite\nverify=crc32c\n";

fn faulty(fio: &Fio, fault: &str, text: &str) -> Run {
    let text = format!("[global]\nioengine=external:{}\ngpu_backend=host\n{text}[a]\n", faulty_library().display());
    fio.job_file(&text).env("GPUIO_FAULT", fault)
}

/// The job failed with the errno and one line about the hook; no crash.
#[track_caller]
fn panicked(fio: &Fio, fault: &str, hook: &str, text: &str) {
    for how in ["thread=0\n", "thread=1\n"] {
        let report = faulty(fio, fault, &format!("{text}{how}")).run();
        report.fails_with(libc::EIO).says_one_with(&["internal error in the ", hook, "this is a bug in libgpuio"]);
        nothing_is_left(&report);
    }
}

/// No process of the job goes on, and no core lies about.
#[track_caller]
fn nothing_is_left(report: &Report) {
    report.assert(report.signal().is_none(), "fio was killed");
    report.assert(!report.stderr.contains("got signal") && !report.stdout.contains("got signal"), "a job was killed");
}

fn a_panic_in_init_fails_the_job(fio: &Fio) {
    panicked(fio, "panic:init", "init hook", VERIFIED);
}

fn a_panic_in_iomem_alloc_fails_the_job(fio: &Fio) {
    for how in ["thread=0\n", "thread=1\n"] {
        let report = faulty(fio, "panic:iomem_alloc", &format!("{VERIFIED}{how}")).run();
        report.refused().says_one_with(&["internal error in the iomem_alloc hook", "this is a bug in libgpuio"]);
        nothing_is_left(&report);
    }
}

fn a_panic_in_queue_fails_the_job_with_eio(fio: &Fio) {
    panicked(fio, "panic:queue", "queue hook", VERIFIED);
}

fn a_later_panic_in_queue_fails_the_job_with_eio(fio: &Fio) {
    panicked(fio, "panic:queue:20", "queue hook", VERIFIED);
    panicked(fio, "panic:queue:20", "queue hook", &format!("{VERIFIED}iodepth=8\n"));
}

fn a_panic_in_reap_fails_the_job(fio: &Fio) {
    panicked(fio, "panic:reap", "getevents hook", &format!("{VERIFIED}iodepth=8\n"));
}

fn a_panic_in_cleanup_harms_nobody(fio: &Fio) {
    let report = faulty(fio, "panic:cleanup", VERIFIED).run();
    report.ok().says_one_with(&["internal error in the cleanup hook"]).counts("read", "io_bytes", 1 << 20);
    nothing_is_left(&report);
}

fn memory_that_is_not_there_fails_the_job(fio: &Fio) {
    for how in ["thread=0\n", "thread=1\n"] {
        let report = faulty(fio, "oom:iomem_alloc", &format!("{VERIFIED}{how}")).run();
        report.refused().says_one_with(&["no memory for the I/O buffers", "lower iodepth or the block size"]);
        nothing_is_left(&report);
    }
}

fn short(fio: &Fio, more: &str) {
    for bytes in ["short:512", "short:5000", "short:16383"] {
        let report = faulty(fio, bytes, &format!("{VERIFIED}{more}")).run();
        report.ok().says_nothing().counts("write", "io_bytes", 1 << 20).counts("read", "io_bytes", 1 << 20);
        report.counts("write", "short_ios", 0).counts("write", "total_ios", 64);
    }
    // Another program's bytes, and another engine's verification of ours.
    fio.psync("filename=../f\nsize=1m\nbs=16k\nrw=read\nverify=crc32c\n[a]\n").run().ok().counts("read", "io_bytes", 1 << 20);
}

fn short_transfers_are_resumed_and_verified(fio: &Fio) {
    short(fio, "");
}

fn short_transfers_are_resumed_at_depth(fio: &Fio) {
    short(fio, "iodepth=8\n");
}

fn a_failing_transfer_is_the_jobs_error(fio: &Fio) {
    for (code, depth) in [(libc::EIO, 1), (libc::ENOSPC, 1), (libc::EREMOTEIO, 1), (libc::EIO, 8)] {
        let report = faulty(fio, &format!("errno:10:{code}"), &format!("{VERIFIED}iodepth={depth}\n")).run();
        report.fails_with(code);
        report.assert(report.sum("write", "total_ios") < 64, "the job went on");
        nothing_is_left(&report);
    }
}

fn a_failing_transfer_is_counted_where_errors_are_to_be_continued(fio: &Fio) {
    for depth in [1, 8] {
        // A file each: which transfer is the tenth differs where several are in flight.
        let file = format!("f{depth}");
        let text = format!("filename={file}\nsize=1m\nbs=16k\nrw=randwrite\nbuffer_pattern=0x79\ncontinue_on_error=all\niodepth={depth}\n");
        let report = faulty(fio, "errno:10:5", &text).run();
        report.assert(report.code() == Some(0), "fio did not end with status 0");
        let job = &report.jobs()[0];
        report.assert(
            job["total_err"] == 1 && job["first_error"] == libc::EIO,
            &format!("{} errors, first {}", job["total_err"], job["first_error"]),
        );
        let written = fio.read(&file).iter().filter(|&&byte| byte == 0x79).count();
        assert_eq!(written, (1 << 20) - (16 << 10), "not all other blocks are on disk");
    }
}

fn without_a_fault_the_faulty_library_works(fio: &Fio) {
    faulty(fio, "", VERIFIED).run().ok().says_nothing().counts("read", "io_bytes", 1 << 20);
}
