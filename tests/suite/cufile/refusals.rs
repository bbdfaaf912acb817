//! What a user reads where a job cannot run: one line with what is missing and what to do, a status that is not 0, JSON that is JSON.

use std::path::Path;

use super::{COMPAT, Cuda, on_both_libraries, on_the_simulated_library, says_no_more, says_one_more_with};
use crate::harness::machine::{self, LoopDevice, SmallDisk};
use crate::harness::{Report, Run, skip};

on_both_libraries![compat_mode_is_said_once_a_group_and_refused_where_direct_is_required, missing_data_of_udev_are_said];
on_the_simulated_library![
    a_missing_driver_is_said,
    a_missing_libcufile_is_said,
    a_library_that_is_another_is_said,
    a_machine_without_a_gpu_is_said,
    auto_takes_host_memory_where_there_is_no_gpu_and_says_why,
    a_driver_that_does_not_open_is_said,
    a_file_system_that_cannot_be_served_is_named,
    a_file_system_on_no_block_device_is_named,
    a_missing_list_of_modules_is_refused_unless_forced,
    a_bar_that_is_too_small_is_said_with_its_size,
    memory_that_cannot_be_had_is_said_with_its_size,
    what_contradicts_itself_is_refused,
];

const WRITE: &str = "size=64k\nbs=4k\nrw=write\nfilename=f\n";

fn plain(cuda: &Cuda) -> Run {
    cuda.job(&format!("{WRITE}[a]\n"))
}

/// Refused in one line, beside those that say how the job would have run.
#[track_caller]
fn refused_with(report: &Report, parts: &[&str]) {
    report.refused();
    says_one_more_with(report, parts);
    report.assert(report.jobs()[0]["error"] != 0, "the job has no error");
}

fn a_missing_driver_is_said(cuda: &Cuda) {
    let report = plain(cuda).env("GPUIO_CUDA_LIBRARY", "/none/libcuda.so.1").run();
    refused_with(&report, &["no NVIDIA driver: /none/libcuda.so.1 (named by GPUIO_CUDA_LIBRARY) cannot be loaded", "gpu_backend=host"]);
    let report = plain(cuda).env("GPUIO_CUDA_LIBRARY", "").env("LD_LIBRARY_PATH", "/none").run();
    refused_with(&report, &["no NVIDIA driver: libcuda.so.1 and libcuda.so cannot be loaded", "install the driver"]);
}

fn a_missing_libcufile_is_said(cuda: &Cuda) {
    let report = plain(cuda).env("GPUIO_CUFILE_LIBRARY", "/none/libcufile.so.0").run();
    refused_with(&report, &["no libcufile: /none/libcufile.so.0 (named by GPUIO_CUFILE_LIBRARY)", "gpu_io=posix"]);
    // The way that the line offers works.
    cuda.job(&format!("{WRITE}gpu_io=posix\nverify=crc32c\n[a]\n")).env("GPUIO_CUFILE_LIBRARY", "/none/libcufile.so.0").run().ok();
}

fn a_library_that_is_another_is_said(cuda: &Cuda) {
    let report = plain(cuda).env("GPUIO_CUFILE_LIBRARY", "libc.so.6").run();
    refused_with(&report, &["libc.so.6 has no function cuFileDriverOpen", "older than this library supports"]);
    let report = plain(cuda).env("GPUIO_CUDA_LIBRARY", "libc.so.6").run();
    refused_with(&report, &["libc.so.6 has no function cuInit"]);
}

fn a_machine_without_a_gpu_is_said(cuda: &Cuda) {
    let report = plain(cuda).env("GPUIO_SIM_DEVICES", "0").run();
    refused_with(&report, &["no NVIDIA GPU: the driver is here, but finds no device", "nvidia-smi", "CUDA_VISIBLE_DEVICES"]);
}

fn auto_takes_host_memory_where_there_is_no_gpu_and_says_why(cuda: &Cuda) {
    let text = format!("{WRITE}gpu_backend=auto\nverify=crc32c\n[a]\n");
    cuda.job(&text).env("GPUIO_SIM_DEVICES", "0").run().ok().says_one_with(&["gpu_backend=auto is host: no NVIDIA GPU"]);
    let report = cuda.job(&text).run();
    says_one_more_with(report.ok(), &["gpu_backend=auto is cufile: there is an NVIDIA GPU and a libcufile"]);
}

