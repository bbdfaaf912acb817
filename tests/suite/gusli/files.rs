//! What `filename=` names: a path, an entry's id or path, a device of a configuration file; and how large fio takes it for.

use super::{on_the_real_library, on_the_real_library_and_every_fio};

on_the_real_library_and_every_fio![
    a_device_named_by_its_id_has_its_own_size,
    a_file_that_is_read_keeps_its_inode_and_its_content,
    other_backends_find_sizes_as_before,
];
on_the_real_library![
    a_device_can_be_named_by_the_path_of_its_entry,
    a_file_starts_at_the_offset_of_its_entry,
    a_configuration_file_names_devices,
    a_block_device_named_by_its_id_has_its_own_size,
    a_path_that_the_library_cannot_take_is_used_all_the_same,
    a_file_that_was_not_there_stays,
    a_file_of_more_than_a_gibibyte_is_used_whole,
    a_file_that_is_made_anew_under_way_is_refused,
    a_device_implies_the_backend,
    the_ready_job_files_run,
];

mod run {
    use std::os::unix::fs::MetadataExt;

    use super::super::{Gusli, MIB};
    use crate::harness::machine::LoopDevice;
    use crate::harness::{noise, skip};

    /// fio must not make a file of the id's name.
    #[track_caller]
    fn made_no_file(gusli: &Gusli, id: &str) {
        assert!(!gusli.fio.path(id).exists(), "fio has made a file {id}");
    }

    pub fn a_device_named_by_its_id_has_its_own_size(gusli: &Gusli) {
        gusli.fio.file("store", &noise(3 << 20));
        let text = "thread=1\nfilename=11\ngusli_device=11:F:./store, 12:F:./other\nrw=read\nbs=64k\niodepth=4\n";
        gusli.job(&format!("{text}[a]\n")).run().ok().says_nothing().counts("read", "io_bytes", 3 * MIB);
        gusli.job(&format!("{text}size=1m\nrw=randwrite\nverify=crc32c\n[a]\n")).run().ok().counts("read", "io_bytes", MIB);
        made_no_file(gusli, "11");
    }

    pub fn a_device_can_be_named_by_the_path_of_its_entry(gusli: &Gusli) {
        let text = "filename=store\ngusli_device=11:F:store:sec=0x3\nsize=1m\nrw=randwrite\nbs=4k\nverify=crc32c\n[a]\n";
        gusli.job(text).run().ok().says_nothing().counts("read", "io_bytes", MIB);
        gusli.psync_verifies("filename=store\nsize=1m\nbs=4k\nverify=crc32c\n");
    }

    pub fn a_file_starts_at_the_offset_of_its_entry(gusli: &Gusli) {
        gusli.fio.file("store", &vec![0; 2 << 20]);
        let text = "filename=a\ngusli_device=a:F:store::1048576\nrw=write\nbs=64k\nbuffer_pattern=0x5a\n";
        for sgl in ["", "gusli_sgl=1\niodepth=8\niodepth_batch_submit=8\n"] {
            gusli.job(&format!("{text}{sgl}[a]\n")).run().ok().counts("write", "io_bytes", MIB);
            let content = gusli.fio.read("store");
            assert!(content[..1 << 20].iter().all(|&byte| byte == 0) && content[1 << 20..].iter().all(|&byte| byte == 0x5a));
        }
        let refused = gusli.job("filename=a\ngusli_device=a:F:store::2097152\nrw=read\n[a]\n").run();
        refused.refused().says_one_with(&["store has 2097152 bytes that can be used, none of them behind the offset 2097152"]);
    }

    pub fn a_configuration_file_names_devices(gusli: &Gusli) {
        gusli.fio.file("one", &vec![0; 1 << 20]);
        gusli.fio.file("two", &vec![0; 2 << 20]);
        std::fs::write(
            gusli.fio.path("gusli.conf"),
            "# Config\nversion=1\n# id type how direct path cookie\nd1 F W N one sec\nd2 F W N two sec\n",
        )
        .expect("the file");
        let text = "gusli_config=gusli.conf\nrw=write\nbs=64k\niodepth=4\n[a]\nfilename=d1\nbuffer_pattern=0x11\n[b]\nfilename=d2\nbuffer_pattern=0x22\n";
        gusli.job(text).run().ok().says_nothing().counts("write", "io_bytes", 3 * MIB);
        assert!(gusli.fio.read("one") == vec![0x11; 1 << 20] && gusli.fio.read("two") == vec![0x22; 2 << 20]);
        let refused = gusli.job("gusli_config=gusli.conf\nrw=write\nsize=1m\nfilename=d3\n[a]\n").run();
        refused.refused().says_one_with(&["filename=d3 is no id", "d1, d2"]);
        made_no_file(gusli, "d3");
        // The library ends the process for a version that it does not know.
        std::fs::write(gusli.fio.path("gusli.conf"), "# Config\nversion=2\n").expect("the file");
        let refused = gusli.job("gusli_config=gusli.conf\nrw=write\nsize=1m\nfilename=d1\n[a]\n").run();
        refused.refused().says_one_with(&["gusli_config=gusli.conf: its first line is \"version=2\" where version=1 is expected"]);
    }

