//! The right bytes, on files and kernel block devices: at every depth, in every manner of completion, alone and in lists, threads and forks.

use super::{on_the_real_library, on_the_real_library_and_every_fio};

on_the_real_library_and_every_fio![mixed_sizes_leave_the_bytes_that_psync_leaves, threads_and_forked_jobs_are_verified];
on_the_real_library![
    files_are_verified_at_every_depth_in_every_manner,
    block_devices_are_verified_at_every_depth_in_every_manner,
    two_devices_of_one_job_keep_their_own_bytes,
    two_jobs_on_two_devices_keep_their_own_bytes,
    threads_on_one_device_do_not_mix_up_their_positions,
    what_a_job_does_not_refill_is_what_it_was_filled_with,
    syncs_reach_the_device,
    a_block_device_is_used_to_its_last_block,
];

const MIX: &str = "bssplit=4k/40:8k/20:16k/20:64k/20\n";
const MANNERS: [&str; 4] = ["", "gpu_wait=spin\n", "gpu_wait=block\n", "gusli_completion=callback\n"];

mod run {
    use super::super::{Gusli, MIB};
    use super::{MANNERS, MIX};
    use crate::harness::machine::{LoopDevice, tool};
    use crate::harness::{Report, noise, skip};

    #[track_caller]
    fn was_deep(report: &Report, depth: u32) {
        let levels = &report.jobs()[0]["iodepth_level"];
        let level = match depth {
            1 => "1",
            8 => "8",
            32 => "32",
            _ => ">=64",
        };
        report.assert(levels[level].as_f64().is_some_and(|share| share > 20.0), &format!("depth {depth} was not reached: {levels}"));
    }

    /// Verified random and sequential I/O of mixed sizes on `file`.
    fn at_every_depth_in_every_manner(gusli: &Gusli, file: &str) {
        for depth in [1, 8, 32, 128] {
            for (turn, manner) in MANNERS.iter().enumerate() {
                let rw = if (turn + depth) % 2 == 0 { "randrw" } else { "write" };
                for sgl in ["", "gusli_sgl=1\niodepth_batch_submit=4\niodepth_batch_complete_min=2\n"] {
                    let sgl = if depth == 1 { "" } else { sgl };
                    let text = format!(
                        "thread=1\nfilename={file}\nsize=16m\nio_size=8m\nrw={rw}\niodepth={depth}\nverify=crc32c\nverify_fatal=1\ndirect=1\n{MIX}{manner}{sgl}[a]\n"
                    );
                    let report = gusli.job(&text).run();
                    report.ok().says_nothing();
                    was_deep(&report, depth as u32);
                }
            }
        }
    }

    pub fn files_are_verified_at_every_depth_in_every_manner(gusli: &Gusli) {
        at_every_depth_in_every_manner(gusli, "f");
    }

    pub fn block_devices_are_verified_at_every_depth_in_every_manner(gusli: &Gusli) {
        gusli.fio.file("image", &vec![0; 16 << 20]);
        let Some(device) = LoopDevice::over(&gusli.fio.path("image"), &[]) else { skip!("loop devices need root") };
        at_every_depth_in_every_manner(gusli, &device.name());
    }

    pub fn mixed_sizes_leave_the_bytes_that_psync_leaves(gusli: &Gusli) {
        for sgl in ["", "gusli_sgl=1\niodepth_batch_submit=8\n"] {
            let text = format!("filename=f\nsize=2m\nrw=randwrite\nrefill_buffers=1\nscramble_buffers=0\niodepth=16\n{MIX}");
            gusli.fio.file("f", &noise(2 << 20));
            gusli.job(&format!("{text}{sgl}[a]\n")).run().ok().says_nothing();
            gusli.fio.psync(&format!("{text}[a]\n")).run().ok();
            gusli.fio.same_bytes("f");
        }
    }

    pub fn threads_and_forked_jobs_are_verified(gusli: &Gusli) {
        for how in ["thread=1\n", "thread=0\n"] {
            let text = format!("{how}numjobs=4\nsize=1m\nrw=randwrite\nbs=4k\niodepth=32\nverify=crc32c\nfilename_format=f.$jobnum\n[a]\n");
            gusli.job(&text).run().ok().says_nothing().counts("read", "io_bytes", 4 * MIB);
        }
    }

