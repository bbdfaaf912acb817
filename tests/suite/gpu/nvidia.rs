//! What only NVIDIA's library wants of a machine, and says where it is missing.

use std::path::Path;

use super::{Gpu, on};
use crate::harness::machine::{self, LoopDevice, SmallDisk};
use crate::harness::{Run, skip};

on!([cuda_12 = "cufile12", cuda_13 = "cufile13"]: [
    compat_mode_is_said_once_a_group_and_refused_where_direct_is_required,
    missing_data_of_udev_are_said,
]);
on!([cufile_sim = "cufile-sim"]: [
    a_driver_that_does_not_open_is_said,
    a_file_system_on_no_block_device_is_named,
    a_missing_list_of_modules_is_refused_unless_forced,
    a_bar_that_is_too_small_is_said_with_its_size,
    each_code_of_cufile_has_its_name_and_errno,
    batches_of_host_memory_are_refused,
    a_batch_that_cannot_be_made_leaves_nothing,
]);

const WRITE: &str = "size=64k\nbs=4k\nrw=write\nfilename=f\n";

fn plain(gpu: &Gpu) -> Run {
    gpu.job(&format!("{WRITE}[a]\n"))
}

fn a_batch_that_cannot_be_made_leaves_nothing(gpu: &Gpu) {
    let report = gpu.job(&format!("{WRITE}iodepth=8\ngpu_mode=batch\nthread=1\n[a]\n")).env("GPUIO_SIM_CUFILE_FAIL_SETUP", "1").run();
    gpu.refused_with(&report, &["cuFileBatchIOSetUp: CU_FILE_INTERNAL_ERROR (5030)"]);
    gpu.calls().nothing_is_left();
}

fn batches_of_host_memory_are_refused(gpu: &Gpu) {
    let report = gpu.job(&format!("{WRITE}gpu_mem=pinned\ngpu_mode=batch\n[a]\n")).run();
    gpu.refused_with(&report, &["gpu_mode=batch contradicts gpu_mem=pinned", "use gpu_mode=pool"]);
}

fn compat_mode_is_said_once_a_group_and_refused_where_direct_is_required(gpu: &Gpu) {
    if Path::new("/proc/driver/nvidia-fs/version").exists() {
        skip!("nvidia-fs is loaded here");
    }
    let text = "size=64k\nrw=write\nnumjobs=3\ngroup_reporting=1\n[a]\nfilename_format=f.$jobnum\n";
    for how in ["thread=1\n", "thread=0\n"] {
        let report = gpu.job(&format!("{how}{text}")).run();
        gpu.says_no_more(report.ok());
        report.assert(report.lines().iter().filter(|line| gpu.vendor.usual.contains(line)).count() == 1, "it was not said once");
    }
    for (more, parts) in [
        ("", ["gpu_require_direct=1: nvidia-fs is not loaded", "modprobe nvidia-fs"]),
        ("direct=0\n", ["gpu_require_direct=1: direct=0", "use direct=1"]),
        ("gpu_io=posix\n", ["gpu_require_direct=1 contradicts gpu_io=posix", "leave one of them out"]),
        ("gpu_io=uring\n", ["gpu_require_direct=1 contradicts gpu_io=uring", "leave one of them out"]),
    ] {
        gpu.refused_with(&gpu.job(&format!("{WRITE}gpu_require_direct=1\n{more}[a]\n")).run(), &parts);
    }
}

/// The real library on a file system on a loop device, of which udev has no data in a container, and here neither.
fn missing_data_of_udev_are_said(gpu: &Gpu) {
    let image = gpu.fio.path("image");
    std::fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("an image");
    machine::tool("mkfs.ext4", &[Path::new("-q"), &image]);
    let Some(device) = LoopDevice::over(&image, &[]) else { skip!("loop devices need root") };
    let udev = format!("/run/udev/data/b7:{}", device.name().trim_start_matches("/dev/loop"));
    if Path::new(&udev).exists() {
        skip!("udev knows loop devices here");
    }
    let disk = gpu.fio.path("disk");
    std::fs::create_dir(&disk).expect("a folder to mount on");
    machine::tool("mount", &[&device.path, &disk]);
    let report = gpu.job(&format!("{}[a]\n", WRITE.replace("=f\n", "=disk/f\n"))).run();
    machine::tool("umount", &[&disk]);
    let parts = ["cuFileHandleRegister of disk/f: CU_FILE_", "its file system is ext4", &udev, "make /run/udev visible here"];
    gpu.refused_with(&report, &parts);
}

