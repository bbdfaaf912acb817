//! `cargo xtask gpu-check`: the library on a machine with an NVIDIA GPU, in a few minutes: bytes through each way of I/O and each kind of
//! memory, all of them verified, and a few figures. It prints a table and needs no network where fio and a libcufile are there.

mod checks;
mod machine;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Outcome;
use checks::{Check, Expected};

pub(crate) const USAGE: &str = "
  gpu-check [--dir DIR] [--library FILE] [--simulated]
                             check the library (target/release/libgpuio.so) on this machine's NVIDIA GPU, on files in DIR
                             (target/gpu-check); ends with 2 where there is no GPU. --simulated tries the check itself, on the
                             simulated driver";

/// No check begins after this; with what runs then, all is done in four minutes.
const TIME: Duration = Duration::from_secs(200);

struct Settings {
    folder: PathBuf,
    library: PathBuf,
    simulated: bool,
}

/// What became of one check.
struct Row {
    good: bool,
    words: String,
}

pub(crate) fn run(root: &Path, words: &[&str]) -> Outcome {
    let settings = parse(root, words)?;
    if let Some(line) = machine::no_gpu().filter(|_| !settings.simulated) {
        eprintln!("gpu-check: {line}: nothing was run");
        exit(2);
    }
    let library = &settings.library;
    if !library.exists() {
        return Err(format!("{} is not there: run `cargo build --release`", library.display()).into());
    }
    fs::create_dir_all(&settings.folder)?;
    let started = Instant::now();
    println!("{}", machine::describe(&settings.folder)?);
    if settings.simulated {
        println!("on the simulated driver: this says nothing about a GPU");
    }
    let mut failed = 0;
    for (name, variables) in machine::libraries(&root.join("target"), &settings.folder, settings.simulated)? {
        println!("\n{name}");
        println!("{:<34} {:<7} {:>8} {:>9} {:>6}  way", "check", "", "IOPS", "MiB/s", "s");
        let mut about = String::new();
        for check in checks::all().filter(|check| !settings.simulated || check.runs_simulated()) {
            let row = match started.elapsed() < TIME {
                true => one(&settings.folder, library, &variables, &check, &mut about),
                false => Row { good: false, words: "not run: out of time".to_owned() },
            };
            failed += usize::from(!row.good);
            println!("{:<34} {}", check.name, row.words);
        }
        println!("{about}");
    }
    // The folder may be the user's own, with other files in it.
    let _ = fs::remove_dir(&settings.folder);
    println!("\n{} s, {failed} failed", started.elapsed().as_secs());
    if failed == 0 { Ok(()) } else { Err(format!("{failed} checks failed").into()) }
}

fn parse(root: &Path, words: &[&str]) -> Result<Settings, String> {
    let (folder, library) = (root.join("target/gpu-check"), root.join("target/release/libgpuio.so"));
    let mut settings = Settings { folder, library, simulated: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut path = || {
            let given = words.next().ok_or_else(|| format!("{word} needs a path"))?;
            std::path::absolute(given).map_err(|error| format!("{word} {given}: {error}"))
        };
        match *word {
            "--simulated" => settings.simulated = true,
            "--dir" => settings.folder = path()?,
            "--library" => settings.library = path()?,
            _ => return Err(format!("gpu-check has no {word:?}; usage: cargo xtask COMMAND{USAGE}")),
        }
    }
    Ok(settings)
}

/// Runs one check in a folder of its own and says how it went.
fn one(folder: &Path, library: &Path, variables: &[(String, String)], check: &Check, about: &mut String) -> Row {
    let own = folder.join(format!("gpuio-{}", std::process::id()));
    let tried = try_one(&own, library, variables, check, about);
    // What is left of it, if it was ever made, is only the check's own.
    let _ = fs::remove_dir_all(&own);
    match tried {
        Ok(words) => Row { good: true, words: format!("ok      {words}") },
        Err(why) => Row { good: false, words: format!("FAILED  {why}") },
    }
}

