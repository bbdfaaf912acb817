//! A pinned block between files and a device: every operation has its place in it, and copies are started one by one and awaited together.

use std::sync::Arc;

use crate::common::device::{Device, DeviceMemory, Kind};
use crate::common::transport::{Buffer, Transfer};

pub struct BounceBlock {
    device: Arc<dyn Device>,
    /// As large as the job's block; an operation lies at the same offset in both.
    memory: Option<DeviceMemory>,
    base: usize,
    /// Copies were started since the last [`BounceBlock::finish`].
    is_copying: bool,
}

impl BounceBlock {
    /// A block that has no memory until [`BounceBlock::attach`].
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self { device, memory: None, base: 0, is_copying: false }
    }

    /// Makes it as large as the job's own block. The error is a line for the user.
    pub fn attach(&mut self, bytes: usize) -> Result<Buffer, String> {
        self.memory = None; // the old one goes before the new one comes
        let memory = DeviceMemory::new(self.device.clone(), Kind::Pinned, bytes).map_err(|error| {
            let what = self.device.explain(error);
            format!("gpu_io=uring: no pinned memory to pass I/O through: {bytes} bytes were asked for on {}: {what}", self.device.place())
        })?;
        self.base = self.memory.insert(memory).address();
        Ok(Buffer::at(self.base, bytes))
    }

    /// Where the bytes of an operation pass that lies `at` bytes into the job's block.
    #[inline]
    pub fn place(&self, at: usize, bytes: usize) -> Buffer {
        Buffer::at(self.base + at, bytes)
    }

    /// Starts what a write needs before it is submitted, or a read after it has come: a copy between `device`, an address there, and `host`.
    #[inline]
    pub fn start_copy(&mut self, transfer: Transfer, device: usize, host: Buffer) -> Result<(), i32> {
        self.is_copying = true;
        let started = match transfer {
            Transfer::Read => self.device.start_copy_in(device, host),
            Transfer::Write => self.device.start_copy_out(device, host),
        };
        started.map_err(|error| error.0)
    }

    /// Waits for all copies that were started. The error is the device's code, and holds for any of them.
    #[inline]
    pub fn finish(&mut self) -> Result<(), i32> {
        match std::mem::take(&mut self.is_copying) {
            true => self.device.finish_copies().map_err(|error| error.0),
            false => Ok(()),
        }
    }

    /// Leaves the block to the process for good: the kernel still has operations on it.
    pub fn abandon(&mut self) {
        std::mem::forget(self.memory.take());
    }
}
