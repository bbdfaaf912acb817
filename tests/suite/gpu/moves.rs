//! Bytes between files and device memory: every direction, every mix of blocks, every kind of verification; seen by another program.

use super::{Gpu, MIB, gpu_report, on_every_library};
use crate::harness::machine::LoopDevice;
use crate::harness::{noise, skip};

on_every_library![
    every_direction_moves_the_bytes_that_psync_moves,
    mixed_block_sizes_write_what_psync_writes,
    mixed_block_sizes_are_verified,
    every_kind_of_verification_holds_and_psync_reads_it_back,
    reads_bring_what_another_engine_wrote,
    several_files_hold_what_psync_writes,
    a_loop_device_is_written_and_read,
    trims_leave_zeros,
    syncs_are_counted_as_with_psync,
    a_time_based_job_ends_in_time,
    posix_io_moves_the_same_bytes,
    every_kind_of_memory_moves_the_same_bytes,
    a_read_past_the_end_is_short_as_with_psync,
    direct_0_is_told_and_moves_the_same_bytes,
    sizes_off_4_kib_are_told_once_and_move_the_same_bytes,
];

/// Smoke: what the other tests show with fio 3.33 holds on the other fios.
mod every_fio {
    use super::{Gpu, verified_on_any_fio};

    macro_rules! on_the_others {
        ($($test:ident: $environment:literal $fio:literal),* $(,)?) => {$(
            #[test]
            fn $test() { verified_on_any_fio(&Gpu::get($environment, $fio)) }
        )*};
    }

    on_the_others![
        cuda_12_on_fio_3_25: "cufile12" "3.25",
        cuda_12_on_fio_3_39: "cufile12" "3.39",
        cuda_12_on_fio_3_41: "cufile12" "3.41",
        cuda_13_on_fio_3_25: "cufile13" "3.25",
        cuda_13_on_fio_3_39: "cufile13" "3.39",
        cuda_13_on_fio_3_41: "cufile13" "3.41",
        hipfile_sim_on_fio_3_25: "hipfile-sim" "3.25",
        hipfile_sim_on_fio_3_39: "hipfile-sim" "3.39",
        hipfile_sim_on_fio_3_41: "hipfile-sim" "3.41",
    ];
}

fn verified_on_any_fio(gpu: &Gpu) {
    let text = "size=512k\nbssplit=4k/60:16k/40\nverify=crc32c\n";
    let jobs =
        "[forked]\nfilename=a\nrw=randwrite\n[deep]\nfilename=b\nrw=randwrite\niodepth=8\nthread=1\n[mixed]\nfilename=c\nrw=randrw\n";
    let report = gpu.job(&format!("{text}{jobs}")).run();
    gpu.says_no_more(report.ok());
    report.assert(report.jobs().iter().take(2).all(|job| job["read"]["io_bytes"] == MIB / 2), "not all was read back");
    gpu.same_bytes_as_psync("size=512k\nbs=4k\nfilename=d\n[a]\nrw=randwrite\n", &["d"]);
}

fn every_direction_moves_the_bytes_that_psync_moves(gpu: &Gpu) {
    let content = noise(MIB as usize / 2);
    for file in ["read", "randread", "rw", "randrw"] {
        gpu.fio.file(file, &content);
    }
    let job = |mode: &str| format!("[{mode}]\nrw={mode}\nfilename={mode}\n");
    let modes = ["read", "write", "randread", "randwrite", "rw", "randrw"];
    let text = format!("size=512k\nbs=8k\n{}", modes.map(job).concat());
    gpu.says_no_more(&gpu.same_bytes_as_psync(&text, &modes));
}

fn mixed_block_sizes_write_what_psync_writes(gpu: &Gpu) {
    let jobs = "[split]\nfilename=s\nbssplit=4k/40:16k/40:64k/20\nrw=randwrite\n[range]\nfilename=r\nbsrange=4k-64k\nrw=write\n\
                [apart]\nfilename=a\nbs=4k,32k\nrw=randrw\n";
    gpu.says_no_more(&gpu.same_bytes_as_psync(&format!("size=1m\n{jobs}"), &["s", "r", "a"]));
}

fn mixed_block_sizes_are_verified(gpu: &Gpu) {
    let jobs =
        "[split]\nfilename=s\nbssplit=4k/40:16k/40:64k/20\nrw=randwrite\n[range]\nfilename=r\nbsrange=4k-64k\nrw=randwrite\niodepth=16\n";
    let report = gpu.job(&format!("size=2m\nverify=crc32c\n{jobs}")).run();
    gpu.says_no_more(report.ok().counts("write", "io_bytes", 4 * MIB).counts("read", "io_bytes", 4 * MIB));
}

