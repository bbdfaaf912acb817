//! AMD's rules: what never reaches libhipfile, what is told of the way that bytes take, and each way in which it says no.

use super::{Gpu, MIB, gpu_report, on};
use crate::harness::machine::{LoopDevice, SmallDisk};
use crate::harness::{Run, noise, skip};

on!([hipfile_sim = "hipfile-sim"]: [
    off_4_kib_nothing_reaches_the_library_and_the_bytes_are_right,
    off_4_kib_no_stream_is_used,
    off_4_kib_fails_where_the_direct_path_is_required,
    a_short_read_at_the_end_of_a_file_is_no_error_where_the_direct_path_is_required,
    the_direct_path_is_taken_and_the_report_names_it,
    the_direct_path_is_required_before_the_library_is_loaded,
    jobs_of_one_process_have_to_agree_on_the_direct_path,
    what_keeps_bytes_from_the_direct_path_is_told_and_refused_where_it_is_required,
    a_file_system_without_the_direct_path_is_told,
    a_device_that_refuses_the_direct_path_falls_back_unless_it_is_required,
    a_descriptor_that_is_registered_already_is_registered_under_another_number,
    a_code_of_hips_is_told_from_an_errno_and_errno_is_cleared_before,
    each_code_of_the_librarys_has_its_name_and_errno,
    a_batch_that_is_never_done_is_refused_with_what_to_use,
    a_batch_that_is_done_is_used,
    host_memory_is_refused_on_the_direct_path,
    every_mode_moves_the_bytes_of_a_loop_device,
    streams_resume_and_tell_failures,
    the_other_names_contradict,
]);
on!([rocm_6 = "hipfile-sim6"]: [
    an_older_runtime_has_no_direct_path_and_says_so,
    an_older_runtime_scrambles_byte_by_byte,
]);

const WRITE: &str = "size=64k\nbs=4k\nrw=write\nfilename=f\n";
const REQUIRED: &str = "gpu_require_direct=1\n";

fn write(gpu: &Gpu, more: &str) -> Run {
    gpu.job(&format!("{WRITE}{more}[a]\n"))
}

fn off_4_kib_nothing_reaches_the_library_and_the_bytes_are_right(gpu: &Gpu) {
    for how in ["gpu_mode=sync\n", "iodepth=8\n"] {
        let report =
            gpu.same_bytes_as_psync(&format!("{how}size=256k\nbssplit=512/40:4k/30:8k/30\nrw=randwrite\nfilename=f\n[a]\n"), &["f"]);
        gpu.says_one_more_with(&report, &["is not a multiple of 4096 bytes, so it goes through host memory (said once"]);
    }
    let calls = gpu.calls();
    let writes = calls.good("cuFileWrite");
    assert!(writes.len() > 4, "nothing went by hipFile");
    let is_whole = |call: &&super::calls::Call, key| call.number(key).is_some_and(|number| number % 4096 == 0);
    assert!(writes.iter().all(|call| is_whole(call, "size") && is_whole(call, "file_offset") && is_whole(call, "offset")));
    assert_eq!(calls.good("cuFileDriverClose").iter().filter_map(|call| call.number("bounced")).sum::<i64>(), 0);
}

fn off_4_kib_no_stream_is_used(gpu: &Gpu) {
    let text = "size=256k\nbssplit=512/40:4k/30:8k/30\nrw=randwrite\nverify=crc32c\niodepth=8\ngpu_mode=stream\nfilename=f\n[a]\n";
    let report = gpu.job(text).run();
    report.ok().assert(report.sum("read", "io_bytes") >= MIB / 4, "not all was read back");
    let calls = gpu.calls();
    let writes = calls.0.iter().filter(|call| call.name == "cuFileAsyncWrite");
    let sizes: Vec<_> = writes.filter_map(|call| call.number("size")).collect();
    assert!(!sizes.is_empty() && sizes.iter().all(|size| size % 4096 == 0), "{sizes:?}");
}

fn off_4_kib_fails_where_the_direct_path_is_required(gpu: &Gpu) {
    for how in ["gpu_mode=sync\n", "iodepth=8\n"] {
        let report = gpu.job(&format!("size=64k\nbs=512\nrw=write\nfilename=f\n{REQUIRED}{how}[a]\n")).run();
        report.fails_with(libc::EINVAL);
        let parts = ["write of f at offset ", ", 512 bytes: ", "no multiple of 4096", "gpu_require_direct=1 forbids", "use bs and offsets"];
        gpu.says_one_more_with(&report, &parts);
    }
}

