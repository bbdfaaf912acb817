//! The way through host memory: pread or pwrite on a bounce buffer, and a copy from or to the device.

use std::sync::Arc;

use super::blocking::Blocking;
use super::device::{Device, DeviceError, DeviceMemory, Kind};
use super::posix;
use super::transport::{Buffer, Moved, Operation, Transfer};

/// One thread's bounce buffer, between a file and a device's memory.
pub struct Bounce {
    device: Arc<dyn Device>,
    /// Pinned, as large as the largest operation so far; it grows only while the first ones come in.
    memory: Option<(DeviceMemory, usize)>,
    /// How the last operation ended.
    last: Moved,
}

impl Bounce {
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self { device, memory: None, last: Moved::bytes(0) }
    }

    fn buffer(&mut self, bytes: usize) -> Result<Buffer, DeviceError> {
        if self.memory.as_ref().is_none_or(|(_, size)| *size < bytes) {
            self.memory = None; // the old one goes before the new one comes
            self.memory = Some((DeviceMemory::new(self.device.clone(), Kind::Pinned, bytes)?, bytes));
        }
        let address = self.memory.as_ref().map_or(0, |(memory, _)| memory.address());
        Ok(Buffer::at(address, bytes))
    }

    fn transfer(&mut self, operation: &Operation) -> Result<Moved, DeviceError> {
        let bounce = self.buffer(operation.buffer.len())?;
        let device = operation.base + operation.at;
        if operation.transfer == Transfer::Write {
            self.device.copy_out(device, bounce)?;
        }
        let moved = posix::transfer(operation.transfer, operation.fd, operation.offset, bounce);
        if operation.transfer == Transfer::Read && moved.bytes > 0 {
            self.device.copy_in(device, bounce.first(moved.bytes))?;
        }
        Ok(moved)
    }
}

impl Blocking for Bounce {
    const PATH: &'static str = "posix-bounce";

    fn enter(&mut self) -> Result<(), i32> {
        self.device.enter().map_err(|error| error.0)
    }

    fn first(&mut self, operation: &Operation) -> isize {
        self.last = self.transfer(operation).unwrap_or_else(|error| Moved::failed(libc::EIO, error.0));
        self.last.bytes as isize
    }

    fn go_on(&mut self, _operation: &Operation, _returned: isize) -> Moved {
        self.last
    }
}
