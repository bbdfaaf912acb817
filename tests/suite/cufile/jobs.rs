//! Several jobs at a time, and jobs that are told to stop.

use std::time::{Duration, Instant};

use super::{Cuda, MIB, on_both_libraries, says_no_more};
use crate::harness::machine::wait_until_open;

on_both_libraries![
    four_threads_write_and_verify,
    four_forked_jobs_write_and_verify,
    jobs_that_share_a_file_leave_it_whole,
    sigint_ends_jobs_in_time,
];

fn four_jobs(cuda: &Cuda, how: &str) {
    for depth in ["iodepth=1", "iodepth=8"] {
        let text = format!("size=256k\nbssplit=4k/50:16k/50\nrw=randwrite\nverify=crc32c\nnumjobs=4\n{how}\n{depth}\n");
        let report = cuda.job(&format!("{text}[a]\nfilename_format=f.$jobnum\n")).run();
        says_no_more(report.ok().counts("write", "io_bytes", MIB).counts("read", "io_bytes", MIB));
        for job in 0..4 {
            cuda.psync_verifies(&format!("size=256k\nbs=4k\nverify=crc32c\n[a]\nfilename=f.{job}\n"));
        }
    }
}

fn four_threads_write_and_verify(cuda: &Cuda) {
    four_jobs(cuda, "thread=1");
}

fn four_forked_jobs_write_and_verify(cuda: &Cuda) {
    four_jobs(cuda, "thread=0");
}

fn jobs_that_share_a_file_leave_it_whole(cuda: &Cuda) {
    let text = "filename=f\nsize=256k\noffset_increment=256k\nbs=8k\nrw=randwrite\nnumjobs=4\niodepth=4\nthread=1\n[a]\n";
    cuda.same_bytes_as_psync(text, &["f"]);
}

fn sigint_ends_jobs_in_time(cuda: &Cuda) {
    for how in ["thread=1\niodepth=1", "thread=0\niodepth=1", "thread=1\niodepth=32", "thread=0\niodepth=32"] {
        let text = format!("filename=f\nsize=1m\nrw=randwrite\nbs=4k\ntime_based=1\nruntime=30\nnumjobs=2\n{how}\n[a]\n");
        let running = cuda.job(&text).start();
        wait_until_open(running.id(), &cuda.fio.path("f"));
        running.signal(libc::SIGINT);
        let then = Instant::now();
        let report = running.finish();
        let took = then.elapsed();
        report.assert(took < Duration::from_secs(2) && report.signal().is_none(), &format!("it took {took:?} to end with {how}"));
    }
}