fn a_driver_that_does_not_open_is_said(cuda: &Cuda) {
    for (code, parts) in [
        ("1:5001", &["cuFileDriverOpen: CU_FILE_DRIVER_NOT_INITIALIZED (5001)", "modprobe nvidia-fs"][..]),
        ("1:5004", &["CU_FILE_DRIVER_VERSION_MISMATCH (5004)", "update the older"]),
        ("1:5999", &["cuFileDriverOpen: cuFile error 5999"]),
    ] {
        refused_with(&plain(cuda).env("GPUIO_SIM_CUFILE_FAIL_OPEN", code).run(), parts);
    }
    let run = plain(cuda).env("GPUIO_SIM_CUFILE_FAIL_OPEN", "1:5011").env("GPUIO_SIM_CUFILE_DRIVER_CODE", "2");
    refused_with(&run.run(), &["CU_FILE_CUDA_DRIVER_ERROR (5011) with CUDA_ERROR_OUT_OF_MEMORY (2"]);
}

fn compat_mode_is_said_once_a_group_and_refused_where_direct_is_required(cuda: &Cuda) {
    if Path::new("/proc/driver/nvidia-fs/version").exists() {
        skip!("nvidia-fs is loaded here");
    }
    let text = "size=64k\nrw=write\nnumjobs=3\ngroup_reporting=1\n[a]\nfilename_format=f.$jobnum\n";
    for how in ["thread=1\n", "thread=0\n"] {
        let report = cuda.job(&format!("{how}{text}")).run();
        says_no_more(report.ok());
        report.assert(report.lines().iter().filter(|line| **line == COMPAT).count() == 1, "it was not said once");
    }
    for (more, parts) in [
        ("", ["gpu_require_direct=1: nvidia-fs is not loaded", "modprobe nvidia-fs"]),
        ("direct=0\n", ["gpu_require_direct=1: direct=0", "use direct=1"]),
        ("gpu_io=posix\n", ["gpu_require_direct=1 contradicts gpu_io=posix", "leave one of them out"]),
        ("gpu_io=uring\n", ["gpu_require_direct=1 contradicts gpu_io=uring", "leave one of them out"]),
    ] {
        refused_with(&cuda.job(&format!("{WRITE}gpu_require_direct=1\n{more}[a]\n")).run(), &parts);
    }
}

fn a_file_system_that_cannot_be_served_is_named(cuda: &Cuda) {
    let disk = cuda.fio.path("disk");
    let Some(_disk) = SmallDisk::at(&disk, 4 << 20) else { skip!("mounting needs root") };
    let text = WRITE.replace("=f\n", "=disk/f\n");
    let report = cuda.job(&format!("{text}[a]\n")).env("GPUIO_SIM_CUFILE_FAIL_HANDLE", "1:5008").run();
    refused_with(&report, &["cuFileHandleRegister of disk/f: CU_FILE_IO_NOT_SUPPORTED (5008)", "its file system is tmpfs", "gdscheck -p"]);
}

fn a_file_system_on_no_block_device_is_named(cuda: &Cuda) {
    let disk = cuda.fio.path("disk");
    let Some(_disk) = SmallDisk::at(&disk, 4 << 20) else { skip!("mounting needs root") };
    let text = WRITE.replace("=f\n", "=disk/f\n");
    for code in ["1:5027", "1:5030"] {
        let report = cuda.job(&format!("{text}[a]\n")).env("GPUIO_SIM_CUFILE_FAIL_HANDLE", code).run();
        refused_with(
            &report,
            &["cuFileHandleRegister of disk/f", "its file system is tmpfs, which lies on no block device", "gpu_io=posix"],
        );
    }
}

/// The real library on a file system on a loop device, of which udev has no data in a container, and here neither.
fn missing_data_of_udev_are_said(cuda: &Cuda) {
    let image = cuda.fio.path("image");
    std::fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("an image");
    machine::tool("mkfs.ext4", &[Path::new("-q"), &image]);
    let Some(device) = LoopDevice::over(&image, &[]) else { skip!("loop devices need root") };
    let udev = format!("/run/udev/data/b7:{}", device.name().trim_start_matches("/dev/loop"));
    if Path::new(&udev).exists() {
        skip!("udev knows loop devices here");
    }
    let disk = cuda.fio.path("disk");
    std::fs::create_dir(&disk).expect("a folder to mount on");
    machine::tool("mount", &[&device.path, &disk]);
    let report = cuda.job(&format!("{}[a]\n", WRITE.replace("=f\n", "=disk/f\n"))).run();
    machine::tool("umount", &[&disk]);
    let parts = ["cuFileHandleRegister of disk/f: CU_FILE_", "its file system is ext4", &udev, "make /run/udev visible here"];
    refused_with(&report, &parts);
}

