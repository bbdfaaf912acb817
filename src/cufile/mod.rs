//! cuFile: what is NVIDIA's own in GPU memory through [`crate::common::gpufile`].

mod calls;
mod codes;
mod settings;
mod slabs;

use std::os::fd::RawFd;
use std::path::Path;

use crate::common::gpu::{Cuda, Runtime};
use crate::common::gpufile::codes::{HANDLE_NOT_REGISTERED, INTERNAL_ERROR, INVALID_MAPPING_SIZE, PINNING_FAILED};
use crate::common::gpufile::{Batches, Failure, Files, Limit, Place, Vendor};
use crate::common::library::Opened;
use crate::common::topology;
use crate::common::wait::Manner;
pub use calls::Cufile;
use slabs::Slabs;

impl Vendor for Cufile {
    type Runtime = Cuda;
    const NAME: &'static str = "libcufile";
    const PREFIX: &'static str = "cuFile";
    const LIBRARY: (&'static str, &'static [&'static str]) = ("GPUIO_CUFILE_LIBRARY", &["libcufile.so.0", "libcufile.so"]);
    const NO_LIBRARY: &'static str = "install it (package libcufile, part of the CUDA toolkit), or use gpu_io=posix";
    const CODES: &'static [(i32, &'static str, &'static str)] = codes::CODES;
    const PATH: &'static str = "cufile";
    const STREAM_PATH: &'static str = "cufile-stream";
    const BATCH_PATH: &'static str = "cufile-batch";
    const OTHER_MODES: &'static str = "batch, pool or sync";
    const TAKES_MISALIGNED: bool = true;
    const MOVES_WHAT_IT_DOES_NOT_REGISTER: bool = true; // managed memory

    fn place() -> &'static Place<Self> {
        static PLACE: Place<Cufile> = Place::new();
        &PLACE
    }

    fn load(from: &Opened) -> Result<Self, String> {
        Self::load(from, str::to_owned)
    }

    fn version(&self) -> Option<String> {
        self.number().map(|number| format!("{}.{}.{}", number / 1000, number % 1000 / 10, number % 10))
    }

    /// An errno; -1 without one is no more than a failure.
    fn small(code: i32) -> Failure {
        Failure::Errno(if code == 1 { libc::EIO } else { code })
    }

    fn check_machine() -> Result<(), String> {
        if calls::modules_are_listed() || std::env::var("GPUIO_FORCE").as_deref() == Ok("1") {
            return Ok(());
        }
        Err("/proc/modules cannot be read, and libcufile would wait for it for ever: use a kernel with modules, use gpu_io=posix, or set \
             GPUIO_FORCE=1 to try all the same"
            .to_owned())
    }

    /// libcufile 1.20 starts I/O threads for every GPU that it sees, each with a context; where there are several GPUs it gets none, unless
    /// its settings ask for them. Only I/Os larger than min_io_threshold_size_kb (8 MiB) are ever split among them.
    fn before_opening(&self) {
        let several = Runtime::<Cuda>::get().is_ok_and(|cuda| cuda.count() > 1);
        let asked = settings::read().is_some_and(|settings| !settings["execution"]["max_io_threads"].is_null());
        if several && !asked {
            self.set_io_threads(0);
        }
    }

    /// 1.20 gives back a context of every GPU here, whether its I/O threads had one or not.
    fn around_closing(&self, close: impl FnOnce()) {
        match Runtime::<Cuda>::get() {
            Ok(cuda) if cuda.count() > 1 => cuda.keep_contexts(close),
            _ => close(),
        }
    }

    fn batch_limit(&self) -> Option<u32> {
        self.largest_batch()
    }

    /// How much can be pinned on the device, where a failure is about that.
    fn about_memory(&self, failure: Failure, ordinal: u32) -> String {
        let Failure::Own(INVALID_MAPPING_SIZE | PINNING_FAILED) = failure else { return String::new() };
        let kib = self.bar_size(ordinal).filter(|&kib| kib > 0);
        kib.map_or_else(String::new, |kib| format!("; the GPU's BAR1 has {kib} KiB in all"))
    }

    fn about_file(failure: Failure, fd: RawFd) -> String {
        let Some((major, minor)) = topology::device_of(fd) else { return String::new() };
        let file_system = topology::file_system_of(fd).map_or_else(String::new, |found| format!("; its file system is {}", found.kind));
        let udev = format!("/run/udev/data/b{major}:{minor}");
        match failure {
            Failure::Own(HANDLE_NOT_REGISTERED | INTERNAL_ERROR) if major == 0 => {
                format!(
                    "{file_system}, which lies on no block device, and not every libcufile serves that: use ext4 or xfs, or gpu_io=posix"
                )
            }
            Failure::Own(HANDLE_NOT_REGISTERED | INTERNAL_ERROR) if !Path::new(&udev).exists() => format!(
                "{file_system}; udev has no data on its block device ({udev} is missing, as in a container), and libcufile asks for it: \
                 make /run/udev visible here"
            ),
            _ => file_system,
        }
    }
}

/// The batch call for `depth` operations; to be asked before the buffers are there.
///
/// Where every byte bounces, the buffers are not registered. It would gain nothing: of a registered buffer one operation at a time uses
/// what was registered, every other takes a bounce buffer as without. And libcufile 1.20 (CUDA 13) would lose that one: where it ends
/// further into the buffer than per_buffer_cache_size_kb less 64 KiB (983,040 bytes by default) it goes to the library's threads, and
/// cuFileBatchIOGetStatus does not look there once anything else was submitted to the batch (see the lanes of [`Batches`]). Measured on 1.20.0.107 with
/// a stand-alone caller: 61 of 62 reported where the first of 62 submissions ended at 1,015,808, all without registration and all by
/// 1.14.1; max_batch_io_size, the minimum and the time-out of the call have no influence.
pub fn batches(files: &mut Files<Cufile>, depth: usize, manner: Manner) -> Result<Batches<Cufile>, String> {
    let own = &files.library().own;
    if own.always_bounces() {
        files.leave_unregistered();
    }
    let slabs = why_not_direct().map(|_| Box::new(Slabs::of(own, files.ordinal(), depth)) as Box<dyn Limit>);
    files.batches(depth, slabs, manner)
}

/// Why the bytes of this machine's cuFile jobs do not go straight between storage and GPU; `None` where they may.
pub fn why_not_direct() -> Option<&'static str> {
    (!Path::new("/proc/driver/nvidia-fs/version").exists()).then_some(
        "nvidia-fs is not loaded, so cuFile runs in compat mode, through host memory; load it (modprobe nvidia-fs) for the direct path",
    )
}
