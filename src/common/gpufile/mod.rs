//! GPU memory through the vendors' libraries for direct file I/O: libcufile, and libhipfile, which was made in its image. Files and buffers are
//! registered, I/O is one blocking call for each operation ([`Direct`]), the asynchronous call on streams ([`Streams`]) or the batch call
//! ([`Batches`]).
//!
//! What differs between the two is what [`Vendor`] asks for: a prefix, names and advice, and the few rules that have no twin.

mod batch;
pub mod calls;
pub mod codes;
mod direct;
pub mod entries;
mod lanes;
mod process;
mod stream;

use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use super::device::{self, DeviceError};
use super::driver::{Driver, Handle};
use super::gpu::{self, GpuDevice};
use super::library::Opened;
use super::transport::Moved;
use super::wait::Manner;
use calls::Calls;
pub use codes::Failure;

pub use batch::{Batches, Limit};
pub use direct::Direct;
pub use process::{Library, Place, Share};
pub use stream::Streams;

/// What sizes and offsets are a multiple of on the direct paths.
pub const ALIGNMENT: usize = 4096;

/// What is a vendor's own. Its value is the table of the functions that only this vendor's library has.
pub trait Vendor: Sized + Send + Sync + 'static {
    /// Whose memory it is.
    type Runtime: gpu::Vendor;
    /// The library in messages and with its version in reports.
    const NAME: &'static str;
    /// What the name of each function starts with.
    const PREFIX: &'static str;
    /// The environment variable that names another library, and the libraries that are tried.
    const LIBRARY: (&'static str, &'static [&'static str]);
    /// What to do where there is none.
    const NO_LIBRARY: &'static str;
    /// Its codes with names and what to do about them.
    const CODES: &'static [(i32, &'static str, &'static str)];
    /// What the report calls the ways that the bytes take.
    const PATH: &'static str;
    const STREAM_PATH: &'static str;
    const BATCH_PATH: &'static str;
    /// What there is beside gpu_mode=stream.
    const OTHER_MODES: &'static str;
    /// Whether the library moves what is off [`ALIGNMENT`] by itself; if not it never sees such an operation.
    const TAKES_MISALIGNED: bool;
    /// Whether it moves memory that it does not register.
    const MOVES_WHAT_IT_DOES_NOT_REGISTER: bool;

    /// What the process has of it.
    fn place() -> &'static Place<Self>;

    /// Before the library is loaded into this process, once the GPU's runtime is there.
    fn before_loading() {}

    fn load(from: &Opened) -> Result<Self, String>;

    fn version(&self) -> Option<String>;

    /// What minus a number below 5001 means that came in place of bytes; minus one with no errno is 1.
    fn small(code: i32) -> Failure;

    /// Whether the library can be loaded here at all; the error is the line for the user.
    fn check_machine() -> Result<(), String> {
        Ok(())
    }

    /// Before the driver of this process is opened.
    fn before_opening(&self) {}

    /// Calls what closes the driver of this process.
    fn around_closing(&self, close: impl FnOnce()) {
        close();
    }

    /// The largest batch that the library promises, where it does.
    fn batch_limit(&self) -> Option<u32> {
        None
    }

    /// What is to be known about a buffer that could not be registered.
    fn about_memory(&self, _failure: Failure, _ordinal: u32) -> String {
        String::new()
    }

    /// What a file's place has to do with a failure.
    fn about_file(_failure: Failure, _fd: RawFd) -> String {
        String::new()
    }

    /// Refuses a file that has no direct path, where the job wants no other.
    fn check_file(_fd: RawFd, _name: &str) -> Result<(), String> {
        Ok(())
    }
}

type Device<V> = GpuDevice<<V as Vendor>::Runtime>;

/// Takes the result of one more asynchronous call for an operation of `wanted` bytes, of which `done` were moved before. `None` where its rest
/// is to be asked for next; else how it ends: what was moved counts more than the failure after it, which the rest will meet again.
#[inline]
fn after_call(result: Result<usize, Failure>, done: &mut usize, wanted: usize) -> Option<Moved> {
    if let Ok(bytes @ 1..) = result {
        *done += bytes;
        if *done < wanted {
            return None;
        }
    }
    Some(match result {
        Err(failure) if *done == 0 => failure.moved(),
        _ => Moved::bytes(*done),
    })
}

/// What a job asks of a vendor's library.
pub struct Settings {
    pub ordinal: u32,
    /// `gpu_register`.
    pub register: bool,
    /// `gpu_require_direct`.
    pub require_direct: bool,
}

/// A vendor's library as one job uses it.
pub struct Files<V: Vendor> {
    device: Arc<dyn device::Device>,
    /// The same device, with what only its vendor has.
    gpu: Arc<Device<V>>,
    share: Share<V>,
    registered: Option<usize>,
    register: bool,
    require_direct: bool,
    /// Descriptors of our own behind handles, where fio's were registered already.
    duplicates: Vec<(Handle, OwnedFd)>,
}

impl<V: Vendor> Files<V> {
    pub fn open(settings: &Settings) -> Result<Self, String> {
        let gpu = Device::<V>::open(settings.ordinal)?;
        let share = Share::open()?;
        let Settings { register, require_direct, .. } = *settings;
        Ok(Self { device: gpu.clone(), gpu, share, registered: None, register, require_direct, duplicates: Vec::new() })
    }

    pub fn library(&self) -> &'static Library<V> {
        self.share.library()
    }

    pub fn ordinal(&self) -> u32 {
        self.device.place().ordinal
    }

    /// Leaves the buffers unregistered.
    pub fn leave_unregistered(&mut self) {
        self.register = false;
    }

    /// `count` streams for `depth` operations.
    pub fn streams(&self, depth: usize, count: usize, manner: Manner) -> Result<Streams<V>, String> {
        Streams::new(self.worker(), &self.gpu, depth, count, manner)
    }

    /// Batches for `depth` operations. `limit` bounds them where the library has only so many of something.
    pub fn batches(&self, depth: usize, limit: Option<Box<dyn Limit>>, manner: Manner) -> Result<Batches<V>, String> {
        Batches::new(self.worker(), depth, limit, manner)
    }

    /// A worker for blocking calls, for this job's thread or one of a pool.
    pub fn worker(&self) -> Direct<V> {
        Direct::new(self.device.clone(), self.library(), self.require_direct)
    }

    /// Registers a file; under a descriptor of our own where somebody has registered fio's.
    fn register_file(&mut self, fd: RawFd) -> Result<Handle, Failure> {
        let calls = &self.library().calls;
        match calls.register_file(fd) {
            Err(Failure::Own(codes::HANDLE_ALREADY_REGISTERED)) => {
                let own = Calls::duplicate(fd).map_err(|error| Failure::Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
                let handle = Handle(calls.register_file(std::os::fd::AsRawFd::as_raw_fd(&own))?);
                self.duplicates.push((handle, own));
                Ok(handle)
            }
            registered => registered.map(Handle),
        }
    }
}

impl<V: Vendor> Driver for Files<V> {
    fn device(&self) -> Option<&Arc<dyn device::Device>> {
        Some(&self.device)
    }

    fn version(&self) -> Option<String> {
        Some(self.library().version.clone())
    }

    fn attach(&mut self, base: usize, bytes: usize) -> Result<Option<String>, String> {
        if !self.register {
            return Ok(None);
        }
        let Err(failure) = self.library().calls.register_buffer(base, bytes) else {
            self.registered = Some(base);
            return Ok(None);
        };
        let about = self.library().own.about_memory(failure, self.ordinal());
        let line = format!("{}BufRegister of {bytes} bytes: {}{about}", V::PREFIX, Library::<V>::explain(failure));
        match failure {
            Failure::Own(codes::MEMORY_TYPE_INVALID) if V::MOVES_WHAT_IT_DOES_NOT_REGISTER => {
                Ok(Some(format!("the I/O buffers stay unregistered: {line}, or gpu_register=0")))
            }
            _ => Err(line),
        }
    }

    fn detach(&mut self) {
        if let Some(base) = self.registered.take() {
            self.library().calls.deregister_buffer(base);
        }
    }

    fn abandon(&mut self) {
        self.registered = None;
        self.share.keep();
    }

    fn open_file(&mut self, fd: RawFd, name: &str) -> Result<Handle, String> {
        if self.require_direct {
            V::check_file(fd, name)?;
        }
        self.register_file(fd).map_err(|failure| {
            format!("{}HandleRegister of {name}: {}{}", V::PREFIX, Library::<V>::explain(failure), V::about_file(failure, fd))
        })
    }

    fn close_file(&mut self, handle: Handle) {
        self.library().calls.deregister_file(handle.0);
        self.duplicates.retain(|(own, _)| *own != handle);
    }

    fn explain(&self, code: i32) -> String {
        match code {
            codes::MISALIGNED => format!(
                "sizes and offsets that are no multiple of {ALIGNMENT} go through host memory, which gpu_require_direct=1 forbids: use bs and \
                 offsets that are"
            ),
            codes::UNTOLD => format!("the asynchronous call has failed, for which {} gives no reason; gpu_mode=pool shows it", V::NAME),
            5001.. => Library::<V>::explain(Failure::Own(code)),
            _ => self.device.explain(DeviceError(code)),
        }
    }

    fn alignment(&self) -> Option<usize> {
        // Where what is off it fails, the failure says so.
        (V::TAKES_MISALIGNED || !self.require_direct).then_some(ALIGNMENT)
    }

    fn detour(&self) -> &'static str {
        if V::TAKES_MISALIGNED { "the vendor's library takes its slower way" } else { "it goes through host memory" }
    }
}

impl<V: Vendor> Drop for Files<V> {
    fn drop(&mut self) {
        self.detach();
    }
}
