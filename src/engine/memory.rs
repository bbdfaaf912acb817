//! The I/O buffers of a job: fio's block in host memory, and the device's block in which every unit lies at the same offset.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::common::device::{Device, DeviceError, DeviceMemory, Kind};
use crate::common::memory::HostMemory;
use crate::common::transport::Buffer;

/// The blocks of one job, freed when dropped.
pub struct Memory {
    fio: Block,
    device: Option<DeviceMemory>,
    bytes: usize,
}

/// What fio's own buffers are made of.
enum Block {
    Host(HostMemory),
    /// Managed or pinned memory, which the CPU can write: the I/O buffers are fio's own.
    Vendor(DeviceMemory),
    /// The driver's, at this address.
    Driver(usize),
}

/// What a job's blocks are to be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Host memory only.
    Host,
    /// fio's block in host memory, the I/O buffers on the device.
    Separate,
    /// One block of vendor memory for both.
    Shared(Kind),
}

impl Memory {
    pub fn new(layout: Layout, device: Option<&Arc<dyn Device>>, bytes: usize) -> Result<Self, String> {
        let host = || HostMemory::new(bytes).map_err(|error| no_memory(bytes, &error));
        let vendor = |kind| {
            let device = device.ok_or_else(|| "no device to allocate memory from".to_owned())?;
            let refused = |error: DeviceError| {
                format!("no memory for the I/O buffers on {}: {bytes} bytes were asked for: {}", device.place(), device.explain(error))
            };
            DeviceMemory::new(device.clone(), kind, bytes).map_err(refused)
        };
        let (fio, device) = match layout {
            Layout::Host => (Block::Host(host()?), None),
            Layout::Separate => (Block::Host(host()?), Some(vendor(Kind::Device)?)),
            Layout::Shared(kind) => (Block::Vendor(vendor(kind)?), None),
        };
        Ok(Self { fio, device, bytes })
    }

    /// Memory at `address` that is the driver's.
    pub fn lent(address: usize, bytes: usize) -> Self {
        Self { fio: Block::Driver(address), device: None, bytes }
    }

    /// Where fio's buffers start.
    pub fn start(&mut self) -> NonNull<u8> {
        match &mut self.fio {
            Block::Host(memory) => memory.start(),
            Block::Vendor(memory) => host(memory.address()),
            Block::Driver(address) => host(*address),
        }
    }

    pub fn region(&mut self) -> Region {
        let start = self.start().as_ptr().expose_provenance();
        Region { start, bytes: self.bytes, base: self.device.as_ref().map_or(start, DeviceMemory::address) }
    }
}

fn host(address: usize) -> NonNull<u8> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
}

/// The line for a job whose buffers the machine has no memory for.
pub fn no_memory(bytes: usize, error: &std::io::Error) -> String {
    format!("no memory for the I/O buffers: {bytes} bytes were asked for ({error}); lower iodepth or the block size")
}

/// Where a job's buffers lie, in addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// fio's block.
    start: usize,
    bytes: usize,
    /// The I/O buffers: the device's block, or fio's.
    pub base: usize,
}

impl Region {
    /// How far into the block `buffer` lies; `None` where it is none of the job's.
    #[inline]
    pub fn offset_of(&self, buffer: Buffer) -> Option<usize> {
        let at = buffer.address().wrapping_sub(self.start);
        (at < self.bytes && buffer.len() <= self.bytes - at).then_some(at)
    }

    /// All of fio's block.
    pub fn whole(&self) -> Buffer {
        Buffer::at(self.start, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_found_in_its_own_block_only() {
        let mut memory = Memory::new(Layout::Host, None, 8192).unwrap();
        let region = memory.region();
        let inside = Buffer::at(region.start + 4096, 4096);
        assert_eq!(region.offset_of(inside), Some(4096));
        assert_eq!(region.offset_of(Buffer::at(region.start + 4096, 4097)), None);
        assert_eq!(region.offset_of(Buffer::at(region.start - 1, 1)), None);
    }
}
