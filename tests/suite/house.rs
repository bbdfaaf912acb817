//! What a user meets first: the ready job files, and what `make install` puts where.

use std::path::{Path, PathBuf};

use crate::harness::machine::tool;
use crate::harness::{Fio, Folder, library, on_every_fio};

on_every_fio![the_job_files_for_host_memory_run, an_installed_job_file_runs_with_the_installed_library];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn host_job_files() -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join("fio-jobs")).expect("the job files").flatten().map(|file| file.path());
    let for_host = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "quickstart.fio" || name.starts_with("host-")
    };
    files.filter(for_host).collect()
}

fn the_job_files_for_host_memory_run(fio: &Fio) {
    let files = host_job_files();
    assert!(files.len() > 1, "no job files");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a job file");
        assert!(text.contains("external:./target/release/libgpuio.so"), "{} names another library", file.display());
        let text = text.replace("./target/release/libgpuio.so", &library().display().to_string());
        let text = text.replace("size=256m", "size=4m").replace("size=64m", "size=4m").replace("runtime=5", "runtime=1");
        let report = fio.job_file(&text).run();
        report.ok().says_nothing().assert(report.sum("read", "io_bytes") > 0, &format!("{} reads nothing", file.display()));
    }
    assert!(!fio.path("gpuio-quickstart.tmp").exists(), "quickstart leaves its file behind");
}

fn make(target: &str, destination: &Path) {
    let words = ["--silent", "--directory", &root().display().to_string(), target, "PREFIX=/opt/gpuio"].map(str::to_owned);
    tool("make", &[&words[..], &[format!("DESTDIR={}", destination.display())]].concat());
}

fn an_installed_job_file_runs_with_the_installed_library(fio: &Fio) {
    make("install", fio.folder.path());
    let text = std::fs::read_to_string(fio.path("opt/gpuio/share/libgpuio/quickstart.fio")).expect("an installed job file");
    assert!(text.contains("external:/opt/gpuio/lib/libgpuio.so"), "the installed job file names another library");
    let text = text.replace("/opt/gpuio", &fio.path("opt/gpuio").display().to_string()).replace("size=64m", "size=2m");
    fio.job_file(&text).run().ok().says_nothing();
}

#[test]
fn install_and_aliases_make_three_names_and_uninstall_removes_all() {
    let folder = Folder::new();
    make("install-aliases", folder.path());
    let lib = folder.path().join("opt/gpuio/lib");
    for alias in ["libcufile", "libhipfile"] {
        assert_eq!(std::fs::read_link(lib.join(alias)).expect("a link"), Path::new("libgpuio.so"));
    }
    tool("cmp", &[&lib.join("libgpuio.so"), &library()]);
    make("uninstall", folder.path());
    assert_eq!(std::fs::read_dir(&lib).expect("the folder").count(), 0, "something is left in lib");
    assert!(!folder.path().join("opt/gpuio/share/libgpuio").exists(), "something is left in share");
}