fn a_short_read_at_the_end_of_a_file_is_no_error_where_the_direct_path_is_required(gpu: &Gpu) {
    gpu.fio.file("f", &noise(100_000));
    let text = "filename=f\nbs=16k\nrw=read\nsize=98304\n";
    gpu.says_no_more(gpu.job(&format!("{text}{REQUIRED}[a]\n")).run().ok().counts("read", "io_bytes", 98_304));
    // fio asks for the rest of a block that the end cuts short, and gets nothing, as from psync.
    let text = "filename=g\nbs=64k\nrw=read\nsize=1m\nexec_prerun=truncate -s 599000 g\n";
    let report = gpu.job(&format!("{text}{REQUIRED}[a]\n")).plain().run();
    report.assert(report.code() == Some(1), "fio did not end with status 1");
    gpu.says_no_more(&report);
}

fn the_direct_path_is_taken_and_the_report_names_it(gpu: &Gpu) {
    for (mode, path, key) in [("sync", "hipfile", "direct"), ("pool", "hipfile", "direct"), ("stream", "hipfile-stream", "bounced")] {
        write(gpu, &format!("gpu_mode={mode}\ngpu_report=r.json\n")).run().ok();
        let said = gpu_report(&gpu.fio.path("r.json"));
        assert_eq!(said["jobs"][0]["files"][0]["path"], path, "{said:#}");
        assert_eq!(said["jobs"][0]["vendor"], "libhipfile 0.2.0", "{said:#}");
        assert_eq!(said["jobs"][0]["driver"], "HIP 7.2.53211", "{said:#}");
        let calls = gpu.calls();
        let closed = calls.good("cuFileDriverClose").last().and_then(|call| call.number(key));
        assert_eq!(closed, Some(16), "{mode}: not all went the way that it should");
    }
}

fn the_direct_path_is_required_before_the_library_is_loaded(gpu: &Gpu) {
    gpu.says_no_more(write(gpu, REQUIRED).run().ok());
    // Where the device has none, the library does not go round: it was told not to, and the job fails.
    let report = write(gpu, REQUIRED).env("GPUIO_SIM_HIPFILE_NO_FAST_PATH", libc::ENODEV.to_string()).run();
    gpu.says_no_more(report.fails_with(libc::ENODEV));
}

fn jobs_of_one_process_have_to_agree_on_the_direct_path(gpu: &Gpu) {
    let two = |how: &str| gpu.job(&format!("{how}size=64k\nrw=write\n[a]\nfilename=f\n[b]\nstonewall\nfilename=g\n{REQUIRED}"));
    let report = two("thread=1\n").run();
    report.assert(report.jobs()[0]["error"] == 0 && report.jobs()[1]["error"] != 0, "not the second job alone has failed");
    let parts =
        ["gpu_require_direct=1 contradicts gpu_require_direct=0 of another job in this process", "HIPFILE_ALLOW_COMPAT_MODE", "thread=0"];
    gpu.says_one_more_with(&report, &parts);
    gpu.says_no_more(two("thread=0\n").run().ok());
}

fn what_keeps_bytes_from_the_direct_path_is_told_and_refused_where_it_is_required(gpu: &Gpu) {
    for (more, variable, parts) in [
        ("direct=0\n", "", ["direct=0: ", "use direct=1"]),
        ("", "HIPFILE_FORCE_COMPAT_MODE", ["HIPFILE_FORCE_COMPAT_MODE is set", "through host memory"]),
        ("gpu_mode=stream\n", "", ["gpu_mode=stream: hipFile's asynchronous call always goes through host memory", "gpu_mode=pool"]),
    ] {
        let run = |required: &str| {
            let run = write(gpu, &format!("{more}{required}verify=crc32c\n"));
            if variable.is_empty() { run } else { run.env(variable, "true") }.run()
        };
        gpu.says_one_more_with(run("").ok(), &parts);
        gpu.refused_with(&run(REQUIRED), &["gpu_require_direct=1: ", parts[0], parts[1]]);
    }
    for way in ["posix", "uring"] {
        let report = write(gpu, &format!("gpu_io={way}\n{REQUIRED}")).run();
        gpu.refused_with(&report, &[&format!("gpu_require_direct=1 contradicts gpu_io={way}"), "leave one of them out"]);
    }
}

