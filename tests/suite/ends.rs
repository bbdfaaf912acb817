//! The end of a file: sizes that no block divides, files that shrink, short transfers.

use std::fs::OpenOptions;
use std::time::Duration;

use crate::harness::machine::wait_until_open;
use crate::harness::{Fio, Report, noise, on_every_fio};

on_every_fio![
    a_file_that_no_block_divides_is_read_as_with_psync,
    a_direct_read_up_to_an_unaligned_end_is_as_with_psync,
    a_last_short_block_is_read_where_blocks_may_be_unaligned,
    a_file_that_shrinks_while_it_is_read_fails_as_with_psync,
    an_empty_file_is_answered_as_with_psync,
    a_file_that_does_not_exist_is_laid_out_as_with_psync,
];

fn outcome(report: &Report) -> (Option<i32>, Option<i32>, Vec<String>, u64, u64) {
    let errors = report.jobs().iter().map(|job| job["error"].to_string()).collect();
    (report.code(), report.signal(), errors, report.sum("read", "total_ios"), report.sum("read", "io_bytes"))
}

/// The same job on both, with the same end.
fn ends_alike(fio: &Fio, text: &str) -> Report {
    let (ours, theirs) = (fio.job(text).run(), fio.psync(text).run());
    ours.assert(outcome(&ours) == outcome(&theirs), &format!("psync ends with {:?}", outcome(&theirs)));
    ours
}

fn a_file_that_no_block_divides_is_read_as_with_psync(fio: &Fio) {
    fio.file("f", &noise(10_000));
    for rw in ["read", "randread"] {
        ends_alike(fio, &format!("filename=f\nbs=4k\nrw={rw}\n[a]\n")).ok();
    }
}

fn a_direct_read_up_to_an_unaligned_end_is_as_with_psync(fio: &Fio) {
    fio.file("f", &noise(100_000));
    for blocks in ["bs=4k", "bs=64k", "bs=4k\nsize=100%"] {
        ends_alike(fio, &format!("filename=f\n{blocks}\ndirect=1\nrw=read\n[a]\n")).ok();
    }
}

fn a_last_short_block_is_read_where_blocks_may_be_unaligned(fio: &Fio) {
    fio.file("f", &[0xee; 10_000]);
    ends_alike(fio, "filename=f\nbsrange=1-4k\nbs_unaligned=1\nallrandrepeat=1\nrw=read\n[a]\n").ok().counts("read", "io_bytes", 10_000);
}

fn a_file_that_shrinks_while_it_is_read_fails_as_with_psync(fio: &Fio) {
    fio.file("f", &noise(4 << 20));
    let text = "filename=f\nbs=64k\nrw=read\nruntime=10\ntime_based=1\nrate_iops=2000\n[a]\n";
    let running = [(fio.job(text).start(), fio.path("f")), (fio.psync(text).start(), fio.yardstick().join("f"))];
    let reports = running.map(|(fio, path)| {
        wait_until_open(fio.id(), &path);
        OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(1_000_100)).expect("a shorter file");
        fio.finish()
    });
    let error = |report: &Report| (report.code(), report.jobs()[0]["error"].clone());
    reports[0].assert(error(&reports[0]) == error(&reports[1]), &format!("psync ends with {:?}", error(&reports[1])));
    reports[0].assert(reports[0].took < Duration::from_secs(8), "the job went on");
}

fn an_empty_file_is_answered_as_with_psync(fio: &Fio) {
    fio.file("f", b"");
    ends_alike(fio, "filename=f\nrw=read\n[a]\n");
}

fn a_file_that_does_not_exist_is_laid_out_as_with_psync(fio: &Fio) {
    ends_alike(fio, "filename=f\nsize=256k\nrw=read\n[a]\n").ok().counts("read", "io_bytes", 256 << 10);
    ends_alike(fio, "filename=g\nrw=read\n[a]\n");
    assert_eq!(fio.read("f").len(), 256 << 10);
}
