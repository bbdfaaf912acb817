//! Registered memory: room in /dev/shm, and the lock between processes.

use super::on_the_real_library;

on_the_real_library![too_little_shared_memory_is_refused_with_its_size, registering_waits_for_other_processes];

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

    pub fn registering_waits_for_other_processes(gusli: &Gusli) {
        let run = gusli.job("filename=f\nsize=64k\nrw=write\nbuffer_pattern=0xaa\n[a]\n");
        gusli.fio.waits_for_the_lock_of_shared_memory(run, "f", 0xaa);
    }
}
