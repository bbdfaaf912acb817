//! What fio's latencies mean with this engine: the time of the I/O, counted where psync counts it.

use serde_json::Value;

use crate::harness::{Fio, noise, on_every_fio};

on_every_fio![
    a_blocking_job_has_no_submission_latency_as_with_psync,
    a_deep_job_has_submission_and_completion_latency,
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

fn latencies_are_of_the_size_that_psync_sees(fio: &Fio) {
    fio.file("f", &noise(4 << 20));
    let text = "filename=f\nbs=64k\nrw=read\nloops=8\n[a]\n";
    let (ours, theirs) = (fio.job(text).run(), fio.psync(text).run());
    let mean = |report: &crate::harness::Report| samples(&report.jobs()[0], "clat_ns").1;
    let ratio = mean(&ours) / mean(&theirs);
    // Only a wrong clock or a wrong start is further off than this, whatever else the machine does.
    ours.assert((0.02..50.0).contains(&ratio), &format!("the mean is {} ns, with psync {} ns", mean(&ours), mean(&theirs)));
}
