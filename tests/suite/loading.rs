//! How fio finds the library, under which names, and what kind of library it is.

use std::os::unix::fs::symlink;

use crate::harness::machine::tool;
use crate::harness::{Fio, library, on_every_fio};

on_every_fio![
    an_absolute_path_loads,
    a_relative_path_loads,
    a_plain_absolute_path_loads,
    a_bare_name_loads_from_the_library_path,
    a_job_file_for_libcufile_loads_it_by_a_link_of_that_name,
    a_job_file_for_libhipfile_loads_it_by_a_link_of_that_name,
    two_names_in_one_run_are_two_engines,
    a_library_that_is_not_there_is_fios_to_refuse,
];

const WRITE: &str = "filename=f\nsize=64k\nrw=write\nbuffer_pattern=0x61\n";

fn loads(fio: &Fio, engine: &str) {
    let text = format!("[global]\nioengine={engine}\ngpu_backend=host\n{WRITE}[a]\n");
    let report = fio.job_file(&text).env("LD_LIBRARY_PATH", fio.folder.path()).run();
    report.ok().says_nothing().counts("write", "io_bytes", 64 << 10);
    assert_eq!(fio.read("f"), vec![0x61; 64 << 10]);
}

fn link(fio: &Fio, name: &str) {
    symlink(library(), fio.path(name)).expect("a link to the library");
}

fn an_absolute_path_loads(fio: &Fio) {
    loads(fio, &format!("external:{}", library().display()));
}

fn a_relative_path_loads(fio: &Fio) {
    link(fio, "libgpuio.so");
    loads(fio, "external:./libgpuio.so");
}

fn a_plain_absolute_path_loads(fio: &Fio) {
    loads(fio, &library().display().to_string());
}

fn a_bare_name_loads_from_the_library_path(fio: &Fio) {
    link(fio, "libgpuio.so");
    loads(fio, "external:libgpuio.so");
}

/// What fio's own engine of that name understands, in a job file that has never heard of this library.
fn by_name(fio: &Fio, name: &str, job: &str) {
    link(fio, name);
    let text = format!("[global]\nioengine={name}\ndirect=1\n{job}{WRITE}[a]\n");
    let run = |plain: bool| {
        let run = fio.job_file(&text).env("LD_LIBRARY_PATH", fio.folder.path());
        if plain { run.plain().run() } else { run.run() }
    };
    let report = run(true);
    report.assert(report.stdout.contains(&format!("ioengine={name},")), "fio's report does not name the engine");
    // No device here: the one line says what is missing, and what works without.
    let report = run(false);
    report.refused().says_one_with(&["gpu_backend=host"]);
    report.assert(report.jobs()[0]["error"] != 0, "the job has no error");
    // The same file with one option more runs on any machine.
    let text = text.replace("direct=1\n", "gpu_backend=host\n").replace(job, "");
    fio.job_file(&text).env("LD_LIBRARY_PATH", fio.folder.path()).run().ok().says_nothing();
    assert_eq!(fio.read("f"), vec![0x61; 64 << 10]);
}

fn a_job_file_for_libcufile_loads_it_by_a_link_of_that_name(fio: &Fio) {
    by_name(fio, "libcufile", "gpu_dev_ids=0\ncuda_io=cufile\n");
}

fn a_job_file_for_libhipfile_loads_it_by_a_link_of_that_name(fio: &Fio) {
    by_name(fio, "libhipfile", "gpu_dev_ids=0\nrocm_io=hipfile\n");
}

fn two_names_in_one_run_are_two_engines(fio: &Fio) {
    link(fio, "libcufile");
    let text = format!(
        "[global]\nsize=64k\nrw=write\nbuffer_pattern=0x62\n[one]\nioengine=libcufile\ngpu_backend=host\nfilename=f\n\
         [two]\nstonewall\nioengine=external:{}\ngpu_backend=host\nfilename=g\n[three]\nstonewall\nioengine=psync\nfilename=h\n",
        library().display()
    );
    fio.job_file(&text).env("LD_LIBRARY_PATH", fio.folder.path()).run().ok().says_nothing();
    ["f", "g", "h"].iter().for_each(|name| assert_eq!(fio.read(name), vec![0x62; 64 << 10], "{name}"));
}

fn a_library_that_is_not_there_is_fios_to_refuse(fio: &Fio) {
    let report = fio.job_file(&format!("[a]\nioengine=external:/none/libgpuio.so\n{WRITE}")).run();
    report.refused().says_nothing();
}

#[test]
fn only_the_names_that_fio_looks_up_are_exported() {
    let library = library().display().to_string();
    let table = tool("readelf", &["--dyn-syms", "--wide", &library]);
    let mut exported: Vec<&str> = table.lines().filter_map(defined).collect();
    exported.sort_unstable();
    assert_eq!(exported, ["get_ioengine", "libcufile", "libhipfile"]);
}

/// The name of a symbol that the library defines for others: `Num: Value Size Type Bind Vis Ndx Name`.
fn defined(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, _, bind, _, section, name, ..] = words[..] else { return None };
    (["GLOBAL", "WEAK"].contains(&bind) && section.parse::<u32>().is_ok()).then(|| name.split('@').next())?
}

#[test]
fn everything_is_bound_at_load_and_nothing_is_unloaded() {
    let library = library().display().to_string();
    let table = tool("readelf", &["--dynamic", "--wide", &library]);
    let flags = |tag: &str| table.lines().find(|line| line.contains(tag)).unwrap_or_else(|| panic!("no {tag} in\n{table}"));
    assert!(flags("(FLAGS)").contains("BIND_NOW"), "{table}");
    assert!(flags("(FLAGS_1)").contains("NODELETE") && flags("(FLAGS_1)").contains("NOW"), "{table}");
}

#[test]
fn no_vendors_library_is_needed_to_load() {
    let library = library().display().to_string();
    let table = tool("readelf", &["--dynamic", "--wide", &library]);
    let needed: Vec<&str> =
        table.lines().filter(|line| line.contains("(NEEDED)")).filter_map(|line| line.split(['[', ']']).nth(1)).collect();
    let allowed = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"];
    assert!(needed.iter().all(|name| allowed.contains(name)), "{needed:?}");
}
