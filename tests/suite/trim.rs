//! Trim: a hole in a file, a discard on a device, zeros afterwards.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::harness::machine::{self, LoopDevice};
use crate::harness::{Fio, Report, noise, on_every_fio, skip};

on_every_fio![
    trimming_a_file_punches_a_hole,
    trimming_a_file_at_random_punches_holes,
    trimming_a_part_of_a_file_leaves_the_rest,
    trimming_before_writing_leaves_what_was_written,
    trimming_at_random_before_writing_leaves_what_was_written,
    trimming_a_device_discards_it_as_with_psync,
    trimming_a_device_at_random_discards_it,
    trimming_before_writing_works_on_a_device,
    trimmed_blocks_of_a_verified_device_are_read_as_zeros,
    trimmed_blocks_of_a_verified_file_are_read_as_zeros,
    jobs_on_zones_are_refused,
];

const MIB: u64 = 1 << 20;

#[test]
fn one_at_a_time_does_not_verify_trims_at_depth() {
    let gpu = crate::gpu::Gpu::get("cufile-sim", "3.41");
    gpu.fio.file("f", &vec![0; 1 << 20]);
    let text =
        "filename=f\nsize=1m\nbs=4k\nrw=randrw\ngpu_mode=sync\nverify=crc32c\ntrim_percentage=30\ntrim_backlog=8\nverify_backlog=16\n";
    gpu.job(&format!("{text}iodepth=1\n[a]\n")).run().ok();
    let parts = ["gpu_mode=sync with iodepth=7 cannot verify what trim_percentage trims", "use iodepth=1, or gpu_mode=pool"];
    gpu.refused_with(&gpu.job(&format!("{text}iodepth=7\n[a]\n")).run(), &parts);
    gpu.job(&format!("{text}iodepth=7\ngpu_mode=pool\n[a]\n")).run().ok();
}

/// fio trims blocks whose write it has only queued. Only fio 3.41 can be had to do that: up to 3.33 it ends itself with this job.
#[test]
fn a_trim_at_depth_waits_for_the_write_of_its_blocks() {
    let fio = Fio::get("3.41");
    fio.file("image", &vec![0; 8 << 20]);
    let Some(device) = LoopDevice::over(&fio.path("image"), &[]) else { skip!("loop devices need root") };
    for seed in 1..=6 {
        let text = format!(
            "filename={}\nsize=2m\nbs=4k\nrw=randrw\ndirect=1\niodepth=7\nverify=crc32c-intel\ntrim_percentage=30\ntrim_backlog=8\n\
             trim_verify_zero=1\nverify_backlog=16\nverify_backlog_batch=4\nrandseed={seed}\n[a]\n",
            device.name()
        );
        let report = fio.job(&text).run();
        report.ok();
        report.assert(report.jobs()[0]["trim"]["total_ios"].as_u64() > Some(0), "nothing was trimmed");
    }
}

/// Whether the file is zeros to its end, by another program's word.
#[track_caller]
fn is_zero(path: &Path, bytes: u64) {
    let limit = format!("--bytes={bytes}");
    machine::tool("cmp", &[Path::new(&limit), path, Path::new("/dev/zero")]);
}

fn blocks(path: &Path) -> u64 {
    std::fs::metadata(path).expect("the file").blocks()
}

fn trimmed_file(fio: &Fio, mode: &str) {
    fio.file("f", &noise(2 << 20));
    machine::tool("sync", &[fio.path("f")]);
    let before = blocks(&fio.path("f"));
    let report = fio.job(&format!("filename=f\nsize=2m\nbs=64k\nrw={mode}\n[a]\n")).run();
    report.ok().says_nothing().counts("trim", "total_ios", 32).counts("trim", "io_bytes", 2 * MIB);
    assert_eq!(fio.read("f").len() as u64, 2 * MIB, "the size has changed");
    is_zero(&fio.path("f"), 2 * MIB);
    assert!(blocks(&fio.path("f")) < before / 10, "{} of {before} blocks are still used", blocks(&fio.path("f")));
}

fn trimming_a_file_punches_a_hole(fio: &Fio) {
    trimmed_file(fio, "trim");
}

fn trimming_a_file_at_random_punches_holes(fio: &Fio) {
    trimmed_file(fio, "randtrim");
}

fn trimming_a_part_of_a_file_leaves_the_rest(fio: &Fio) {
    let mut expected = noise(1 << 20);
    fio.file("f", &expected);
    fio.job("filename=f\noffset=256k\nsize=128k\nbs=32k\nrw=trim\n[a]\n").run().ok().counts("trim", "io_bytes", 128 << 10);
    expected[256 << 10..384 << 10].fill(0);
    assert!(fio.read("f") == expected, "outside the range bytes were changed, or inside they were not");
}

