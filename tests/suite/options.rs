//! The engine's options: what is wrong is answered in one line before any I/O, where it was given does not matter.

use crate::harness::{Fio, Report, on_every_fio};

on_every_fio![
    an_unknown_word_is_answered_with_the_words_allowed,
    a_number_out_of_range_is_answered_with_the_range,
    devices_that_are_no_numbers_are_refused,
    an_unknown_option_is_fios_to_refuse,
    options_that_contradict_each_other_are_refused,
    what_needs_a_gpu_is_refused_on_host,
    backends_that_cannot_work_here_are_refused,
    what_was_left_to_the_library_is_said_once,
    options_of_one_section_do_not_reach_the_next,
    options_work_in_a_job_file_before_the_engine_is_named,
    options_work_on_the_command_line,
    options_work_on_the_command_line_and_in_a_job_file_together,
    options_before_the_engine_on_the_command_line_are_unknown_to_fio,
    mem_and_iomem_are_refused,
    the_help_lists_every_option,
    the_help_of_an_option_lists_its_values,
];

const WRITE: &str = "filename=f\nsize=64k\nrw=write\nbuffer_pattern=0x58\n";

/// The option ends the run with the one line, and nothing was written.
#[track_caller]
fn answered(fio: &Fio, options: &str, line: &str) {
    fio.job(&format!("{WRITE}{options}\n[a]\n")).run().refused().says(line);
    assert!(!fio.path("f").exists() || fio.read("f").iter().all(|&byte| byte != 0x58), "{options}: written all the same");
}

fn an_unknown_word_is_answered_with_the_words_allowed(fio: &Fio) {
    for (name, words) in [
        ("gpu_backend", "auto, host, cufile, hipfile, gusli, nixl"),
        ("gpu_io", "direct, posix, uring"),
        ("cuda_io", "cufile, posix"),
        ("rocm_io", "hipfile, posix"),
        ("gpu_mode", "auto, sync, batch, stream, pool"),
        ("gpu_mem", "device, managed, pinned, host"),
        ("gpu_wait", "spin, yield, block"),
        ("gpu_data", "auto, exact, scramble, once, none"),
    ] {
        answered(fio, &format!("{name}=foo"), &format!("{name}=foo: use one of {words}"));
        assert!(!fio.path("f").exists(), "{name}: a file was laid out");
    }
}

fn a_number_out_of_range_is_answered_with_the_range(fio: &Fio) {
    for bad in ["0", "257", "-1", "many", "4k"] {
        answered(fio, &format!("gpu_threads={bad}"), &format!("gpu_threads={bad}: use a number from 1 to 256"));
    }
    for name in ["gpu_register", "gpu_require_direct"] {
        for bad in ["2", "-1", "yes"] {
            answered(fio, &format!("{name}={bad}"), &format!("{name}={bad}: use 0 or 1"));
        }
    }
}

fn devices_that_are_no_numbers_are_refused(fio: &Fio) {
    for bad in ["a", "0:x", "-1", "0:", "99999999999"] {
        let line = format!("gpu_dev_ids={bad}: use device numbers separated by ':' or ',' (0:1:2), or nearest");
        answered(fio, &format!("gpu_dev_ids={bad}"), &line);
    }
}

fn an_unknown_option_is_fios_to_refuse(fio: &Fio) {
    let report = fio.job(&format!("{WRITE}gpu_speed=11\n[a]\n")).run();
    report.refused().says_nothing();
    report.assert(report.stderr.contains("gpu_speed"), "fio does not name the option");
}

fn options_that_contradict_each_other_are_refused(fio: &Fio) {
    answered(fio, "cuda_io=cufile\nrocm_io=hipfile", "cuda_io and rocm_io contradict each other: give one of them");
    answered(
        fio,
        "gpu_backend=hipfile\ncuda_io=cufile",
        "gpu_backend=hipfile contradicts cuda_io, which means gpu_backend=cufile: leave one of them out",
    );
    answered(
        fio,
        "gpu_backend=host\nrocm_io=posix",
        "gpu_backend=host contradicts rocm_io, which means gpu_backend=hipfile: leave one of them out",
    );
}

