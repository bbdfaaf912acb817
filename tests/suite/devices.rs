//! Block devices, by the example of a loop device.

use std::path::Path;

use crate::harness::machine::{self, LoopDevice};
use crate::harness::{Fio, noise, on_two_fios, skip};

on_two_fios![
    a_device_whose_size_is_left_out_is_read_whole,
    a_device_is_written_and_read_back,
    direct_writes_reach_the_file_under_the_device,
    a_read_only_device_refuses_writes_as_with_psync,
    a_read_only_device_can_be_read,
    a_device_that_loses_its_data_gives_eio,
    several_jobs_share_a_device,
];

const NOT_ROOT: &str = "a loop device needs root";

fn backing(fio: &Fio, content: &[u8]) -> std::path::PathBuf {
    let path = fio.path("backing");
    std::fs::write(&path, content).expect("a backing file");
    path
}

fn a_device_whose_size_is_left_out_is_read_whole(fio: &Fio) {
    let Some(device) = LoopDevice::over(&backing(fio, &noise(2 << 20)), &[]) else { skip!("{NOT_ROOT}") };
    let text = format!("filename={}\nbs=64k\nrw=read\n[a]\n", device.name());
    fio.same_as_psync(&text).counts("read", "io_bytes", 2 << 20).says_nothing();
    fio.same_as_psync(&text.replace("rw=read", "rw=randread\ndirect=1")).counts("read", "io_bytes", 2 << 20);
}

fn a_device_is_written_and_read_back(fio: &Fio) {
    let Some(device) = LoopDevice::over(&backing(fio, &[0; 2 << 20]), &[]) else { skip!("{NOT_ROOT}") };
    let report = fio.job(&format!("filename={}\nrw=randwrite\nbs=8k\nverify=crc32c\niodepth=8\n[a]\n", device.name())).run();
    report.ok().counts("write", "io_bytes", 2 << 20).counts("read", "io_bytes", 2 << 20);
}

fn direct_writes_reach_the_file_under_the_device(fio: &Fio) {
    let path = backing(fio, &[0; 1 << 20]);
    let Some(device) = LoopDevice::over(&path, &[]) else { skip!("{NOT_ROOT}") };
    fio.job(&format!("filename={}\nrw=write\nbs=64k\ndirect=1\nbuffer_pattern=0x6b\nend_fsync=1\n[a]\n", device.name())).run().ok();
    std::fs::write(fio.path("expected"), [0x6b; 1 << 20]).expect("a file to compare with");
    machine::tool("cmp", &[Path::new("--bytes=1048576"), &device.path, &fio.path("expected")]);
    machine::tool("cmp", &[&path, &fio.path("expected")]);
}

fn a_read_only_device_refuses_writes_as_with_psync(fio: &Fio) {
    let path = backing(fio, &noise(1 << 20));
    let Some(device) = LoopDevice::over(&path, &["--read-only"]) else { skip!("{NOT_ROOT}") };
    let text = format!("filename={}\nrw=write\n[a]\n", device.name());
    let (ours, theirs) = (fio.job(&text).run(), fio.psync(&text).run());
    ours.assert(ours.code() == Some(1), "the job did not fail").assert(ours.code() == theirs.code(), "the status is not psync's");
    let error = |report: &crate::harness::Report| report.jobs().first().map(|job| job["error"].clone());
    ours.assert(error(&ours) == error(&theirs), "the error is not psync's");
    assert_eq!(std::fs::read(path).expect("the backing file"), noise(1 << 20));
}

fn a_read_only_device_can_be_read(fio: &Fio) {
    let Some(device) = LoopDevice::over(&backing(fio, &[0x3c; 1 << 20]), &["--read-only"]) else { skip!("{NOT_ROOT}") };
    let text = format!("filename={}\nrw=randread\nverify=pattern\nverify_pattern=0x3c\n[a]\n", device.name());
    fio.job(&text).run().ok().counts("read", "io_bytes", 1 << 20);
}

fn a_device_that_loses_its_data_gives_eio(fio: &Fio) {
    let path = backing(fio, &noise(1 << 20));
    let Some(device) = LoopDevice::over(&path, &[]) else { skip!("{NOT_ROOT}") };
    std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(0)).expect("a shorter file");
    let text = format!("filename={}\nrw=read\ndirect=1\n[a]\n", device.name());
    let (ours, theirs) = (fio.job(&text).run(), fio.psync(&text).run());
    ours.fails_with(libc::EIO);
    theirs.fails_with(libc::EIO);
    ours.counts("read", "io_bytes", 0);
}

fn several_jobs_share_a_device(fio: &Fio) {
    let Some(device) = LoopDevice::over(&backing(fio, &[0; 4 << 20]), &[]) else { skip!("{NOT_ROOT}") };
    let text = format!(
        "filename={}\nrw=randwrite\nbs=4k\nsize=1m\noffset_increment=1m\nnumjobs=4\nverify=crc32c\ngroup_reporting=1\n[a]\n",
        device.name()
    );
    fio.job(&text).run().ok().counts("write", "io_bytes", 4 << 20).counts("read", "io_bytes", 4 << 20);
}
