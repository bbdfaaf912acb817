//! Which job has which device: the one that was named, in each of its threads, and no context on any other.

use std::collections::{BTreeMap, BTreeSet};

use super::{Gpu, MIB, on_every_library, on_every_simulated_library};
use crate::harness::Report;

on_every_library![
    eight_jobs_as_threads_share_two_devices,
    eight_jobs_as_forks_share_two_devices,
    a_device_that_is_not_named_gets_no_context,
    both_separators_and_both_ways_of_io_give_out_devices_alike,
];
on_every_simulated_library![
    threads_of_a_pool_have_the_jobs_device,
    nearest_is_the_device_that_is_alone,
    a_device_that_is_not_there_is_refused_with_those_that_are,
];

/// Device by job number, as the library says them.
fn announced(report: &Report) -> BTreeMap<u32, u32> {
    let job = |line: &str| {
        let (job, rest) = line.strip_prefix("job ")?.split_once(" uses device ")?;
        Some((job.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
    };
    report.lines().into_iter().filter_map(job).collect()
}

fn eight_jobs(gpu: &Gpu, how: &str) {
    let text = format!("gpu_dev_ids=0:1\nsize=256k\nbssplit=4k/50:16k/50\nrw=randwrite\nverify=crc32c\nnumjobs=8\n{how}");
    let report = gpu.job(&format!("{text}filename_format=f.$jobnum\n[a]\n")).env("GPUIO_SIM_DEVICES", "2").run();
    report.ok().counts("read", "io_bytes", 2 * MIB).assert(gpu.unusual(&report).is_empty(), "the library said something unusual");
    let expected: BTreeMap<u32, u32> = (0..8).map(|job| (job, job % 2)).collect();
    report.assert(announced(&report) == expected, "the devices that were announced are not 0, 1, 0, 1, …");
    for job in 0..8 {
        gpu.psync_verifies(&format!("filename=f.{job}\nsize=256k\nbs=4k\nverify=crc32c\n[a]\n"));
    }
    each_job_has_its_own_device(gpu, 4);
}

/// Each job's thread copies on its one device, and each device has as many jobs; no other device has a context that stays.
#[track_caller]
fn each_job_has_its_own_device(gpu: &Gpu, jobs_each: usize) {
    let calls = gpu.calls();
    let mut jobs: BTreeMap<u32, BTreeSet<i32>> = BTreeMap::new();
    for call in calls.good("cuMemcpyHtoDAsync") {
        jobs.entry(call.tid).or_default().insert(call.device);
    }
    let on = |device: i32| jobs.values().filter(|devices| **devices == BTreeSet::from([device])).count();
    assert!(on(0) >= jobs_each && on(1) >= jobs_each && on(0) + on(1) == jobs.len(), "{jobs:?}");
    only_these_have_contexts(gpu, &[0, 1]);
}

/// libcufile 1.14 tries a context on device 0 and destroys it at once; none stays on a device that no job of the process has.
#[track_caller]
fn only_these_have_contexts(gpu: &Gpu, devices: &[i64]) {
    let calls = gpu.calls();
    for call in calls.good("cuDevicePrimaryCtxRetain") {
        assert!(call.number("on").is_some_and(|on| devices.contains(&on)), "{call:?}");
    }
    assert_eq!(calls.count("cuCtxCreate"), calls.count("cuCtxDestroy"), "a context stays");
}

fn eight_jobs_as_threads_share_two_devices(gpu: &Gpu) {
    eight_jobs(gpu, "thread=1\n");
    assert_eq!(gpu.calls().processes().len(), 1, "threads are in one process");
}

fn eight_jobs_as_forks_share_two_devices(gpu: &Gpu) {
    eight_jobs(gpu, "");
    let calls = gpu.calls();
    assert_eq!(calls.processes().len(), 8, "each job is a process of its own");
    for pid in calls.processes() {
        let retained = calls.good("cuDevicePrimaryCtxRetain").into_iter().filter(|call| call.pid == pid);
        let devices: BTreeSet<_> = retained.filter_map(|call| call.number("on")).collect();
        assert_eq!(devices.len(), 1, "process {pid} has contexts on devices {devices:?}");
    }
}

fn a_device_that_is_not_named_gets_no_context(gpu: &Gpu) {
    for how in ["iodepth=1\n", "iodepth=8\n", "iodepth=8\ngpu_mode=pool\ngpu_threads=3\n", "gpu_io=posix\n"] {
        let text = format!("gpu_dev_ids=2\nsize=256k\nbs=4k\nrw=randrw\nverify=crc32c\n{how}[a]\nfilename=f\n");
        gpu.job(&text).env("GPUIO_SIM_DEVICES", "4").run().ok();
    }
    only_these_have_contexts(gpu, &[2]);
}

fn both_separators_and_both_ways_of_io_give_out_devices_alike(gpu: &Gpu) {
    for (ids, expected) in [("1:0", [1, 0, 1]), ("1,2", [1, 2, 1]), ("0:2,1", [0, 2, 1]), ("2", [2, 2, 2])] {
        for io in ["", "cuda_io=posix\n"] {
            let text = format!("gpu_dev_ids={ids}\n{io}size=64k\nrw=write\nnumjobs=3\nthread=1\n[a]\nfilename_format=f.$jobnum\n");
            let report = gpu.job(&text).env("GPUIO_SIM_DEVICES", "3").run();
            let found: Vec<u32> = announced(report.ok()).into_values().collect();
            report.assert(found == expected, &format!("{ids}: {found:?}"));
        }
    }
}

fn threads_of_a_pool_have_the_jobs_device(gpu: &Gpu) {
    let text = "gpu_dev_ids=1\nsize=512k\nbs=4k\nrw=randwrite\nverify=crc32c\niodepth=8\ngpu_mode=pool\ngpu_threads=4\n[a]\nfilename=f\n";
    gpu.job(text).env("GPUIO_SIM_DEVICES", "2").run().ok();
    let calls = gpu.calls();
    let writes = calls.good("cuFileWrite");
    assert!(writes.iter().all(|call| call.device == 1), "a thread of the pool has another device");
    assert!(writes.iter().map(|call| call.tid).collect::<BTreeSet<_>>().len() > 1, "one thread did it all");
}

fn nearest_is_the_device_that_is_alone(gpu: &Gpu) {
    let text = "gpu_dev_ids=nearest\nsize=64k\nrw=write\nverify=crc32c\nnumjobs=3\nthread=1\n[a]\nfilename_format=f.$jobnum\n";
    let report = gpu.job(text).run();
    gpu.says_one_more_with(report.ok(), &["gpu_dev_ids=nearest is 0: there is no other device"]);
    // The simulated ones are nowhere in sysfs, so none is nearer than another, and all are used.
    let report = gpu.job(text).env("GPUIO_SIM_DEVICES", "2").run();
    gpu.says_one_more_with(report.ok(), &["gpu_dev_ids=nearest is 0:1: "]);
    report.assert(announced(&report).into_values().eq([0, 1, 0]), "equally near devices are not shared");
}

fn a_device_that_is_not_there_is_refused_with_those_that_are(gpu: &Gpu) {
    for (ids, devices, parts) in [
        ("1", "1", ["gpu_dev_ids=1:", "there is only device 0"]),
        ("7", "2", ["gpu_dev_ids=7:", "there are devices 0 to 1"]),
        ("4294967295", "1", ["gpu_dev_ids=4294967295:", "there is only device 0"]),
    ] {
        for io in ["", "gpu_io=posix\n"] {
            let text = format!("gpu_dev_ids={ids}\n{io}size=64k\nrw=write\n[a]\nfilename=f\n");
            let report = gpu.job(&text).env("GPUIO_SIM_DEVICES", devices).run();
            report.refused();
            gpu.says_one_more_with(&report, &parts);
        }
    }
}
