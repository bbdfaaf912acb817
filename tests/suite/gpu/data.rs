//! Which bytes a write sends from device memory: fio's own where the job needs them, never the same block twice where it does not care.

use std::collections::HashSet;
use std::path::Path;

use super::{Gpu, MIB, on_every_library, on_every_simulated_library};
use crate::harness::{Report, machine, shim};

on_every_library![
    half_compressible_data_compresses_as_with_psync,
    dedupable_data_repeats_as_with_psync,
    a_plain_random_write_never_repeats_a_block,
    buffer_patterns_and_zeros_are_on_disk,
];
on_every_simulated_library![
    once_sends_the_buffers_as_they_were_made,
    exact_sends_what_psync_sends,
    none_sends_a_constant,
    none_is_refused_where_it_could_not_be_verified,
    memory_that_the_cpu_reaches_sends_fios_own_buffer_or_refuses,
    an_unknown_fio_sends_exact_data,
];

const BLOCK: usize = 4096;

/// A file's size after compression, by another program's word.
fn compressed(path: &Path) -> f64 {
    let packed = path.with_extension("gz");
    let command = format!("gzip -1 -c '{}' > '{}'", path.display(), packed.display());
    machine::tool("sh", &["-c", &command]);
    std::fs::metadata(&packed).expect("a compressed file").len() as f64
}

/// The share of blocks that are not like an earlier one.
fn distinct(bytes: &[u8], block: usize) -> f64 {
    let all = bytes.len() / block;
    bytes.chunks_exact(block).collect::<HashSet<_>>().len() as f64 / all as f64
}

