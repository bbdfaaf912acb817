//! GUSLI's real client library, on a file and on a loop device over it: what fio and this engine cost, against a bare loop over the same library.

use std::path::Path;

use super::{Bare, Benchmark, Contender, PLAIN, Place, Surroundings, backend, iops, random_reads};

const LOOP: Bare = Bare { name: "gusli-loop", source: include_str!("../gusli_loop.cpp"), kind: "K", on_loop_device: true };

pub(super) fn all(library: &Path) -> [Benchmark; 2] {
    [
        on(
            library,
            "gusli",
            "GUSLI on a file (type F) against a bare C++ loop over the same library: 4 KiB random reads, tmpfs, iodepth=1 and 32",
            Bare { kind: "F", on_loop_device: false, ..LOOP },
        ),
        on(
            library,
            "gusli-block",
            "GUSLI on a loop device (type K) against a bare C++ loop over the same library: 4 KiB random reads, tmpfs, iodepth=1 and 32",
            LOOP,
        ),
    ]
}

fn on(library: &Path, name: &'static str, about: &'static str, bare_loop: Bare) -> Benchmark {
    let bare = |name, depth| Contender { name, words: Vec::new(), is_synchronous: false, bare: Some(depth) };
    let ours = |name, words| Contender { name, words: backend(library, "gusli", words), is_synchronous: false, bare: None };
    Benchmark {
        name,
        about,
        place: Place::Tmpfs,
        on: Surroundings { environment: &["gusli"], bare: Some(bare_loop), ..PLAIN },
        shared: random_reads(),
        contenders: vec![bare("bare", 1), ours("gpuio", "--iodepth=1"), bare("bare x32", 32), ours("gpuio x32", "--iodepth=32")],
        comparisons: vec![iops("gpuio", "bare", Some(0.9)), iops("gpuio x32", "bare x32", Some(0.9))],
    }
}