fn a_file_system_without_the_direct_path_is_told(gpu: &Gpu) {
    let disk = gpu.fio.path("disk");
    let Some(_disk) = SmallDisk::at(&disk, 4 << 20) else { skip!("mounting needs root") };
    let run = |more: &str| {
        let text = format!("size=64k\nbs=4k\nrw=write\nfilename=disk/f\n{more}[a]\n");
        gpu.job(&text).env("HIPFILE_UNSUPPORTED_FILE_SYSTEMS", "false").run()
    };
    let parts = ["disk/f lies on tmpfs, where hipFile goes through host memory", "ext4 (data=ordered), xfs and block devices"];
    gpu.says_one_more_with(run("").ok(), &parts);
    gpu.refused_with(&run(REQUIRED), &["gpu_require_direct=1: disk/f lies on tmpfs", parts[1]]);
}

fn a_device_that_refuses_the_direct_path_falls_back_unless_it_is_required(gpu: &Gpu) {
    for (errno, falls_back) in [(libc::ENODEV, true), (libc::EREMOTEIO, true), (libc::EIO, false)] {
        let report = write(gpu, "verify=crc32c\n").env("GPUIO_SIM_HIPFILE_NO_FAST_PATH", errno.to_string()).run();
        if falls_back {
            gpu.says_no_more(report.ok().counts("read", "total_ios", 16));
        } else {
            gpu.says_no_more(report.fails_with(errno));
        }
    }
}

fn a_descriptor_that_is_registered_already_is_registered_under_another_number(gpu: &Gpu) {
    let report = write(gpu, "verify=crc32c\nthread=1\n").env("GPUIO_SIM_HIPFILE_FAIL_HANDLE", "1!:5028").run();
    gpu.says_no_more(report.ok().counts("read", "total_ios", 16));
    let calls = gpu.calls();
    let tried: Vec<_> = calls.0.iter().filter(|call| call.name == "cuFileHandleRegister").collect();
    assert!(tried.len() >= 2 && tried[0].number("fd") != tried[1].number("fd"), "{tried:?}");
    assert_eq!(calls.count("cuFileHandleRegister"), calls.count("cuFileHandleDeregister"), "a handle is left");
    // Where that does not help either, the line says it.
    let report = write(gpu, "").env("GPUIO_SIM_HIPFILE_FAIL_HANDLE", "1:5028").run();
    gpu.refused_with(&report, &["hipFileHandleRegister of f: hipFileHandleAlreadyRegistered (5028)"]);
    let report = write(gpu, "").env("GPUIO_SIM_HIPFILE_FAIL_HANDLE", "1:5030").run();
    gpu.refused_with(&report, &["hipFileHandleRegister of f: hipFileInternalError (5030)"]);
}

fn a_code_of_hips_is_told_from_an_errno_and_errno_is_cleared_before(gpu: &Gpu) {
    for (knob, errno, part) in [
        // hipErrorInvalidValue comes as -1, and errno is then what an earlier call has left.
        ("3:-1", libc::EIO, "write of f at offset 8192, 4096 bytes: hipErrorInvalidValue (1: invalid argument)"),
        ("3:-719", libc::EIO, "write of f at offset 8192, 4096 bytes: hipErrorLaunchFailure (719"),
        ("3:-4321", libc::EIO, "write of f at offset 8192, 4096 bytes: HIP error 4321"),
    ] {
        let report = write(gpu, "gpu_mode=sync\n").env("GPUIO_SIM_HIPFILE_FAIL_IO", knob).run();
        report.fails_with(errno);
        gpu.says_one_more_with(&report, &[part]);
    }
    let report = write(gpu, "gpu_mode=sync\n").env("GPUIO_SIM_HIPFILE_FAIL_IO", format!("3:{}", libc::ENOSPC)).run();
    gpu.says_no_more(report.fails_with(libc::ENOSPC));
}