fn every_kind_of_verification_holds_and_psync_reads_it_back(gpu: &Gpu) {
    let job = |kind: &str| {
        let pattern = if kind == "pattern" { "verify_pattern=0xdeadbeef%o\n" } else { "" };
        format!("[{kind}]\nfilename={kind}\nverify={kind}\n{pattern}")
    };
    let jobs = ["crc32c", "md5", "pattern", "meta"].map(job).concat();
    let report = gpu.job(&format!("size=512k\nbs=16k\nrw=randwrite\n{jobs}")).run();
    gpu.says_no_more(report.ok().counts("read", "io_bytes", 2 * MIB));
    gpu.psync_verifies(&format!("size=512k\nbs=16k\n{jobs}"));
}

fn reads_bring_what_another_engine_wrote(gpu: &Gpu) {
    let text = "filename=f\nsize=1m\nbs=32k\nverify=md5\n";
    gpu.fio.job_file(&format!("[global]\nioengine=psync\nrw=write\ndo_verify=0\n{text}[a]\n")).run().ok();
    let before = gpu.fio.sha256("f");
    let report = gpu.job(&format!("{text}[forward]\nrw=read\n[random]\nrw=randread\n[deep]\nrw=randread\niodepth=8\n")).run();
    gpu.says_no_more(report.ok().counts("read", "io_bytes", 3 * MIB));
    assert_eq!(gpu.fio.sha256("f"), before, "a job that reads has written");
    // The bytes that are verified are those of the device: changed on disk, they fail.
    let mut content = gpu.fio.read("f");
    content[777_777] ^= 1;
    std::fs::write(gpu.fio.path("f"), content).expect("the file");
    gpu.job(&format!("{text}rw=read\n[a]\n")).run().fails_with(libc::EILSEQ);
}

fn several_files_hold_what_psync_writes(gpu: &Gpu) {
    let text = "size=1m\nnrfiles=4\nfilename_format=f.$filenum\nfile_service_type=random\nbs=4k\nrw=randwrite\n";
    gpu.says_no_more(&gpu.same_bytes_as_psync(&format!("{text}[a]\n"), &["f.0", "f.1", "f.2", "f.3"]));
    let report = gpu.job(&format!("{text}verify=crc32c\nopenfiles=2\niodepth=4\n[a]\n")).run();
    gpu.says_no_more(report.ok().counts("read", "io_bytes", MIB));
}

fn a_loop_device_is_written_and_read(gpu: &Gpu) {
    gpu.fio.file("disk", &vec![0; 4 << 20]);
    let Some(device) = LoopDevice::over(&gpu.fio.path("disk"), &[]) else { skip!("loop devices need root") };
    let text = format!("filename={}\nsize=2m\nbs=16k\nrw=randwrite\nverify=crc32c\n[a]\n", device.name());
    let report = gpu.job(&text).run();
    gpu.says_no_more(report.ok().counts("read", "io_bytes", 2 * MIB));
    gpu.psync_verifies(&text.replace("rw=randwrite\n", ""));
}

fn trims_leave_zeros(gpu: &Gpu) {
    gpu.fio.file("f", &noise(MIB as usize));
    let report = gpu.job("filename=f\nsize=1m\nbs=64k\nrw=randtrim\n[a]\n").run();
    gpu.says_no_more(report.ok().counts("trim", "io_bytes", MIB));
    assert!(gpu.fio.read("f").iter().all(|&byte| byte == 0));
    // Trimmed, then written: never the other way round.
    let report = gpu.job("filename=f\nsize=1m\nbs=64k\nrw=trimwrite\nbuffer_pattern=0x4d\niodepth=4\n[a]\n").run();
    gpu.says_no_more(report.ok());
    let written = gpu.fio.read("f").iter().filter(|&&byte| byte == 0x4d).count() as u64;
    report.assert(written >= report.sum("write", "io_bytes") * 9 / 10, &format!("only {written} written bytes are on disk"));
}

fn syncs_are_counted_as_with_psync(gpu: &Gpu) {
    let jobs =
        "[fsync]\nfilename=a\nfsync=8\nend_fsync=1\n[data]\nfilename=b\nfdatasync=16\n[range]\nfilename=c\nsync_file_range=write:16\n";
    gpu.says_no_more(&gpu.same_bytes_as_psync(&format!("size=512k\nbs=4k\nrw=randwrite\n{jobs}"), &["a", "b", "c"]));
    let report = gpu.job(&format!("size=512k\nbs=4k\nrw=randwrite\niodepth=8\nverify=crc32c\n{jobs}")).run();
    gpu.says_no_more(report.ok());
}

