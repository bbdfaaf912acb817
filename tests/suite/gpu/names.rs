//! Loaded under the name of fio's own engine: job files for fio's own engine of that name run as they are.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Gpu, MIB, on_every_library, on_every_simulated_library};
use crate::harness::{Run, library, target};

on_every_simulated_library![the_ready_job_files_run];
on_every_library![
    the_example_for_direct_io_runs_unmodified,
    the_example_for_posix_runs_unmodified,
    the_name_alone_means_its_backend,
    mixed_blocks_and_both_ways_of_io_share_one_process,
];

/// A run that finds the library under fio's own name for the engine.
fn named(gpu: &Gpu, run: Run) -> Run {
    let folder = gpu.fio.path("lib");
    std::fs::create_dir_all(&folder).expect("a folder for the link");
    let link = folder.join(gpu.words("libcufile"));
    if !link.exists() {
        symlink(library(), link).expect("a link");
    }
    gpu.under(run).env("LD_LIBRARY_PATH", format!("{}:{}", folder.display(), gpu.variable("LD_LIBRARY_PATH")))
}

/// fio's own example. fio 3.41 has none for libhipfile yet; those of fio's head are the ones for libcufile with the engine's and its option's
/// names exchanged, but for comments.
fn example(gpu: &Gpu, name: &str) -> PathBuf {
    let examples = target().join("fio/3.41-src/fio/examples");
    let own = examples.join(gpu.words(name));
    if own.exists() {
        return own;
    }
    let text = std::fs::read_to_string(examples.join(name));
    let text = text.unwrap_or_else(|error| panic!("{name}: {error}: run `cargo xtask fio-src 3.41`"));
    let made = gpu.fio.path("example.fio");
    std::fs::write(&made, gpu.words(&text)).expect("the example");
    made
}

/// fio's own example, from the folder of the test, on two devices.
fn run_example(gpu: &Gpu, name: &str, more: &[&str]) -> crate::harness::Report {
    let file = example(gpu, name).display().to_string();
    let args: Vec<&str> = more.iter().copied().chain([file.as_str()]).collect();
    let run = named(gpu, gpu.fio.args(&args)).env("GPUIO_SIM_DEVICES", "2");
    run.env("GPU_DEV_IDS", "0:1").env("FIO_DIR", gpu.fio.folder.path()).run()
}

fn the_example_for_direct_io_runs_unmodified(gpu: &Gpu) {
    let report = run_example(gpu, "libcufile-cufile.fio", &[]);
    report.ok().assert(report.jobs().len() == 96, "not 6 sections of 16 jobs");
    report.counts("read", "io_bytes", 64 * MIB).counts("write", "io_bytes", 64 * MIB);
}

fn the_example_for_posix_runs_unmodified(gpu: &Gpu) {
    // Its 96 files of 1 GiB would be laid out for minutes; holes of that size are there already, and half a second of I/O is enough.
    for section in ["read", "write", "randread", "randwrite", "verify", "randverify"] {
        for job in 0..16 {
            sparse(&gpu.fio.path(&format!("{section}.{job}.0")));
        }
    }
    for section in ["--section=read", "--section=randwrite"] {
        let report = run_example(gpu, "libcufile-posix.fio", &[section, "--runtime=500ms"]);
        report.ok().assert(report.jobs().len() == 16, "not 16 jobs");
        report.assert(report.sum("read", "io_bytes") + report.sum("write", "io_bytes") > 0, "no I/O");
    }
}

fn sparse(path: &Path) {
    std::fs::File::create(path).and_then(|file| file.set_len(1 << 30)).expect("a file of holes");
}

fn the_name_alone_means_its_backend(gpu: &Gpu) {
    let text = "[global]\nioengine=libcufile\ndirect=1\nsize=256k\nbs=4k\n[a]\nfilename=f\nrw=randwrite\nverify=crc32c\n";
    let report = named(gpu, gpu.fio.job_file(&gpu.words(text))).run();
    report.ok().assert(
        report.lines().contains(&gpu.words("gpu_backend=auto is cufile: the library was loaded as libcufile").as_str()),
        "no reason",
    );
}

fn mixed_blocks_and_both_ways_of_io_share_one_process(gpu: &Gpu) {
    let text = "[global]\nioengine=libcufile\nthread\nsize=1m\nbssplit=4k/50:64k/50\nrw=randwrite\nverify=md5\ngpu_dev_ids=0,1\nnumjobs=2\n\
                [posix]\ncuda_io=posix\ndirect=0\n[cufile]\ncuda_io=cufile\ndirect=1\n";
    let report = named(gpu, gpu.fio.job_file(&gpu.words(text))).env("GPUIO_SIM_DEVICES", "2").run();
    report.ok().counts("read", "io_bytes", 4 * MIB);
    let reasons = gpu.unusual(&report);
    let expected = gpu.words("gpu_backend=auto is cufile: cuda_io");
    report.assert(reasons == [expected.as_str(); 2], &format!("the library said {reasons:?}"));
}

/// As they lie in fio-jobs, but shorter; on memory that is not real no path is direct to cuFile.
fn the_ready_job_files_run(gpu: &Gpu) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fio-jobs");
    for use_of in ["randread", "write", "verify", "posix"] {
        let name = gpu.words(&format!("libcufile-{use_of}.fio")).replacen("lib", "", 1);
        let text = std::fs::read_to_string(folder.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = text.replace("./target/release/libgpuio.so", &library().display().to_string());
        let text = text.replace("size=256m", "size=4m").replace("size=64m", "size=4m").replace("runtime=5", "runtime=1");
        let report = gpu.under(gpu.fio.job_file(&text)).env("GPUIO_SIM_DEVICES", "2").run();
        gpu.says_no_more(report.ok());
        report.assert(report.sum("read", "io_bytes") + report.sum("write", "io_bytes") > 0, &format!("{name} moves nothing"));
    }
}
