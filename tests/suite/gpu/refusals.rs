//! What a user reads where a job cannot run: one line with what is missing and what to do, a status that is not 0, JSON that is JSON.

use super::{Gpu, on_every_simulated_library};
use crate::harness::machine::SmallDisk;
use crate::harness::{Run, skip};

on_every_simulated_library![
    a_missing_driver_is_said,
    a_missing_library_is_said,
    a_library_that_is_another_is_said,
    a_machine_without_a_gpu_is_said,
    auto_takes_host_memory_where_there_is_no_gpu_and_says_why,
    a_file_system_that_cannot_be_served_is_named,
    memory_that_cannot_be_had_is_said_with_its_size,
    what_contradicts_itself_is_refused,
];

const WRITE: &str = "size=64k\nbs=4k\nrw=write\nfilename=f\n";

fn plain(gpu: &Gpu) -> Run {
    gpu.job(&format!("{WRITE}[a]\n"))
}

fn a_missing_driver_is_said(gpu: &Gpu) {
    let report = plain(gpu).env(&gpu.words("GPUIO_CUDA_LIBRARY"), gpu.words("/none/libcuda.so.1")).run();
    gpu.refused_with(&report, &["no NVIDIA driver: /none/libcuda.so.1 (named by GPUIO_CUDA_LIBRARY) cannot be loaded", "gpu_backend=host"]);
    let report = plain(gpu).env(&gpu.words("GPUIO_CUDA_LIBRARY"), "").env("LD_LIBRARY_PATH", "/none").run();
    gpu.refused_with(&report, &["no NVIDIA driver: libcuda.so.1 and libcuda.so cannot be loaded", "install the driver"]);
}

fn a_missing_library_is_said(gpu: &Gpu) {
    let report = plain(gpu).env(&gpu.words("GPUIO_CUFILE_LIBRARY"), gpu.words("/none/libcufile.so.0")).run();
    gpu.refused_with(&report, &["no libcufile: /none/libcufile.so.0 (named by GPUIO_CUFILE_LIBRARY)", "gpu_io=posix"]);
    // The way that the line offers works.
    gpu.job(&format!("{WRITE}gpu_io=posix\nverify=crc32c\n[a]\n"))
        .env(&gpu.words("GPUIO_CUFILE_LIBRARY"), "/none/libcufile.so.0")
        .run()
        .ok();
}

fn a_library_that_is_another_is_said(gpu: &Gpu) {
    let report = plain(gpu).env(&gpu.words("GPUIO_CUFILE_LIBRARY"), "libc.so.6").run();
    gpu.refused_with(&report, &["libc.so.6 has no function cuFileDriverOpen", "older than this library supports"]);
    let report = plain(gpu).env(&gpu.words("GPUIO_CUDA_LIBRARY"), "libc.so.6").run();
    gpu.refused_with(&report, &["libc.so.6 has no function cuInit"]);
}

fn a_machine_without_a_gpu_is_said(gpu: &Gpu) {
    let report = plain(gpu).env("GPUIO_SIM_DEVICES", "0").run();
    gpu.refused_with(&report, &["no NVIDIA GPU: the driver is here, but finds no device", "nvidia-smi", "CUDA_VISIBLE_DEVICES"]);
}

fn auto_takes_host_memory_where_there_is_no_gpu_and_says_why(gpu: &Gpu) {
    let text = format!("{WRITE}gpu_backend=auto\nverify=crc32c\n[a]\n");
    // Whatever else this machine has: only this vendor's libraries are looked at.
    let (other, missing) = match gpu.vendor.is_amd() {
        true => ("GPUIO_CUDA_LIBRARY", ["no NVIDIA driver", "and no AMD GPU"]),
        false => ("GPUIO_HIP_LIBRARY", ["no NVIDIA GPU", "and no HIP runtime"]),
    };
    let report = gpu.job(&text).env(other, "/none").env("GPUIO_SIM_DEVICES", "0").run();
    report.ok().says_one_with(&["gpu_backend=auto is host: ", missing[0], missing[1]]);
    let report = gpu.job(&text).env(other, "/none").run();
    gpu.says_one_more_with(report.ok(), &["gpu_backend=auto is cufile: there is an NVIDIA GPU and a libcufile"]);
}

fn a_file_system_that_cannot_be_served_is_named(gpu: &Gpu) {
    let disk = gpu.fio.path("disk");
    let Some(_disk) = SmallDisk::at(&disk, 4 << 20) else { skip!("mounting needs root") };
    let text = WRITE.replace("=f\n", "=disk/f\n");
    let report = gpu.job(&format!("{text}[a]\n")).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_HANDLE"), "1:5008").run();
    let (code, advice) =
        if gpu.vendor.is_amd() { ("hipFileIONotSupported", "use ext4") } else { ("CU_FILE_IO_NOT_SUPPORTED", "gdscheck -p") };
    let parts = [&format!("cuFileHandleRegister of disk/f: {code} (5008)"), "its file system is tmpfs", advice];
    gpu.refused_with(&report, &parts);
}

fn memory_that_cannot_be_had_is_said_with_its_size(gpu: &Gpu) {
    for (memory, knob, parts) in [
        ("device", "GPUIO_SIM_FAIL_ALLOC", ["bytes were asked for: CUDA_ERROR_OUT_OF_MEMORY (2", "use thread=1, fewer jobs"]),
        ("managed", "GPUIO_SIM_FAIL_ALLOC", ["no memory for the I/O buffers on device 0 (Simulated GPU", "use thread=1, fewer jobs"]),
        ("pinned", "GPUIO_SIM_FAIL_REGISTER", ["no memory for the I/O buffers on device 0 (Simulated GPU", "lower iodepth or block size"]),
    ] {
        let way = if memory == "device" { "" } else { gpu.vendor.host_memory };
        let report = gpu.job(&format!("{WRITE}{way}gpu_mem={memory}\n[a]\n")).env(knob, "1").run();
        gpu.refused_with(&report, &parts);
    }
    let report = gpu.job("size=64m\nbs=32m\nrw=write\nfilename=f\n[a]\n").env("GPUIO_SIM_MEMORY", "16m").run();
    gpu.refused_with(&report, &["no memory for the I/O buffers", "CUDA_ERROR_OUT_OF_MEMORY"]);
    // A buffer that cannot be registered for another reason than its size.
    let report = plain(gpu).env(&gpu.words("GPUIO_SIM_CUFILE_FAIL_BUF"), "1:5045").run();
    let name = if gpu.vendor.is_amd() { "hipFile error 5045" } else { "INTERNAL_BUF_REGISTER_ERROR (5045); use gpu_register=0" };
    gpu.refused_with(&report, &["cuFileBufRegister", name]);
}

fn what_contradicts_itself_is_refused(gpu: &Gpu) {
    for (options, parts) in [
        ("cuda_io=cufile\ngpu_io=posix\n", ["cuda_io=cufile contradicts gpu_io=posix", "leave one of them out"]),
        ("gpu_backend=host\ncuda_io=posix\n", ["gpu_backend=host contradicts cuda_io", "leave one of them out"]),
        ("gpu_io=posix\ngpu_mode=batch\n", ["gpu_mode=batch is the vendor's own call", "gpu_mode=sync or pool"]),
        ("gpu_threads=4\ngpu_mode=sync\n", ["gpu_threads contradicts gpu_mode=sync", "use gpu_mode=pool"]),
    ] {
        let report = gpu.job(&format!("{WRITE}{options}[a]\n")).run();
        gpu.refused_with(&report, &parts);
    }
}
