//! I/O that fails: the errno, the unit that it belongs to, one line with the vendor's name for it; and never a verification that passes.

use super::{Cuda, MIB, on_the_simulated_library, says_no_more, says_one_more_with, unusual};

on_the_simulated_library![
    each_code_of_cufile_has_its_name_and_errno,
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

fn each_code_of_cufile_has_its_name_and_errno(cuda: &Cuda) {
    for (code, errno, parts) in [
        (5008, libc::ENOTSUP, ["CU_FILE_IO_NOT_SUPPORTED (5008)", "gdscheck -p"]),
        (5013, libc::EIO, ["CU_FILE_CUDA_MEMORY_TYPE_INVALID (5013)", "use gpu_mem=device"]),
        (5020, libc::EIO, ["CU_FILE_DIO_NOT_SET (5020)", "use direct=1"]),
        (5025, libc::EACCES, ["CU_FILE_PERMISSION_DENIED (5025)", "/dev/nvidia-fs"]),
        (5036, libc::ENOMEM, ["CU_FILE_GPU_MEMORY_PINNING_FAILED (5036)", "gpu_register=0"]),
        (5044, libc::EIO, ["CU_FILE_IO_ERROR (5044)", "cufile.log"]),
        (5777, libc::EIO, ["cuFile error 5777", "said once"]),
    ] {
        let report = cuda.job(&format!("{JOB}rw=write\n[a]\n")).env("GPUIO_SIM_CUFILE_FAIL_IO", format!("3:-{code}")).run();
        report.fails_with(errno);
        says_one_more_with(&report, &["write of f at offset 8192, 4096 bytes: ", parts[0], parts[1]]);
    }
    let report = cuda.job(&format!("{JOB}rw=read\niodepth=4\ngpu_mode=pool\n[a]\n")).env("GPUIO_SIM_CUFILE_FAIL_IO", "1:-5030").run();
    report.fails_with(libc::EIO);
    says_one_more_with(&report, &["read of f at offset ", "CU_FILE_INTERNAL_ERROR (5030); see cufile.log"]);
}

fn each_errno_comes_through(cuda: &Cuda) {
    for errno in [libc::EIO, libc::ENOSPC, libc::EINVAL, libc::EACCES, libc::EREMOTEIO] {
        for mode in ["sync", "pool"] {
            let text = format!("{JOB}rw=write\ngpu_mode={mode}\n[a]\n");
            let report = cuda.job(&text).env("GPUIO_SIM_CUFILE_FAIL_IO", format!("3:{errno}")).run();
            // fio itself says what an errno means.
            says_no_more(report.fails_with(errno));
        }
    }
}

fn a_failure_belongs_to_its_own_unit(cuda: &Cuda) {
    for mode in ["iodepth=1\ngpu_mode=sync\n", "iodepth=8\ngpu_mode=pool\ngpu_threads=1\n"] {
        let text = format!("{JOB}rw=write\ncontinue_on_error=write\nbuffer_pattern=0x77\n{mode}[a]\n");
        std::fs::write(cuda.fio.path("f"), vec![0; 256 << 10]).expect("the file");
        let report = cuda.job(&text).env("GPUIO_SIM_CUFILE_FAIL_IO", "5!:5").run();
        let job = &report.jobs()[0];
        report.assert(job["total_err"] == 1 && job["first_error"] == libc::EIO, "not one error");
        let content = cuda.fio.read("f");
        for (index, block) in content.chunks(4096).enumerate() {
            let expected = if index == 4 { 0 } else { 0x77 };
            report.assert(block.iter().all(|&byte| byte == expected), &format!("block {index} is not as it should be"));
        }
    }
}

fn short_transfers_are_resumed(cuda: &Cuda) {
    for mode in ["iodepth=1\n", "iodepth=8\ngpu_mode=pool\n"] {
        for bytes in ["4096", "512", "1000"] {
            let text = format!("filename=f\nsize=1m\nbssplit=16k/50:64k/50\nrw=randwrite\nverify=crc32c\n{mode}[a]\n");
            let run = cuda.job(&text).env("GPUIO_SIM_CUFILE_SHORT_EVERY", "2").env("GPUIO_SIM_CUFILE_SHORT_BYTES", bytes);
            let report = run.run();
            says_no_more(report.ok().counts("read", "io_bytes", MIB).counts("read", "short_ios", 0));
        }
    }
    cuda.psync_verifies("filename=f\nsize=1m\nbs=16k\nverify=crc32c\n[a]\n");
}

/// The number of the call that copies the first block back for verification: one fill, 64 writes (of which each is staged and bounced), then
/// the first read, which is bounced and copied back.
const COPY_BACK: u32 = 1 + 64 * 2 + 2;

fn verified(cuda: &Cuda, knob: &str, mode: &str) {
    let report = cuda.job(&format!("{JOB}rw=write\nverify=crc32c\n{mode}[a]\n")).env(knob, format!("{COPY_BACK}!")).run();
    report.fails_with(libc::EIO);
    says_one_more_with(&report, &["copying a read back from the device, for fio to verify: CUDA_ERROR_", "the I/O fails (said once)"]);
}

fn a_copy_that_fails_fails_the_verification(cuda: &Cuda) {
    verified(cuda, "GPUIO_SIM_FAIL_COPY", "gpu_mode=sync\n");
}

fn a_copy_that_fails_when_it_runs_fails_the_verification(cuda: &Cuda) {
    verified(cuda, "GPUIO_SIM_FAIL_ASYNC", "gpu_mode=sync\n");
}

fn a_copy_that_fails_fails_the_write(cuda: &Cuda) {
    // The first copy fills the buffers: the job does not even start.
    let report = cuda.job(&format!("{JOB}rw=write\n[a]\n")).env("GPUIO_SIM_FAIL_COPY", "1").run();
    report.refused();
    says_one_more_with(&report, &["filling the I/O buffers on the device: CUDA_ERROR_LAUNCH_FAILED (719"]);
    let report = cuda.job(&format!("{JOB}rw=write\nverify=crc32c\n[a]\n")).env("GPUIO_SIM_FAIL_COPY", "2").run();
    report.fails_with(libc::EIO);
    says_one_more_with(&report, &["staging a write on the device: CUDA_ERROR_LAUNCH_FAILED (719", "the I/O fails (said once)"]);
}

fn a_bounce_that_fails_fails_the_io(cuda: &Cuda) {
    for mode in ["sync", "pool"] {
        let text = format!("{JOB}rw=write\ngpu_io=posix\ngpu_data=once\ngpu_mode={mode}\n[a]\n");
        let report = cuda.job(&text).env("GPUIO_SIM_FAIL_COPY", "5").run();
        report.fails_with(libc::EIO);
        says_one_more_with(&report, &["write of f at offset 12288, 4096 bytes: CUDA_ERROR_LAUNCH_FAILED (719"]);
        let report = cuda.job(&text).env("GPUIO_SIM_FAIL_REGISTER", "1").run();
        report.fails_with(libc::EIO);
        report.assert(unusual(&report).iter().any(|line| line.contains("CUDA_ERROR_OUT_OF_MEMORY (2")), "the bounce buffer is not named");
    }
}

fn slow_io_is_interrupted_in_time(cuda: &Cuda) {
    for mode in ["sync", "pool"] {
        let text = format!("{JOB}rw=randwrite\ntime_based=1\nruntime=30\niodepth=8\ngpu_mode={mode}\nthread=1\n[a]\n");
        let running = cuda.job(&text).env("GPUIO_SIM_CUFILE_DELAY_US", "200000").start();
        crate::harness::machine::wait_until_open(running.id(), &cuda.fio.path("f"));
        running.signal(libc::SIGINT);
        let then = std::time::Instant::now();
        let report = running.finish();
        report.assert(then.elapsed().as_millis() < 2000, &format!("it took {:?} to end", then.elapsed()));
    }
}
