//! `gpu_mem=pinned`: the registered range is locked for the GPU, on the simulated driver, after the library has mapped its memory there and until
//! before it takes it away.

use super::{Gusli, MIB, ends_in_time, left_nothing, wait_until_registered};
use crate::harness::machine::LoopDevice;
use crate::harness::skip;

const USES: &str = "job 0 uses device 0 (Simulated GPU, PCI 0000:40:00.0, NUMA node unknown)";
const HOWS: [&str; 2] = ["thread=1\n", "thread=0\n"];

fn gusli() -> Gusli {
    Gusli::with("3.33", &["gusli", "cufile-sim"])
}

/// Calls of a name into the driver that succeeded, in all runs so far.
fn count(gusli: &Gusli, name: &str) -> usize {
    let log = std::fs::read_to_string(gusli.fio.path("calls.log")).unwrap_or_default();
    log.lines().filter(|line| line.contains(&format!(" call={name} ")) && line.contains(" ret=0")).count()
}

/// How often memory was pinned, after all of it was given back.
#[track_caller]
fn pinned(gusli: &Gusli) -> usize {
    let (taken, given) = (count(gusli, "cuMemHostRegister"), count(gusli, "cuMemHostUnregister"));
    assert_eq!(taken, given, "not all was given back");
    assert_eq!(count(gusli, "cuDevicePrimaryCtxRetain"), count(gusli, "cuDevicePrimaryCtxRelease"));
    taken
}

#[test]
fn pinned_memory_is_verified_at_every_depth() {
    let gusli = gusli();
    gusli.fio.file("image", &vec![0; 4 << 20]);
    let device = LoopDevice::over(&gusli.fio.path("image"), &[]);
    let files = ["f".to_owned()].into_iter().chain(device.as_ref().map(LoopDevice::name));
    for file in files {
        for (how, manner) in
            [("thread=1\n", ""), ("thread=0\n", "gpu_wait=block\n"), ("thread=1\n", "gusli_sgl=1\niodepth_batch_submit=4\n")]
        {
            for depth in [1, 32] {
                let text = format!(
                    "{how}{manner}gpu_mem=pinned\nfilename={file}\nsize=4m\nrw=randrw\nbssplit=4k/50:64k/50\niodepth={depth}\ndirect=1\n\
                     verify=crc32c\nverify_fatal=1\n[a]\n"
                );
                gusli.job(&text).run().ok().says(USES);
            }
        }
    }
    assert!(pinned(&gusli) >= 6);
    if device.is_none() {
        skip!("loop devices need root");
    }
}

