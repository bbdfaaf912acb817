//! Several jobs at a time, and jobs that are told to stop.

use std::time::{Duration, Instant};

use super::{Gpu, MIB, on_every_library};
use crate::harness::machine::wait_until_open;

on_every_library![
    four_threads_write_and_verify,
    four_forked_jobs_write_and_verify,
    jobs_that_share_a_file_leave_it_whole,
    sigint_ends_jobs_in_time,
];

fn four_jobs(gpu: &Gpu, how: &str) {
    for depth in ["iodepth=1", "iodepth=8"] {
        let text = format!("size=256k\nbssplit=4k/50:16k/50\nrw=randwrite\nverify=crc32c\nnumjobs=4\n{how}\n{depth}\n");
        let report = gpu.job(&format!("{text}[a]\nfilename_format=f.$jobnum\n")).run();
        gpu.says_no_more(report.ok().counts("write", "io_bytes", MIB).counts("read", "io_bytes", MIB));
        for job in 0..4 {
            gpu.psync_verifies(&format!("size=256k\nbs=4k\nverify=crc32c\n[a]\nfilename=f.{job}\n"));
        }
    }
}

fn four_threads_write_and_verify(gpu: &Gpu) {
    four_jobs(gpu, "thread=1");
}

fn four_forked_jobs_write_and_verify(gpu: &Gpu) {
    four_jobs(gpu, "thread=0");
}

fn jobs_that_share_a_file_leave_it_whole(gpu: &Gpu) {
    let text = "filename=f\nsize=256k\noffset_increment=256k\nbs=8k\nrw=randwrite\nnumjobs=4\niodepth=4\nthread=1\n[a]\n";
    gpu.same_bytes_as_psync(text, &["f"]);
}

fn sigint_ends_jobs_in_time(gpu: &Gpu) {
    for how in ["thread=1\niodepth=1", "thread=0\niodepth=1", "thread=1\niodepth=32", "thread=0\niodepth=32"] {
        let text = format!("filename=f\nsize=1m\nrw=randwrite\nbs=4k\ntime_based=1\nruntime=30\nnumjobs=2\n{how}\n[a]\n");
        let running = gpu.job(&text).start();
        wait_until_open(running.id(), &gpu.fio.path("f"));
        running.signal(libc::SIGINT);
        let then = Instant::now();
        let report = running.finish();
        let took = then.elapsed();
        report.assert(took < Duration::from_secs(2) && report.signal().is_none(), &format!("it took {took:?} to end with {how}"));
    }
}