    pub fn two_devices_of_one_job_keep_their_own_bytes(gusli: &Gusli) {
        for rw in ["randwrite", "randread"] {
            // A pattern with the offset in it, on files of different content: what lands on the other device is found there.
            let text = format!(
                "thread=1\nfilename=f:g\nsize=4m\nrw={rw}\nbs=4k\niodepth=16\nverify=pattern\nverify_pattern=%o\ngusli_sgl=1\n[a]\n"
            );
            gusli.job(&text).run().ok();
        }
        let text =
            "nrfiles=2\nsize=4m\nrw=randwrite\nbs=4k\niodepth=16\nrefill_buffers=1\nscramble_buffers=0\nfilename_format=h.$filenum\n[a]\n";
        gusli.job(text).run().ok();
        gusli.fio.psync(text).run().ok();
        gusli.fio.same_bytes("h.0");
        gusli.fio.same_bytes("h.1");
    }

    pub fn two_jobs_on_two_devices_keep_their_own_bytes(gusli: &Gusli) {
        for how in ["thread=1\n", "thread=0\n"] {
            let text = format!(
                "{how}size=2m\nrw=write\nbs=16k\niodepth=8\n[a]\nfilename=f\nbuffer_pattern=0xaa\n[b]\nfilename=g\nbuffer_pattern=0xbb\n"
            );
            gusli.job(&text).run().ok();
            assert!(gusli.fio.read("f") == vec![0xaa; 2 << 20] && gusli.fio.read("g") == vec![0xbb; 2 << 20], "{how}");
        }
    }

    pub fn threads_on_one_device_do_not_mix_up_their_positions(gusli: &Gusli) {
        let text = "filename=f\nsize=8m\nbs=4k\nverify=pattern\nverify_pattern=%o\n";
        gusli.fio.job_file(&format!("[a]\nioengine=psync\nrw=write\ndo_verify=0\n{text}")).run().ok();
        let report = gusli.job(&format!("{text}rw=randread\nthread=1\nnumjobs=8\niodepth=1\n[a]\n")).run();
        report.ok().says_nothing().counts("read", "io_bytes", 64 * MIB);
    }

    pub fn what_a_job_does_not_refill_is_what_it_was_filled_with(gusli: &Gusli) {
        // Registering clears memory. Several jobs, of which one registers what another has filled already.
        let job = |n: u32| format!("[j{n}]\nfilename=f{n}\nbuffer_pattern=0x{n}{n}\nstartdelay={}ms\n", n * 150);
        let jobs: String = (1..5).map(job).collect();
        let text = format!("thread=1\nsize=64k\nbs=4k\nrw=write\niodepth=4\ntime_based=1\nruntime=1\nthinktime=1ms\n{jobs}");
        gusli.job(&text).run().ok();
        for n in 1..5 {
            assert_eq!(gusli.fio.read(&format!("f{n}")), vec![n * 0x11; 64 << 10], "job {n}");
        }
    }

    pub fn syncs_reach_the_device(gusli: &Gusli) {
        let text = "thread=1\nfilename=f\nsize=1m\nrw=write\nbs=4k\niodepth=8\nfsync=16\nfdatasync=24\n[a]\n";
        let run = |name: &str| {
            let trace = gusli.path(name);
            let words = ["strace", "-f", "-qq", "-o", &trace, "-e", "trace=fsync,fdatasync"];
            (gusli.job(text).through(&words).run(), std::fs::read_to_string(&trace).unwrap_or_default())
        };
        let (report, trace) = run("trace");
        report.ok();
        assert!(trace.lines().filter(|line| line.contains("sync(") && line.contains("= 0")).count() >= 16, "{trace}");
    }

    pub fn a_block_device_is_used_to_its_last_block(gusli: &Gusli) {
        let content = noise(4 << 20);
        gusli.fio.file("image", &content);
        let Some(device) = LoopDevice::over(&gusli.fio.path("image"), &[]) else { skip!("loop devices need root") };
        let report = gusli.job(&format!("thread=1\nfilename={}\nrw=read\nbs=4k\niodepth=8\ndirect=1\n[a]\n", device.name())).run();
        report.ok().says_nothing().counts("read", "io_bytes", 4 * MIB);
        let text = format!("filename={}\nrw=write\nbs=64k\ndirect=1\nrefill_buffers=1\nscramble_buffers=0\n", device.name());
        gusli.job(&format!("thread=1\n{text}[a]\n")).run().ok().counts("write", "io_bytes", 4 * MIB);
        gusli.fio.psync("filename=image\nsize=4m\nrw=write\nbs=64k\nrefill_buffers=1\nscramble_buffers=0\n[a]\n").run().ok();
        drop(device);
        tool("cmp", &[gusli.fio.path("image"), gusli.fio.yardstick().join("image")]);
    }
}
