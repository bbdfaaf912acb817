//! What a user reads where a job cannot run: one line with what is missing and what to do.

use super::{on_the_real_library, on_the_real_library_and_every_fio};

on_the_real_library_and_every_fio![a_missing_library_is_said];
on_the_real_library![
    a_library_that_is_another_is_said,
    the_library_can_be_named_by_the_job,
    what_contradicts_itself_is_refused,
    an_entry_that_cannot_be_meant_is_refused,
    a_device_that_is_not_there_is_said,
    a_server_that_is_not_there_is_said,
    a_server_is_asked_by_a_process_of_its_own,
    a_forked_job_after_a_thread_is_told_why_it_cannot_run,
    jobs_of_a_process_must_agree_on_what_is_the_processs,
    the_librarys_own_log_goes_where_it_is_told,
    a_report_names_the_library_and_the_path,
];

mod run {
    use std::time::Duration;

    use super::super::Gusli;

    const WRITE: &str = "filename=f\nsize=64k\nbs=4k\nrw=write\n";

    pub fn a_missing_library_is_said(gusli: &Gusli) {
        let report = gusli.job(&format!("{WRITE}[a]\n")).env("GPUIO_GUSLI_LIBRARY", "").run();
        report.refused().says_one_with(&[
            "no GUSLI client library: libgusli_clnt.so",
            "GPUIO_GUSLI_LIBRARY=",
            "gusli_library=",
            "nixl-cu12",
        ]);
        let report = gusli.job(&format!("{WRITE}gusli_library=/none/libgusli.so\n[a]\n")).run();
        report.refused().says_one_with(&["/none/libgusli.so (named by gusli_library) cannot be loaded"]);
    }

    pub fn a_library_that_is_another_is_said(gusli: &Gusli) {
        let report = gusli.job(&format!("{WRITE}[a]\n")).env("GPUIO_GUSLI_LIBRARY", "libc.so.6").run();
        report.refused().says_one_with(&["libc.so.6 has no function ", "global_clnt_context"]);
    }

    pub fn the_library_can_be_named_by_the_job(gusli: &Gusli) {
        let library = &gusli.variables[0].1;
        gusli
            .job(&format!("{WRITE}verify=crc32c\ngusli_library={library}\n[a]\n"))
            .env("GPUIO_GUSLI_LIBRARY", "")
            .run()
            .ok()
            .says_nothing();
    }

    pub fn what_contradicts_itself_is_refused(gusli: &Gusli) {
        for (option, parts) in [
            ("gpu_mem=device", ["gpu_mem=device contradicts gpu_backend=gusli", "host memory only"]),
            ("gpu_mem=managed", ["gpu_mem=managed contradicts gpu_backend=gusli", "gpu_mem=host"]),
            ("gpu_require_direct=1", ["gpu_require_direct=1 contradicts", "host memory"]),
            ("gpu_dev_ids=0", ["gpu_dev_ids contradicts", "no GPU"]),
            ("gpu_io=uring", ["gpu_io=uring contradicts", "gpu_io=direct"]),
            ("gpu_mode=pool", ["gpu_mode=pool contradicts", "gpu_mode=auto"]),
            ("gpu_threads=4", ["gpu_threads contradicts", "gpu_mode"]),
            ("gpu_register=0", ["gpu_register=0 contradicts", "registered memory only"]),
            ("gpu_data=none", ["gpu_data=none contradicts", "gpu_data=exact"]),
            ("gpu_wait=block\ngusli_completion=poll", ["gusli_completion=poll contradicts gpu_wait=block", "leave one of them out"]),
        ] {
            let report = gusli.job(&format!("{WRITE}{option}\n[a]\n")).run();
            report.refused().says_one_with(&parts);
        }
        gusli
            .job(&format!("{WRITE}gpu_mem=host\ngpu_data=exact\ngusli_priority=70\ngusli_uring=1\nverify=crc32c\n[a]\n"))
            .run()
            .ok()
            .says_nothing();
        gusli.job(&format!("{WRITE}prio=3\ngusli_client_name=me\nverify=crc32c\n[a]\n")).run().ok().says_nothing();
    }

    pub fn an_entry_that_cannot_be_meant_is_refused(gusli: &Gusli) {
        for (option, why) in [
            ("gusli_device=11", "11 is not id:type:path"),
            ("gusli_device=11:Q:/x", "Q is no type of device: use F, K or N"),
            ("gusli_device=0123456789abcdef:F:/x", "give an id of 15 bytes at most"),
            ("gusli_device=a:F:/x,a:F:/y", "the id a is there twice"),
            ("gusli_device=a:N:host", "no server's address"),
            ("gusli_device=a:F:/x:sec:x", "x is no offset"),
            ("gusli_priority=101", "use a number from 0 to 100"),
            ("gusli_max_inflight=512", "use a number from 1 to 511"),
            ("gusli_max_inflight=0", "use a number from 1 to 511"),
            ("gusli_completion=wait", "use one of poll, callback"),
            ("gusli_sgl=2", "use 0 or 1"),
        ] {
            let report = gusli.job(&format!("{WRITE}{option}\n[a]\n")).run();
            let (name, _) = option.split_once('=').expect("an option");
            report.refused().says_one_with(&[&format!("{name}="), why]);
        }
    }

