//! Rings: `gpu_io=uring` on host memory against fio's own io_uring, as it is by default and with registered files and fixed buffers.

use std::path::Path;

use super::{Benchmark, Contender, PLAIN, Place, iops, ours, random_reads, split};

pub(super) fn all(library: &Path) -> [Benchmark; 3] {
    [
        ring(
            library,
            "uring",
            "gpu_io=uring on host memory against fio's io_uring: 4 KiB random reads, tmpfs, one thread, iodepth=32, full statistics",
            Place::Tmpfs,
            // The kernel hands a read from tmpfs to a thread of its own, so all contenders wait, and sharing a core would measure who is woken.
            Kind { words: "", is_synchronous: false },
        ),
        ring(
            library,
            "uring-cached",
            "gpu_io=uring on host memory against fio's io_uring: 4 KiB random reads, page cache, one thread, iodepth=32, full statistics",
            Place::Disk,
            // Such a read ends while it is submitted: what is left is what the engines themselves cost.
            Kind { words: "--invalidate=0", is_synchronous: true },
        ),
        ring(
            library,
            "uring-disk",
            "gpu_io=uring on host memory against fio's io_uring: 4 KiB random reads, direct=1, one thread, iodepth=32, full statistics",
            Place::Disk,
            Kind { words: "--direct=1", is_synchronous: false },
        ),
    ]
}

/// What tells the rings' benchmarks apart.
struct Kind {
    words: &'static str,
    is_synchronous: bool,
}

fn ring(library: &Path, name: &'static str, about: &'static str, place: Place, kind: Kind) -> Benchmark {
    let contender = |name, words: Vec<String>| Contender { name, words, is_synchronous: kind.is_synchronous, bare: None };
    let depth = format!("--iodepth=32 {}", kind.words);
    // This engine's buffers are page-aligned, fio's own only where the job says so.
    let theirs = |more: &str| split(&format!("--ioengine=io_uring --iomem_align=4k {depth} {more}"));
    Benchmark {
        name,
        about,
        place,
        on: PLAIN,
        shared: random_reads(),
        contenders: vec![
            contender("io_uring", theirs("")),
            contender("io_uring fixed", theirs("--registerfiles=1 --fixedbufs=1")),
            contender("gpuio", ours(library, &format!("--gpu_io=uring {depth}"))),
        ],
        comparisons: vec![iops("gpuio", "io_uring", Some(1.0)), iops("gpuio", "io_uring fixed", Some(0.97))],
    }
}