fn each_code_of_the_librarys_has_its_name_and_errno(gpu: &Gpu) {
    for (code, errno, part) in [
        (5008, libc::ENOTSUP, "hipFileIONotSupported (5008); use ext4 (data=ordered), xfs or a block device, or gpu_io=posix"),
        (5013, libc::EIO, "hipFileHipMemoryTypeInvalid (5013); use gpu_mem=device"),
        (5022, libc::EIO, "hipFileInvalidValue (5022); sizes and offsets must lie inside"),
        (5025, libc::EACCES, "hipFilePermissionDenied (5025); check the permissions of the file and of /dev/kfd"),
        (5027, libc::EIO, "hipFileHandleNotRegistered (5027)"),
        (5030, libc::EIO, "hipFileInternalError (5030); see the system's log"),
        (5036, libc::ENOMEM, "hipFileGPUMemoryPinningFailed (5036); lower iodepth"),
        (5777, libc::EIO, "hipFile error 5777"),
    ] {
        let report = write(gpu, "").env("GPUIO_SIM_HIPFILE_FAIL_IO", format!("3:-{code}")).run();
        report.fails_with(errno);
        gpu.says_one_more_with(&report, &["write of f at offset 8192, 4096 bytes: ", part, "(said once"]);
    }
    for (knob, code, part) in [
        ("FAIL_OPEN", "1:5004", "hipFileDriverOpen: hipFileDriverVersionMismatch (5004); libhipfile, the HIP runtime and amdgpu"),
        ("FAIL_OPEN", "1:5011", "hipFileDriverOpen: hipFileHipDriverError (5011) with hipErrorOutOfMemory (2"),
        ("FAIL_BUF", "1:5013", "bytes: hipFileHipMemoryTypeInvalid (5013); use gpu_mem=device"),
        ("FAIL_BUF", "1:5023", "bytes: hipFileMemoryAlreadyRegistered (5023)"),
        ("FAIL_STREAM", "1:5038", "hipFileStreamRegister: hipFileAsyncNotSupported (5038); use gpu_mode=pool or sync"),
    ] {
        let mode = if knob == "FAIL_STREAM" { "gpu_mode=stream\n" } else { "" };
        let run = write(gpu, mode).env(&format!("GPUIO_SIM_HIPFILE_{knob}"), code).env("GPUIO_SIM_HIPFILE_DRIVER_CODE", "2");
        gpu.refused_with(&run.run(), &[part]);
    }
}

fn a_batch_that_is_never_done_is_refused_with_what_to_use(gpu: &Gpu) {
    let report = write(gpu, "gpu_mode=batch\niodepth=8\n").run();
    let parts = ["gpu_mode=batch: libhipfile 0.2.0 takes a batch and does not do it", "(5030)", "use gpu_mode=pool, stream or sync"];
    gpu.refused_with(&report, &parts);
    let calls = gpu.calls();
    assert!(calls.count("cuFileBatchIOSubmit") == 1 && calls.count("cuFileBatchIOGetStatus") == 0, "it was not tried");
    // What says that it has read, and has not, is no better.
    let run = write(gpu, "gpu_mode=batch\n").env("GPUIO_SIM_HIPFILE_BATCH_WORKS", "1").env("GPUIO_SIM_HIPFILE_SHORT_EVERY", "1");
    gpu.refused_with(&run.run(), &["takes a batch and does not do it (wrong bytes came)"]);
}

/// By a library that is not there yet.
fn a_batch_that_is_done_is_used(gpu: &Gpu) {
    let text = "filename=f\nsize=1m\nrw=randrw\nverify=crc32c\niodepth=32\ngpu_mode=batch\ngpu_report=r.json\n";
    for blocks in ["bssplit=4k/50:64k/50\n", "bssplit=512/50:4k/50\n"] {
        let report = gpu.job(&format!("{text}{blocks}[a]\n")).env("GPUIO_SIM_HIPFILE_BATCH_WORKS", "1").run();
        report.ok().assert(report.sum("read", "io_bytes") >= MIB / 2, "not all was read back");
        report.assert(gpu.unusual(&report).iter().all(|line| line.contains("goes through host memory")), "something unusual was said");
        assert_eq!(gpu_report(&gpu.fio.path("r.json"))["jobs"][0]["files"][0]["path"], "hipfile-batch");
    }
}

