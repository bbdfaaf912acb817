//! What the system refuses: no space, no permission, limits; each is the job's error, as with fio's psync.

use std::os::unix::fs::PermissionsExt;

use crate::harness::machine::SmallDisk;
use crate::harness::{Fio, Report, Run, noise, on_every_fio, skip};

on_every_fio![
    a_full_disk_is_enospc,
    a_full_disk_is_counted_where_it_is_to_be_ignored,
    a_limit_on_file_size_is_efbig,
    a_read_only_file_refuses_writes_as_with_psync,
    a_file_without_permission_refuses_reads_as_with_psync,
    a_folder_in_the_place_of_a_file_is_refused_as_with_psync,
    a_missing_folder_is_refused_as_with_psync,
    direct_blocks_that_are_not_aligned_are_einval,
    readonly_on_the_command_line_refuses_writes,
    one_failing_job_leaves_the_other_alone,
];

fn error(report: &Report) -> (Option<i32>, Option<i32>, Option<String>) {
    (report.code(), report.signal(), report.jobs().first().map(|job| job["error"].to_string()))
}

#[track_caller]
fn fail_alike(ours: Run, theirs: Run) -> Report {
    let (ours, theirs) = (ours.run(), theirs.run());
    ours.assert(error(&ours) == error(&theirs), &format!("psync ends with {:?}", error(&theirs)));
    ours.assert(ours.code() == Some(1), "the job did not fail");
    ours
}

fn a_full_disk_is_enospc(fio: &Fio) {
    let text = "filename=disk/f\nsize=4m\nbs=64k\nrw=write\nfallocate=none\n[a]\n";
    let Some(_disk) = SmallDisk::at(&fio.path("disk"), 1 << 20) else { skip!("a small file system needs root") };
    let report = fio.job(text).run();
    report.fails_with(libc::ENOSPC);
    drop(_disk);
    let Some(_disk) = SmallDisk::at(&fio.yardstick().join("disk"), 1 << 20) else { return };
    let theirs = fio.psync(text).run();
    theirs.fails_with(libc::ENOSPC);
    report.counts("write", "io_bytes", theirs.sum("write", "io_bytes"));
}

fn a_full_disk_is_counted_where_it_is_to_be_ignored(fio: &Fio) {
    let text = "filename=disk/f\nsize=2m\nbs=64k\nrw=write\nfallocate=none\nignore_error=,ENOSPC\n[a]\n";
    let run = |run: Run, at: std::path::PathBuf| SmallDisk::at(&at, 1 << 20).map(|_disk| run.run());
    let Some(ours) = run(fio.job(text), fio.path("disk")) else { skip!("a small file system needs root") };
    let Some(theirs) = run(fio.psync(text), fio.yardstick().join("disk")) else { return };
    ours.assert(error(&ours) == error(&theirs), &format!("psync ends with {:?}", error(&theirs)));
    ours.counts("write", "total_ios", theirs.sum("write", "total_ios"));
}

fn a_limit_on_file_size_is_efbig(fio: &Fio) {
    let text = "filename=f\nsize=4m\nbs=64k\nrw=write\nfallocate=none\nfile_append=0\noverwrite=0\n[a]\n";
    let limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"];
    // fio sets the length of a file to be written, which the limit forbids as well: the file is there before.
    std::fs::File::create(fio.path("f")).and_then(|file| file.set_len(4 << 20)).expect("a sparse file");
    std::fs::File::create(fio.yardstick().join("f")).and_then(|file| file.set_len(4 << 20)).expect("a sparse file");
    let report = fail_alike(fio.job(text).through(&limited), fio.psync(text).through(&limited));
    report.fails_with(libc::EFBIG);
}

/// Root without the right to pass over permissions.
const AS_ANYBODY: [&str; 2] = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];

fn with_mode(fio: &Fio, mode: u32) {
    fio.file("f", &noise(64 << 10));
    for path in [fio.path("f"), fio.yardstick().join("f")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
    }
}

fn as_anybody(run: Run) -> Run {
    if crate::harness::machine::is_root() { run.through(&AS_ANYBODY) } else { run }
}

fn a_read_only_file_refuses_writes_as_with_psync(fio: &Fio) {
    with_mode(fio, 0o444);
    for rw in ["write", "randrw"] {
        let text = format!("filename=f\nrw={rw}\n[a]\n");
        fail_alike(as_anybody(fio.job(&text)), as_anybody(fio.psync(&text)));
    }
    as_anybody(fio.job("filename=f\nrw=read\n[a]\n")).run().ok().counts("read", "io_bytes", 64 << 10);
    assert_eq!(fio.read("f"), noise(64 << 10));
}

fn a_file_without_permission_refuses_reads_as_with_psync(fio: &Fio) {
    with_mode(fio, 0o000);
    let text = "filename=f\nrw=read\n[a]\n";
    fail_alike(as_anybody(fio.job(text)), as_anybody(fio.psync(text)));
}

fn a_folder_in_the_place_of_a_file_is_refused_as_with_psync(fio: &Fio) {
    for path in [fio.path("f"), fio.yardstick().join("f")] {
        std::fs::create_dir_all(path).expect("a folder");
    }
    let text = "filename=f\nsize=64k\nrw=write\n[a]\n";
    fail_alike(fio.job(text), fio.psync(text));
}

fn a_missing_folder_is_refused_as_with_psync(fio: &Fio) {
    let text = "filename=none/such/f\nsize=64k\nrw=read\n[a]\n";
    let (ours, theirs) = (fio.job(text).run(), fio.psync(text).run());
    ours.assert(error(&ours) == error(&theirs), &format!("psync ends with {:?}", error(&theirs)));
}

fn direct_blocks_that_are_not_aligned_are_einval(fio: &Fio) {
    fio.file("f", &noise(64 << 10));
    let text = "filename=f\nbs=1000\nbs_unaligned=1\ndirect=1\nrw=read\n[a]\n";
    let (ours, theirs) = (fio.job(text).run(), fio.psync(text).run());
    ours.assert(error(&ours) == error(&theirs), &format!("psync ends with {:?}", error(&theirs)));
}

fn readonly_on_the_command_line_refuses_writes(fio: &Fio) {
    fio.file("f", &noise(64 << 10));
    let report = fio.job("filename=f\nrw=write\n[a]\n").args(&["--readonly"]).run();
    report.refused();
    assert_eq!(fio.read("f"), noise(64 << 10));
}

fn one_failing_job_leaves_the_other_alone(fio: &Fio) {
    let report = fio.job("size=256k\nrw=write\n[bad]\nfilename=f\ngpu_backend=nixl\n[good]\nfilename=g\nbuffer_pattern=0x21\n").run();
    report.assert(report.code() == Some(1), "fio did not end with status 1");
    report.assert(report.jobs()[0]["error"] != 0 && report.jobs()[1]["error"] == 0, "not the first job alone failed");
    assert_eq!(fio.read("g"), vec![0x21; 256 << 10]);
}