#[test]
fn a_range_is_pinned_after_it_is_registered_and_until_before_it_is_given_back() {
    let gusli = gusli();
    for how in HOWS {
        let trace = gusli.path("trace");
        let words = ["strace", "-f", "-qq", "-s", "200", "-o", &trace, "-e", "trace=openat,unlink,write"];
        gusli.job(&format!("{how}gpu_mem=pinned\nfilename=f\nsize=1m\nrw=write\nbs=64k\n[a]\n")).through(&words).run().ok();
        let trace = std::fs::read_to_string(trace).expect("a trace");
        let has = |parts: [&'static str; 2]| move |line: &str| parts.iter().all(|part| line.contains(part));
        // The library removes what others have left behind, too: its own goes last.
        let order = [
            trace.lines().position(has(["openat(", "/dev/shm/gs_iobuf"])),
            trace.lines().position(has(["write(", "call=cuMemHostRegister "])),
            trace.lines().position(has(["write(", "call=cuMemHostUnregister "])),
            trace.lines().collect::<Vec<_>>().into_iter().rposition(has(["unlink(", "/dev/shm/gs_iobuf"])),
        ];
        let told: Vec<&str> = trace.lines().filter(|line| line.contains("gs_iobuf") || line.contains("cuMemHost")).collect();
        assert!(order.is_sorted() && order.iter().all(Option::is_some), "{how}{order:?} of {told:#?}");
    }
}

#[test]
fn threads_pin_their_one_range_once() {
    let gusli = gusli();
    let text = "thread=1\nsize=1m\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\nfilename_format=$jobname.$jobnum\n";
    let host = "[host]\ngpu_mem=host\nnumjobs=2\n";
    gusli.job(&format!("{text}gpu_mem=pinned\n{host}[pinned]\nnumjobs=4\n")).run().ok().counts("read", "io_bytes", 6 * MIB);
    assert_eq!(pinned(&gusli), 1);
    gusli.job(&format!("{text}gpu_mem=pinned\n[first]\n[second]\nstonewall\n")).run().ok();
    assert_eq!(pinned(&gusli), 3, "the second one's is not its own");
    gusli.job(&format!("{text}{host}")).run().ok().says_nothing();
    assert_eq!(pinned(&gusli), 3, "who did not ask for it has pinned memory");
}

#[test]
fn forked_jobs_pin_a_range_each() {
    let gusli = gusli();
    let text = "numjobs=4\ngpu_mem=pinned\ngpu_dev_ids=0:1\nsize=1m\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\nfilename_format=f.$jobnum\n[a]\n";
    let report = gusli.job(text).env("GPUIO_SIM_DEVICES", "2").run();
    report.ok().counts("read", "io_bytes", 4 * MIB);
    for line in ["job 0 uses device 0", "job 1 uses device 1", "job 2 uses device 0", "job 3 uses device 1"] {
        report.assert(report.lines().iter().any(|said| said.contains(line)), line);
    }
    assert_eq!(pinned(&gusli), 4);
}

#[test]
fn what_is_pinned_is_given_back_on_every_way_out() {
    let gusli = gusli();
    for how in HOWS {
        // A device that answers, and one that has to be closed by force.
        for text in ["filename=f\nsize=4m\nrw=randrw\n", "filename=stuck\ngusli_device=stuck:s:/none\nsize=64k\nrw=randwrite\n"] {
            let before = pinned(&gusli);
            left_nothing(|| {
                let running = gusli.job(&format!("{how}gpu_mem=pinned\nbs=4k\niodepth=4\ntime_based=1\nruntime=30\n{text}[a]\n")).start();
                wait_until_registered(running.id());
                running.signal(libc::SIGINT);
                ends_in_time(running, std::time::Instant::now());
            });
            assert_eq!(pinned(&gusli), before + 1, "{how}{text}");
        }
        for fails in ["gpu_report=/none/report.json\n", "unlink_each_loop=1\nloops=2\ncreate_on_open=1\n", "gusli_log=/none/log\n"] {
            left_nothing(|| {
                let report = gusli.job(&format!("filename=f\nsize=64k\nrw=write\ngpu_mem=pinned\n{how}{fails}[a]\n")).run();
                report.assert(report.code() == Some(1), &format!("{fails}: fio did not end with status 1"));
            });
            pinned(&gusli);
        }
    }
}

#[test]
fn memory_that_cannot_be_pinned_is_said_and_given_back() {
    let gusli = gusli();
    for how in HOWS {
        left_nothing(|| {
            let text = format!("{how}filename=f\nsize=64k\nrw=write\nbs=64k\niodepth=8\ngpu_mem=pinned\n[a]\n");
            let report = gusli.job(&text).env("GPUIO_SIM_FAIL_REGISTER", "1").run();
            report.refused().assert(
                report.lines().last().is_some_and(|line| {
                    line.contains(
                        "pinning 589824 bytes of I/O buffers on device 0 (Simulated GPU, PCI 0000:40:00.0, NUMA node unknown): \
                                   CUDA_ERROR_OUT_OF_MEMORY (2",
                    ) && line.ends_with("lower iodepth or the block size, or use gpu_mem=host")
                }),
                "the reason is not said",
            );
        });
        assert_eq!(pinned(&gusli), 0);
    }
}

#[test]
fn pinned_memory_without_cuda_is_refused_in_one_line() {
    let gusli = gusli();
    let text = "filename=f\nsize=64k\nrw=write\ngpu_mem=pinned\n[a]\n";
    let report = gusli.job(text).env("GPUIO_CUDA_LIBRARY", "/none/libcuda.so").run();
    report.refused().says(
        "gpu_mem=pinned needs CUDA (gpu_mem=host does not): no NVIDIA driver: /none/libcuda.so (named by GPUIO_CUDA_LIBRARY) cannot be loaded: \
         /none/libcuda.so: cannot open shared object file: No such file or directory; install the driver, or use gpu_backend=host",
    );
    let report = gusli.job(text).env("GPUIO_SIM_DEVICES", "0").run();
    report
        .refused()
        .says_one_with(&["gpu_mem=pinned needs CUDA (gpu_mem=host does not): no NVIDIA GPU: the driver is here, but finds no device"]);
    let report = gusli.job(&format!("{text}gpu_dev_ids=3\n")).run();
    report.refused().says_one_with(&["gpu_mem=pinned needs CUDA", "gpu_dev_ids=3: there is only device 0"]);
}