fn a_missing_list_of_modules_is_refused_unless_forced(cuda: &Cuda) {
    if Path::new("/proc/modules").exists() {
        skip!("this machine has /proc/modules");
    }
    let report = plain(cuda).env("LD_PRELOAD", "").run();
    refused_with(&report, &["/proc/modules cannot be read", "gpu_io=posix", "GPUIO_FORCE=1"]);
    says_no_more(plain(cuda).env("LD_PRELOAD", "").env("GPUIO_FORCE", "1").run().ok());
    cuda.job(&format!("{WRITE}gpu_io=posix\n[a]\n")).env("LD_PRELOAD", "").run().ok();
}

fn a_bar_that_is_too_small_is_said_with_its_size(cuda: &Cuda) {
    let run = |more: &str| cuda.job(&format!("{WRITE}{more}verify=crc32c\n[a]\n")).env("GPUIO_SIM_CUFILE_BAR", "65536").run();
    let parts = ["cuFileBufRegister of ", "GPU_MEMORY_PINNING_FAILED (5036)", "BAR1", "gpu_register=0", "64 KiB in all"];
    refused_with(&run("bs=1m\nsize=1m\n"), &parts);
    says_no_more(run("bs=1m\nsize=1m\ngpu_register=0\n").ok());
    says_no_more(run("").ok());
}

fn memory_that_cannot_be_had_is_said_with_its_size(cuda: &Cuda) {
    for (memory, knob, parts) in [
        ("device", "GPUIO_SIM_FAIL_ALLOC", ["bytes were asked for: CUDA_ERROR_OUT_OF_MEMORY (2", "use thread=1, fewer jobs"]),
        ("managed", "GPUIO_SIM_FAIL_ALLOC", ["no memory for the I/O buffers on device 0 (Simulated GPU", "use thread=1, fewer jobs"]),
        ("pinned", "GPUIO_SIM_FAIL_REGISTER", ["no memory for the I/O buffers on device 0 (Simulated GPU", "lower iodepth or block size"]),
    ] {
        let report = cuda.job(&format!("{WRITE}gpu_mem={memory}\n[a]\n")).env(knob, "1").run();
        refused_with(&report, &parts);
    }
    let report = cuda.job("size=64m\nbs=32m\nrw=write\nfilename=f\n[a]\n").env("GPUIO_SIM_MEMORY", "16m").run();
    refused_with(&report, &["no memory for the I/O buffers", "CUDA_ERROR_OUT_OF_MEMORY"]);
    // A buffer that cannot be registered for another reason than its size.
    let report = plain(cuda).env("GPUIO_SIM_CUFILE_FAIL_BUF", "1:5045").run();
    refused_with(&report, &["cuFileBufRegister", "INTERNAL_BUF_REGISTER_ERROR (5045)", "use gpu_register=0"]);
}

fn what_contradicts_itself_is_refused(cuda: &Cuda) {
    for (options, parts) in [
        ("cuda_io=cufile\ngpu_io=posix\n", ["cuda_io=cufile contradicts gpu_io=posix", "leave one of them out"]),
        ("cuda_io=posix\nrocm_io=posix\n", ["cuda_io and rocm_io contradict each other", "give one of them"]),
        ("gpu_backend=host\ncuda_io=posix\n", ["gpu_backend=host contradicts cuda_io", "leave one of them out"]),
        ("gpu_io=posix\ngpu_mode=batch\n", ["gpu_mode=batch is the vendor's own call", "gpu_mode=sync or pool"]),
        ("gpu_mem=pinned\ngpu_mode=batch\n", ["gpu_mode=batch contradicts gpu_mem=pinned", "use gpu_mode=pool"]),
        ("gpu_threads=4\ngpu_mode=sync\n", ["gpu_threads contradicts gpu_mode=sync", "use gpu_mode=pool"]),
    ] {
        let report = cuda.job(&format!("{WRITE}{options}[a]\n")).run();
        refused_with(&report, &parts);
    }
}
