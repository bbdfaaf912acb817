//! GPUs through the vendors' runtimes, opened at run time: devices, their memory, copies and streams.
//!
//! CUDA's driver API and HIP have the same dozen calls under other names ([`calls`]). What differs is in a file a vendor, [`cuda`] and
//! [`hip`]: the names, constants, and the few rules that have no twin. Results stay integers: a code that a newer runtime adds is no value
//! of any enum here.

mod calls;
mod cuda;
mod device;
mod hip;
mod places;
mod stream;

use std::ffi::c_int;
use std::sync::OnceLock;

use super::device::DeviceError;
use super::library::{self, Opened};
use calls::{Calls, StreamHandle};

pub use cuda::Cuda;
pub use device::GpuDevice;
pub use hip::Hip;
pub use stream::{GpuStream, Notices};

/// What is a vendor's own. Its value is the table of the functions that only this vendor has.
pub trait Vendor: Sized + Send + Sync + 'static {
    /// The runtime in messages and with its version in reports.
    const NAME: &'static str;
    /// The environment variable that names another library, and the libraries that are tried.
    const LIBRARY: (&'static str, &'static [&'static str]);
    /// The vendor's names of the functions in [`Calls`], which calls them by what they do.
    const FUNCTIONS: &'static [(&'static str, &'static str)];
    /// What is missing where the library cannot be loaded, and what to do.
    const NO_LIBRARY: (&'static str, &'static str);
    /// What the runtime's first call says where it finds no device, and the line about it.
    const NO_DEVICE: (&'static [c_int], &'static str);
    /// The program that shows whether the devices are well.
    const TOOL: &'static str;
    /// The environment variable that hides devices.
    const VISIBLE: &'static str;

    /// Where the runtime of this process is kept.
    fn cell() -> &'static OnceLock<Result<Runtime<Self>, String>>;

    fn load(from: &Opened) -> Result<Self, String>;

    /// The runtime's number of its version, for people.
    fn version(number: c_int) -> String;

    /// Takes what a thread needs to use a device. The error names the call.
    fn take(&self, device: c_int) -> Result<Context, (&'static str, DeviceError)>;

    /// Gives back what take() took.
    fn give_back(&self, device: c_int);

    /// Makes a device current in the calling thread.
    fn enter(&self, device: c_int, context: Context) -> Result<(), DeviceError>;

    /// Starts setting a word in each of `rows` rows that are `pitch` bytes apart.
    fn start_stamps(&self, address: usize, pitch: usize, value: u32, rows: usize, stream: StreamHandle) -> Result<(), DeviceError>;

    /// The name of a code and its meaning.
    fn words(&self, code: c_int) -> (Option<String>, Option<String>);
}

/// A vendor's name for what take() took, or 0.
pub type Context = usize;

/// A runtime in this process, initialised.
pub struct Runtime<V> {
    calls: Calls,
    own: V,
    version: c_int,
    /// Who initialised it: a child that inherits it can do nothing with it.
    process: u32,
}

impl<V: Vendor> Runtime<V> {
    /// Loads and initialises the runtime, once a process. The error is a line for the user.
    pub fn get() -> Result<&'static Self, String> {
        let runtime = V::cell().get_or_init(Self::load).as_ref().map_err(Clone::clone)?;
        if runtime.process == std::process::id() {
            return Ok(runtime);
        }
        let name = V::NAME;
        Err(format!(
            "{name} was initialised before this job was forked, by a job with thread=1, and is dead in the child: use thread=1 for all \
             jobs of this run, or for none"
        ))
    }

    fn load() -> Result<Self, String> {
        let (missing, advice) = V::NO_LIBRARY;
        let opened = library::open(V::LIBRARY.0, V::LIBRARY.1).map_err(|line| format!("{missing}: {line}; {advice}"))?;
        let calls = Calls::load(&opened, |role| name_of::<V>(role).to_owned())?;
        let mut runtime = Self { calls, own: V::load(&opened)?, version: 0, process: std::process::id() };
        let (no_device, line) = V::NO_DEVICE;
        runtime.calls.init().map_err(|error| match no_device.contains(&error.0) {
            true => line.to_owned(),
            false => format!("{}: {}; check {}", name_of::<V>("init"), runtime.explain(error), V::TOOL),
        })?;
        let version = runtime.calls.version();
        runtime.version = version.map_err(|error| format!("{}: {}", name_of::<V>("version"), runtime.explain(error)))?;
        Ok(runtime)
    }

    /// How many devices there are.
    pub fn count(&self) -> u32 {
        self.calls.count()
    }

    /// The name of a code, its meaning, and the number.
    pub fn explain(&self, error: DeviceError) -> String {
        match self.own.words(error.0) {
            (Some(name), Some(meaning)) if meaning != name => format!("{name} ({}: {meaning})", error.0),
            (Some(name), _) => format!("{name} ({})", error.0),
            _ => format!("{} error {}", V::NAME, error.0),
        }
    }
}

/// What the vendor calls a function of [`Calls`].
fn name_of<V: Vendor>(role: &str) -> &'static str {
    V::FUNCTIONS.iter().find(|(own, _)| *own == role).map_or("", |(_, name)| name)
}
