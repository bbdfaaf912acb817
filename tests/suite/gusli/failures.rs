//! I/O that fails or never ends: the errno on its own unit, one line, an end in time, and nothing left.

use super::on_the_real_library;

on_the_real_library![
    a_device_that_fails_gives_every_unit_its_error,
    a_list_that_fails_gives_each_unit_its_own_end,
    a_device_that_never_answers_ends_with_a_signal,
    a_device_that_never_answers_ends_with_the_runtime,
    jobs_end_on_signals_and_leave_nothing,
    each_step_of_an_init_that_fails_gives_back_what_was_taken,
];

mod run {
    use std::time::{Duration, Instant};

    use super::super::{Gusli, ends_in_time, left_nothing, wait_until_registered};
    use crate::harness::machine::{LoopDevice, tool, wait_until_open};
    use crate::harness::{noise, skip};

    const FAILS: &str = "filename=bad\ngusli_device=bad:x:/none\nsize=64k\nbs=4k\n";
    const STUCK: &str = "filename=stuck\ngusli_device=stuck:s:/none\nsize=64k\nbs=4k\nrw=randwrite\niodepth=4\n";
    const HOWS: [&str; 4] = ["thread=1\n", "thread=0\n", "thread=1\ngpu_wait=block\n", "thread=0\ngpu_wait=block\n"];

    pub fn a_device_that_fails_gives_every_unit_its_error(gusli: &Gusli) {
        for how in HOWS {
            let report = gusli.job(&format!("{FAILS}{how}rw=write\n[a]\n")).run();
            report.fails_with(libc::EIO);
            report.says_one_with(&["write of bad at offset 0, 4096 bytes: GUSLI error -13", "said once"]);
            let report = gusli.job(&format!("{FAILS}{how}rw=randread\niodepth=4\ncontinue_on_error=all\n[a]\n")).run();
            let job = &report.jobs()[0];
            report.assert(job["total_err"] == 16 && job["first_error"] == libc::EIO, "not every unit has the error");
        }
    }

    pub fn a_list_that_fails_gives_each_unit_its_own_end(gusli: &Gusli) {
        // A device of four blocks in whose middle one cannot be read: a loop device over a file that is cut off under it.
        gusli.fio.file("image", &noise(128 << 10));
        let Some(device) = LoopDevice::over(&gusli.fio.path("image"), &[]) else { skip!("loop devices need root") };
        std::fs::File::options().write(true).open(gusli.fio.path("image")).expect("the image").set_len(64 << 10).expect("a cut");
        tool("blockdev", &["--flushbufs", &device.name()]);
        for manner in ["", "gpu_wait=block\n"] {
            let text = format!(
                "thread=1\nfilename={}\nsize=128k\nbs=4k\nrw=read\ndirect=1\niodepth=32\niodepth_batch_submit=32\niodepth_batch_complete_min=32\n\
                 gusli_sgl=1\ncontinue_on_error=all\n{manner}[a]\n",
                device.name()
            );
            let report = gusli.job(&text).run();
            let job = &report.jobs()[0];
            report.assert(job["total_err"] == 16 && job["first_error"] == libc::EIO, "not just those behind the cut have an error");
            report.says_one_with(&["GUSLI error -15", "said once"]);
        }
    }

    pub fn a_device_that_never_answers_ends_with_a_signal(gusli: &Gusli) {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            for how in HOWS {
                left_nothing(|| {
                    let running = gusli.job(&format!("{STUCK}{how}[a]\n")).start();
                    wait_until_registered(running.id());
                    running.signal(signal);
                    ends_in_time(running, Instant::now());
                });
            }
        }
    }

    pub fn a_device_that_never_answers_ends_with_the_runtime(gusli: &Gusli) {
        for how in HOWS {
            left_nothing(|| {
                let report = gusli.job(&format!("{STUCK}{how}time_based=1\nruntime=1\n[a]\n")).run();
                report.assert(
                    report.took < Duration::from_millis(5000),
                    &format!("it took {:?} to start, run for 1 s, and end", report.took),
                );
                report.assert(report.code() == Some(1), "fio did not end with status 1");
                let named = report.lines().iter().filter(|line| line.contains("of stuck at offset") && line.contains("given up")).count();
                report.assert(named == 4, "not each operation is named");
            });
        }
    }

    pub fn jobs_end_on_signals_and_leave_nothing(gusli: &Gusli) {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            for how in HOWS {
                left_nothing(|| {
                    let text = "filename=f\nsize=4m\nrw=randrw\nbs=4k\niodepth=32\ntime_based=1\nruntime=30\nnumjobs=2\n";
                    let running = gusli.job(&format!("{text}{how}[a]\n")).start();
                    wait_until_open(running.id(), &gusli.fio.path("f"));
                    running.signal(signal);
                    ends_in_time(running, Instant::now());
                });
            }
        }
    }

    pub fn each_step_of_an_init_that_fails_gives_back_what_was_taken(gusli: &Gusli) {
        for how in HOWS {
            for fails in ["gpu_report=/none/report.json\n", "unlink_each_loop=1\nloops=2\ncreate_on_open=1\n", "gusli_log=/none/log\n"] {
                left_nothing(|| {
                    let report = gusli.job(&format!("filename=f\nsize=64k\nrw=write\n{how}{fails}[a]\n")).run();
                    report.assert(report.code() == Some(1), &format!("{fails}: fio did not end with status 1"));
                    report.assert(report.lines().len() == 1, &format!("{fails}: not one line was said"));
                });
            }
        }
    }
}
