//! NIXL's plugin POSIX: what fio and this engine cost, against a bare loop over the same library, which makes a request for each read as well; and each
//! plugin that needs no server at several depths, for information.

use std::path::Path;

use super::{Bare, Benchmark, Comparison, Contender, PLAIN, Place, Surroundings, backend, iops, random_reads};

const LOOP: Bare = Bare { name: "nixl-loop", source: include_str!("../nixl_loop.cpp"), kind: "use_aio", on_loop_device: false };
const ON: Surroundings = Surroundings { environment: &["nixl"], bare: Some(LOOP), ..PLAIN };

pub(super) fn all(library: &Path) -> [Benchmark; 3] {
    [
        Benchmark {
            place: Place::Disk,
            on: Surroundings { bare: Some(Bare { kind: "use_aio+direct", ..LOOP }), ..ON },
            ..against_bare(
                library,
                "nixl-disk",
                "NIXL's plugin POSIX against a bare C++ loop over the same library: 4 KiB random reads, direct=1, a disk, iodepth=1 and 32",
                "--direct=1",
            )
        },
        against_bare(
            library,
            "nixl",
            "NIXL's plugin POSIX against a bare C++ loop over the same library: 4 KiB random reads, tmpfs, iodepth=1 and 32",
            "",
        ),
        plugins(library),
    ]
}

/// From memory a read is CPU time alone, and what fio itself takes is more than a tenth of it, so nothing is claimed there.
fn against_bare(library: &Path, name: &'static str, about: &'static str, more: &str) -> Benchmark {
    let bare = |name, depth| Contender { name, words: Vec::new(), is_synchronous: false, bare: Some(depth) };
    let ours = |name, words: &str| Contender {
        name,
        words: backend(library, "nixl", &format!("{words} {more}")),
        is_synchronous: false,
        bare: None,
    };
    Benchmark {
        name,
        about,
        place: Place::Tmpfs,
        on: ON,
        shared: random_reads(),
        contenders: vec![bare("bare", 1), ours("gpuio", "--iodepth=1"), bare("bare x32", 32), ours("gpuio x32", "--iodepth=32")],
        comparisons: vec![iops("gpuio", "bare", None), iops("gpuio x32", "bare x32", (!more.is_empty()).then_some(0.9))],
    }
}

/// The plugins and the depths that they are run at, by the options of the job.
const PLUGINS: [([&str; 3], &str); 6] = [
    (["aio", "aio x8", "aio x64"], "--nixl_params=use_aio=true"),
    (["uring", "uring x8", "uring x64"], "--nixl_params=use_uring=true"),
    (["posix_aio", "posix_aio x8", "posix_aio x64"], "--nixl_params=use_posix_aio=true"),
    (["GUSLI", "GUSLI x8", "GUSLI x64"], "--nixl_plugin=GUSLI"),
    (["GDS", "GDS x8", "GDS x64"], "--nixl_plugin=GDS"),
    (["GDS_MT", "GDS_MT x8", "GDS_MT x64"], "--nixl_plugin=GDS_MT"),
];

/// The table of plugins and depths, beside fio's own libaio.
fn plugins(library: &Path) -> Benchmark {
    const DEPTHS: [u32; 3] = [1, 8, 64];
    let fios = DEPTHS.iter().zip(["libaio", "libaio x8", "libaio x64"]).map(|(depth, name)| Contender {
        name,
        words: vec!["--ioengine=libaio".to_owned(), format!("--iodepth={depth}")],
        is_synchronous: false,
        bare: None,
    });
    let ours = PLUGINS.iter().flat_map(|(names, words)| {
        DEPTHS.iter().zip(names).map(move |(depth, name)| Contender {
            name,
            words: backend(library, "nixl", &format!("{words} --iodepth={depth}")),
            is_synchronous: false,
            bare: None,
        })
    });
    let against = |(depth, yardstick): (usize, &'static str)| {
        PLUGINS.iter().map(move |(names, _)| iops(names[depth], yardstick, None)).collect::<Vec<Comparison>>()
    };
    Benchmark {
        name: "nixl-plugins",
        about: "NIXL's plugins against fio's libaio, GDS and GDS_MT on the simulated driver: 4 KiB random reads, direct=1, a disk",
        place: Place::Disk,
        on: Surroundings { environment: &["nixl", "cufile12"], ..PLAIN },
        shared: [random_reads(), vec!["--direct=1".to_owned()]].concat(),
        contenders: fios.chain(ours).collect(),
        comparisons: ["libaio", "libaio x8", "libaio x64"].into_iter().enumerate().flat_map(against).collect(),
    }
}
