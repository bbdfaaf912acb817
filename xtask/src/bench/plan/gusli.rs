//! GUSLI's real client library, on a file and on a loop device over it: what fio and this engine cost, against a bare loop over the same library.

use std::path::Path;

use super::{Benchmark, Contender, Place, Surroundings, backend, iops, random_reads};

pub(super) fn all(library: &Path) -> [Benchmark; 2] {
    [
        on(
            library,
            "gusli",
            "GUSLI on a file (type F) against a bare C++ loop over the same library: 4 KiB random reads, tmpfs, iodepth=1 and 32",
            'F',
        ),
        on(
            library,
            "gusli-block",
            "GUSLI on a loop device (type K) against a bare C++ loop over the same library: 4 KiB random reads, tmpfs, iodepth=1 and 32",
            'K',
        ),
    ]
}

fn on(library: &Path, name: &'static str, about: &'static str, kind: char) -> Benchmark {
    let bare = |name, depth| Contender { name, words: Vec::new(), is_synchronous: false, bare: Some(depth) };
    let ours = |name, words| Contender { name, words: backend(library, "gusli", words), is_synchronous: false, bare: None };
    Benchmark {
        name,
        about,
        place: Place::Tmpfs,
        on: Surroundings { environment: Some("gusli"), variables: &[], with_libcufile: false, gusli: Some(kind) },
        shared: random_reads(),
        contenders: vec![bare("bare", 1), ours("gpuio", "--iodepth=1"), bare("bare x32", 32), ours("gpuio x32", "--iodepth=32")],
        comparisons: vec![iops("gpuio", "bare", Some(0.9)), iops("gpuio x32", "bare x32", Some(0.9))],
    }
}
