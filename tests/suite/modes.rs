//! Every rw mode: as many I/Os and bytes as fio's psync, the same bytes on disk, whatever the depth.

use crate::harness::{Fio, noise, on_every_fio};

on_every_fio![
    read_moves_as_much_as_psync,
    randread_moves_as_much_as_psync,
    write_leaves_the_bytes_that_psync_leaves,
    randwrite_leaves_the_bytes_that_psync_leaves,
    rw_leaves_the_bytes_that_psync_leaves,
    randrw_leaves_the_bytes_that_psync_leaves,
    a_fill_pattern_is_on_disk_to_the_last_byte,
    direct_io_leaves_the_bytes_that_psync_leaves,
    one_unit_in_flight_is_depth_one,
    more_units_than_one_give_the_same_bytes_at_the_depth_asked_for,
    a_loaded_job_is_named_gpuio_in_the_report,
];

/// The buffers' bytes are a function of the seeds alone: no time stamps in them.
const SEEDED: &str = "allrandrepeat=1\nrandseed=42\nscramble_buffers=0\nrefill_buffers=1\nfilename=f\nsize=2m\nbs=16k\n";

fn read_only_mode(fio: &Fio, mode: &str) {
    fio.file("f", &noise(2 << 20));
    let before = fio.sha256("f");
    fio.same_as_psync(&format!("{SEEDED}[a]\nrw={mode}\n")).counts("read", "io_bytes", 2 << 20).says_nothing();
    assert_eq!(fio.sha256("f"), before, "reading has changed the file");
}

fn writing_mode(fio: &Fio, mode: &str, more: &str) {
    fio.file("f", &noise(2 << 20));
    let before = fio.sha256("f");
    let report = fio.same_as_psync(&format!("{SEEDED}{more}\n[a]\nrw={mode}\n"));
    report.says_nothing().assert(report.sum("write", "io_bytes") > 0, "nothing was written");
    assert_ne!(fio.sha256("f"), before, "nothing is on disk");
    fio.same_bytes("f");
}

fn read_moves_as_much_as_psync(fio: &Fio) {
    read_only_mode(fio, "read");
}

fn randread_moves_as_much_as_psync(fio: &Fio) {
    read_only_mode(fio, "randread");
}

fn write_leaves_the_bytes_that_psync_leaves(fio: &Fio) {
    writing_mode(fio, "write", "");
}

fn randwrite_leaves_the_bytes_that_psync_leaves(fio: &Fio) {
    writing_mode(fio, "randwrite", "");
}

fn rw_leaves_the_bytes_that_psync_leaves(fio: &Fio) {
    writing_mode(fio, "rw", "rwmixread=30");
}

fn randrw_leaves_the_bytes_that_psync_leaves(fio: &Fio) {
    writing_mode(fio, "randrw", "");
}

fn direct_io_leaves_the_bytes_that_psync_leaves(fio: &Fio) {
    writing_mode(fio, "randrw", "direct=1");
}

fn a_fill_pattern_is_on_disk_to_the_last_byte(fio: &Fio) {
    fio.job("filename=f\nsize=1m\nbs=64k\nrw=randwrite\nbuffer_pattern=0x0badcafe\n[a]\n").run().ok();
    assert!(fio.read("f").chunks(4).all(|word| word == [0x0b, 0xad, 0xca, 0xfe]));
    assert_eq!(fio.read("f").len(), 1 << 20);
}

fn one_unit_in_flight_is_depth_one(fio: &Fio) {
    let report = fio.job("filename=f\nsize=1m\nrw=randrw\n[a]\n").run();
    report.ok().says_nothing();
    report.assert(report.jobs()[0]["iodepth_level"]["1"] == 100.0, "not all I/Os were alone");
}

fn more_units_than_one_give_the_same_bytes_at_the_depth_asked_for(fio: &Fio) {
    for (depth, reached) in [(7, "4"), (32, "32")] {
        fio.file("f", &noise(2 << 20));
        let job = format!("{SEEDED}rw=randwrite\niodepth={depth}\n[a]\n");
        let ours = fio.job(&job).run();
        ours.ok().counts("write", "total_ios", 128);
        let share = ours.jobs()[0]["iodepth_level"][reached].as_f64().unwrap_or(0.0);
        ours.assert(share > 50.0, &format!("only {share} % of the I/Os were at depth {depth}"));
        fio.psync(&job).run().ok();
        fio.same_bytes("f");
    }
}

fn a_loaded_job_is_named_gpuio_in_the_report(fio: &Fio) {
    let report = fio.job("filename=f\nsize=64k\nrw=write\n[a]\n").plain().run();
    report.assert(report.code() == Some(0), "fio did not end with status 0");
    report.assert(report.stdout.contains("ioengine=gpuio"), "fio's report does not name the engine");
}
