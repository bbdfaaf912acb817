//! NIXL's plugin GUSLI, on files and loop devices.

use super::on_the_real_library;

on_the_real_library![
    files_and_devices_are_verified_and_stay,
    json_stays_json_though_the_plugin_prints,
    registering_waits_for_other_processes,
    what_the_plugin_cannot_do_is_said,
];

mod run {
    use super::super::{MIB, Nixl};
    use crate::harness::machine::LoopDevice;
    use crate::harness::{noise, skip};

    pub fn files_and_devices_are_verified_and_stay(nixl: &Nixl) {
        for (depth, thread) in [(1, 0), (8, 1), (32, 0)] {
            let text = format!(
                "nixl_plugin=GUSLI\nthread={thread}\nfilename=f:g\nsize=2m\nrw=randwrite\nbsrange=4k-16k\niodepth={depth}\nverify=crc32c\n"
            );
            nixl.job(&format!("{text}[a]\n")).run().ok().says_nothing().counts("read", "io_bytes", 2 * MIB);
        }
        assert!(nixl.fio.path("f").exists() && nixl.fio.path("g").exists(), "a file is gone");
        nixl.fio.file("image", &noise(4 << 20));
        let Some(device) = LoopDevice::over(&nixl.fio.path("image"), &[]) else { skip!("loop devices need root") };
        let text = format!(
            "nixl_plugin=GUSLI\nfilename={}\nsize=2m\ndirect=1\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\n[a]\n",
            device.name()
        );
        nixl.job(&text).run().ok().says_nothing();
    }

    pub fn json_stays_json_though_the_plugin_prints(nixl: &Nixl) {
        for thread in [0, 1] {
            let text = format!("nixl_plugin=GUSLI\nthread={thread}\nfilename=f\nsize=256k\nrw=write\nbs=4k\nnixl_log=nixl.log\n[a]\n");
            nixl.job(&text).run().ok().says_nothing();
            assert!(String::from_utf8_lossy(&nixl.fio.read("nixl.log")).contains("GUSLI"), "the log has nothing of GUSLI's");
        }
    }

    pub fn registering_waits_for_other_processes(nixl: &Nixl) {
        let run = nixl.job("nixl_plugin=GUSLI\nfilename=f\nsize=64k\nrw=write\nbuffer_pattern=0xaa\n[a]\n");
        nixl.fio.waits_for_the_lock_of_shared_memory(run, "f", 0xaa);
    }

    pub fn what_the_plugin_cannot_do_is_said(nixl: &Nixl) {
        nixl.fio.file("f", &noise(1 << 20));
        let base = "nixl_plugin=GUSLI\nsize=64k\nrw=write\nbs=4k\n";
        for (option, parts) in [
            ("nrfiles=2\n[a]\n", ["nixl_plugin=GUSLI has to know its devices beforehand", "filename="]),
            ("filename=f\nnixl_params=config_file=x\n[a]\n", ["nixl_params=config_file", "leave it out"]),
            ("filename=f\nnixl_params=speed=1\n[a]\n", ["nixl_plugin=GUSLI has no such parameter", "client_name"]),
            ("filename=none\ncreate_on_open=1\n[a]\n", ["filename=none is not there yet", "create_on_open"]),
        ] {
            nixl.job(&format!("{base}{option}")).run().refused().says_one_with(&parts);
        }
        let report =
            nixl.job(&format!("{base}thread=1\ntime_based=1\nruntime=1\n[a]\nfilename=f\n[b]\nstartdelay=300ms\nfilename=f\n")).run();
        report.says_one_with(&["nixl_plugin=GUSLI takes one job in a process", "use thread=0"]);
    }
}
