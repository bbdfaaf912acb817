//! AMD's real HIP runtime, as Debian has it (5.2), on a machine with no AMD GPU.

use std::path::{Path, PathBuf};

use crate::harness::{Fio, library, skip, target};

fn libraries() -> PathBuf {
    let folder = target().join("hip/5.2/root/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    assert!(folder.exists(), "{} is not there: run `cargo xtask hip`", folder.display());
    folder
}

/// On the fio of the same release: the others bring libraries of their own that the runtime was not made for.
#[test]
fn a_real_runtime_with_no_device_is_said() {
    let fio = Fio::get("3.33");
    if Path::new("/dev/kfd").exists() {
        skip!("there is an AMD GPU here");
    }
    let libraries = libraries();
    let run = |text: &str| {
        let text = format!("[global]\nioengine=external:{}\nsize=64k\nrw=write\nfilename=f\ndirect=1\n{text}[a]\n", library().display());
        fio.job_file(&text).env("LD_LIBRARY_PATH", &libraries).env("GPUIO_HIP_LIBRARY", libraries.join("libamdhip64.so.5"))
    };
    let line = "no AMD GPU: the HIP runtime is here, but finds no device; check rocminfo, HIP_VISIBLE_DEVICES, and that you may use /dev/kfd \
                (groups render and video)";
    for how in ["thread=0\n", "thread=1\n", "gpu_io=posix\n", "gpu_io=uring\n", "rocm_io=hipfile\n"] {
        let report = run(&format!("gpu_backend=hipfile\n{how}")).run();
        report.refused().says(line);
    }
    let report = run("").env("GPUIO_CUDA_LIBRARY", "/none").run();
    report.ok().says("gpu_backend=auto is host: no NVIDIA driver, and no AMD GPU");
}
