//! What a test needs of the machine: other programs, signals, loop devices, small file systems; whatever is made is gone in the end.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Runs another program and returns what it printed; its failure is the test's.
#[track_caller]
pub fn tool<S: AsRef<OsStr>>(program: &str, args: &[S]) -> String {
    try_tool(program, args).unwrap_or_else(|why| panic!("{why}"))
}

pub fn try_tool<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Result<String, String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}: install it with `make test`"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let args: Vec<_> = args.iter().map(|a| a.as_ref().to_string_lossy().into_owned()).collect();
    Err(format!("{program} {}: {}\n{stdout}{}", args.join(" "), output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Sends a signal to a process that the test has started (or, negative, to its group).
pub fn signal(id: i32, signal: libc::c_int) {
    // SAFETY: a system call without memory; the id is that of a child not waited for yet.
    unsafe { libc::kill(id, signal) };
}

/// The processes that work in a folder.
pub fn processes_in(folder: &Path) -> Vec<i32> {
    let is_in = |id: &i32| std::fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd == folder);
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_in).collect()
}

/// The processes that `parent` has forked.
pub fn children(parent: i32) -> Vec<i32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    std::fs::read_to_string(path).unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// Waits until fio or a job of it has opened the file: then its I/O is under way.
#[track_caller]
pub fn wait_until_open(fio: i32, file: &Path) {
    let has = |id: &i32| {
        let open = std::fs::read_dir(format!("/proc/{id}/fd"));
        open.is_ok_and(|fds| fds.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == file)))
    };
    for _ in 0..1000 {
        if [fio].iter().chain(&children(fio)).any(has) {
            // The first I/Os follow at once.
            thread::sleep(Duration::from_millis(200));
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("fio has not opened {}", file.display());
}

pub fn is_root() -> bool {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A loop device over a file. Machines have few, so tests take turns.
pub struct LoopDevice {
    pub path: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl LoopDevice {
    /// `None` where only root could, and this is not root.
    pub fn over(backing: &Path, options: &[&str]) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        if !is_root() {
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let args: Vec<&OsStr> = ["--find", "--show"].iter().chain(options).map(OsStr::new).chain([backing.as_os_str()]).collect();
        let mut made = try_tool("losetup", &args);
        for _ in 0..20 {
            // Another program can take the device that losetup has found.
            if made.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
            made = try_tool("losetup", &args);
        }
        let path = made.unwrap_or_else(|why| panic!("as root a loop device must work: {why}"));
        Some(Self { path: PathBuf::from(path.trim()), _turn: turn })
    }

    pub fn name(&self) -> String {
        self.path.display().to_string()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Err(why) = try_tool("losetup", &[OsStr::new("--detach"), self.path.as_os_str()]) {
            eprintln!("{why}");
        }
    }
}

/// A file system in memory, of a few bytes.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where only root could, and this is not root.
    pub fn at(path: &Path, bytes: u64) -> Option<Self> {
        if !is_root() {
            return None;
        }
        std::fs::create_dir_all(path).expect("a folder to mount on");
        let size = format!("size={bytes}");
        tool("mount", &[OsStr::new("-t"), OsStr::new("tmpfs"), OsStr::new("-o"), OsStr::new(&size), OsStr::new("none"), path.as_os_str()]);
        Some(Self(path.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(why) = try_tool("umount", &[&self.0]) {
            eprintln!("{why}");
        }
    }
}
