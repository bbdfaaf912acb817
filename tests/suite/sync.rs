//! What is asked to be made durable is: fsync and its kin are counted as with psync, and reach the kernel.

use crate::harness::{Fio, machine, on_every_fio, skip};

on_every_fio![
    fsync_is_counted_as_with_psync,
    fdatasync_is_counted_as_with_psync,
    sync_file_range_is_counted_as_with_psync,
    syncfs_is_counted_as_with_psync_where_fio_has_it,
    end_fsync_and_fsync_on_close_end_well,
    every_kind_of_sync_reaches_the_kernel,
    a_sync_waits_for_what_was_written_before_it,
    a_sync_that_a_device_refuses_is_answered_as_with_psync,
];

const WRITES: &str = "filename=f\nsize=512k\nbs=16k\nrw=randwrite\n";

fn counted(fio: &Fio, option: &str) {
    fio.same_as_psync(&format!("{WRITES}{option}\n[a]\n")).says_nothing().counts("write", "total_ios", 32);
}

fn fsync_is_counted_as_with_psync(fio: &Fio) {
    counted(fio, "fsync=4");
}

fn fdatasync_is_counted_as_with_psync(fio: &Fio) {
    counted(fio, "fdatasync=4");
}

fn sync_file_range_is_counted_as_with_psync(fio: &Fio) {
    counted(fio, "sync_file_range=write:8");
    counted(fio, "sync_file_range=wait_before:4");
}

fn syncfs_is_counted_as_with_psync_where_fio_has_it(fio: &Fio) {
    let help = fio.args(&["--cmdhelp=syncfs"]).plain().run();
    if help.code() != Some(0) || !help.stdout.contains("syncfs:") {
        skip!("fio {} has no syncfs", fio.version);
    }
    counted(fio, "syncfs=4");
}

fn end_fsync_and_fsync_on_close_end_well(fio: &Fio) {
    let options = ["end_fsync=1", "fsync_on_close=1", "end_fsync=1\nfsync=8\ndirect=1", "sync=1"];
    let section = |(n, option): (usize, &&str)| format!("[job{n}]\nfilename=f{n}\n{option}\n");
    let sections: String = options.iter().enumerate().map(section).collect();
    fio.same_as_psync(&format!("{WRITES}{sections}")).counts("write", "io_bytes", 4 * (512 << 10)).says_nothing();
}

fn every_kind_of_sync_reaches_the_kernel(fio: &Fio) {
    if let Err(why) = machine::try_tool("strace", &["-o", "/dev/null", "true"]) {
        skip!("strace cannot trace here: {why}");
    }
    for (option, call) in [("fsync=4", "fsync"), ("fdatasync=4", "fdatasync"), ("sync_file_range=write:4", "sync_file_range")] {
        let trace = fio.path("trace");
        let trace = trace.display().to_string();
        let filter = format!("trace={call}");
        let traced = ["strace", "-f", "-qq", "-o", &trace, "-e", &filter];
        let report = fio.job(&format!("{WRITES}{option}\n[a]\n")).through(&traced).run();
        let calls = fio.read("trace");
        let calls =
            String::from_utf8_lossy(&calls).lines().filter(|line| line.contains(" = 0") && line.contains(&format!("{call}("))).count();
        report.ok().assert(calls as u64 >= report.sum("sync", "total_ios"), &format!("{calls} calls of {call} were seen"));
        report.assert(calls >= 7, &format!("{calls} calls of {call} were seen"));
    }
}

fn a_sync_waits_for_what_was_written_before_it(fio: &Fio) {
    let job = "filename=f\nsize=1m\nbs=4k\nrw=randwrite\niodepth=16\nfsync=8\nverify=crc32c\n[a]\n";
    fio.job(job).run().ok().counts("write", "total_ios", 256).counts("read", "total_ios", 256).says_nothing();
}

/// A device that takes writes and cannot sync: fio's own answer is the right one.
fn a_sync_that_a_device_refuses_is_answered_as_with_psync(fio: &Fio) {
    let text = "filename=/dev/null\nsize=64k\nrw=write\nfsync=4\n[a]\n";
    let (ours, theirs) = (fio.job(text).run(), fio.psync(text).run());
    ours.assert(ours.code() == theirs.code(), &format!("psync's status is {:?}", theirs.code()));
    let error = |report: &crate::harness::Report| report.jobs().first().map(|job| job["error"].to_string());
    ours.assert(error(&ours) == error(&theirs), &format!("psync's error is {:?}", error(&theirs)));
}
