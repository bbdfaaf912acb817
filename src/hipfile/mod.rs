//! hipFile: what is AMD's own in GPU memory through [`gpufile`].

mod calls;
mod codes;
mod probe;

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::common::gpu::{Hip, Runtime};
use crate::common::gpufile::{self, Failure, Files, Place, Settings, Vendor};
use crate::common::library::Opened;
use crate::common::topology::{self, FileSystem};
pub use calls::Hipfile;
pub use probe::try_batch;

/// Variables that libhipfile reads once, when it is loaded.
const ALLOW_COMPAT_MODE: &str = "HIPFILE_ALLOW_COMPAT_MODE";
const FORCE_COMPAT_MODE: &str = "HIPFILE_FORCE_COMPAT_MODE";
const UNSUPPORTED_FILE_SYSTEMS: &str = "HIPFILE_UNSUPPORTED_FILE_SYSTEMS";

impl Vendor for Hipfile {
    type Runtime = Hip;
    const NAME: &'static str = "libhipfile";
    const PREFIX: &'static str = "hipFile";
    const LIBRARY: (&'static str, &'static [&'static str]) = ("GPUIO_HIPFILE_LIBRARY", &["libhipfile.so.0", "libhipfile.so"]);
    const NO_LIBRARY: &'static str = "install it (hipFile, part of ROCm), or use gpu_io=posix";
    const CODES: &'static [(i32, &'static str, &'static str)] = codes::CODES;
    const PATH: &'static str = "hipfile";
    const STREAM_PATH: &'static str = "hipfile-stream";
    const BATCH_PATH: &'static str = "hipfile-batch";
    const OTHER_MODES: &'static str = "pool or sync";
    /// What is off passes the library's check and fails in amdgpu with EINVAL, or goes through its fallback, which under load has reset GPUs.
    const TAKES_MISALIGNED: bool = false;
    const MOVES_WHAT_IT_DOES_NOT_REGISTER: bool = false;

    fn place() -> &'static Place<Self> {
        static PLACE: Place<Hipfile> = Place::new();
        &PLACE
    }

    fn before_loading() {
        let said = *SAID.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_some_and(|(_, require_direct)| require_direct) {
            calls::forbid_compat_mode();
        }
    }

    fn load(from: &Opened) -> Result<Self, String> {
        Self::load(from, str::to_owned)
    }

    fn version(&self) -> Option<String> {
        self.numbers().map(|numbers| numbers.map(|number| number.to_string()).join("."))
    }

    /// A hipError_t; hipErrorInvalidValue is 1, and so looks like minus one of the C library.
    fn small(code: i32) -> Failure {
        Failure::Runtime(code)
    }

    fn about_file(_failure: Failure, fd: RawFd) -> String {
        topology::file_system_of(fd).map_or_else(String::new, |found| format!("; its file system is {}", found.kind))
    }

    fn check_file(fd: RawFd, name: &str) -> Result<(), String> {
        topology::file_system_of(fd).as_ref().and_then(not_served).map_or(Ok(()), |why| Err(format!("gpu_require_direct=1: {name} {why}")))
    }
}

/// Opens libhipfile for a job. Whether it may fall back to host memory is told it once a process, so all jobs of a process have to agree.
pub fn open(settings: &Settings) -> Result<Files<Hipfile>, String> {
    agree(settings.require_direct)?;
    Files::open(settings)
}

/// Whether a device and the library are on this machine; the error is the line that says what is missing.
pub fn is_present(require_direct: bool) -> Result<(), String> {
    agree(require_direct)?;
    Runtime::<Hip>::get()?;
    gpufile::Library::<Hipfile>::get().map(|_| ())
}

/// A process, and whether its first job requires the direct path.
static SAID: Mutex<Option<(u32, bool)>> = Mutex::new(None);

fn agree(require_direct: bool) -> Result<(), String> {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    match *said {
        Some((process, first)) if process == std::process::id() && first != require_direct => Err(format!(
            "gpu_require_direct={} contradicts gpu_require_direct={} of another job in this process: libhipfile reads {ALLOW_COMPAT_MODE} \
             once; give all jobs the same, or use thread=0",
            u32::from(require_direct),
            u32::from(first)
        )),
        // A forked job has a say of its own.
        _ => {
            *said = Some((std::process::id(), require_direct));
            Ok(())
        }
    }
}

/// Why the bytes of a job on files at `path` do not go straight between storage and GPU, as far as that can be told before.
pub fn doubts(path: &Path, direct: bool) -> Result<Vec<String>, String> {
    let mut doubts = Vec::new();
    if !direct {
        doubts.push("direct=0: which way bytes go is left to hipFile; use direct=1 for the direct path".to_owned());
    }
    if is_set(FORCE_COMPAT_MODE) {
        doubts.push(format!("{FORCE_COMPAT_MODE} is set, so hipFile goes through host memory; unset it for the direct path"));
    }
    if !Runtime::<Hip>::get()?.has_file_call() {
        doubts.push(
            "this HIP runtime has no file call of amdgpu's (hipAmdFileRead), so hipFile goes through host memory; use a newer ROCm for the \
             direct path"
                .to_owned(),
        );
    }
    if let Some(why) = topology::file_system_under(path).as_ref().and_then(not_served) {
        doubts.push(format!("{} {why}", path.display()));
    }
    Ok(doubts)
}

/// Why a file system has no direct path.
fn not_served(found: &FileSystem) -> Option<String> {
    let FileSystem { kind, options } = found;
    let unordered = kind == "ext4" && options.split(',').any(|option| option.starts_with("data=") && option != "data=ordered");
    let served = matches!(kind.as_str(), "ext4" | "xfs") && !unordered || is_set(UNSUPPORTED_FILE_SYSTEMS);
    (!served).then(|| {
        let what = if unordered { "ext4 without data=ordered" } else { kind };
        format!("lies on {what}, where hipFile goes through host memory; its direct path serves ext4 (data=ordered), xfs and block devices")
    })
}

/// Whether a switch of libhipfile's is on.
fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|text| text.eq_ignore_ascii_case("true") || text == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direct_path_is_for_ordered_ext4_and_xfs() {
        let why = |kind: &str, options: &str| not_served(&FileSystem { kind: kind.to_owned(), options: options.to_owned() });
        assert_eq!(why("ext4", "rw,relatime"), None);
        assert_eq!(why("ext4", "rw,data=ordered"), None);
        assert_eq!(why("xfs", "rw"), None);
        assert!(why("ext4", "rw,data=journal").unwrap().contains("lies on ext4 without data=ordered"));
        assert!(why("tmpfs", "rw").unwrap().contains("lies on tmpfs, where hipFile goes through host memory"));
    }
}
