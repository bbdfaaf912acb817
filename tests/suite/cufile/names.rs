//! Loaded under the name `libcufile`: job files for fio's own engine of that name run as they are.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Cuda, MIB, on_both_libraries, unusual};
use crate::harness::{Run, library, target};

on_both_libraries![
    the_example_for_cufile_runs_unmodified,
    the_example_for_posix_runs_unmodified,
    the_name_alone_means_cufile,
    mixed_blocks_and_both_ways_of_io_share_one_process,
];

/// A run that finds the library under fio's own name for the engine.
fn named(cuda: &Cuda, run: Run) -> Run {
    let folder = cuda.fio.path("lib");
    std::fs::create_dir_all(&folder).expect("a folder for the link");
    if !folder.join("libcufile").exists() {
        symlink(library(), folder.join("libcufile")).expect("a link");
    }
    cuda.under(run).env("LD_LIBRARY_PATH", format!("{}:{}", folder.display(), cuda.variable("LD_LIBRARY_PATH")))
}

fn example(name: &str) -> PathBuf {
    let path = target().join("fio/3.41-src/fio/examples").join(name);
    assert!(path.exists(), "{} is not there: run `cargo xtask fio-src 3.41`", path.display());
    path
}

/// fio's own example, from the folder of the test, on two devices.
fn run_example(cuda: &Cuda, name: &str, more: &[&str]) -> crate::harness::Report {
    let file = example(name).display().to_string();
    let args: Vec<&str> = more.iter().copied().chain([file.as_str()]).collect();
    let run = named(cuda, cuda.fio.args(&args)).env("GPUIO_SIM_DEVICES", "2");
    run.env("GPU_DEV_IDS", "0:1").env("FIO_DIR", cuda.fio.folder.path()).run()
}

fn the_example_for_cufile_runs_unmodified(cuda: &Cuda) {
    let report = run_example(cuda, "libcufile-cufile.fio", &[]);
    report.ok().assert(report.jobs().len() == 96, "not 6 sections of 16 jobs");
    report.counts("read", "io_bytes", 64 * MIB).counts("write", "io_bytes", 64 * MIB);
}

fn the_example_for_posix_runs_unmodified(cuda: &Cuda) {
    // Its 96 files of 1 GiB would be laid out for minutes; holes of that size are there already, and half a second of I/O is enough.
    for section in ["read", "write", "randread", "randwrite", "verify", "randverify"] {
        for job in 0..16 {
            sparse(&cuda.fio.path(&format!("{section}.{job}.0")));
        }
    }
    for section in ["--section=read", "--section=randwrite"] {
        let report = run_example(cuda, "libcufile-posix.fio", &[section, "--runtime=500ms"]);
        report.ok().assert(report.jobs().len() == 16, "not 16 jobs");
        report.assert(report.sum("read", "io_bytes") + report.sum("write", "io_bytes") > 0, "no I/O");
    }
}

fn sparse(path: &Path) {
    std::fs::File::create(path).and_then(|file| file.set_len(1 << 30)).expect("a file of holes");
}

fn the_name_alone_means_cufile(cuda: &Cuda) {
    let text = "[global]\nioengine=libcufile\ndirect=1\nsize=256k\nbs=4k\n[a]\nfilename=f\nrw=randwrite\nverify=crc32c\n";
    let report = named(cuda, cuda.fio.job_file(text)).run();
    report
        .ok()
        .assert(report.lines().iter().any(|line| line.contains("gpu_backend=auto is cufile: the library was loaded as libcufile")), "");
}

fn mixed_blocks_and_both_ways_of_io_share_one_process(cuda: &Cuda) {
    let text = "[global]\nioengine=libcufile\nthread\nsize=1m\nbssplit=4k/50:64k/50\nrw=randwrite\nverify=md5\ngpu_dev_ids=0,1\nnumjobs=2\n\
                [posix]\ncuda_io=posix\ndirect=0\n[cufile]\ncuda_io=cufile\ndirect=1\n";
    let report = named(cuda, cuda.fio.job_file(text)).env("GPUIO_SIM_DEVICES", "2").run();
    report.ok().counts("read", "io_bytes", 4 * MIB);
    let reasons = unusual(&report);
    report.assert(reasons == ["gpu_backend=auto is cufile: cuda_io"; 2], &format!("the library said {reasons:?}"));
}
