//! A fio that nobody knows: it runs where the anchors agree, and gets one clear line where they do not.

use crate::harness::{Fio, Run, on_every_fio, shim};

on_every_fio![
    an_unknown_version_runs_where_the_anchors_agree,
    an_unknown_interface_number_runs_where_the_tables_fit,
    a_job_that_looks_like_none_is_refused_in_one_line,
];

const VERIFIED: &str = "filename=f\nsize=1m\nbssplit=4k/50:16k/50\nrw=randwrite\nverify=crc32c\n";

fn disguised(fio: &Fio, how: &str, more: &str) -> Run {
    fio.job(&format!("{VERIFIED}{more}[a]\n")).env("LD_PRELOAD", shim()).env("FIO_SHIM", how)
}

fn runs(fio: &Fio, how: &str) {
    for more in ["", "thread=1\niodepth=8\n"] {
        let report = disguised(fio, how, more).run();
        report.ok().counts("write", "io_bytes", 1 << 20).counts("read", "io_bytes", 1 << 20);
    }
}

fn an_unknown_version_runs_where_the_anchors_agree(fio: &Fio) {
    let said = fio.args(&["--version"]).plain().env("LD_PRELOAD", shim()).env("FIO_SHIM", "version").run().stdout;
    assert_eq!(said.trim(), "fio-9.99", "the disguise does not work");
    runs(fio, "version");
}

fn an_unknown_interface_number_runs_where_the_tables_fit(fio: &Fio) {
    runs(fio, "interface");
}

fn a_job_that_looks_like_none_is_refused_in_one_line(fio: &Fio) {
    for how in ["thread=1\n", "thread=0\n"] {
        let report = disguised(fio, "zeros", how).run();
        report.refused().says_one_with(&["cannot run in this fio: it says fio-3.", "engine interface", "expected a fio from", "FIO_SRC="]);
        report.assert(report.jobs()[0]["error"] != 0, "the job has no error");
    }
}
