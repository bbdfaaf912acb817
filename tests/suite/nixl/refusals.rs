//! What a user reads where a job cannot run: one line with what is missing and what to do.

use super::on_the_real_library;

on_the_real_library![
    a_missing_library_is_said,
    a_library_that_is_another_is_said,
    a_plugin_that_is_not_there_or_does_not_load_is_said,
    parameters_that_cannot_be_meant_are_refused,
    what_contradicts_itself_is_refused,
    an_option_of_nixl_implies_the_backend,
    a_forked_job_after_a_thread_is_told_why_it_cannot_run,
    the_librarys_own_log_goes_where_it_is_told,
    a_report_names_the_library_the_plugin_and_the_path,
];

mod run {
    use super::super::Nixl;
    use crate::harness::library;

    const WRITE: &str = "filename=f\nsize=64k\nbs=4k\nrw=write\n";

    pub fn a_missing_library_is_said(nixl: &Nixl) {
        let report = nixl.job(&format!("{WRITE}[a]\n")).env("GPUIO_NIXL_LIBRARY", "").run();
        report.refused().says_one_with(&["no NIXL library: libnixl_capi.so cannot", "GPUIO_NIXL_LIBRARY=", "nixl_library=", "nixl-cu12"]);
        let report = nixl.job(&format!("{WRITE}nixl_library=/none/libnixl_capi.so\n[a]\n")).run();
        report.refused().says_one_with(&["/none/libnixl_capi.so (named by nixl_library) cannot be loaded"]);
        let named = format!("{WRITE}nixl_library={}\n[a]\n", nixl.variables[0].1);
        nixl.job(&named).env("GPUIO_NIXL_LIBRARY", "").run().ok().says_nothing();
    }

    pub fn a_library_that_is_another_is_said(nixl: &Nixl) {
        let report = nixl.job(&format!("{WRITE}[a]\n")).env("GPUIO_NIXL_LIBRARY", "libc.so.6").run();
        report.refused().says_one_with(&["libc.so.6 has no function nixl_capi_create_agent"]);
    }

    pub fn a_plugin_that_is_not_there_or_does_not_load_is_said(nixl: &Nixl) {
        for (option, parts) in [
            ("nixl_plugin=NONE", ["nixl_plugin=NONE: there is no such plugin in ", "GDS, GDS_MT"]),
            ("nixl_plugin=GDS", ["nixl_plugin=GDS: ", "cannot be loaded: libcudart.so.12"]),
            ("nixl_plugin=UCX", ["nixl_plugin=UCX moves memory to memory", "use one for storage"]),
            ("nixl_plugin_dir=/none", ["nixl_plugin_dir=/none is no folder", ""]),
            ("nixl_plugin_dir=.", ["nixl_plugin=POSIX: there is no such plugin in .", ""]),
        ] {
            for thread in [0, 1] {
                let report = nixl.job(&format!("{WRITE}thread={thread}\n{option}\n[a]\n")).run();
                report.refused().says_one_with(&parts);
            }
        }
    }

    pub fn parameters_that_cannot_be_meant_are_refused(nixl: &Nixl) {
        for (option, parts) in [
            ("nixl_params=use_aio", ["nixl_params=use_aio: use_aio is not key=value", "use key=value,key=value"]),
            ("nixl_params=use_aio=1,use_aio=0", ["use_aio is there twice", ""]),
            ("nixl_params=speed=9", ["nixl_params=speed: nixl_plugin=POSIX has no such parameter; it has ios_pool_size, ", "use_uring"]),
            (
                "nixl_params=use_aio=maybe",
                ["nixl_plugin=POSIX cannot be used with use_aio=maybe", "Conversion to bool failed for string 'maybe'"],
            ),
            ("nixl_params=use_aio=1,use_uring=1", ["nixl_plugin=POSIX cannot be used with", "mutually exclusive"]),
            ("nixl_batch=0", ["nixl_batch=0: use a number from 1 to 1024", ""]),
            ("nixl_object=bucket", ["nixl_object=bucket contradicts nixl_plugin=POSIX", "does not store objects"]),
            ("nixl_log=/none/log", ["nixl_log=/none/log: No such file", ""]),
        ] {
            nixl.job(&format!("{WRITE}{option}\n[a]\n")).run().refused().says_one_with(&parts);
        }
    }

