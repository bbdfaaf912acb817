//! The benchmarks: which fio command lines are compared with which, and what is claimed. Those on a libcufile are in [`cufile`].

mod cufile;
mod gusli;
mod nixl;
mod uring;

use std::path::Path;

/// Size of the test file; it fits any machine's memory, not its caches.
pub(super) const FILE_BYTES: usize = 64 << 20;

/// Where the test file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Tmpfs,
    /// Not in memory: a disk, or what the machine has for one.
    Disk,
}

/// What fio runs on.
pub(super) struct Surroundings {
    /// Of `cargo xtask env`.
    pub environment: &'static [&'static str],
    pub variables: &'static [(&'static str, &'static str)],
    /// The fio that has its own engine libcufile, in place of the user's.
    pub with_libcufile: bool,
    /// The loop that contenders without fio are.
    pub bare: Option<Bare>,
}

const PLAIN: Surroundings = Surroundings { environment: &[], variables: &[], with_libcufile: false, bare: None };

/// A bare loop over a vendor's library, which is compiled when it is needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bare {
    pub name: &'static str,
    pub source: &'static str,
    /// Its first word.
    pub kind: &'static str,
    /// All contenders read a loop device over the file in its place.
    pub on_loop_device: bool,
}

/// Several fio command lines over one file.
pub(super) struct Benchmark {
    pub name: &'static str,
    pub about: &'static str,
    pub place: Place,
    pub on: Surroundings,
    /// Options of fio that all contenders share.
    pub shared: Vec<String>,
    pub contenders: Vec<Contender>,
    pub comparisons: Vec<Comparison>,
}

impl Benchmark {
    /// Whether all contenders submit and complete in one thread.
    pub fn is_synchronous(&self) -> bool {
        self.contenders.iter().all(|contender| contender.is_synchronous)
    }

    /// The options of fio that make this contender.
    pub fn words(&self, contender: &Contender) -> Vec<String> {
        self.shared.iter().chain(&contender.words).cloned().collect()
    }
}

/// One command line.
pub(super) struct Contender {
    pub name: &'static str,
    pub words: Vec<String>,
    /// It is one job that submits and completes in one thread, which can be pinned to a core.
    pub is_synchronous: bool,
    /// No fio: the bare loop, at this depth.
    pub bare: Option<u32>,
}

/// What is compared; of either, more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    Iops,
    /// I/Os for each second of CPU time.
    PerCpu,
}

impl Figure {
    pub fn text(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::PerCpu => "I/Os per CPU second",
        }
    }
}

/// A figure of one contender as a share of the yardstick's.
pub(super) struct Comparison {
    pub contender: &'static str,
    pub yardstick: &'static str,
    pub figure: Figure,
    /// The least that is claimed; none where the figure is for information.
    pub floor: Option<f64>,
}

fn iops(contender: &'static str, yardstick: &'static str, floor: Option<f64>) -> Comparison {
    Comparison { contender, yardstick, figure: Figure::Iops, floor }
}

/// The named benchmarks in the order given, or all of them.
pub(super) fn chosen(names: &[String], library: &Path) -> Result<Vec<Benchmark>, String> {
    let mut all = vec![posix(library), depth(library)];
    all.extend(uring::all(library));
    all.extend(cufile::all(library));
    all.extend(gusli::all(library));
    all.extend(nixl::all(library));
    if names.is_empty() {
        return Ok(all);
    }
    let known = all.iter().map(|benchmark| benchmark.name).collect::<Vec<_>>().join(", ");
    let mut chosen = Vec::new();
    for name in names {
        match all.iter().position(|benchmark| benchmark.name == name) {
            Some(at) => chosen.push(all.remove(at)),
            None => return Err(format!("there is no benchmark «{name}», or it was named twice; there are {known}")),
        }
    }
    Ok(chosen)
}

/// What the engine itself costs: the same pread as fio's psync, all else equal.
fn posix(library: &Path) -> Benchmark {
    let sync = |name, words: &str| Contender { name, words: split(words), is_synchronous: true, bare: None };
    Benchmark {
        name: "posix",
        about: "gpu_io=posix on host memory against fio's psync: 4 KiB random reads, tmpfs, one thread, iodepth=1, full statistics",
        place: Place::Tmpfs,
        on: PLAIN,
        shared: random_reads(),
        contenders: vec![
            sync("psync", "--ioengine=psync"),
            // This engine's buffers are page-aligned, fio's own only where the job says so.
            sync("psync aligned", "--ioengine=psync --iomem_align=4k"),
            Contender { words: ours(library, "--gpu_io=posix"), ..sync("gpuio", "") },
        ],
        comparisons: vec![iops("gpuio", "psync", Some(0.97)), iops("gpuio", "psync aligned", Some(0.97))],
    }
}

/// What depth by threads costs, and what each manner of waiting costs in CPU time. From tmpfs a read is all CPU time, so depth cannot win here.
fn depth(library: &Path) -> Benchmark {
    let pool = |name, wait| Contender {
        name,
        words: ours(library, &format!("--gpu_mode=pool --iodepth=32 --gpu_wait={wait}")),
        is_synchronous: false,
        bare: None,
    };
    let against = |contender| iops(contender, "psync x16", None);
    Benchmark {
        name: "depth",
        about: "gpu_mode=pool on host memory, iodepth=32 by 16 threads, against fio's psync with numjobs=16: 4 KiB random reads, tmpfs",
        place: Place::Tmpfs,
        on: PLAIN,
        shared: random_reads(),
        contenders: vec![
            Contender {
                name: "psync x16",
                words: split("--ioengine=psync --numjobs=16 --group_reporting --iomem_align=4k"),
                is_synchronous: false,
                bare: None,
            },
            pool("pool spin", "spin"),
            pool("pool yield", "yield"),
            pool("pool block", "block"),
        ],
        comparisons: ["pool spin", "pool yield", "pool block"].map(against).into(),
    }
}

fn random_reads() -> Vec<String> {
    split("--thread --rw=randread --bs=4k --norandommap")
}

fn ours(library: &Path, words: &str) -> Vec<String> {
    backend(library, "host", words)
}

fn backend(library: &Path, name: &str, words: &str) -> Vec<String> {
    let mut all = vec![format!("--ioengine=external:{}", library.display()), format!("--gpu_backend={name}")];
    all.extend(split(words));
    all
}

fn split(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(chosen: &[Benchmark]) -> Vec<&'static str> {
        chosen.iter().map(|benchmark| benchmark.name).collect()
    }

    #[test]
    fn every_comparison_is_between_two_different_contenders_of_its_benchmark() {
        for benchmark in chosen(&[], Path::new("lib")).unwrap() {
            for comparison in &benchmark.comparisons {
                assert_ne!(comparison.contender, comparison.yardstick);
                for name in [comparison.contender, comparison.yardstick] {
                    assert_eq!(benchmark.contenders.iter().filter(|c| c.name == name).count(), 1, "{name}");
                }
            }
        }
    }

    #[test]
    fn benchmarks_are_chosen_by_name_and_an_unknown_one_is_answered_with_the_list() {
        let ask = |words: &[&str]| chosen(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), Path::new("lib"));
        assert_eq!(names(&ask(&["depth", "posix"]).unwrap()), ["depth", "posix"]);
        let error = ask(&["speed"]).err().unwrap();
        assert!(error.contains("«speed»") && error.contains("posix, depth"), "{error}");
    }
}