/// One job a choice, all in one run: `[job0]` with the first choice, and so on, each on a file of its own.
fn sections(choices: &[&str]) -> String {
    let section = |(n, choice): (usize, &&str)| format!("[job{n}]\nfilename=f{n}\n{choice}\n");
    format!("size=64k\nrw=write\nbuffer_pattern=0x58\n{}", choices.iter().enumerate().map(section).collect::<String>())
}

/// Every job failed before any I/O, with one line each.
#[track_caller]
fn all_refused(fio: &Fio, choices: &[&str], how: &str) -> Report {
    let report = fio.job(&format!("{how}\n{}", sections(choices))).run();
    // fio's status is the number of jobs that failed.
    report.assert(report.code() == i32::try_from(choices.len()).ok(), "not every job failed");
    report.assert(report.sum("write", "total_ios") == 0, "a job did I/O");
    report.assert(report.jobs().len() == choices.len(), "not every job is in the report");
    report.assert(report.jobs().iter().all(|job| job["error"] != 0), "a job has no error");
    report.assert(report.lines().len() == choices.len(), "not one line for each job");
    report
}

fn what_needs_a_gpu_is_refused_on_host(fio: &Fio) {
    let gpus =
        ["gpu_require_direct=1", "gpu_mem=device", "gpu_mem=pinned", "gpu_data=once", "gpu_dev_ids=0", "gpu_mode=batch", "gpu_mode=stream"];
    let report = all_refused(fio, &gpus, "");
    for option in gpus {
        let name = option.split('=').next().expect("a name");
        let found = report.lines().into_iter().any(|line| [name, "needs a GPU", "gpu_backend=host"].iter().all(|part| line.contains(part)));
        report.assert(found, &format!("no line says what is wrong with {option}"));
    }
    let hosts = ["gpu_mem=host", "gpu_data=exact", "gpu_io=posix", "gpu_io=direct", "gpu_mode=sync", "gpu_register=0", "gpu_wait=spin"];
    fio.job(&sections(&hosts)).run().ok().counts("write", "io_bytes", 7 * (64 << 10)).says_nothing();
    (0..hosts.len()).for_each(|n| assert_eq!(fio.read(&format!("f{n}")), vec![0x58; 64 << 10], "{}", hosts[n]));
}

fn backends_that_cannot_work_here_are_refused(fio: &Fio) {
    let backends =
        ["gpu_backend=cufile", "gpu_backend=hipfile", "gpu_backend=gusli", "gpu_backend=nixl", "gpu_backend=auto\ncuda_io=posix"];
    for how in ["thread=0", "thread=1"] {
        // What is missing differs from backend to backend; what always works is named in each case.
        let report = all_refused(fio, &backends, how);
        report.assert(report.lines().iter().all(|line| line.contains("gpu_backend=host")), "a line does not say what to do");
    }
}

fn what_was_left_to_the_library_is_said_once(fio: &Fio) {
    for how in ["thread=1", "thread=0"] {
        let text = format!("gpu_backend=auto\n{how}\nnumjobs=3\nsize=64k\nrw=write\n[a]\n");
        fio.job(&text).run().ok().says_one_with(&["gpu_backend=auto is host: "]);
    }
}

fn options_of_one_section_do_not_reach_the_next(fio: &Fio) {
    let report = fio
        .job("size=64k\nrw=write\n[one]\nfilename=f\n[two]\nstonewall\nfilename=g\ngpu_mem=pinned\n[three]\nstonewall\nfilename=h\n")
        .run();
    let errors: Vec<bool> = report.jobs().iter().map(|job| job["error"] != 0).collect();
    report.assert(errors == [false, true, false], &format!("errors: {errors:?}"));
    report.says_one_with(&["gpu_mem=pinned"]);
}

