//! How long a job runs, how often, in what order, in how many threads or processes.

use std::time::Duration;

use crate::harness::{Fio, Report, noise, on_every_fio};

on_every_fio![
    a_time_based_job_ends_on_time,
    a_ramp_is_not_counted,
    loops_repeat_the_job,
    a_byte_rate_is_kept,
    an_io_rate_is_kept,
    a_rate_with_several_units_is_kept,
    thinktime_is_spent,
    a_number_of_ios_ends_the_job,
    a_stonewall_holds_the_next_section_back,
    threads_write_each_their_own_file,
    forked_jobs_write_each_their_own_file,
    many_jobs_are_reported_as_one_group,
    offloaded_submission_works_or_is_refused_in_one_line,
    files_made_by_the_jobs_themselves_are_written,
    more_jobs_than_allowed_are_answered_as_with_psync,
    a_log_of_io_is_replayed,
    files_are_removed_where_asked,
    a_file_is_read_ahead_where_asked,
    only_the_named_section_runs,
    parse_only_does_no_io,
];

const MIB: u64 = 1 << 20;

fn runtime_ms(report: &Report, direction: &str) -> u64 {
    report.jobs()[0][direction]["runtime"].as_u64().unwrap_or(0)
}

#[track_caller]
fn within(report: &Report, what: &str, value: u64, least: u64, most: u64) {
    report.assert((least..=most).contains(&value), &format!("{what} is {value}, expected {least} to {most}"));
}

fn a_time_based_job_ends_on_time(fio: &Fio) {
    fio.file("f", &noise(64 << 10));
    let report = fio.job("filename=f\nrw=randread\ntime_based=1\nruntime=1\n[a]\n").run();
    report.ok().says_nothing();
    within(&report, "runtime", runtime_ms(&report, "read"), 900, 1500);
    report.assert(report.sum("read", "io_bytes") > 64 << 10, "the file was read only once");
}

fn a_ramp_is_not_counted(fio: &Fio) {
    fio.file("f", &noise(1 << 20));
    let report = fio.job("filename=f\nrw=randread\ntime_based=1\nruntime=1\nramp_time=1\nrate_iops=200\n[a]\n").run();
    report.ok();
    within(&report, "runtime", runtime_ms(&report, "read"), 900, 1500);
    within(&report, "number of I/Os", report.sum("read", "total_ios"), 120, 300);
    report.assert(report.took > Duration::from_millis(1900), "there was no ramp");
}

fn loops_repeat_the_job(fio: &Fio) {
    fio.same_as_psync("filename=f\nsize=256k\nrw=write\nloops=3\n[a]\n").counts("write", "io_bytes", 3 * MIB / 4);
}

fn a_byte_rate_is_kept(fio: &Fio) {
    let report = fio.job("filename=f\nsize=1m\nbs=16k\nrw=write\nrate=1m\n[a]\n").run();
    report.ok().counts("write", "io_bytes", MIB);
    within(&report, "runtime", runtime_ms(&report, "write"), 850, 1500);
}

fn an_io_rate_is_kept(fio: &Fio) {
    let report = fio.job("filename=f\nsize=400k\nbs=4k\nrw=randwrite\nrate_iops=100\n[a]\n").run();
    report.ok().counts("write", "total_ios", 100);
    within(&report, "runtime", runtime_ms(&report, "write"), 850, 1500);
}

fn a_rate_with_several_units_is_kept(fio: &Fio) {
    let report = fio.job("filename=f\nsize=400k\nbs=4k\nrw=randwrite\nrate_iops=100\niodepth=8\n[a]\n").run();
    report.ok().counts("write", "total_ios", 100);
    within(&report, "runtime", runtime_ms(&report, "write"), 850, 1500);
}

fn thinktime_is_spent(fio: &Fio) {
    let report = fio.job("filename=f\nsize=40k\nbs=4k\nrw=write\nthinktime=50000\nthinktime_blocks=1\n[a]\n").run();
    report.ok().counts("write", "total_ios", 10);
    report.assert(report.took > Duration::from_millis(450), "there was no time to think");
}

fn a_number_of_ios_ends_the_job(fio: &Fio) {
    fio.same_as_psync("filename=f\nsize=1m\nrw=randwrite\nnumber_ios=17\n[a]\n").counts("write", "total_ios", 17);
}

fn a_stonewall_holds_the_next_section_back(fio: &Fio) {
    let sections = "size=512k\nfilename=f\n[first]\nrw=write\nverify=crc32c\ndo_verify=0\n[second]\nstonewall\nrw=read\nverify=crc32c\n\
                    [third]\nstonewall\nrw=write\nbuffer_pattern=0x2e\n";
    let report = fio.job(sections).run();
    report.ok().counts("write", "io_bytes", MIB).counts("read", "io_bytes", MIB / 2);
    assert_eq!(report.jobs().len(), 3);
    assert_eq!(fio.read("f"), vec![0x2e; 512 << 10]);
}