    pub fn a_block_device_named_by_its_id_has_its_own_size(gusli: &Gusli) {
        gusli.fio.file("image", &noise(4 << 20));
        let Some(device) = LoopDevice::over(&gusli.fio.path("image"), &[]) else { skip!("loop devices need root") };
        let text = format!("thread=1\ndirect=1\nfilename=14\ngusli_device=14:K:{}\nrw=read\nbs=64k\niodepth=4\n[a]\n", device.name());
        gusli.job(&text).run().ok().says_nothing().counts("read", "io_bytes", 4 * MIB);
        made_no_file(gusli, "14");
    }

    pub fn a_path_that_the_library_cannot_take_is_used_all_the_same(gusli: &Gusli) {
        for name in ["a name with blanks", "a#hash", &"long".repeat(40)] {
            let text =
                format!("thread=1\nsize=1m\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\n[a]\nfilename={name}\n[b]\nfilename=plain\n");
            gusli.job(&text).run().ok().says_nothing().counts("read", "io_bytes", 2 * MIB);
            gusli.fio.job_file(&format!("[a]\nioengine=psync\nrw=read\nsize=1m\nbs=4k\nverify=crc32c\nfilename={name}\n")).run().ok();
        }
    }

    pub fn a_file_that_was_not_there_stays(gusli: &Gusli) {
        gusli.job("filename=f\nsize=1m\nrw=write\nbs=64k\nbuffer_pattern=0x77\ncreate_on_open=1\n[a]\n").run().ok();
        assert_eq!(gusli.fio.read("f"), vec![0x77; 1 << 20]);
    }

    pub fn a_file_that_is_read_keeps_its_inode_and_its_content(gusli: &Gusli) {
        gusli.fio.file("f", &noise(1 << 20));
        let before = std::fs::metadata(gusli.fio.path("f")).expect("the file").ino();
        // No size is given: it is the file's.
        gusli.job("filename=f\nrw=randread\nbs=4k\niodepth=4\n[a]\n").run().ok().counts("read", "io_bytes", MIB);
        assert_eq!(std::fs::metadata(gusli.fio.path("f")).expect("the file").ino(), before);
        gusli.fio.same_bytes("f");
    }

    pub fn other_backends_find_sizes_as_before(gusli: &Gusli) {
        gusli.fio.file("f", &noise(1 << 20));
        gusli.fio.same_as_psync("filename=f\nrw=randread\nbs=4k\n[a]\n");
        gusli.fio.same_as_psync("nrfiles=4\nsize=1m\nrw=randwrite\nbs=4k\n[b]\n");
        gusli.fio.job("rw=read\nfilename=none\n[a]\n").run().refused();
        gusli.fio.psync("rw=read\nfilename=none\n[a]\n").run().refused();
    }

    pub fn a_file_of_more_than_a_gibibyte_is_used_whole(gusli: &Gusli) {
        let file = std::fs::File::create(gusli.fio.path("f")).expect("a file");
        file.set_len(2 << 30).expect("a hole");
        let text = "thread=1\nfilename=f\noffset=2146435072\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\n[a]\n";
        gusli.job(text).run().ok().says_nothing().counts("read", "io_bytes", MIB);
    }

    pub fn a_file_that_is_made_anew_under_way_is_refused(gusli: &Gusli) {
        let text = "filename=f\nsize=64k\nrw=write\nbs=4k\nloops=3\nunlink_each_loop=1\ncreate_on_open=1\n[a]\n";
        let report = gusli.job(text).run();
        report.assert(report.code() == Some(1), "fio did not end with status 1");
        report.says_one_with(&["f was made anew since the job began", "unlink_each_loop"]);
    }

    pub fn the_ready_job_files_run(gusli: &Gusli) {
        let library = crate::harness::library().display().to_string();
        for name in ["gusli-verify.fio", "gusli-randread.fio"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fio-jobs").join(name);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let text =
                text.replace("./target/release/libgpuio.so", &library).replace("size=256m", "size=4m").replace("size=64m", "size=4m");
            gusli.file(&text.replace("runtime=5", "runtime=1")).run().ok().says_nothing();
        }
    }

    pub fn a_device_implies_the_backend(gusli: &Gusli) {
        gusli.fio.file("store", &vec![0; 1 << 20]);
        let text = |more: &str| {
            let library = crate::harness::library();
            format!("[global]\nioengine=external:{}\nfilename=a\ngusli_device=a:F:store\nrw=read\n{more}[a]\n", library.display())
        };
        gusli.file(&text("")).run().ok().says("gpu_backend=auto is gusli: gusli_device");
        let report = gusli.file(&text("gpu_backend=host\n")).run();
        report.refused().says_one_with(&["gpu_backend=host contradicts gusli_device", "gpu_backend=gusli"]);
        let report = gusli.file(&text("cuda_io=cufile\n")).run();
        report.refused().says_one_with(&["cuda_io and gusli_device contradict each other"]);
    }
}
