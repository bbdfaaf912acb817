//! A job that is told to stop stops within two seconds, as with psync, and leaves nothing behind.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::machine::{children, signal, wait_until_open};
use crate::harness::{Fio, Run, noise, on_every_fio};

on_every_fio![
    sigint_ends_a_forked_job_in_time,
    sigint_ends_a_thread_in_time,
    sigterm_ends_a_forked_job_in_time,
    sigterm_ends_a_thread_in_time,
    sigint_ends_a_deep_verifying_job_in_time,
    sigint_ends_many_jobs_in_time,
    a_killed_job_leaves_the_others_whole,
];

const LONG: &str = "filename=f\nrw=randread\ntime_based=1\nruntime=30\nsize=1m\n";

/// Status, and how long fio went on after the signal.
fn stopped(run: Run, file: &Path, signal: libc::c_int) -> (Option<i32>, Option<i32>, Duration) {
    let running = run.start();
    wait_until_open(running.id(), file);
    running.signal(signal);
    let then = Instant::now();
    let report = running.finish();
    (report.code(), report.signal(), then.elapsed())
}

fn ends_as_with_psync(fio: &Fio, text: &str, signal: libc::c_int) {
    fio.file("f", &noise(1 << 20));
    let (ours, theirs) = (stopped(fio.job(text), &fio.path("f"), signal), stopped(fio.psync(text), &fio.yardstick().join("f"), signal));
    assert_eq!((ours.0, ours.1), (theirs.0, theirs.1), "the status is not psync's");
    assert!(ours.2 < Duration::from_secs(2), "it took {:?} to end (psync: {:?})", ours.2, theirs.2);
}

fn sigint_ends_a_forked_job_in_time(fio: &Fio) {
    ends_as_with_psync(fio, &format!("{LONG}[a]\n"), libc::SIGINT);
}

fn sigint_ends_a_thread_in_time(fio: &Fio) {
    ends_as_with_psync(fio, &format!("{LONG}thread=1\n[a]\n"), libc::SIGINT);
}

fn sigterm_ends_a_forked_job_in_time(fio: &Fio) {
    ends_as_with_psync(fio, &format!("{LONG}[a]\n"), libc::SIGTERM);
}

fn sigterm_ends_a_thread_in_time(fio: &Fio) {
    ends_as_with_psync(fio, &format!("{LONG}thread=1\n[a]\n"), libc::SIGTERM);
}

fn sigint_ends_a_deep_verifying_job_in_time(fio: &Fio) {
    let text = "filename=f\nrw=randwrite\ntime_based=1\nruntime=30\nsize=1m\nverify=crc32c\niodepth=32\n[a]\n";
    let (code, signal, took) = stopped(fio.job(text), &fio.path("f"), libc::SIGINT);
    assert_eq!(signal, None);
    assert!(code.is_some_and(|code| code == 0 || code == 128), "status {code:?}");
    assert!(took < Duration::from_secs(2), "it took {took:?} to end");
}

fn sigint_ends_many_jobs_in_time(fio: &Fio) {
    for how in ["thread=1", "thread=0"] {
        let text = format!("{LONG}{how}\nnumjobs=6\niodepth=16\ngroup_reporting=1\n[a]\n");
        fio.file("f", &noise(1 << 20));
        let (_, signal, took) = stopped(fio.job(&text), &fio.path("f"), libc::SIGINT);
        assert_eq!(signal, None);
        assert!(took < Duration::from_secs(2), "it took {took:?} to end with {how}");
    }
}

fn a_killed_job_leaves_the_others_whole(fio: &Fio) {
    let text = "[killed]\nfilename=k\nrw=write\nsize=1m\ntime_based=1\nruntime=30\n[other]\nfilename=o\nrw=write\nsize=1m\nbs=4k\n\
                rate_iops=200\nverify=crc32c\n";
    let running = fio.job(text).start();
    wait_until_open(running.id(), &fio.path("k"));
    let job = children(running.id()).into_iter().min().expect("a forked job");
    signal(job, libc::SIGKILL);
    let report = running.finish();
    report.assert(report.took < Duration::from_secs(20), "fio waited for the killed job");
    let other = report.jobs().iter().find(|job| job["jobname"] == "other").expect("the other job");
    report.assert(other["error"] == 0 && other["read"]["io_bytes"] == 1 << 20, "the other job did not end well");
}