    pub fn what_contradicts_itself_is_refused(nixl: &Nixl) {
        for (option, parts) in [
            ("gpu_mem=device", ["gpu_mem=device contradicts nixl_plugin=POSIX", "use gpu_mem=host"]),
            ("gpu_mem=managed", ["gpu_mem=managed contradicts gpu_backend=nixl", "use gpu_mem=host or device"]),
            ("gpu_require_direct=1", ["gpu_require_direct=1 contradicts", "which way bytes take"]),
            ("gpu_dev_ids=0", ["gpu_dev_ids contradicts nixl_plugin=POSIX", "no GPU"]),
            ("gpu_io=uring", ["gpu_io=uring contradicts", "nixl_plugin"]),
            ("gpu_mode=pool", ["gpu_mode=pool contradicts", "gpu_mode=auto"]),
            ("gpu_threads=4", ["gpu_threads contradicts", "gpu_mode"]),
            ("gpu_register=0", ["gpu_register=0 contradicts", "registered memory only"]),
            ("gpu_data=none", ["gpu_data=none contradicts", "gpu_data=exact"]),
            ("gusli_device=a:F:f", ["gpu_backend=nixl contradicts gusli_device", "leave one of them out"]),
        ] {
            nixl.job(&format!("{WRITE}{option}\n[a]\n")).run().refused().says_one_with(&parts);
        }
        nixl.job(&format!("{WRITE}gpu_mem=host\ngpu_data=exact\nverify=crc32c\n[a]\n")).run().ok().says_nothing();
        let foreign = format!("[global]\nioengine=external:{}\ngpu_backend=host\nnixl_batch=4\n{WRITE}[a]\n", library().display());
        nixl.file(&foreign).run().refused().says_one_with(&["gpu_backend=host contradicts nixl_batch"]);
    }

    pub fn an_option_of_nixl_implies_the_backend(nixl: &Nixl) {
        let text = format!("[global]\nioengine=external:{}\nnixl_plugin=POSIX\n{WRITE}verify=crc32c\n[a]\n", library().display());
        nixl.file(&text).run().ok().says("gpu_backend=auto is nixl: nixl_plugin");
    }

    pub fn a_forked_job_after_a_thread_is_told_why_it_cannot_run(nixl: &Nixl) {
        let report = nixl.job(&format!("{WRITE}[first]\nthread=1\n[second]\nstonewall\nfilename=g\n")).run();
        report.assert(report.jobs()[0]["error"] == 0 && report.jobs()[1]["error"] != 0, "not the second job alone has failed");
        report.says_one_with(&[
            "NIXL was used in this process before this job was forked",
            "use thread=1 for all jobs of this run, or for none",
        ]);
        nixl.job(&format!("{WRITE}thread=1\nverify=crc32c\n[first]\n[second]\nstonewall\nfilename=g\n")).run().ok().says_nothing();
    }

    pub fn the_librarys_own_log_goes_where_it_is_told(nixl: &Nixl) {
        let report = nixl.job(&format!("{WRITE}nixl_log=nixl.log\n[a]\n")).env("NIXL_LOG_LEVEL", "INFO").run();
        report.ok().says_nothing();
        let said = String::from_utf8_lossy(&nixl.fio.read("nixl.log")).into_owned();
        report.assert(said.contains("POSIX backend initialized"), &format!("the log has {said}"));
    }

    pub fn a_report_names_the_library_the_plugin_and_the_path(nixl: &Nixl) {
        nixl.job(&format!("{WRITE}gpu_report=r.json\n[a]\n")).run().ok();
        let report: serde_json::Value = serde_json::from_slice(&nixl.fio.read("r.json")).expect("a report");
        let job = &report["jobs"][0];
        assert_eq!((&job["backend"], &job["files"][0]["path"]), (&"nixl".into(), &"nixl-file".into()));
        assert!(job["vendor"].as_str().is_some_and(|vendor| vendor.ends_with("libnixl_capi.so, plugin POSIX")), "{job}");
    }
}
