//! User instructions per I/O, by valgrind's callgrind: the difference between two runs of different length, so that start and end do not
//! count. It repeats to the instruction on a machine too noisy for times, and says nothing of the kernel's share.

use super::machine::Machine;
use super::plan::{Benchmark, Contender};
use super::run::Fio;
use crate::command::run;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The lengths of the two runs in I/Os.
const SHORT: u64 = 20_000;
const LONG: u64 = 120_000;

/// Instructions per I/O by the program or library they are in. Only the job's own thread counts: fio's others look on by the clock.
pub(super) type PerIo = BTreeMap<String, f64>;

/// The figures of each contender.
pub(super) fn count(fio: &Fio, benchmark: &Benchmark, folder: &Path) -> Result<Vec<PerIo>, String> {
    if let Err(error) = run(Command::new("valgrind").arg("--version")) {
        return Err(format!("--instructions needs valgrind (package valgrind): {error}"));
    }
    let mut counted = Vec::new();
    for contender in &benchmark.contenders {
        let short = job_thread(fio, benchmark, contender, SHORT, folder)?;
        let long = job_thread(fio, benchmark, contender, LONG, folder)?;
        let per_io = |(object, count): (&String, &u64)| {
            let before = short.get(object).copied().unwrap_or(0);
            (object.clone(), (*count as f64 - before as f64) / (LONG - SHORT) as f64)
        };
        counted.push(long.iter().map(per_io).filter(|(_, count)| *count >= 0.05).collect());
    }
    Ok(counted)
}

/// Instructions by object in the thread of a job that does `ios` I/Os.
fn job_thread(fio: &Fio, benchmark: &Benchmark, contender: &Contender, ios: u64, folder: &Path) -> Result<BTreeMap<String, u64>, String> {
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let folder = folder.join("callgrind");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| at(&folder, error))?;
    }
    fs::create_dir_all(&folder).map_err(|error| at(&folder, error))?;
    let mut command = fio.command(Path::new("valgrind"));
    command.args(["--tool=callgrind", "--separate-threads=yes", "--compress-strings=no", "--compress-pos=no"]);
    command.arg(format!("--callgrind-out-file={}", folder.join("thread").display())).arg(&fio.program);
    command.args(fio.words(benchmark, contender));
    // Without io_size= the job would end when it has read as much as the file is long.
    command.args([&format!("--number_ios={ios}"), "--io_size=1t"]);
    run(&mut command)?;

    let threads: Vec<PathBuf> = fs::read_dir(&folder).map_err(|error| at(&folder, error))?.flatten().map(|entry| entry.path()).collect();
    // The first thread is fio's main one; among the others the job's has by far the most to do.
    let mut most = BTreeMap::new();
    for path in threads.iter().filter(|path| !path.to_string_lossy().ends_with("-01")) {
        let text = fs::read_to_string(path).map_err(|error| at(path, error))?;
        let found = by_object(&text);
        if found.values().sum::<u64>() > most.values().sum() {
            most = found;
        }
    }
    if most.is_empty() { Err(format!("{}: callgrind wrote no thread of the job", folder.display())) } else { Ok(most) }
}

/// Adds up one thread's own costs by object file (valgrind's manual, «Callgrind Format Specification», names uncompressed).
fn by_object(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut object = "";
    let mut is_inclusive = false;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("ob=") {
            object = path.rsplit('/').next().unwrap_or(path);
        } else if line.starts_with("calls=") {
            // The line after it has the callee's cost, which is counted where the callee is.
            is_inclusive = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            if let Some(cost) = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<u64>().ok()).filter(|_| !is_inclusive) {
                *counts.entry(object.to_owned()).or_insert(0) += cost;
            }
            is_inclusive = false;
        }
    }
    counts
}

pub(super) fn table(benchmark: &Benchmark, counted: &[PerIo]) -> String {
    let objects: Vec<&String> = counted.iter().flat_map(BTreeMap::keys).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let mut table = format!(
        "\n{}: user instructions per I/O, job's thread only, over {} I/Os\n  {:<18}{:>10}",
        benchmark.name,
        LONG - SHORT,
        "",
        "all"
    );
    // A String takes every write.
    for object in &objects {
        let _ = write!(table, "{object:>24}");
    }
    for (contender, per_io) in benchmark.contenders.iter().zip(counted) {
        let _ = write!(table, "\n  {:<18}{:>10.1}", contender.name, total(per_io));
        for object in &objects {
            let _ = write!(table, "{:>24.1}", per_io.get(*object).unwrap_or(&0.0));
        }
    }
    table.push('\n');
    let of = |name: &str| benchmark.contenders.iter().zip(counted).find(|(c, _)| c.name == name).map_or(0.0, |(_, per_io)| total(per_io));
    for comparison in &benchmark.comparisons {
        let (ours, yardstick) = (of(comparison.contender), of(comparison.yardstick));
        let _ = writeln!(
            table,
            "  {} / {}: {:.3} ({:+.1} instructions per I/O)",
            comparison.contender,
            comparison.yardstick,
            ours / yardstick,
            ours - yardstick
        );
    }
    table
}

pub(super) fn json(benchmark: &Benchmark, counted: &[PerIo], machine: &Machine) -> Value {
    let contenders = benchmark.contenders.iter().zip(counted).map(|(contender, per_io)| {
        json!({
            "name": contender.name,
            "fio_options": benchmark.words(contender),
            "instructions_per_io": total(per_io),
            "by_object": per_io,
        })
    });
    json!({
        "benchmark": benchmark.name,
        "about": benchmark.about,
        "machine": machine.to_json(),
        "ios": LONG - SHORT,
        "contenders": contenders.collect::<Vec<_>>(),
    })
}

fn total(per_io: &PerIo) -> f64 {
    per_io.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_are_added_up_by_object_and_those_of_callees_are_not_counted_twice() {
        let text = "version: 1\nevents: Ir\nsummary: 1017\n\nob=/usr/bin/fio\nfl=backend.c\nfn=do_io\n10 7\n\
                    cob=/lib/libc.so.6\ncfi=pread.c\ncfn=pread\ncalls=2 5\n11 1000\n12 3\n\nob=/lib/libc.so.6\nfl=pread.c\nfn=pread\n5 1000\n\ntotals: 1010\n";
        let expected = [("fio", 10), ("libc.so.6", 1000)].map(|(object, cost)| (object.to_owned(), cost));
        assert_eq!(by_object(text), BTreeMap::from(expected));
    }
}
