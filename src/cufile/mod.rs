//! NVIDIA GPU memory through cuFile: files and buffers registered with the real libcufile, one blocking call for each operation.

mod batch;
mod calls;
mod codes;
mod entries;
mod lanes;
mod process;
mod settings;
mod slabs;
mod stream;

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use crate::common::blocking::Blocking;
use crate::common::cuda::CudaDevice;
use crate::common::device::{Device, DeviceError};
use crate::common::driver::{Driver, Handle};
use crate::common::transport::{Moved, Operation, move_all};
use crate::common::wait::Manner;
use batch::Batches;
use codes::Failure;
use process::{Library, Share};
use slabs::Slabs;
use stream::Streams;

/// cuFile as one job uses it.
pub struct Cufile {
    device: Arc<dyn Device>,
    /// The same device, with what only CUDA has.
    cuda: Arc<CudaDevice>,
    share: Share,
    registered: Option<usize>,
    register: bool,
}

/// What a job asks of cuFile.
pub struct Settings {
    pub ordinal: u32,
    /// `gpu_register`.
    pub register: bool,
}

impl Cufile {
    pub fn open(settings: &Settings) -> Result<Self, String> {
        let cuda = CudaDevice::open(settings.ordinal)?;
        let device: Arc<dyn Device> = cuda.clone();
        let share = Share::open()?;
        Ok(Self { device, cuda, share, registered: None, register: settings.register })
    }

    /// The batch call for `depth` operations; to be asked before the buffers are there.
    ///
    /// Where every byte bounces, the buffers are not registered. It would gain nothing: of a registered buffer one operation at a time uses
    /// what was registered, every other takes a bounce buffer as without. And libcufile 1.20 (CUDA 13) would lose that one: where it ends
    /// further into the buffer than per_buffer_cache_size_kb less 64 KiB (983,040 bytes by default) it goes to the library's threads, and
    /// cuFileBatchIOGetStatus does not look there once anything else was submitted to the batch (see [`lanes`]). Measured on 1.20.0.107 with
    /// a stand-alone caller: 61 of 62 reported where the first of 62 submissions ended at 1,015,808, all without registration and all by
    /// 1.14.1; max_batch_io_size, the minimum and the time-out of the call have no influence.
    pub fn batches(&mut self, depth: usize, manner: Manner) -> Result<Batches, String> {
        let calls = &self.share.library().calls;
        self.register &= !calls.always_bounces();
        let slabs = why_not_direct().map(|_| Slabs::of(calls, self.device.place().ordinal));
        Batches::new(self.worker(), depth, slabs, manner)
    }

    /// `count` streams for `depth` operations.
    pub fn streams<T: Copy>(&self, depth: usize, count: usize, manner: Manner) -> Result<Streams<T>, String> {
        Streams::new(self.share.library(), &self.cuda, depth, count, manner)
    }

    /// How much can be pinned on the device, where a failure is about that.
    fn room(&self, failure: Failure) -> String {
        let Failure::Own(codes::INVALID_MAPPING_SIZE | codes::PINNING_FAILED) = failure else { return String::new() };
        let kib = self.share.library().calls.bar_size(self.device.place().ordinal).filter(|&kib| kib > 0);
        kib.map_or_else(String::new, |kib| format!("; the GPU's BAR1 has {kib} KiB in all"))
    }

    /// A worker for blocking calls, for this job's thread or one of a pool.
    pub fn worker(&self) -> Direct {
        Direct { device: self.device.clone(), library: self.share.library() }
    }
}

/// Whether libcufile is on this machine; the error is the line that says why not.
pub fn is_installed() -> Result<(), String> {
    Library::get().map(|_| ())
}

/// Why the bytes of this machine's cuFile jobs do not go straight between storage and GPU; `None` where they may.
pub fn why_not_direct() -> Option<&'static str> {
    (!Path::new("/proc/driver/nvidia-fs/version").exists()).then_some(
        "nvidia-fs is not loaded, so cuFile runs in compat mode, through host memory; load it (modprobe nvidia-fs) for the direct path",
    )
}

