//! What fio's latencies mean with this engine: the time of the I/O, counted where psync counts it.

use serde_json::Value;

use crate::harness::{Fio, noise, on_every_fio, skip};

on_every_fio![
    a_blocking_job_has_no_submission_latency_as_with_psync,
    a_deep_job_has_submission_and_completion_latency,
    submission_and_completion_latency_add_up,
    a_deep_job_without_latencies_keeps_its_depth,
    latencies_are_of_the_size_that_psync_sees,
];

fn samples(job: &Value, kind: &str) -> (u64, f64) {
    (job["read"][kind]["N"].as_u64().unwrap_or(0), job["read"][kind]["mean"].as_f64().unwrap_or(0.0))
}

fn a_blocking_job_has_no_submission_latency_as_with_psync(fio: &Fio) {
    fio.file("f", &noise(1 << 20));
    let text = "filename=f\nbs=4k\nrw=read\n[a]\n";
    let (ours, theirs) = (fio.job(text).run(), fio.psync(text).run());
    for kind in ["slat_ns", "clat_ns", "lat_ns"] {
        let (own, expected) = (samples(&ours.jobs()[0], kind).0, samples(&theirs.jobs()[0], kind).0);
        ours.assert(own == expected, &format!("{kind} has {own} samples, with psync {expected}"));
    }
    let keys = |job: &Value| job.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    for part in ["read", "write"] {
        assert_eq!(keys(&ours.jobs()[0][part]), keys(&theirs.jobs()[0][part]), "fields of {part}");
    }
    ours.assert(samples(&ours.jobs()[0], "clat_ns") == (256, samples(&ours.jobs()[0], "clat_ns").1), "not every read has its latency");
}

fn a_deep_job_has_submission_and_completion_latency(fio: &Fio) {
    fio.file("f", &noise(1 << 20));
    let report = fio.job("filename=f\nbs=4k\nrw=randread\niodepth=16\n[a]\n").run();
    report.ok();
    for kind in ["slat_ns", "clat_ns", "lat_ns"] {
        let (count, mean) = samples(&report.jobs()[0], kind);
        report.assert(count == 256 && mean > 0.0, &format!("{kind} has {count} samples, mean {mean}"));
    }
}

fn submission_and_completion_latency_add_up(fio: &Fio) {
    if !fio.is_at_least(31) {
        skip!("fio {} stamps the issue of an I/O after the engine has started it", fio.version);
    }
    fio.file("f", &noise(1 << 20));
    // Each ends while it is submitted: a stamp after that would take the I/O itself out of both.
    for batch in ["", "iodepth_batch=8\n"] {
        let report = fio.job(&format!("filename=f\nbs=4k\nrw=randread\niodepth=16\ngpu_io=uring\n{batch}[a]\n")).run();
        report.ok();
        let mean = |kind| samples(&report.jobs()[0], kind).1;
        let (parts, whole) = (mean("slat_ns") + mean("clat_ns"), mean("lat_ns"));
        report.assert((0.999..1.001).contains(&(parts / whole)), &format!("slat and clat are {parts} ns, lat is {whole} ns"));
    }
}

fn a_deep_job_without_latencies_keeps_its_depth(fio: &Fio) {
    fio.file("f", &noise(1 << 20));
    let report = fio.job("filename=f\nbs=4k\nrw=randread\niodepth=16\ngtod_reduce=1\n[a]\n").run();
    report.ok().says_nothing().counts("read", "total_ios", 256);
    report.assert(report.jobs()[0]["iodepth_level"]["16"].as_f64() > Some(90.0), "the depth is not 16");
    report.assert(samples(&report.jobs()[0], "clat_ns").0 == 0, "there are latencies");
}

fn latencies_are_of_the_size_that_psync_sees(fio: &Fio) {
    fio.file("f", &noise(4 << 20));
    let text = "filename=f\nbs=64k\nrw=read\nloops=8\n[a]\n";
    let (ours, theirs) = (fio.job(text).run(), fio.psync(text).run());
    let mean = |report: &crate::harness::Report| samples(&report.jobs()[0], "clat_ns").1;
    let ratio = mean(&ours) / mean(&theirs);
    // Only a wrong clock or a wrong start is further off than this, whatever else the machine does.
    ours.assert((0.02..50.0).contains(&ratio), &format!("the mean is {} ns, with psync {} ns", mean(&ours), mean(&theirs)));
}