fn a_driver_that_does_not_open_is_said(gpu: &Gpu) {
    for (code, parts) in [
        ("1:5001", &["cuFileDriverOpen: CU_FILE_DRIVER_NOT_INITIALIZED (5001)", "modprobe nvidia-fs"][..]),
        ("1:5004", &["CU_FILE_DRIVER_VERSION_MISMATCH (5004)", "update the older"]),
        ("1:5999", &["cuFileDriverOpen: cuFile error 5999"]),
    ] {
        gpu.refused_with(&plain(gpu).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_OPEN"), code).run(), parts);
    }
    let run = plain(gpu).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_OPEN"), "1:5011").env(&gpu.words("GPUIO_SIM_CUFILE_DRIVER_CODE"), "2");
    gpu.refused_with(&run.run(), &["CU_FILE_CUDA_DRIVER_ERROR (5011) with CUDA_ERROR_OUT_OF_MEMORY (2"]);
}

fn a_file_system_on_no_block_device_is_named(gpu: &Gpu) {
    let disk = gpu.fio.path("disk");
    let Some(_disk) = SmallDisk::at(&disk, 4 << 20) else { skip!("mounting needs root") };
    let text = WRITE.replace("=f\n", "=disk/f\n");
    for code in ["1:5027", "1:5030"] {
        let report = gpu.job(&format!("{text}[a]\n")).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_HANDLE"), code).run();
        gpu.refused_with(
            &report,
            &["cuFileHandleRegister of disk/f", "its file system is tmpfs, which lies on no block device", "gpu_io=posix"],
        );
    }
}

fn a_missing_list_of_modules_is_refused_unless_forced(gpu: &Gpu) {
    if Path::new("/proc/modules").exists() {
        skip!("this machine has /proc/modules");
    }
    let report = plain(gpu).env("LD_PRELOAD", "").run();
    gpu.refused_with(&report, &["/proc/modules cannot be read", "gpu_io=posix", "GPUIO_FORCE=1"]);
    gpu.says_no_more(plain(gpu).env("LD_PRELOAD", "").env("GPUIO_FORCE", "1").run().ok());
    gpu.job(&format!("{WRITE}gpu_io=posix\n[a]\n")).env("LD_PRELOAD", "").run().ok();
}

fn a_bar_that_is_too_small_is_said_with_its_size(gpu: &Gpu) {
    let run = |more: &str| gpu.job(&format!("{WRITE}{more}verify=crc32c\n[a]\n")).env(&gpu.words("GPUIO_SIM_CUFILE_BAR"), "65536").run();
    let parts = ["cuFileBufRegister of ", "GPU_MEMORY_PINNING_FAILED (5036)", "BAR1", "gpu_register=0", "64 KiB in all"];
    gpu.refused_with(&run("bs=1m\nsize=1m\n"), &parts);
    gpu.says_no_more(run("bs=1m\nsize=1m\ngpu_register=0\n").ok());
    gpu.says_no_more(run("").ok());
}

fn each_code_of_cufile_has_its_name_and_errno(gpu: &Gpu) {
    for (code, errno, parts) in [
        (5008, libc::ENOTSUP, ["CU_FILE_IO_NOT_SUPPORTED (5008)", "gdscheck -p"]),
        (5013, libc::EIO, ["CU_FILE_CUDA_MEMORY_TYPE_INVALID (5013)", "use gpu_mem=device"]),
        (5020, libc::EIO, ["CU_FILE_DIO_NOT_SET (5020)", "use direct=1"]),
        (5025, libc::EACCES, ["CU_FILE_PERMISSION_DENIED (5025)", "/dev/nvidia-fs"]),
        (5036, libc::ENOMEM, ["CU_FILE_GPU_MEMORY_PINNING_FAILED (5036)", "gpu_register=0"]),
        (5044, libc::EIO, ["CU_FILE_IO_ERROR (5044)", "cufile.log"]),
        (5777, libc::EIO, ["cuFile error 5777", "said once"]),
    ] {
        let report = gpu
            .job("filename=f\nsize=256k\nbs=4k\nrw=write\n[a]\n")
            .env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_IO"), format!("3:-{code}"))
            .run();
        report.fails_with(errno);
        gpu.says_one_more_with(&report, &["write of f at offset 8192, 4096 bytes: ", parts[0], parts[1]]);
    }
}
