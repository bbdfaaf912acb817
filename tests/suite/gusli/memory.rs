//! Registered memory: room in /dev/shm, and the lock between processes.

use super::on_the_real_library;

on_the_real_library![too_little_shared_memory_is_refused_with_its_size, registering_waits_for_other_processes];

mod run {
    use std::time::Duration;

    use rustix::fs::{FlockOperation, flock};

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

    /// Longer than the whole run takes where nothing is in its way.
    const HELD: Duration = Duration::from_millis(4000);

    pub fn registering_waits_for_other_processes(gusli: &Gusli) {
        let place = std::fs::File::open("/dev/shm").expect("/dev/shm");
        flock(&place, FlockOperation::LockExclusive).expect("a lock");
        let running = gusli.job("filename=f\nsize=64k\nrw=write\nbuffer_pattern=0xaa\n[a]\n").start();
        std::thread::sleep(HELD);
        let early = std::fs::read(gusli.fio.path("f")).is_ok_and(|bytes| bytes.contains(&0xaa));
        flock(&place, FlockOperation::Unlock).expect("an end of the lock");
        running.finish().ok().says_nothing();
        assert!(!early, "it did not wait for the lock");
        assert_eq!(gusli.fio.read("f"), [0xaa; 64 << 10]);
    }
}