fn options_work_in_a_job_file_before_the_engine_is_named(fio: &Fio) {
    let library = crate::harness::library();
    let text = format!("[global]\ngpu_backend=host\n{WRITE}ioengine=external:{}\n[a]\ngpu_wait=spin\n", library.display());
    fio.job_file(&text).run().ok().says_nothing();
    assert_eq!(fio.read("f"), vec![0x58; 64 << 10]);
}

const JOB: [&str; 5] = ["--name=a", "--filename=f", "--size=64k", "--rw=write", "--buffer_pattern=0x58"];

fn options_work_on_the_command_line(fio: &Fio) {
    let report = fio.args(&JOB).args(&[fio.engine(), "--gpu_backend=host".to_owned()]).run();
    report.ok().says_nothing();
    assert_eq!(fio.read("f"), vec![0x58; 64 << 10]);
    let report = fio.args(&JOB).args(&[fio.engine(), "--gpu_backend=foo".to_owned()]).run();
    report.says_one_with(&["gpu_backend=foo: use one of"]);
    // 3.25 crashes after a wrong option of any engine on the command line (libaio's too); in a job file it does not.
    if fio.is_at_least(33) {
        report.refused();
    }
}

fn options_work_on_the_command_line_and_in_a_job_file_together(fio: &Fio) {
    let report = fio.job_file(&format!("[a]\n{WRITE}gpu_wait=spin\n")).args(&[fio.engine(), "--gpu_backend=host".to_owned()]).run();
    report.ok().says_nothing();
    assert_eq!(fio.read("f"), vec![0x58; 64 << 10]);
}

fn options_before_the_engine_on_the_command_line_are_unknown_to_fio(fio: &Fio) {
    let report = fio.args(&JOB).args(&["--gpu_backend=host".to_owned(), fio.engine()]).run();
    report.refused().says_nothing();
    report.assert(report.stderr.contains("unrecognized option '--gpu_backend=host'"), "fio does not name the option");
}

fn mem_and_iomem_are_refused(fio: &Fio) {
    const LINE: &str = "mem= and iomem= conflict with this engine, which allocates the I/O buffers itself: leave them out";
    let values = ["malloc", "shm", "shmhuge", "mmap", "mmaphuge", "mmapshared"];
    let choices: Vec<String> = values.iter().flat_map(|value| [format!("mem={value}"), format!("iomem={value}")]).collect();
    let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
    for how in ["thread=0", "thread=1"] {
        let report = all_refused(fio, &choices, how);
        report.assert(report.lines().iter().all(|line| *line == LINE), "another line");
    }
    // A fio built without CUDA does not know this one.
    let report = fio.job(&format!("{WRITE}mem=cudamalloc\n[a]\n")).run();
    report.refused();
    if report.jobs().is_empty() {
        report.assert(report.stderr.contains("cudamalloc"), "fio does not name the value").says_nothing();
    } else {
        report.says(LINE);
    }
}

const OPTIONS: [&str; 13] = [
    "gpu_backend",
    "gpu_dev_ids",
    "gpu_io",
    "cuda_io",
    "rocm_io",
    "gpu_mode",
    "gpu_threads",
    "gpu_mem",
    "gpu_register",
    "gpu_wait",
    "gpu_data",
    "gpu_require_direct",
    "gpu_report",
];

fn the_help_lists_every_option(fio: &Fio) {
    let report = fio.args(&[format!("--enghelp={}", crate::harness::library().display())]).plain().run();
    report.assert(report.code() == Some(0), "fio did not end with status 0");
    let listed: Vec<&str> = report.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    report.assert(OPTIONS.iter().all(|option| listed.contains(option)), &format!("listed: {listed:?}"));
    report.assert(listed.iter().all(|name| !name.contains("mark")), "an option of the library's own use is shown");
}

fn the_help_of_an_option_lists_its_values(fio: &Fio) {
    let report = fio.args(&[format!("--enghelp={},gpu_backend", crate::harness::library().display())]).plain().run();
    report.assert(report.code() == Some(0), "fio did not end with status 0");
    for word in ["auto", "host", "cufile", "hipfile", "gusli", "nixl", "default: auto"] {
        report.assert(report.stdout.contains(word), &format!("{word} is not listed"));
    }
}
