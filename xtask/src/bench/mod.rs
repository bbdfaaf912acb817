//! `cargo xtask bench`: ratios between fio command lines, measured side by side in interleaved rounds.
//!
//! `plan` holds the benchmarks, `run` runs one fio, `rounds` runs them in turn and compares, `show` prints and writes the result; `callgrind`
//! counts instructions instead. `bare`, `data`, `machine` and `stats` are used by those.

mod bare;
mod callgrind;
mod data;
mod machine;
mod options;
mod plan;
mod rounds;
mod run;
mod show;
mod stats;

use crate::Outcome;
use data::DataFile;
use machine::Machine;
use options::Options;
use plan::{Benchmark, Place};
use run::Fio;
use std::{fs, path::Path, time::SystemTime};

/// The fio that is built with its own engine libcufile.
const WITH_LIBCUFILE: &str = "3.41";

pub(crate) const USAGE: &str = options::USAGE;

/// Runs the named benchmarks, or all; fails where a claim is not met.
pub(crate) fn run(root: &Path, words: &[&str]) -> Outcome {
    let options = Options::parse(words)?;
    let library = options.library.clone().unwrap_or_else(|| root.join("target/release/libgpuio.so"));
    check_library(root, &library)?;
    let machine = Machine::look(root, &options.fio)?;
    println!("{machine}");

    let mut missed = Vec::new();
    for benchmark in plan::chosen(&options.names, &library)? {
        let data = data_file(root, &benchmark, &options)?;
        let mut fio = fio_for(root, &benchmark, &data, &options)?;
        let mut _device = None;
        if let Some(bare_loop) = benchmark.on.bare {
            fio.bare = Some((bare::program(&bare_loop, &root.join("target/bench"))?, bare_loop.kind));
            if bare_loop.on_loop_device {
                let device = bare::LoopDevice::over(&fio.file)?;
                fio.file.clone_from(&device.0);
                _device = Some(device);
            }
        }
        if options.instructions {
            instructions(root, &fio, &machine, &benchmark)?;
        } else {
            data.check(benchmark.place)?;
            missed.extend(ratios(root, &fio, &machine, &benchmark, &options)?);
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n").into()) }
}

/// The file that a benchmark reads, in the folder that the user names or where its place is on most machines.
fn data_file(root: &Path, benchmark: &Benchmark, options: &Options) -> Result<DataFile, String> {
    let own = match benchmark.place {
        Place::Tmpfs => "/dev/shm".into(),
        Place::Disk => root.join("target/bench"),
    };
    fs::create_dir_all(root.join("target/bench")).map_err(|error| format!("target/bench: {error}"))?;
    // The real libcufile takes no file without a name.
    let has_name = benchmark.on.with_libcufile || benchmark.on.environment.contains(&"cufile12");
    DataFile::make(options.folder.as_ref().unwrap_or(&own), plan::FILE_BYTES, has_name)
}

/// The fio that a benchmark asks for, with its environment.
fn fio_for(root: &Path, benchmark: &Benchmark, data: &DataFile, options: &Options) -> Result<Fio, String> {
    let program = match benchmark.on.with_libcufile {
        true => crate::fio::with_libcufile(root, WITH_LIBCUFILE)?,
        false => options.fio.clone(),
    };
    let mut variables = Vec::new();
    for name in benchmark.on.environment {
        variables.extend(sim_env::prepare(name, &root.join("target"), &[data.folder()])?);
    }
    variables.extend(benchmark.on.variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    Ok(Fio { program, variables, file: data.path(), bare: None, core: options.core })
}

/// Measures one benchmark; returns a line for each claim that is not met.
fn ratios(root: &Path, fio: &Fio, machine: &Machine, benchmark: &Benchmark, options: &Options) -> Result<Vec<String>, String> {
    show::heading(benchmark, options);
    let result = rounds::measure(fio, benchmark, options)?;
    print!("{}", show::table(benchmark, &result));
    let name = if options.apart { format!("{}-apart", benchmark.name) } else { benchmark.name.to_owned() };
    keep(root, &name, &show::json(benchmark, &result, machine, options))?;
    Ok(result.missed(benchmark.name))
}

fn instructions(root: &Path, fio: &Fio, machine: &Machine, benchmark: &Benchmark) -> Result<(), String> {
    if !benchmark.is_synchronous() {
        println!("\n{}: left out, since what waits for other threads has no fixed number of instructions per I/O", benchmark.name);
        return Ok(());
    }
    let counted = callgrind::count(fio, benchmark, &root.join("target/bench"))?;
    print!("{}", callgrind::table(benchmark, &counted));
    keep(root, &format!("{}-instructions", benchmark.name), &callgrind::json(benchmark, &counted, machine))
}

/// Writes `target/bench/NAME.json`.
fn keep(root: &Path, name: &str, value: &serde_json::Value) -> Result<(), String> {
    let path = root.join("target/bench").join(name).with_extension("json");
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(root.join("target/bench")).map_err(at)?;
    fs::write(&path, format!("{value:#}\n")).map_err(at)?;
    println!("  written: target/bench/{name}.json");
    Ok(())
}

/// The library must be there, and be what the sources say.
fn check_library(root: &Path, library: &Path) -> Result<(), String> {
    let built = fs::metadata(library).and_then(|found| found.modified());
    let built = built.map_err(|error| format!("{}: {error}; run «cargo build --release» first", library.display()))?;
    if newest(&root.join("src")).is_some_and(|changed| changed > built) {
        eprintln!("xtask: {} is older than src/: what is measured is not what the sources say", library.display());
    }
    Ok(())
}

/// When the newest file below `folder` was changed.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    entries
        .filter_map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => newest(&entry.path()),
            Ok(found) => found.modified().ok(),
            Err(_) => None,
        })
        .max()
}
