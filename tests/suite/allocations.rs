//! The I/O path allocates nothing: the library built with the feature `faults` counts what it allocates between being asked for an I/O and
//! giving it back.

use crate::harness::{Fio, Run, faulty_library, on_two_fios, target};

on_two_fios![
    a_synchronous_job_allocates_nothing,
    a_pool_allocates_nothing,
    a_ring_allocates_nothing,
    a_job_on_cufile_allocates_nothing_in_any_mode,
    a_job_on_hipfile_allocates_nothing_in_any_mode,
];

const READS: &str = "filename=f\nsize=4m\nbs=4k\nrw=randread\nnorandommap=1\nnumber_ios=4000\nio_size=1g\n";

fn job(fio: &Fio, text: &str) -> Run {
    fio.job_file(&format!("[global]\nioengine=external:{}\n{READS}{text}[a]\n", faulty_library().display()))
        .env("GPUIO_FAULT", "allocations")
}

#[track_caller]
fn allocates_nothing(run: Run) {
    let report = run.run();
    report.ok().counts("read", "total_ios", 4000);
    let lines = report.lines();
    let line = lines.iter().find(|line| line.starts_with("allocations on the I/O path: "));
    report.assert(line.is_some_and(|line| line.starts_with("allocations on the I/O path: 0, ")), &format!("the library said {lines:#?}"));
    // A thread of a pool enters on its own account; queue() alone is entered once an I/O.
    let entered = line.and_then(|line| line.split_whitespace().nth(7)?.parse::<u64>().ok());
    report.assert(entered >= Some(4000), &format!("the I/O path was not seen: {line:?}"));
}

fn a_synchronous_job_allocates_nothing(fio: &Fio) {
    allocates_nothing(job(fio, "gpu_backend=host\n"));
}

fn a_pool_allocates_nothing(fio: &Fio) {
    for wait in ["spin", "yield", "block"] {
        allocates_nothing(job(fio, &format!("gpu_backend=host\ngpu_mode=pool\niodepth=16\ngpu_wait={wait}\n")));
    }
}

fn a_ring_allocates_nothing(fio: &Fio) {
    allocates_nothing(job(fio, "gpu_backend=host\ngpu_io=uring\niodepth=16\n"));
}

fn in_any_mode(fio: &Fio, environment: &str, backend: &str, modes: &[&str]) {
    for mode in modes {
        let variables = sim_env::prepare(environment, target(), &[]).unwrap_or_else(|why| panic!("{environment}: {why}"));
        let run = job(fio, &format!("gpu_backend={backend}\ngpu_mode={mode}\niodepth=16\n"));
        allocates_nothing(variables.iter().fold(run, |run, (name, value)| run.env(name, value)));
    }
}

fn a_job_on_cufile_allocates_nothing_in_any_mode(fio: &Fio) {
    in_any_mode(fio, "cufile-sim", "cufile", &["sync", "batch", "stream", "pool"]);
}

fn a_job_on_hipfile_allocates_nothing_in_any_mode(fio: &Fio) {
    in_any_mode(fio, "hipfile-sim", "hipfile", &["sync", "stream", "pool"]);
}
