//! Benchmarks on a libcufile: the real one of either generation on the simulated driver, and the simulated one, which can be made to take no
//! time at all or a known one.

use super::{Benchmark, Comparison, Contender, Figure, PLAIN, Place, Surroundings, backend, iops, random_reads, split};
use std::path::Path;

pub(super) fn all(library: &Path) -> [Benchmark; 5] {
    [real(library, "cufile12", &["cufile12"]), real(library, "cufile13", &["cufile13"]), null(library, 1), null(library, 32), wait(library)]
}

/// Depth on the real library, against an engine that has none. Both run in the same fio, on the same library and driver.
fn real(library: &Path, name: &'static str, environment: &'static [&'static str]) -> Benchmark {
    let ours = |name, words: &str| Contender {
        name,
        words: backend(library, "cufile", &format!("--iodepth=32 {words}")),
        is_synchronous: false,
        bare: None,
    };
    Benchmark {
        name,
        about: match name {
            "cufile12" => {
                "iodepth=32 on the real libcufile of CUDA 12 (simulated driver) against the libcufile engine of fio 3.41: 4 KiB random reads, direct=1"
            }
            _ => {
                "iodepth=32 on the real libcufile of CUDA 13 (simulated driver) against the libcufile engine of fio 3.41: 4 KiB random reads, direct=1"
            }
        },
        place: Place::Disk,
        on: Surroundings { environment, with_libcufile: true, ..PLAIN },
        shared: [random_reads(), split("--direct=1")].concat(),
        contenders: vec![
            Contender {
                name: "libcufile",
                words: split("--ioengine=libcufile --cuda_io=cufile --iodepth=32"),
                is_synchronous: false,
                bare: None,
            },
            ours("batch", "--gpu_mode=batch"),
            ours("pool", "--gpu_mode=pool"),
            ours("uring", "--gpu_io=uring"),
        ],
        comparisons: vec![iops("batch", "libcufile", Some(6.0)), iops("pool", "libcufile", None), iops("uring", "libcufile", None)],
    }
}

/// What the engine itself costs where the vendor's library returns at once, at iodepth=1 or 32. Two benchmarks, since fio's null engine keeps
/// what a job's depth asks of it in flags that all its jobs of one process share: beside a job of depth 1, one of depth 32 does less.
fn null(library: &Path, depth: u32) -> Benchmark {
    let contender = |name, words| Contender { name, words, is_synchronous: true, bare: None };
    let (name, about, mode, words) = match depth {
        1 => (
            "null",
            "a libcufile that returns at once against fio's null engine: 4 KiB random reads, one thread, full statistics",
            "sync",
            "--gpu_mode=sync".to_owned(),
        ),
        _ => (
            "null-deep",
            "batches that are done at once against fio's null engine at iodepth=32: 4 KiB random reads, one thread, full statistics",
            "batch",
            format!("--gpu_mode=batch --iodepth={depth}"),
        ),
    };
    Benchmark {
        name,
        about,
        place: Place::Tmpfs,
        on: Surroundings {
            environment: &["cufile-sim"],
            variables: &[("GPUIO_SIM_CUFILE_INSTANT", "1")],
            with_libcufile: false,
            bare: None,
        },
        shared: random_reads(),
        contenders: vec![
            contender("null", split(&format!("--ioengine=null --iodepth={depth}"))),
            contender(mode, backend(library, "cufile", &words)),
        ],
        comparisons: vec![iops(mode, "null", Some(0.95))],
    }
}

/// What each manner of waiting costs in CPU time where an operation takes 100 us of nobody's.
fn wait(library: &Path) -> Benchmark {
    const NAMES: [(&str, [&str; 3]); 3] = [
        ("batch", ["batch spin", "batch yield", "batch block"]),
        ("stream", ["stream spin", "stream yield", "stream block"]),
        ("pool", ["pool spin", "pool yield", "pool block"]),
    ];
    let contender = |mode: &str, wait, name| Contender {
        name,
        words: backend(library, "cufile", &format!("--iodepth=8 --gpu_mode={mode} --gpu_wait={wait}")),
        is_synchronous: false,
        bare: None,
    };
    let mut contenders = Vec::new();
    let mut comparisons = Vec::new();
    for (mode, [spin, yields, block]) in NAMES {
        contenders.extend([contender(mode, "spin", spin), contender(mode, "yield", yields), contender(mode, "block", block)]);
        let per_cpu = |contender, floor| Comparison { contender, yardstick: spin, figure: Figure::PerCpu, floor };
        comparisons.extend([per_cpu(yields, None), per_cpu(block, Some(1.0))]);
    }
    Benchmark {
        name: "wait",
        about: "CPU time of gpu_wait= where an operation takes 100 us: simulated libcufile, 4 KiB random reads, iodepth=8",
        place: Place::Tmpfs,
        on: Surroundings {
            environment: &["cufile-sim"],
            variables: &[("GPUIO_SIM_CUFILE_DELAY_US", "100")],
            with_libcufile: false,
            bare: None,
        },
        shared: random_reads(),
        contenders,
        comparisons,
    }
}
