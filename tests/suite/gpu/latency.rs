//! Copies between fio's buffers and the device are in no latency that fio reports.

use super::{Gpu, on_every_simulated_library};
use crate::harness::Report;

on_every_simulated_library![
    a_slow_copy_shows_in_no_latency_of_a_blocking_job,
    a_slow_copy_shows_in_no_latency_of_a_pool,
    a_slow_device_shows_in_the_latency,
];

/// In microseconds: what a hiccup of the machine cannot move.
fn median(report: &Report, direction: &str, kind: &str) -> f64 {
    report.jobs()[0][direction][kind]["percentile"]["50.000000"].as_f64().unwrap_or(0.0) / 1000.0
}

/// A verified job where every copy takes 3 ms. A library that bounces has one in each I/O itself; what goes between fio's buffer and the
/// device would be one more.
fn staged(gpu: &Gpu, how: &str) {
    let text = format!("filename=f\nsize=256k\nbs=4k\nrw=write\nverify=crc32c\nslat_percentiles=1\n{how}[a]\n");
    let report = gpu.job(&text).env("GPUIO_SIM_COPY_DELAY_US", "3000").run();
    gpu.says_no_more(report.ok().counts("write", "total_ios", 64).counts("read", "total_ios", 64));
    for direction in ["write", "read"] {
        let (submission, completion) = (median(&report, direction, "slat_ns"), median(&report, direction, "clat_ns"));
        let seen = format!("{direction}: the medians are {submission} us to submit and {completion} us to complete");
        report.assert(submission < 1500.0, &format!("{seen}; a copy is in the first"));
        let own = 3000.0 * f64::from(gpu.vendor.copies);
        report.assert(how.contains("iodepth=4") || (own..own + 2500.0).contains(&completion), &format!("{seen}; a copy is in the second"));
    }
}

fn a_slow_copy_shows_in_no_latency_of_a_blocking_job(gpu: &Gpu) {
    staged(gpu, "gpu_mode=sync\n");
}

fn a_slow_copy_shows_in_no_latency_of_a_pool(gpu: &Gpu) {
    staged(gpu, "gpu_mode=pool\ngpu_threads=2\n");
    staged(gpu, "gpu_mode=pool\niodepth=4\n");
}

fn a_slow_device_shows_in_the_latency(gpu: &Gpu) {
    for mode in ["sync", "pool"] {
        let text = format!("filename=f\nsize=256k\nbs=4k\nrw=write\nverify=crc32c\ngpu_mode={mode}\n[a]\n");
        let report = gpu.job(&text).env(&gpu.words("GPUIO_SIM_CUFILE_DELAY_US"), "3000").run();
        report.ok();
        for direction in ["write", "read"] {
            let median = median(&report, direction, "clat_ns");
            report.assert(median >= 3000.0, &format!("the median of {direction} is {median} us on a device that takes 3000"));
        }
    }
}