fn a_time_based_job_ends_in_time(gpu: &Gpu) {
    let text = "filename_format=$jobname\nsize=256k\nbs=4k\nruntime=1\ntime_based=1\n[one]\nrw=randwrite\n[deep]\nrw=randrw\niodepth=16\n";
    let report = gpu.job(text).run();
    gpu.says_no_more(report.ok());
    report.assert(report.took.as_secs_f64() < 10.0, "it took too long");
    report.assert(report.sum("write", "io_bytes") > MIB, "it stopped after its size, not after its time");
}

fn posix_io_moves_the_same_bytes(gpu: &Gpu) {
    for option in ["cuda_io=posix", "gpu_io=posix"] {
        let text = format!("{option}\nsize=512k\nbssplit=4k/50:16k/50\nrw=randwrite\n");
        // Nothing of cuFile is used, so there is nothing to say about its direct path.
        gpu.same_bytes_as_psync(&format!("{text}[a]\nfilename=f\n"), &["f"]).says_one_with(&["job 0 uses device 0"]);
        let report = gpu.job(&format!("{text}verify=md5\ngpu_report=r.json\n[a]\nfilename=g\n[b]\nfilename=h\niodepth=8\n")).run();
        report.ok().counts("read", "io_bytes", MIB);
        let said = gpu_report(&gpu.fio.path("r.json"));
        let paths: Vec<&str> = said["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["files"][0]["path"].as_str()).collect();
        assert_eq!(paths, ["posix-bounce"; 2], "{said:#}");
    }
    assert!(gpu.calls().count("cuMemAlloc") >= 2, "the buffers were not on the device");
}

fn every_kind_of_memory_moves_the_same_bytes(gpu: &Gpu) {
    for (memory, registers) in [("device", &[0, 1][..]), ("managed", &[0, 1]), ("pinned", &[1]), ("host", &[1])] {
        for &register in registers {
            let way = if memory == "device" { "" } else { gpu.vendor.host_memory };
            let text = format!("gpu_mem={memory}\n{way}gpu_register={register}\nsize=1m\nbssplit=4k/50:16k/50\nrw=randwrite\n");
            let first = gpu.same_bytes_as_psync(&format!("{text}[a]\nfilename=f\n"), &["f"]);
            let report = gpu.job(&format!("{text}verify=crc32c\n[a]\nfilename=g\n[b]\nfilename=h\niodepth=16\n")).run();
            report.ok().counts("read", "io_bytes", 2 * MIB);
            match (memory, register) {
                // libcufile registers no managed memory.
                ("managed", 1) if !gpu.vendor.is_amd() => {
                    gpu.says_one_more_with(&first, &["the I/O buffers stay unregistered", "(5013)", "gpu_mem=device"])
                }
                _ => [&first, &report].into_iter().for_each(|report| gpu.says_no_more(report)),
            }
            std::fs::remove_file(gpu.fio.path("f")).expect("a file of the test");
        }
    }
}

fn a_read_past_the_end_is_short_as_with_psync(gpu: &Gpu) {
    gpu.fio.file("f", &noise(100 << 10));
    let text = "filename=f\nbs=64k\nrw=read\nsize=100k\n[a]\n";
    let (ours, theirs) = (gpu.job(text).run(), gpu.fio.psync(&format!("direct=1\n{text}")).run());
    ours.ok().counts("read", "io_bytes", theirs.sum("read", "io_bytes")).counts("read", "short_ios", theirs.sum("read", "short_ios"));
}

fn direct_0_is_told_and_moves_the_same_bytes(gpu: &Gpu) {
    let report = gpu.same_bytes_as_psync("direct=0\nsize=256k\nbs=4k\nrw=randwrite\nfilename=f\n[a]\n", &["f"]);
    gpu.says_one_more_with(&report, &["direct=0", "use direct=1"]);
}

fn sizes_off_4_kib_are_told_once_and_move_the_same_bytes(gpu: &Gpu) {
    let report = gpu.same_bytes_as_psync("size=128k\nbs=512\nrw=randwrite\nfilename=f\n[a]\n", &["f"]);
    gpu.says_one_more_with(&report, &["512 bytes is not a multiple of 4096 bytes", "said once"]);
    let report = gpu.job("size=128k\nbs=1536\nbs_unaligned=1\ndirect=0\nrw=randwrite\nverify=crc32c\nfilename=g\n[a]\n").run();
    report.ok().assert(report.lines().iter().filter(|line| line.contains("is not a multiple of")).count() == 1, "not said once");
}