fn host_memory_is_refused_on_the_direct_path(gpu: &Gpu) {
    for memory in ["managed", "pinned", "host"] {
        let report = write(gpu, &format!("gpu_mem={memory}\n")).run();
        let parts = [&format!("gpu_mem={memory} contradicts gpu_io=direct"), "hipFile moves device memory only", "gpu_io=posix or uring"];
        gpu.refused_with(&report, &parts);
        for way in ["posix", "uring"] {
            let run = write(gpu, &format!("gpu_mem={memory}\ngpu_io={way}\nverify=crc32c\niodepth=4\n"));
            gpu.says_no_more(run.run().ok().counts("read", "total_ios", 16));
        }
    }
}

fn every_mode_moves_the_bytes_of_a_loop_device(gpu: &Gpu) {
    gpu.fio.file("disk", &vec![0; 4 << 20]);
    let Some(device) = LoopDevice::over(&gpu.fio.path("disk"), &[]) else { skip!("loop devices need root") };
    for mode in ["gpu_mode=sync\n", "gpu_mode=pool\niodepth=8\n", "gpu_mode=stream\niodepth=8\n"] {
        let text = format!("filename={}\nsize=2m\nbs=16k\nrw=randwrite\nverify=crc32c\n{mode}", device.name());
        let run = gpu.job(&format!("{text}[a]\n")).env("HIPFILE_UNSUPPORTED_FILE_SYSTEMS", "false");
        run.run().ok().counts("read", "io_bytes", 2 * MIB);
        gpu.psync_verifies(&format!("filename={}\nsize=2m\nbs=16k\nverify=crc32c\n[a]\n", device.name()));
    }
}

fn streams_resume_and_tell_failures(gpu: &Gpu) {
    for thread in [0, 1] {
        let text =
            format!("size=1m\nbssplit=4k/50:64k/50\nrw=randrw\nverify=crc32c\niodepth=32\ngpu_mode=stream\nthread={thread}\nnumjobs=2\n");
        let run = gpu.job(&format!("{text}[a]\nfilename_format=f.$jobnum\n"));
        let run = run.env("GPUIO_SIM_HIPFILE_SHORT_EVERY", "3").env("GPUIO_SIM_HIPFILE_SHORT_BYTES", "1000");
        run.run().ok().counts("read", "short_ios", 0);
    }
    let run = write(gpu, "gpu_mode=stream\niodepth=4\n").env("GPUIO_SIM_HIPFILE_FAIL_IO", "5!:5");
    let report = run.run();
    report.fails_with(libc::EIO);
    let told =
        |line: &&str| line.contains("the asynchronous call has failed, for which libhipfile gives no reason; gpu_mode=pool shows it");
    report.assert(report.lines().iter().any(told), "the failure has no line");
    let run = write(gpu, "gpu_mode=stream\niodepth=4\n").env("GPUIO_SIM_HIPFILE_FAIL_ASYNC", "5!:5022").run();
    run.fails_with(libc::EIO);
    run.assert(run.lines().iter().any(|line| line.contains("hipFileInvalidValue (5022)")), "the code is not named");
}

fn the_other_names_contradict(gpu: &Gpu) {
    let report = write(gpu, "rocm_io=hipfile\ngpu_io=posix\n").run();
    gpu.refused_with(&report, &["rocm_io=hipfile contradicts gpu_io=posix", "leave one of them out"]);
}

fn an_older_runtime_has_no_direct_path_and_says_so(gpu: &Gpu) {
    let parts = ["has no file call of amdgpu's (hipAmdFileRead)", "through host memory", "use a newer ROCm"];
    for mode in ["gpu_mode=sync\n", "iodepth=8\n"] {
        let report = write(gpu, &format!("verify=crc32c\n{mode}")).run();
        gpu.says_one_more_with(report.ok().counts("read", "total_ios", 16), &parts);
    }
    gpu.refused_with(&write(gpu, REQUIRED).run(), &["gpu_require_direct=1: this HIP runtime has no file call", parts[2]]);
}

fn an_older_runtime_scrambles_byte_by_byte(gpu: &Gpu) {
    gpu.job("size=1m\nbs=4k\nrw=write\niodepth=4\ngpu_data=scramble\nfilename=f\n[a]\n").run().ok();
    let content = gpu.fio.read("f");
    let distinct = content.chunks(4096).collect::<std::collections::HashSet<_>>().len();
    assert_eq!(distinct, 256, "blocks repeat");
    assert_eq!(gpu.calls().count("hipMemset2DAsync"), 4 * 256);
}
