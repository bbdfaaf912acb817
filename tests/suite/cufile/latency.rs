//! Copies between fio's buffers and the device are in no latency that fio reports.

use super::{Cuda, on_the_simulated_library, says_no_more};
use crate::harness::Report;

on_the_simulated_library![
    a_slow_copy_shows_in_no_latency_of_a_blocking_job,
    a_slow_copy_shows_in_no_latency_of_a_pool,
    a_slow_device_shows_in_the_latency,
];

/// In microseconds: what a hiccup of the machine cannot move.
fn median(report: &Report, direction: &str, kind: &str) -> f64 {
    report.jobs()[0][direction][kind]["percentile"]["50.000000"].as_f64().unwrap_or(0.0) / 1000.0
}

/// A verified job where every copy takes 3 ms. The simulated library bounces, so one copy is in each I/O itself; what goes between fio's
/// buffer and the device would be a second one.
fn staged(cuda: &Cuda, how: &str) {
    let text = format!("filename=f\nsize=256k\nbs=4k\nrw=write\nverify=crc32c\nslat_percentiles=1\n{how}[a]\n");
    let report = cuda.job(&text).env("GPUIO_SIM_COPY_DELAY_US", "3000").run();
    says_no_more(report.ok().counts("write", "total_ios", 64).counts("read", "total_ios", 64));
    for direction in ["write", "read"] {
        let (submission, completion) = (median(&report, direction, "slat_ns"), median(&report, direction, "clat_ns"));
        let seen = format!("{direction}: the medians are {submission} us to submit and {completion} us to complete");
        report.assert(submission < 1500.0, &format!("{seen}; a copy is in the first"));
        report.assert(how.contains("iodepth=4") || (3000.0..5500.0).contains(&completion), &format!("{seen}; a copy is in the second"));
    }
}

fn a_slow_copy_shows_in_no_latency_of_a_blocking_job(cuda: &Cuda) {
    staged(cuda, "gpu_mode=sync\n");
}

fn a_slow_copy_shows_in_no_latency_of_a_pool(cuda: &Cuda) {
    staged(cuda, "gpu_mode=pool\ngpu_threads=2\n");
    staged(cuda, "gpu_mode=pool\niodepth=4\n");
}

fn a_slow_device_shows_in_the_latency(cuda: &Cuda) {
    for mode in ["sync", "pool"] {
        let text = format!("filename=f\nsize=256k\nbs=4k\nrw=write\nverify=crc32c\ngpu_mode={mode}\n[a]\n");
        let report = cuda.job(&text).env("GPUIO_SIM_CUFILE_DELAY_US", "3000").run();
        report.ok();
        for direction in ["write", "read"] {
            let median = median(&report, direction, "clat_ns");
            report.assert(median >= 3000.0, &format!("the median of {direction} is {median} us on a device that takes 3000"));
        }
    }
}