fn trimmed_and_written(fio: &Fio, mode: &str) {
    fio.file("f", &noise(1 << 20));
    let report = fio.job(&format!("filename=f\nsize=1m\nbs=32k\nrw={mode}\nbuffer_pattern=0x4d\n[a]\n")).run();
    report.ok().says_nothing();
    let (trimmed, written) = (report.sum("trim", "io_bytes"), report.sum("write", "io_bytes"));
    report.assert(trimmed > 0 && trimmed == written, &format!("{trimmed} bytes were trimmed and {written} written"));
    let content = fio.read("f");
    let written_on_disk = content.iter().filter(|&&byte| byte == 0x4d).count() as u64;
    report.assert(written_on_disk >= written * 9 / 10, &format!("only {written_on_disk} written bytes are on disk"));
}

fn trimming_before_writing_leaves_what_was_written(fio: &Fio) {
    trimmed_and_written(fio, "trimwrite");
}

fn trimming_at_random_before_writing_leaves_what_was_written(fio: &Fio) {
    if !fio.is_at_least(33) {
        skip!("fio {} has no randtrimwrite", fio.version);
    }
    trimmed_and_written(fio, "randtrimwrite");
}

fn device(fio: &Fio) -> Option<(LoopDevice, std::path::PathBuf)> {
    let path = fio.path("backing");
    std::fs::write(&path, noise(2 << 20)).expect("a backing file");
    machine::tool("sync", &[&path]);
    LoopDevice::over(&path, &[]).map(|device| (device, path))
}

fn trimming_a_device_discards_it_as_with_psync(fio: &Fio) {
    let Some((device, path)) = device(fio) else { skip!("a loop device needs root") };
    let before = blocks(&path);
    let text = format!("filename={}\nbs=64k\nrw=trim\n[a]\n", device.name());
    fio.job(&text).run().ok().counts("trim", "io_bytes", 2 * MIB);
    is_zero(&device.path, 2 * MIB);
    assert!(blocks(&path) < before / 10, "{} of {before} blocks are still used", blocks(&path));
    fio.same_as_psync(&text);
}

fn trimming_a_device_at_random_discards_it(fio: &Fio) {
    let Some((device, _)) = device(fio) else { skip!("a loop device needs root") };
    fio.same_as_psync(&format!("filename={}\nbs=64k\nrw=randtrim\ndirect=1\n[a]\n", device.name())).counts("trim", "io_bytes", 2 * MIB);
    is_zero(&device.path, 2 * MIB);
}

fn trimming_before_writing_works_on_a_device(fio: &Fio) {
    let Some((device, _)) = device(fio) else { skip!("a loop device needs root") };
    let text = format!("filename={}\nbs=64k\nsize=2m\nrw=trimwrite\nbuffer_pattern=0x4d\n[a]\n", device.name());
    let report = fio.same_as_psync(&text);
    report.assert(report.sum("trim", "io_bytes") > 0, "nothing was trimmed");
}

/// Before 3.41 fio aborts, with every engine, where a job that does not trim by its mode has `trim_percentage`.
fn trim_verify(fio: &Fio, name: &str) -> String {
    let mode = if fio.is_at_least(41) { "randwrite" } else { "randtrimwrite" };
    format!(
        "filename={name}\nsize=2m\nbs=16k\nrw={mode}\nverify=crc32c\ntrim_percentage=50\ntrim_verify_zero=1\ntrim_backlog=16\n\
         trim_backlog_batch=8\nallrandrepeat=1\n[a]\n"
    )
}

fn trimmed_blocks_of_a_verified_device_are_read_as_zeros(fio: &Fio) {
    let Some((device, _)) = device(fio) else { skip!("a loop device needs root") };
    let text = trim_verify(fio, &device.name());
    let (ours, theirs) = (fio.job(&text).run(), fio.psync(&text).run());
    let error = |report: &Report| (report.code(), report.signal(), report.jobs().first().map(|job| job["error"].to_string()));
    ours.assert(error(&ours) == error(&theirs), &format!("psync ends with {:?}", error(&theirs)));
    if theirs.code() == Some(0) {
        ours.assert(ours.sum("trim", "total_ios") > 0, "nothing was trimmed");
        ours.counts("trim", "total_ios", theirs.sum("trim", "total_ios")).counts("read", "total_ios", theirs.sum("read", "total_ios"));
    }
}

fn trimmed_blocks_of_a_verified_file_are_read_as_zeros(fio: &Fio) {
    if !fio.is_at_least(33) {
        skip!("fio {} fails where it trims and verifies, with every engine", fio.version);
    }
    let report = fio.job(&trim_verify(fio, "f")).run();
    report.ok().assert(report.sum("trim", "total_ios") > 0, "nothing was trimmed");
}

fn jobs_on_zones_are_refused(fio: &Fio) {
    let Some((device, path)) = device(fio) else { skip!("a loop device needs root") };
    let report = fio.job(&format!("filename={}\nzonemode=zbd\nzonesize=1m\nrw=write\n[a]\n", device.name())).run();
    report.refused().says("zonemode=zbd is not supported: use zonemode=none or strided, or one of fio's own engines for zoned devices");
    assert!(std::fs::read(path).expect("the backing file") == noise(2 << 20), "the device was written to");
    // The other zone mode is only a way to choose offsets.
    fio.same_as_psync("filename=f\nsize=2m\nzonemode=strided\nzonesize=64k\nzonerange=256k\nzoneskip=192k\nrw=write\n[a]\n");
}
