//! I/O that fails: the errno, the unit that it belongs to, one line with the vendor's name for it; and never a verification that passes.

use super::{Gpu, MIB, on_every_simulated_library};

on_every_simulated_library![
    a_code_of_the_librarys_is_named,
    each_errno_comes_through,
    a_failure_belongs_to_its_own_unit,
    short_transfers_are_resumed,
    a_copy_that_fails_fails_the_verification,
    a_copy_that_fails_when_it_runs_fails_the_verification,
    a_copy_that_fails_fails_the_write,
    a_bounce_that_fails_fails_the_io,
    slow_io_is_interrupted_in_time,
];

const JOB: &str = "filename=f\nsize=256k\nbs=4k\n";

fn a_code_of_the_librarys_is_named(gpu: &Gpu) {
    let report =
        gpu.job(&format!("{JOB}rw=read\niodepth=4\ngpu_mode=pool\n[a]\n")).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_IO"), "1:-5030").run();
    report.fails_with(libc::EIO);
    gpu.says_one_more_with(&report, &["read of f at offset ", "CU_FILE_INTERNAL_ERROR (5030); see cufile.log"]);
}

fn each_errno_comes_through(gpu: &Gpu) {
    for errno in [libc::EIO, libc::ENOSPC, libc::EINVAL, libc::EACCES, libc::EREMOTEIO] {
        for mode in ["sync", "pool"] {
            let text = format!("{JOB}rw=write\ngpu_mode={mode}\n[a]\n");
            let report = gpu.job(&text).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_IO"), format!("3:{errno}")).run();
            // fio itself says what an errno means.
            gpu.says_no_more(report.fails_with(errno));
        }
    }
}

fn a_failure_belongs_to_its_own_unit(gpu: &Gpu) {
    for mode in ["iodepth=1\ngpu_mode=sync\n", "iodepth=8\ngpu_mode=pool\ngpu_threads=1\n"] {
        let text = format!("{JOB}rw=write\ncontinue_on_error=write\nbuffer_pattern=0x77\n{mode}[a]\n");
        std::fs::write(gpu.fio.path("f"), vec![0; 256 << 10]).expect("the file");
        let report = gpu.job(&text).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_IO"), "5!:5").run();
        let job = &report.jobs()[0];
        report.assert(job["total_err"] == 1 && job["first_error"] == libc::EIO, "not one error");
        let content = gpu.fio.read("f");
        for (index, block) in content.chunks(4096).enumerate() {
            let expected = if index == 4 { 0 } else { 0x77 };
            report.assert(block.iter().all(|&byte| byte == expected), &format!("block {index} is not as it should be"));
        }
    }
}

fn short_transfers_are_resumed(gpu: &Gpu) {
    for mode in ["iodepth=1\n", "iodepth=8\ngpu_mode=pool\n"] {
        for bytes in ["4096", "512", "1000"] {
            let text = format!("filename=f\nsize=1m\nbssplit=16k/50:64k/50\nrw=randwrite\nverify=crc32c\n{mode}[a]\n");
            let run =
                gpu.job(&text).env(&gpu.words("GPUIO_SIM_CUFILE_SHORT_EVERY"), "2").env(&gpu.words("GPUIO_SIM_CUFILE_SHORT_BYTES"), bytes);
            let report = run.run();
            gpu.says_no_more(report.ok().counts("read", "io_bytes", MIB).counts("read", "short_ios", 0));
        }
    }
    gpu.psync_verifies("filename=f\nsize=1m\nbs=16k\nverify=crc32c\n[a]\n");
}

/// The number of the call that copies the first block back for verification: one fill, 64 writes (of which each is staged, and bounced by
/// a library that bounces), then the first read, which is bounced and copied back.
fn copy_back(gpu: &Gpu) -> u32 {
    let copies = 1 + gpu.vendor.copies;
    1 + 64 * copies + copies
}

fn verified(gpu: &Gpu, knob: &str, mode: &str) {
    let report = gpu.job(&format!("{JOB}rw=write\nverify=crc32c\n{mode}[a]\n")).env(knob, format!("{}!", copy_back(gpu))).run();
    report.fails_with(libc::EIO);
    gpu.says_one_more_with(&report, &["copying a read back from the device, for fio to verify: CUDA_ERROR_", "the I/O fails (said once)"]);
}

fn a_copy_that_fails_fails_the_verification(gpu: &Gpu) {
    verified(gpu, "GPUIO_SIM_FAIL_COPY", "gpu_mode=sync\n");
}

fn a_copy_that_fails_when_it_runs_fails_the_verification(gpu: &Gpu) {
    verified(gpu, "GPUIO_SIM_FAIL_ASYNC", "gpu_mode=sync\n");
}

fn a_copy_that_fails_fails_the_write(gpu: &Gpu) {
    // The first copy fills the buffers: the job does not even start.
    let report = gpu.job(&format!("{JOB}rw=write\n[a]\n")).env("GPUIO_SIM_FAIL_COPY", "1").run();
    report.refused();
    gpu.says_one_more_with(&report, &["filling the I/O buffers on the device: CUDA_ERROR_LAUNCH_FAILED (719"]);
    let report = gpu.job(&format!("{JOB}rw=write\nverify=crc32c\n[a]\n")).env("GPUIO_SIM_FAIL_COPY", "2").run();
    report.fails_with(libc::EIO);
    gpu.says_one_more_with(&report, &["staging a write on the device: CUDA_ERROR_LAUNCH_FAILED (719", "the I/O fails (said once)"]);
}

fn a_bounce_that_fails_fails_the_io(gpu: &Gpu) {
    for mode in ["sync", "pool"] {
        let text = format!("{JOB}rw=write\ngpu_io=posix\ngpu_data=once\ngpu_mode={mode}\n[a]\n");
        let report = gpu.job(&text).env("GPUIO_SIM_FAIL_COPY", "5").run();
        report.fails_with(libc::EIO);
        gpu.says_one_more_with(&report, &["write of f at offset 12288, 4096 bytes: CUDA_ERROR_LAUNCH_FAILED (719"]);
        let report = gpu.job(&text).env("GPUIO_SIM_FAIL_REGISTER", "1").run();
        report.fails_with(libc::EIO);
        report.assert(
            gpu.unusual(&report).iter().any(|line| line.contains(&gpu.words("CUDA_ERROR_OUT_OF_MEMORY (2"))),
            "the bounce buffer is not named",
        );
    }
}

fn slow_io_is_interrupted_in_time(gpu: &Gpu) {
    for mode in ["sync", "pool"] {
        let text = format!("{JOB}rw=randwrite\ntime_based=1\nruntime=30\niodepth=8\ngpu_mode={mode}\nthread=1\n[a]\n");
        let running = gpu.job(&text).env(&gpu.words("GPUIO_SIM_CUFILE_DELAY_US"), "200000").start();
        crate::harness::machine::wait_until_open(running.id(), &gpu.fio.path("f"));
        running.signal(libc::SIGINT);
        let then = std::time::Instant::now();
        let report = running.finish();
        report.assert(then.elapsed().as_millis() < 2000, &format!("it took {:?} to end", then.elapsed()));
    }
}