impl Driver for Cufile {
    fn device(&self) -> Option<&Arc<dyn Device>> {
        Some(&self.device)
    }

    fn version(&self) -> Option<String> {
        Some(self.share.library().version.clone())
    }

    fn attach(&mut self, base: usize, bytes: usize) -> Result<Option<String>, String> {
        if !self.register {
            return Ok(None);
        }
        let Err(failure) = self.share.library().calls.register_buffer(base, bytes) else {
            self.registered = Some(base);
            return Ok(None);
        };
        let line = format!("cuFileBufRegister of {bytes} bytes: {}{}", Library::explain(failure), self.room(failure));
        match failure {
            // Managed memory: libcufile registers none, and moves it all the same.
            Failure::Own(codes::MEMORY_TYPE_INVALID) => Ok(Some(format!("the I/O buffers stay unregistered: {line}, or gpu_register=0"))),
            _ => Err(line),
        }
    }

    fn detach(&mut self) {
        if let Some(base) = self.registered.take() {
            self.share.library().calls.deregister_buffer(base);
        }
    }

    fn abandon(&mut self) {
        self.registered = None;
        self.share.keep();
    }

    fn open_file(&mut self, fd: RawFd, name: &str) -> Result<Handle, String> {
        let registered = self.share.library().calls.register_file(fd);
        registered
            .map(Handle)
            .map_err(|failure| format!("cuFileHandleRegister of {name}: {}{}", Library::explain(failure), file_hint(failure, fd)))
    }

    fn close_file(&mut self, handle: Handle) {
        self.share.library().calls.deregister_file(handle.0);
    }

    fn explain(&self, code: i32) -> String {
        if code > 5000 { Library::explain(Failure::Own(code)) } else { self.device.explain(DeviceError(code)) }
    }

    fn alignment(&self) -> Option<usize> {
        Some(4096)
    }
}

impl Drop for Cufile {
    fn drop(&mut self) {
        self.detach();
    }
}

/// What a file's place has to do with a failure.
fn file_hint(failure: Failure, fd: RawFd) -> String {
    let Ok(about) = std::fs::metadata(format!("/proc/self/fd/{fd}")) else { return String::new() };
    let device = std::os::unix::fs::MetadataExt::dev(&about);
    let (major, minor) = (libc::major(device), libc::minor(device));
    let file_system = file_system_of(major, minor).map_or_else(String::new, |name| format!("; its file system is {name}"));
    let udev = format!("/run/udev/data/b{major}:{minor}");
    match failure {
        Failure::Own(codes::HANDLE_NOT_REGISTERED | codes::INTERNAL_ERROR) if major == 0 => {
            format!("{file_system}, which lies on no block device, and not every libcufile serves that: use ext4 or xfs, or gpu_io=posix")
        }
        Failure::Own(codes::HANDLE_NOT_REGISTERED | codes::INTERNAL_ERROR) if !Path::new(&udev).exists() => format!(
            "{file_system}; udev has no data on its block device ({udev} is missing, as in a container), and libcufile asks for it: \
             make /run/udev visible here"
        ),
        _ => file_system,
    }
}

/// The type of the mounted file system on block device `major`:`minor`, from mountinfo.
fn file_system_of(major: u32, minor: u32) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let device = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device.as_str()))?;
    line.split_once(" - ")?.1.split(' ').next().map(str::to_owned)
}

/// One blocking cuFile call for each operation.
pub struct Direct {
    device: Arc<dyn Device>,
    library: &'static Library,
}

impl<T> Blocking<T> for Direct {
    const PATH: &'static str = "cufile";

    fn enter(&mut self) -> Result<(), i32> {
        self.device.enter().map_err(|error| error.0)
    }

    #[inline]
    fn run(&mut self, operation: &Operation<T>) -> Moved {
        move_all(operation.buffer.len(), |done| self.library.calls.transfer(operation, done).map_err(Failure::moved))
    }
}