fn four_jobs(fio: &Fio, how: &str) {
    let text = format!(
        "{how}\nnumjobs=4\nsize=256k\nrw=randwrite\nfilename_format=j.$jobnum\nbuffer_pattern=0x3d\nverify=pattern\nverify_pattern=0x3d\n[a]\n"
    );
    let report = fio.job(&text).run();
    report.ok().says_nothing().counts("write", "io_bytes", MIB).counts("read", "io_bytes", MIB);
    assert_eq!(report.jobs().len(), 4);
    (0..4).for_each(|job| assert_eq!(fio.read(&format!("j.{job}")), vec![0x3d; 256 << 10], "job {job}"));
}

fn threads_write_each_their_own_file(fio: &Fio) {
    four_jobs(fio, "thread=1");
}

fn forked_jobs_write_each_their_own_file(fio: &Fio) {
    four_jobs(fio, "thread=0");
}

fn many_jobs_are_reported_as_one_group(fio: &Fio) {
    for how in ["thread=1", "thread=0"] {
        let report = fio.job(&format!("{how}\nnumjobs=8\nsize=64k\nrw=write\ngroup_reporting=1\n[a]\n")).run();
        report.ok().counts("write", "io_bytes", MIB / 2).says_nothing();
        assert_eq!(report.jobs().len(), 1);
    }
}

/// fio's own offload hangs with every engine at depths above 1, and with verification; at depth 1 a job file's `external:` is lost in it.
fn offloaded_submission_works_or_is_refused_in_one_line(fio: &Fio) {
    let job = "filename=f\nsize=1m\nbs=16k\nrw=randwrite\nbuffer_pattern=0x35\nio_submit_mode=offload\n[a]\n";
    for depth in ["iodepth=1\n", "iodepth=8\n"] {
        let report = fio.job(&format!("{depth}{job}")).run();
        if report.code() == Some(0) {
            report.ok().counts("write", "io_bytes", MIB);
            assert_eq!(fio.read("f"), vec![0x35; 1 << 20]);
        } else {
            report.refused().says_one_with(&["io_submit_mode=offload"]);
        }
    }
}

fn files_made_by_the_jobs_themselves_are_written(fio: &Fio) {
    for how in ["thread=1", "thread=0"] {
        let text = format!("{how}\ncreate_serialize=0\nnumjobs=2\nsize=512k\nrw=randrw\nverify=crc32c\n[a]\n");
        let report = fio.job(&text).run();
        report.ok().says_nothing().assert(report.sum("write", "io_bytes") > 0, "nothing was written");
    }
}

fn more_jobs_than_allowed_are_answered_as_with_psync(fio: &Fio) {
    let text = "numjobs=4\nsize=64k\nrw=write\n[a]\n";
    let (ours, theirs) = (fio.job(text).args(&["--max-jobs=2"]).run(), fio.psync(text).args(&["--max-jobs=2"]).run());
    ours.assert((ours.code(), ours.signal()) == (theirs.code(), theirs.signal()), "the status is not psync's");
    ours.assert(ours.jobs().len() == theirs.jobs().len(), "the number of jobs is not psync's");
    ours.counts("write", "io_bytes", theirs.sum("write", "io_bytes"));
    fio.job(text).args(&["--max-jobs=4"]).run().ok().counts("write", "io_bytes", MIB / 4);
}

fn a_log_of_io_is_replayed(fio: &Fio) {
    fio.job("filename=f\nsize=256k\nbs=16k\nrw=randwrite\nwrite_iolog=io.log\n[a]\n").run().ok().counts("write", "total_ios", 16);
    fio.job("read_iolog=io.log\nreplay_no_stall=1\n[a]\n").run().ok().counts("write", "total_ios", 16).counts(
        "write",
        "io_bytes",
        256 << 10,
    );
}

fn files_are_removed_where_asked(fio: &Fio) {
    fio.job("filename=f\nsize=256k\nrw=write\nunlink=1\n[a]\n").run().ok();
    assert!(!fio.path("f").exists());
}

fn a_file_is_read_ahead_where_asked(fio: &Fio) {
    fio.file("f", &noise(1 << 20));
    fio.same_as_psync("filename=f\nbs=64k\nrw=randread\npre_read=1\ninvalidate=0\n[a]\n").counts("read", "io_bytes", MIB);
}

fn only_the_named_section_runs(fio: &Fio) {
    fio.job("size=64k\nrw=write\n[one]\nfilename=f\n[two]\nfilename=g\n").args(&["--section=two"]).run().ok();
    assert!(!fio.path("f").exists() && fio.path("g").exists());
}

fn parse_only_does_no_io(fio: &Fio) {
    let report = fio.job("filename=f\nsize=64k\nrw=write\n[a]\n").args(&["--parse-only"]).run();
    report.assert(report.code() == Some(0), "fio did not end with status 0").says_nothing();
    assert!(!fio.path("f").exists());
}
