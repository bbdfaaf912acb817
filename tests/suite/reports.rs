//! `gpu_report`: what a job did, in a file that is never anything else.

use serde_json::Value;

use crate::harness::{Fio, noise, on_every_fio};

on_every_fio![
    a_report_has_every_job_of_the_run_with_what_it_moved,
    a_report_is_refused_on_what_is_no_report,
    a_failed_io_names_its_file_offset_and_length,
    a_sync_at_depth_waits_for_earlier_writes_and_leaves_later_ones_flying,
];

fn report(fio: &Fio) -> Value {
    serde_json::from_slice(&fio.read("report.json")).expect("the report is JSON")
}

fn a_report_has_every_job_of_the_run_with_what_it_moved(fio: &Fio) {
    let job = "gpu_report=report.json\nsize=256k\nbs=16k\n[write]\nfilename=f\nrw=write\nfsync=4\n[trim]\nstonewall\nfilename=f\nrw=trim\n[many]\nstonewall\nfilename=g\nrw=write\nnumjobs=4\niodepth=8\n";
    for _ in 0..2 {
        fio.job(job).run().ok().says_nothing();
        let all = report(fio);
        let jobs = all["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), 6, "{all:#}");
        let named = |name: &str| jobs.iter().filter(|job| job["job"] == name).collect::<Vec<_>>();
        let write = &named("write")[0]["files"][0];
        assert_eq!((&write["write"]["calls"], &write["write"]["bytes"]), (&16.into(), &(256 << 10).into()), "{all:#}");
        assert!(write["sync"]["calls"].as_u64() >= Some(3), "{all:#}");
        assert_eq!(named("trim")[0]["files"][0]["trim"]["bytes"], 256 << 10, "{all:#}");
        assert_eq!(named("many").len(), 4, "{all:#}");
        assert!(jobs.iter().all(|job| job["backend"] == "host" && job["files"][0]["path"] == "posix"), "{all:#}");
    }
}

fn a_report_is_refused_on_what_is_no_report(fio: &Fio) {
    let data = noise(64 << 10);
    fio.file("f", &data);
    fio.file("text", b"a text of somebody's");
    fio.file("zeros", &[0; 4096]);
    let cases = [("f", "holds something else"), ("text", "holds something else"), ("zeros", "holds something else")];
    let places = [("/dev/full", "not a regular file"), ("/dev/zero", "not a regular file"), ("none/report", "No such file or directory")];
    for (path, why) in cases.into_iter().chain(places) {
        let run = fio.job(&format!("filename=f\nrw=read\nbs=4k\ngpu_report={path}\n[a]\n")).run();
        run.refused().says_one_with(&[&format!("gpu_report={path}: "), why, "name a new file"]);
    }
    assert!(fio.read("f") == data, "the data file was touched");
    assert_eq!(fio.read("text"), b"a text of somebody's");
    assert_eq!(fio.read("zeros"), [0; 4096]);
}

fn a_failed_io_names_its_file_offset_and_length(fio: &Fio) {
    for mode in ["sync", "pool"] {
        let run = fio.job(&format!("filename=/dev/full\nsize=64k\nrw=write\nbs=4k\ngpu_mode={mode}\n[a]\n")).run();
        run.fails_with(libc::ENOSPC);
        let place = ["/dev/full", "No space left on device", "offset=0", "buflen=4096"];
        run.assert(run.stderr.lines().any(|line| place.iter().all(|part| line.contains(part))), "no line names the place");
    }
}

/// fio up to 3.33 asks for a sync again while one is out, as it does of its own io_uring engine, so it counts more of them.
fn a_sync_at_depth_waits_for_earlier_writes_and_leaves_later_ones_flying(fio: &Fio) {
    for mode in ["gpu_mode=pool", "gpu_io=uring"] {
        let job = format!(
            "filename=f\nsize=2m\nrw=randwrite\nbs=4k\niodepth=16\nfdatasync=16\nverify=crc32c\ngpu_report=report.json\n{mode}\n[a]\n"
        );
        let run = fio.job(&job).run();
        run.ok().counts("write", "total_ios", 512).counts("read", "total_ios", 512);
        let depth = run.jobs()[0]["iodepth_level"]["16"].as_f64().unwrap_or(0.0);
        run.assert(depth > 80.0, &format!("only {depth} % of the I/O was at depth 16"));
        // fio's own count leaves out what is not fsync.
        let syncs = report(fio)["jobs"][0]["files"][0]["sync"]["calls"].as_u64().unwrap_or(0);
        run.assert(syncs >= 31, &format!("only {syncs} syncs for 512 writes"));
        if fio.is_at_least(39) {
            run.assert(syncs <= 34, &format!("{syncs} syncs for 512 writes"));
        }
    }
}
