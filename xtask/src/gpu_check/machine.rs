//! What the machine has: a GPU or none, its driver, the libcufiles that can be tried.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::run;

/// The line that says so where there is no GPU.
pub(super) fn no_gpu() -> Option<String> {
    let there = ["/dev/nvidia0", "/proc/driver/nvidia/version"].iter().any(|path| Path::new(path).exists());
    (!there).then(|| "no NVIDIA GPU here (neither /dev/nvidia0 nor /proc/driver/nvidia)".to_owned())
}

/// Date, kernel, fio, driver, and the file system of the files.
pub(super) fn describe(folder: &Path) -> Result<String, String> {
    let say = |program: &str, words: &[&str]| run(Command::new(program).args(words)).map(|said| said.trim().to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let driver = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let driver = driver.lines().next().unwrap_or("no NVIDIA kernel driver").trim_start_matches("NVRM version: ").to_owned();
    let place = folder.display().to_string();
    Ok(format!(
        "{}, kernel {}, {}\n{driver}, nvidia-fs {}\nfiles in {place} ({})",
        say("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?,
        kernel.trim(),
        say("fio", &["--version"])?,
        if Path::new("/proc/driver/nvidia-fs/version").exists() { "loaded" } else { "not loaded: compat mode" },
        say("findmnt", &["-no", "FSTYPE", "-T", &place]).unwrap_or_else(|_| "file system unknown".to_owned()),
    ))
}

/// Variables of a job's environment.
pub(super) type Variables = Vec<(String, String)>;

/// The libcufiles to try, each with the variables under which a job finds it: what `GPUIO_CUFILE_LIBRARY` names, with the user's own settings,
/// or the wheels of both generations. The driver is the machine's own.
pub(super) fn libraries(target: &Path, folder: &Path, simulated: bool) -> Result<Vec<(String, Variables)>, String> {
    if let Some(path) = std::env::var("GPUIO_CUFILE_LIBRARY").ok().filter(|_| !simulated) {
        return Ok(vec![(path, sim_env::on_the_real_driver(None, target, &[folder])?)]);
    }
    let variables = |name| match simulated {
        true => sim_env::prepare(name, target, &[folder]),
        false => sim_env::on_the_real_driver(Some(name), target, &[folder]),
    };
    Ok(vec![("libcufile of CUDA 12".to_owned(), variables("cufile12")?), ("libcufile of CUDA 13".to_owned(), variables("cufile13")?)])
}