fn file(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs the job with the library and with psync, each in its own folder.
fn both(gpu: &Gpu, text: &str, own: &str) -> Report {
    let report = gpu.job(&format!("{own}{text}[a]\nfilename=f\n")).run();
    report.ok();
    gpu.fio.psync(&format!("direct=1\n{text}[a]\nfilename=f\n")).run().ok();
    report
}

#[track_caller]
fn about(own: f64, expected: f64, what: &str) {
    assert!((own - expected).abs() <= expected * 0.02, "{what}: {own}, with psync {expected}");
}

fn half_compressible_data_compresses_as_with_psync(gpu: &Gpu) {
    let text = "size=8m\nbs=64k\nrw=write\niodepth=8\nbuffer_compress_percentage=50\n";
    let sizes = || (compressed(&gpu.fio.path("f")), compressed(&gpu.fio.yardstick().join("f")));
    gpu.says_no_more(&both(gpu, text, ""));
    let (own, expected) = sizes();
    about(own, expected, "bytes after gzip -1");
    // The figure means something: with a constant it is another.
    both(gpu, text, "gpu_data=none\n");
    assert!(sizes().0 < expected * 0.1, "a constant compresses like fio's data");
}

fn dedupable_data_repeats_as_with_psync(gpu: &Gpu) {
    let text = "size=16m\nbs=4k\nrw=write\niodepth=8\ndedupe_percentage=60\n";
    let shares = || (distinct(&file(&gpu.fio.path("f")), BLOCK), distinct(&file(&gpu.fio.yardstick().join("f")), BLOCK));
    gpu.says_no_more(&both(gpu, text, ""));
    let (own, expected) = shares();
    about(own, expected, "the share of distinct blocks");
    assert!((0.3..0.5).contains(&expected), "psync's own share is {expected}");
    both(gpu, text, "gpu_data=none\n");
    assert!(shares().0 < 0.01, "a constant repeats like fio's data");
}

fn a_plain_random_write_never_repeats_a_block(gpu: &Gpu) {
    gpu.says_no_more(&both(gpu, "size=16m\nbs=4k\nrw=randwrite\niodepth=32\nthread=1\n", ""));
    for path in [gpu.fio.path("f"), gpu.fio.yardstick().join("f")] {
        let share = distinct(&file(&path), BLOCK);
        assert!(share >= 0.99, "{}: only {share} of the blocks are distinct", path.display());
    }
    // As with psync, every sector differs, so a device that looks at 512 bytes has nothing to drop either.
    assert!(distinct(&file(&gpu.fio.path("f")), 512) > 0.1, "sectors repeat");
}

fn buffer_patterns_and_zeros_are_on_disk(gpu: &Gpu) {
    let jobs = "[pattern]\nfilename=p\nbuffer_pattern=0x1234567890\n[zeros]\nfilename=z\nzero_buffers=1\n[refilled]\nfilename=r\n";
    let text = format!("size=256k\nbs=16k\nrw=randwrite\niodepth=4\n{jobs}");
    gpu.says_no_more(&gpu.same_bytes_as_psync(&text, &["p", "z", "r"]));
}

fn once_sends_the_buffers_as_they_were_made(gpu: &Gpu) {
    let text = "size=1m\nbs=4k\nrw=write\niodepth=4\nscramble_buffers=0\n";
    both(gpu, text, "gpu_data=once\n");
    let blocks = distinct(&file(&gpu.fio.path("f")), BLOCK) * 256.0;
    assert!(blocks.round() == 4.0, "{blocks} distinct blocks of 4 I/O units");
    // It is what auto chooses where fio leaves its buffers alone, and there psync writes the same few blocks.
    both(gpu, text, "");
    assert_eq!(distinct(&file(&gpu.fio.path("f")), BLOCK) * 256.0, 4.0);
    assert_eq!(gpu.calls().count("cuMemsetD2D32Async"), 0);
    // And with scramble_buffers the device scrambles, with no copy.
    let copies = gpu.calls().count("cuMemcpyHtoDAsync");
    both(gpu, "size=1m\nbs=4k\nrw=write\n", "gpu_data=scramble\n");
    assert_eq!(gpu.calls().count("cuMemsetD2D32Async"), 256);
    assert_eq!(gpu.calls().count("cuMemcpyHtoDAsync"), copies + 1, "a write was copied");
    assert_eq!(distinct(&file(&gpu.fio.path("f")), BLOCK), 1.0);
}

fn exact_sends_what_psync_sends(gpu: &Gpu) {
    // Nothing but the option makes these the bytes on disk: the job itself asks for nothing that auto would take for exact.
    both(gpu, "size=1m\nbs=4k\nrw=write\nscramble_buffers=0\n", "gpu_data=exact\n");
    gpu.fio.same_bytes("f");
    assert!(gpu.calls().count("cuMemcpyHtoDAsync") >= 256, "not every write was staged");
}

fn none_sends_a_constant(gpu: &Gpu) {
    both(gpu, "size=1m\nbs=4k\nrw=randwrite\niodepth=4\n", "gpu_data=none\n");
    assert!(distinct(&file(&gpu.fio.path("f")), BLOCK) * 256.0 <= 1.0);
}

fn none_is_refused_where_it_could_not_be_verified(gpu: &Gpu) {
    for data in ["none", "once", "scramble"] {
        let report = gpu.job(&format!("size=1m\nrw=write\nverify=crc32c\ngpu_data={data}\n[a]\nfilename=f\n")).run();
        report.refused();
        gpu.says_one_more_with(&report, &[&format!("gpu_data={data} contradicts verify="), "use gpu_data=exact or auto"]);
    }
}

fn memory_that_the_cpu_reaches_sends_fios_own_buffer_or_refuses(gpu: &Gpu) {
    for memory in ["managed", "pinned", "host"] {
        let own = format!("gpu_mem={memory}\n{}", gpu.vendor.host_memory);
        both(gpu, "size=1m\nbs=4k\nrw=write\nscramble_buffers=0\n", &own);
        gpu.fio.same_bytes("f");
        let report = gpu.job(&format!("size=1m\nrw=write\ngpu_data=none\n{own}[a]\nfilename=f\n")).run();
        report.refused();
        gpu.says_one_more_with(&report, &["gpu_data=none needs gpu_mem=device", "gpu_data=exact"]);
    }
}

fn an_unknown_fio_sends_exact_data(gpu: &Gpu) {
    // Its options are read from its own table, so a version that nobody knows is served like any other.
    // The disguise comes last: what stands before it asks it for the C library's functions.
    let preload = format!("{}:{}", gpu.variable("LD_PRELOAD"), shim().display());
    for how in ["version", "interface"] {
        let text = "size=512k\nbssplit=4k/50:16k/50\nrw=randwrite\nverify=crc32c\n[a]\nfilename=f\n[b]\nfilename=g\niodepth=8\n";
        let report = gpu.job(text).env("LD_PRELOAD", &preload).env("FIO_SHIM", how).run();
        report.ok().counts("write", "io_bytes", MIB).counts("read", "io_bytes", MIB);
        let text = "size=256k\nbs=4k\nrw=write\nrefill_buffers=1\nscramble_buffers=0\n[a]\nfilename=h\n";
        gpu.job(text).env("LD_PRELOAD", &preload).env("FIO_SHIM", how).run().ok();
        gpu.fio.psync(text).run().ok();
        gpu.fio.same_bytes("h");
    }
}