fn try_one(own: &Path, library: &Path, variables: &[(String, String)], check: &Check, about: &mut String) -> Result<String, String> {
    fs::create_dir_all(own).map_err(|error| format!("{}: {error}", own.display()))?;
    let global = format!(
        "[global]\nioengine=external:{}\ngpu_backend=cufile\ngpu_report=report.json\ndirect=1\nfilename_format=f.$jobnum\n",
        library.display()
    );
    fs::write(own.join("job.fio"), format!("{global}{}[check]\n", check.job)).map_err(|error| format!("job file: {error}"))?;
    let mut command = Command::new("timeout");
    // fio's forked jobs end by themselves soon after it.
    command.args(["-k", "1", "30", "fio", "--output-format=json", "job.fio"]).current_dir(own);
    let output = command.envs(variables.iter().cloned()).output().map_err(|error| format!("timeout and fio: {error}"))?;
    let (said, printed) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    // What the library says of a failure comes last, else fio says it in front of its JSON.
    let mut own_lines = said.lines().filter_map(|line| line.split_once("gpuio: ").map(|(_, line)| line));
    let last = own_lines.rfind(|line| !line.starts_with("job ") && !line.starts_with("nvidia-fs is not loaded"));
    let failed = printed.lines().find(|line| line.starts_with("fio: pid=")).unwrap_or(said.trim());
    let last = || last.map_or_else(|| failed.to_owned(), str::to_owned);
    match (check.expected, output.status.code()) {
        (Expected::Either, Some(1)) => return Ok(format!("no: {}", last())),
        (Expected::Either | Expected::Good | Expected::Distinct, Some(0)) => {}
        (_, Some(124 | 137)) => return Err("no end within 30 s".to_owned()),
        (_, code) => {
            return Err(format!("{}: {}", code.map_or_else(|| output.status.to_string(), |code| format!("status {code}")), last()));
        }
    }
    if check.expected == Expected::Distinct {
        distinct(&own.join("f.0"))?;
    }
    let result: Value =
        serde_json::from_str(printed.find('{').map_or("", |at| &printed[at..])).map_err(|error| format!("fio's JSON: {error}"))?;
    let report = fs::read_to_string(own.join("report.json")).map_err(|error| format!("report: {error}"))?;
    let report: Value = serde_json::from_str(&report).map_err(|error| format!("report: {error}"))?;
    let job = &report["jobs"][0];
    if job["vendor"].is_string() {
        *about = format!("{}, {}, {}", text(&job["vendor"]), text(&job["driver"]), text(&job["device"]));
    }
    Ok(format!("{}  {}", figures(&result), text(&job["files"][0]["path"])))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("unknown")
}

/// IOPS, MiB/s and seconds of a run, reads and writes of all its jobs together.
fn figures(result: &Value) -> String {
    let (mut ios, mut bytes, mut milliseconds) = (0, 0, 1);
    for job in result["jobs"].as_array().into_iter().flatten() {
        for direction in ["read", "write"] {
            let count = |name: &str| job[direction][name].as_u64().unwrap_or(0);
            ios += count("total_ios");
            bytes += count("io_bytes");
            milliseconds = milliseconds.max(count("runtime"));
        }
    }
    let seconds = milliseconds as f64 / 1000.0;
    format!("{:>8.0} {:>9.1} {seconds:>6.1}", ios as f64 / seconds, bytes as f64 / seconds / f64::from(1 << 20))
}

/// A plain random write must not repeat a block: whatever drops copies would make it look fast.
fn distinct(path: &Path) -> Result<(), String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let blocks = bytes.len() / 4096;
    let distinct = bytes.chunks_exact(4096).collect::<std::collections::HashSet<_>>().len();
    if distinct * 100 >= blocks * 99 { Ok(()) } else { Err(format!("only {distinct} of {blocks} blocks differ")) }
}
