//! GDS and GDS_MT: the real libcufile, on the simulated driver, from and to device and host memory.

use super::{MIB, Nixl};
use crate::harness::noise;

const PLUGINS: [&str; 2] = ["GDS", "GDS_MT"];

fn nixl() -> Nixl {
    Nixl::with("3.33", &["nixl", "cufile12"])
}

#[test]
fn what_is_written_is_read_back_from_both_memories() {
    let nixl = nixl();
    for plugin in PLUGINS {
        for (memory, blocks) in [("device", "bs=4k"), ("host", "bs=4k"), ("device", "bsrange=1k-33k"), ("host", "bsrange=1k-33k")] {
            let text =
                format!("nixl_plugin={plugin}\ngpu_mem={memory}\nfilename=f\nsize=2m\nrw=randwrite\n{blocks}\niodepth=8\nverify=crc32c\n");
            nixl.job(&format!("{text}[a]\n")).run().ok().says("job 0 uses device 0 (Simulated GPU, PCI 0000:40:00.0, NUMA node unknown)");
            if blocks == "bs=4k" {
                nixl.psync_verifies("filename=f\nsize=2m\nbs=4k\nverify=crc32c\n");
            }
        }
    }
}

#[test]
fn several_ios_in_one_transfer_and_threads_on_two_devices_are_right() {
    let nixl = nixl();
    for plugin in PLUGINS {
        let text = format!(
            "nixl_plugin={plugin}\nnixl_batch=8\niodepth=8\niodepth_batch_submit=8\nthread=1\nnumjobs=2\ngpu_dev_ids=0:1\nsize=1m\nrw=randwrite\nbs=4k\n\
             verify=crc32c\n[a]\nfilename_format=f.$jobnum\n"
        );
        let report = nixl.job(&text).env("GPUIO_SIM_DEVICES", "2").run();
        report.ok().counts("read", "io_bytes", 2 * MIB);
        report.assert(report.lines().iter().any(|line| line.contains("job 1 uses device 1")), "the second job is not on the second device");
    }
}

#[test]
fn a_file_is_read_to_its_end_and_no_further() {
    let nixl = nixl();
    nixl.fio.file("f", &noise(10_000));
    for plugin in PLUGINS {
        let text = format!("nixl_plugin={plugin}\nfilename=f\nbsrange=1-4k\nbs_unaligned=1\nrw=read\niodepth=4\n[a]\n");
        nixl.job(&text).run().ok().counts("read", "io_bytes", 10_000);
    }
}

#[test]
fn what_cufile_cannot_do_is_said() {
    let nixl = nixl();
    for (option, parts) in [
        ("nixl_params=batch_limit=200", ["nixl_params=batch_limit=200", "128 in a batch at most"]),
        ("gpu_dev_ids=7", ["gpu_dev_ids=7", "there is only device 0"]),
        ("gpu_mem=pinned", ["gpu_mem=pinned contradicts gpu_backend=nixl", "use gpu_mem=host or device"]),
    ] {
        let report = nixl.job(&format!("nixl_plugin=GDS\nfilename=f\nsize=64k\nrw=write\n{option}\n[a]\n")).run();
        report.refused().says_one_with(&parts);
    }
}
