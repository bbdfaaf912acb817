//! Registered memory: room in /dev/shm, and the lock between processes; and the stacks of the threads that the library starts.

use super::on_the_real_library;

on_the_real_library![
    too_little_shared_memory_is_refused_with_its_size,
    registering_waits_for_other_processes,
    the_threads_of_the_library_have_small_stacks,
];

mod run {
    use super::super::Gusli;
    use crate::harness::{machine, skip};

    pub fn too_little_shared_memory_is_refused_with_its_size(gusli: &Gusli) {
        if machine::try_tool("unshare", &["--mount", "true"]).is_err() {
            skip!("a /dev/shm of its own needs root, and a file system that can be mounted over");
        }
        let mount = "mount -t tmpfs -o size=256k none /dev/shm && exec \"$@\"";
        let words = ["unshare", "--mount", "sh", "-c", mount, "sh"];
        for how in ["thread=1\n", "thread=0\n"] {
            let text = format!("{how}filename=f\nsize=4m\nrw=write\nbs=64k\niodepth=8\n[a]\n");
            let report = gusli.job(&text).through(&words).run();
            report.refused().says_one_with(&["registering the I/O buffers takes 589824 bytes of /dev/shm, and 262144 are free", "iodepth"]);
            let small = format!("{how}filename=f\nsize=1m\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\n[a]\n");
            gusli.job(&small).through(&words).run().ok();
        }
    }

    /// The C library keeps those of ended threads, as long as they are 40 MiB together.
    pub fn the_threads_of_the_library_have_small_stacks(gusli: &Gusli) {
        let text = "filename=f\nsize=4m\nrw=randread\nbs=4k\niodepth=32\ntime_based=1\nruntime=2\nthread=1\n[a]\n";
        let running = gusli.job(text).start();
        let seen = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            has_mapping_of(running.id(), 1 << 20)
        });
        running.finish().ok().says_nothing();
        assert!(seen, "no stack of 1 MiB was seen in 2 s of I/O with 32 in flight");
    }

    /// Whether a process has a mapping of so many bytes that can be written to.
    fn has_mapping_of(process: i32, bytes: u64) -> bool {
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
        let size = |line: &str| line.split_once(' ')?.0.split_once('-').map(|(from, to)| number(to) - number(from));
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        maps.lines().any(|line| line.contains(" rw-p ") && size(line) == Some(bytes))
    }

    pub fn registering_waits_for_other_processes(gusli: &Gusli) {
        let run = gusli.job("filename=f\nsize=64k\nrw=write\nbuffer_pattern=0xaa\n[a]\n");
        gusli.fio.waits_for_the_lock_of_shared_memory(run, "f", 0xaa);
    }
}
