//! I/Os that fail, and files that end early: the line that a user reads, and an end without a crash.

use super::on_the_real_library;

on_the_real_library![
    a_failed_io_ends_the_job_with_the_plugins_own_words,
    a_descriptor_that_the_kernel_refuses_is_said,
    a_file_that_shrinks_is_read_short_and_not_as_if_it_were_whole,
    a_full_disk_is_not_taken_for_success,
    a_deep_queue_with_a_failure_ends_and_leaves_json,
    what_does_not_fail_goes_on_beside_what_does,
];

mod run {
    use std::fs::OpenOptions;
    use std::time::Duration;

    use super::super::Nixl;
    use crate::harness::machine::{LoopDevice, SmallDisk, try_tool, wait_until_open};
    use crate::harness::{noise, skip};

    /// What the kernel says to 512 bytes of direct I/O on a device with sectors of 4096.
    pub fn a_failed_io_ends_the_job_with_the_plugins_own_words(nixl: &Nixl) {
        nixl.fio.file("image", &noise(1 << 20));
        let Some(device) = LoopDevice::over(&nixl.fio.path("image"), &["--sector-size", "4096"]) else { skip!("loop devices need root") };
        let shorter = "POSIX transfer failed: an io completed short or with an error";
        for (queue, says) in [("use_aio=true", shorter), ("use_uring=true", shorter), ("use_posix_aio=true", "aio_error failed: ")] {
            let text = format!("nixl_params={queue}\nfilename={}\ndirect=1\nrw=read\nbs=512\nsize=64k\n[a]\n", device.name());
            let report = nixl.job(&text).run();
            report.fails_with(libc::EIO).says_one_with(&["at offset 0, 512 bytes: NIXL's plugin POSIX: NIXL status -2", says]);
        }
    }

    pub fn a_descriptor_that_the_kernel_refuses_is_said(nixl: &Nixl) {
        if let Err(why) = try_tool("strace", &["-o", "/dev/null", "true"]) {
            skip!("strace cannot trace here: {why}");
        }
        let through = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=io_submit", "-e", "inject=io_submit:error=EBADF:when=9+"];
        let text = "thread=1\nfilename=f\nsize=256k\nrw=randwrite\nbs=4k\niodepth=4\n[a]\n";
        let report = nixl.job(text).through(&through).run();
        report
            .fails_with(libc::EIO)
            .says_one_with(&["NIXL's plugin POSIX: NIXL status -2", "the library says: io_submit rejected I/O: Bad file descriptor"]);
    }

    pub fn a_file_that_shrinks_is_read_short_and_not_as_if_it_were_whole(nixl: &Nixl) {
        for (plugin, depth) in [("use_aio=true", 1), ("use_aio=true", 16), ("use_uring=true", 16)] {
            nixl.fio.file("f", &noise(4 << 20));
            let text = format!(
                "nixl_params={plugin}\niodepth={depth}\nfilename=f\nbs=64k\nrw=read\nruntime=10\ntime_based=1\nrate_iops=2000\n[a]\n"
            );
            let running = nixl.job(&text).start();
            wait_until_open(running.id(), &nixl.fio.path("f"));
            OpenOptions::new().write(true).open(nixl.fio.path("f")).and_then(|file| file.set_len(1_000_100)).expect("a shorter file");
            let report = running.finish();
            report.assert(report.code() == Some(1) && report.took < Duration::from_secs(8), "the job went on as if nothing were");
            let slowest = report.jobs()[0]["read"]["clat_ns"]["max"].as_u64();
            report.assert(slowest < Some(8_000_000_000), &format!("a read past the end counts as {slowest:?} ns"));
        }
    }

    pub fn a_full_disk_is_not_taken_for_success(nixl: &Nixl) {
        let Some(_disk) = SmallDisk::at(&nixl.fio.path("disk"), 1 << 20) else { skip!("mounting needs root") };
        for queue in ["use_aio=true", "use_uring=true"] {
            let text = format!("nixl_params={queue}\nfilename=disk/f\nsize=4m\nfallocate=none\ncreate_on_open=1\nrw=write\nbs=64k\n[a]\n");
            let report = nixl.job(&text).run();
            report.fails_with(libc::EIO).says_one_with(&["write of ", "disk/f at offset 10", "NIXL status -2", "short or with an error"]);
            std::fs::remove_file(nixl.fio.path("disk/f")).expect("the file");
        }
    }

    pub fn a_deep_queue_with_a_failure_ends_and_leaves_json(nixl: &Nixl) {
        let Some(_disk) = SmallDisk::at(&nixl.fio.path("disk"), 1 << 20) else { skip!("mounting needs root") };
        for queue in ["use_aio=true", "use_uring=true", "use_posix_aio=true"] {
            for thread in [0, 1] {
                let text = format!(
                    "nixl_params={queue}\nthread={thread}\nfilename=disk/f\nsize=4m\nfallocate=none\ncreate_on_open=1\nrw=write\nbs=16k\niodepth=32\n[a]\n"
                );
                let report = nixl.job(&text).run();
                let parts = if queue == "use_posix_aio=true" {
                    ["NIXL status -2", "they all fail"]
                } else {
                    ["NIXL status -2", "an error (said once"]
                };
                report.fails_with(libc::EIO).says_one_with(&parts);
                report.assert(report.took < Duration::from_secs(5), "it took too long");
                std::fs::remove_file(nixl.fio.path("disk/f")).expect("the file");
            }
        }
    }

    /// Every fifth I/O is refused by the device, the others are right.
    pub fn what_does_not_fail_goes_on_beside_what_does(nixl: &Nixl) {
        nixl.fio.file("image", &noise(4 << 20));
        let Some(device) = LoopDevice::over(&nixl.fio.path("image"), &["--sector-size", "4096"]) else { skip!("loop devices need root") };
        for batch in ["", "nixl_batch=8\niodepth_batch_submit=8\n"] {
            for queue in ["use_aio=true", "use_uring=true"] {
                let text = format!(
                    "nixl_params={queue}\nfilename={}\ndirect=1\nsize=4m\nrw=randwrite\nbssplit=512/20:4k/80\niodepth=16\ncontinue_on_error=all\n\
                     verify=crc32c\n{batch}[a]\n",
                    device.name()
                );
                let report = nixl.job(&text).run();
                let (errors, all) = (report.jobs()[0]["total_err"].as_u64(), report.sum("write", "total_ios"));
                report.assert(errors.is_some_and(|errors| errors > 0 && errors < all), &format!("{errors:?} of {all} have failed"));
                report.assert(report.sum("read", "io_bytes") > 0, "nothing was verified");
            }
        }
    }
}
