//! A vendor's library as one job uses it, apart from the I/O itself: files, buffers, and what the vendor says when it refuses.

use std::os::fd::RawFd;
use std::sync::Arc;

use super::device::Device;

/// A vendor's name for an open file; 0 where the vendor needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handle(pub usize);

/// What a job asks of a vendor's library. Errors are lines for the user: what was called, what came back, what to do.
pub trait Driver {
    /// The device that the job uses; none for host memory.
    fn device(&self) -> Option<&Arc<dyn Device>> {
        None
    }

    /// The vendor library and its version, for the report.
    fn version(&self) -> Option<String> {
        None
    }

    /// The host memory for the I/O buffers of the job, where it has to be the vendor's: the address of `bytes` bytes that are there until
    /// [`Driver::detach`].
    fn allocate(&mut self, _bytes: usize) -> Option<Result<usize, String>> {
        None
    }

    /// Registers the I/O buffers of the job: `bytes` bytes from `base` on. The line is for the user, where they stay unregistered though the
    /// job asked for it.
    fn attach(&mut self, _base: usize, _bytes: usize) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Undoes [`Driver::attach`]. No operation is in flight.
    fn detach(&mut self) {}

    /// Something that never ended may still use what was registered and opened: nothing of it is given back any more, nor is the vendor's
    /// library closed in this process.
    fn abandon(&mut self) {}

    /// Opens what fio cannot open under the file's name. The descriptor is for syncs; something that has none can do without.
    fn open_own(&mut self, _name: &str) -> Option<Result<Option<RawFd>, String>> {
        None
    }

    fn open_file(&mut self, _fd: RawFd, _name: &str) -> Result<Handle, String> {
        Ok(Handle::default())
    }

    /// Undoes [`Driver::open_file`]. No operation on the file is in flight.
    fn close_file(&mut self, _handle: Handle) {}

    /// What sizes and offsets are a multiple of on the vendor's fast path.
    fn alignment(&self) -> Option<usize> {
        None
    }

    /// What becomes of an operation that is off it.
    fn detour(&self) -> &'static str {
        "the vendor's library takes its slower way"
    }

    /// What a vendor's code in a [`super::transport::Moved`] means, and what to do.
    fn explain(&self, code: i32) -> String {
        format!("code {code}")
    }
}

/// The driver of a job in host memory, which has no vendor.
pub struct NoDriver;

impl Driver for NoDriver {}

/// The driver of a job whose bytes go through host memory to a device, without a vendor's I/O library.
pub struct DeviceOnly(pub Arc<dyn Device>);

impl Driver for DeviceOnly {
    fn device(&self) -> Option<&Arc<dyn Device>> {
        Some(&self.0)
    }

    fn explain(&self, code: i32) -> String {
        self.0.explain(super::device::DeviceError(code))
    }
}
