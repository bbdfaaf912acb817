//! Loaded into a process that is not fio the library does nothing; into fio itself it does no harm.

use std::process::{Command, Output};

use crate::harness::{Fio, library, on_every_fio, skip};

on_every_fio![
    preloaded_into_fio_it_works_as_ever,
    preloaded_into_fio_other_engines_work_as_ever,
    preloaded_and_linked_under_all_names_it_works
];

/// What a program prints and returns, without the library and with it.
fn with_and_without(program: &str, args: &[&str]) -> Option<(Output, Output)> {
    let plain = Command::new(program).args(args).output().ok()?;
    let preloaded = Command::new(program).args(args).env("LD_PRELOAD", library()).output().ok()?;
    Some((plain, preloaded))
}

#[track_caller]
fn unchanged(program: &str, args: &[&str]) -> bool {
    let Some((plain, preloaded)) = with_and_without(program, args) else { return false };
    assert!(plain.status.success(), "{program} does not work even without the library");
    assert_eq!(preloaded, plain);
    true
}

#[test]
fn a_program_without_anything_runs_as_without_it() {
    assert!(unchanged("/bin/true", &[]));
}

#[test]
fn a_shell_and_its_children_run_as_without_it() {
    let script = "echo one; (echo two | cat); ls / | wc -l; sh -c 'sh -c \"echo three\"'";
    assert!(unchanged("/bin/sh", &["-c", script]));
}

#[test]
fn python_and_its_children_run_as_without_it() {
    let script = "import subprocess, ctypes; print(subprocess.check_output(['echo', 'child'])); print(ctypes.CDLL(None) is not None)";
    if !unchanged("python3", &["-c", script]) {
        skip!("no python3");
    }
}

const WRITE: &str = "filename=f\nsize=256k\nrw=randwrite\nverify=crc32c\n";

fn preloaded_into_fio_it_works_as_ever(fio: &Fio) {
    let report = fio.job(&format!("{WRITE}[a]\n")).env("LD_PRELOAD", library()).run();
    report.ok().says_nothing().counts("write", "io_bytes", 256 << 10).counts("read", "io_bytes", 256 << 10);
}

fn preloaded_into_fio_other_engines_work_as_ever(fio: &Fio) {
    fio.psync(&format!("{WRITE}[a]\n")).env("LD_PRELOAD", library()).run().ok().says_nothing().counts("write", "io_bytes", 256 << 10);
    let plain = fio.args(&["--enghelp"]).plain().run().stdout;
    let preloaded = fio.args(&["--enghelp"]).plain().env("LD_PRELOAD", library()).run().stdout;
    assert_eq!(preloaded, plain, "the list of engines has changed");
}

fn preloaded_and_linked_under_all_names_it_works(fio: &Fio) {
    std::os::unix::fs::symlink(library(), fio.path("libcufile")).expect("a link");
    let text = format!("[global]\nioengine=libcufile\ngpu_backend=host\n{WRITE}[a]\nnumjobs=2\nthread=1\nfilename_format=f.$jobnum\n")
        .replace("filename=f\n", "");
    let report = fio.job_file(&text).env("LD_PRELOAD", library()).env("LD_LIBRARY_PATH", fio.folder.path()).run();
    report.ok().says_nothing().counts("write", "io_bytes", 512 << 10);
}
