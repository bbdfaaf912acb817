//! The plugin POSIX, with each of its three ways to queue I/O: what is written is read back, by this library and by others.

use super::on_the_real_library;

on_the_real_library![
    mixed_sizes_are_verified_at_every_depth_in_threads_and_forks,
    several_ios_in_one_transfer_are_accounted_each,
    a_write_is_what_fio_writes_by_another_programs_word,
    a_block_device_is_written_and_read,
    two_files_are_kept_apart,
    a_file_is_read_to_its_end_and_no_further,
    an_end_that_no_sector_divides_is_read_with_direct_io,
    one_block_over_and_over_is_read_and_written,
    fsync_reaches_the_file_after_what_was_written,
    sleeping_and_spinning_find_what_has_ended,
    a_signal_ends_a_deep_queue,
    the_ready_job_files_run,
];

mod every_fio {
    use crate::harness::on_every_fio;

    on_every_fio![a_write_is_verified];

    fn a_write_is_verified(fio: &crate::harness::Fio) {
        let nixl = super::super::Nixl::get(fio.version);
        nixl.job("filename=f\nsize=1m\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\n[a]\n").run().ok().says_nothing().counts(
            "read",
            "io_bytes",
            1 << 20,
        );
    }
}

mod run {
    use std::time::Duration;

    use super::super::{MIB, Nixl};
    use crate::harness::machine::{LoopDevice, tool, wait_until_open};
    use crate::harness::{noise, skip};

    const QUEUES: [&str; 3] = ["use_aio=true", "use_uring=true", "use_posix_aio=true"];

    pub fn mixed_sizes_are_verified_at_every_depth_in_threads_and_forks(nixl: &Nixl) {
        for queue in QUEUES {
            for (depth, thread, direct) in [(1, 1, 0), (8, 0, 1), (64, 1, 1), (64, 0, 0)] {
                let text = format!(
                    "nixl_params={queue}\niodepth={depth}\nthread={thread}\ndirect={direct}\nnumjobs=2\nsize=2m\nrw=randrw\nbsrange=4k-64k\n\
                     verify=crc32c\n[a]\nfilename_format=f.$jobnum\n"
                );
                nixl.job(&text).run().ok().says_nothing();
            }
        }
    }

    pub fn several_ios_in_one_transfer_are_accounted_each(nixl: &Nixl) {
        for queue in QUEUES {
            let text = format!(
                "nixl_params={queue}\nnixl_batch=16\niodepth=32\niodepth_batch_submit=16\nfilename=f\nsize=2m\nrw=randwrite\nbs=4k\n"
            );
            let report = nixl.job(&format!("{text}verify=crc32c\n[a]\n")).run();
            report.ok().says_nothing().counts("write", "total_ios", 512).counts("read", "io_bytes", 2 * MIB);
            nixl.psync_verifies("filename=f\nsize=2m\nbs=4k\nverify=crc32c\n");
        }
    }

    pub fn a_write_is_what_fio_writes_by_another_programs_word(nixl: &Nixl) {
        let text = "filename=f\nsize=1m\nrw=randwrite\nbs=4k\nrandseed=7\nbuffer_pattern=0x5a17\niodepth=16\n[a]\n";
        nixl.job(text).run().ok().says_nothing();
        nixl.fio.psync(text).run().ok();
        nixl.fio.same_bytes("f");
    }

    pub fn a_block_device_is_written_and_read(nixl: &Nixl) {
        nixl.fio.file("image", &noise(4 << 20));
        let Some(device) = LoopDevice::over(&nixl.fio.path("image"), &[]) else { skip!("loop devices need root") };
        let name = device.name();
        // Its size is the device's.
        nixl.job(&format!("filename={name}\ndirect=1\nrw=read\nbs=64k\niodepth=4\n[a]\n")).run().ok().says_nothing().counts(
            "read",
            "io_bytes",
            4 * MIB,
        );
        nixl.job(&format!("filename={name}\ndirect=1\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\n[a]\n")).run().ok().says_nothing();
    }

    pub fn two_files_are_kept_apart(nixl: &Nixl) {
        let text = "filename=f:g\nsize=2m\nrw=randwrite\nbs=4k\niodepth=16\nnixl_batch=8\niodepth_batch_submit=8\nverify=crc32c\n";
        nixl.job(&format!("{text}[a]\n")).run().ok().says_nothing().counts("read", "io_bytes", 2 * MIB);
        nixl.job(&format!("{text}file_service_type=sequential\nopenfiles=1\n[a]\n")).run().ok().says_nothing();
    }

    pub fn a_file_is_read_to_its_end_and_no_further(nixl: &Nixl) {
        nixl.fio.file("f", &[0xee; 10_000]);
        for queue in QUEUES {
            let text = "filename=f\nbsrange=1-4k\nbs_unaligned=1\nallrandrepeat=1\nrw=read\n[a]\n";
            let report = nixl.job(&format!("iodepth=4\nnixl_params={queue}\n{text}")).run();
            report.ok().says_nothing().counts("read", "io_bytes", 10_000);
        }
    }

    pub fn an_end_that_no_sector_divides_is_read_with_direct_io(nixl: &Nixl) {
        nixl.fio.file("f", &noise(100_000));
        for blocks in ["bs=4k", "bs=64k", "bs=4k\nsize=100%"] {
            let text = format!("filename=f\n{blocks}\ndirect=1\nrw=read\n[a]\n");
            let (ours, theirs) = (nixl.job(&text).run(), nixl.fio.psync(&text).run());
            ours.ok().says_nothing().counts("read", "io_bytes", theirs.sum("read", "io_bytes"));
        }
    }

    pub fn one_block_over_and_over_is_read_and_written(nixl: &Nixl) {
        let text = "filename=f\nsize=4k\nbs=4k\nrw=randwrite\nloops=200\nverify=crc32c\n[a]\n";
        nixl.job(text).run().ok().says_nothing();
    }

    pub fn fsync_reaches_the_file_after_what_was_written(nixl: &Nixl) {
        let report = nixl.job("filename=f\nsize=256k\nbs=4k\nrw=write\niodepth=8\nfsync=8\nend_fsync=1\n[a]\n").run();
        report.ok().says_nothing().assert(report.jobs()[0]["sync"]["total_ios"].as_u64() >= Some(8), "no syncs");
    }

    pub fn sleeping_and_spinning_find_what_has_ended(nixl: &Nixl) {
        for wait in ["spin", "yield", "block"] {
            nixl.job(&format!("gpu_wait={wait}\nfilename=f\nsize=1m\nrw=randrw\nbs=4k\niodepth=8\nverify=crc32c\n[a]\n"))
                .run()
                .ok()
                .says_nothing();
        }
    }

    pub fn a_signal_ends_a_deep_queue(nixl: &Nixl) {
        for queue in QUEUES {
            let text = format!("nixl_params={queue}\nfilename=f\nsize=4m\nrw=randread\nbs=4k\niodepth=64\ntime_based=1\nruntime=60\n[a]\n");
            let running = nixl.job(&text).start();
            wait_until_open(running.id(), &nixl.fio.path("f"));
            running.signal(libc::SIGINT);
            let report = running.finish();
            report.assert(report.took < Duration::from_secs(5), "it went on").assert(report.signal().is_none(), "it crashed");
        }
    }

    pub fn the_ready_job_files_run(nixl: &Nixl) {
        ["nixl-posix-verify.fio", "nixl-posix-randread.fio", "nixl-gusli.fio"].iter().for_each(|name| nixl.runs_the_ready_file(name));
        // What the jobs have read is what others see.
        tool("ls", &[nixl.fio.folder.path()]);
    }
}