    pub fn a_device_that_is_not_there_is_said(gusli: &Gusli) {
        for kind in ["F", "K"] {
            let report = gusli.job(&format!("{WRITE}filename=a\ngusli_device=a:{kind}:/none/store\n[a]\n")).run();
            report.refused().says_one_with(&[&format!("gusli_device=a:{kind}:/none/store: No such file"), "it must be there"]);
        }
    }

    pub fn a_server_that_is_not_there_is_said(gusli: &Gusli) {
        let report = gusli.job(&format!("{WRITE}filename=a\ngusli_device=a:N:/none/socket:sec\n[a]\n")).run();
        report.refused().says_one_with(&["/none/socket: nothing answers there", "GUSLI error -99"]);
    }

    /// Whoever has had a context cannot fork jobs that have one.
    pub fn a_server_is_asked_by_a_process_of_its_own(gusli: &Gusli) {
        let trace = gusli.path("trace");
        let words = ["strace", "-f", "-qq", "-o", &trace, "-e", "trace=connect,clone,clone3,fork,vfork"];
        gusli.job(&format!("{WRITE}filename=a\ngusli_device=a:N:/none/socket:sec\n[a]\n")).through(&words).run().refused();
        let trace = std::fs::read_to_string(trace).expect("a trace");
        let asks = trace.lines().find(|line| line.contains("/none/socket")).unwrap_or_else(|| panic!("nobody asks:\n{trace}"));
        let (id, _) = asks.split_once(' ').expect("a process id");
        let is_thread = |line: &str| ["CLONE_VM", "clone3", "parent_tid"].iter().any(|sign| line.contains(sign));
        let is_its_start = |line: &str| line.ends_with(&format!("= {id}")) && !is_thread(line);
        assert!(trace.lines().any(is_its_start), "{id} was not forked:\n{trace}");
    }

    pub fn a_forked_job_after_a_thread_is_told_why_it_cannot_run(gusli: &Gusli) {
        // Without the refusal the second job spins for ever in the library.
        let both = gusli.job(&format!("{WRITE}[first]\nthread=1\n[second]\nstonewall\nfilename=g\n"));
        let report = both.within(Duration::from_secs(30)).run();
        report.assert(report.code() == Some(1), "fio did not end with status 1");
        report.assert(report.jobs()[0]["error"] == 0 && report.jobs()[1]["error"] != 0, "not the second job alone has failed");
        report.says_one_with(&[
            "GUSLI was used in this process before this job was forked",
            "use thread=1 for all jobs of this run, or for none",
        ]);
        // One after the other, threads make the context anew.
        gusli.job(&format!("{WRITE}thread=1\nverify=crc32c\n[first]\n[second]\nstonewall\nfilename=g\n")).run().ok().says_nothing();
    }

    pub fn jobs_of_a_process_must_agree_on_what_is_the_processs(gusli: &Gusli) {
        let text = format!(
            "{WRITE}time_based=1\nruntime=1\n[a]\ngusli_client_name=one\n[b]\nfilename=g\nstartdelay=300ms\ngusli_client_name=two\n"
        );
        let report = gusli.job(&format!("thread=1\n{text}")).run();
        report.assert(report.code() == Some(1), "fio did not end with status 1");
        report.says_one_with(&["gusli_library, gusli_log, gusli_client_name and gusli_max_inflight are the process's", "thread=0"]);
        gusli.job(&text).run().ok().says_nothing();
    }

    pub fn the_librarys_own_log_goes_where_it_is_told(gusli: &Gusli) {
        let report = gusli.job(&format!("{WRITE}gusli_log=gusli.log\n[a]\n")).run();
        report.ok().says_nothing();
        assert!(String::from_utf8_lossy(&gusli.fio.read("gusli.log")).contains("initialized: 1 devices"));
        let report = gusli.job(&format!("{WRITE}gusli_log=/none/gusli.log\n[a]\n")).run();
        report.refused().says_one_with(&["gusli_log=/none/gusli.log: No such file"]);
    }

    pub fn a_report_names_the_library_and_the_path(gusli: &Gusli) {
        gusli.job(&format!("{WRITE}gpu_report=r.json\n[a]\n")).run().ok();
        let report: serde_json::Value = serde_json::from_slice(&gusli.fio.read("r.json")).expect("a report");
        let job = &report["jobs"][0];
        assert_eq!((&job["backend"], &job["files"][0]["path"]), (&"gusli".into(), &"gusli".into()));
        assert!(job["vendor"].as_str().is_some_and(|vendor| vendor.contains("libgusli_clnt")), "{job}");
    }
}
