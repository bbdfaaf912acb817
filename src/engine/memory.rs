//! The I/O buffers of a job: fio's block in host memory, and the device's block in which every unit lies at the same offset.
//!
//! The threads of io_submit_mode=offload move bytes of buffers and files that their parent job owns; they find both here.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock};

use crate::common::device::{Device, DeviceError, DeviceMemory, Kind};
use crate::common::driver::Handle;
use crate::common::memory::HostMemory;
use crate::common::transport::Buffer;

/// The blocks of one job, freed and forgotten when dropped.
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
        let host =
            || HostMemory::new(bytes).map_err(|error| format!("no memory for the I/O buffers: {bytes} bytes were asked for ({error})"));
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
        let mut memory = Self { fio, device, bytes };
        REGIONS.write().unwrap_or_else(PoisonError::into_inner).push(memory.region());
        Ok(memory)
    }

    /// Where fio's buffers start.
    pub fn start(&mut self) -> NonNull<u8> {
        match &mut self.fio {
            Block::Host(memory) => memory.start(),
            Block::Vendor(memory) => NonNull::new(std::ptr::with_exposed_provenance_mut(memory.address())).unwrap_or(NonNull::dangling()),
        }
    }

    pub fn region(&mut self) -> Region {
        let start = self.start().as_ptr().expose_provenance();
        Region { start, bytes: self.bytes, base: self.device.as_ref().map_or(start, DeviceMemory::address) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let region = self.region();
        REGIONS.write().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != region);
    }
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
    /// How far into the block `buffer` lies; `None` where it is another job's.
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

static REGIONS: RwLock<Vec<Region>> = RwLock::new(Vec::new());
static HANDLES: RwLock<Option<HashMap<RawFd, Handle>>> = RwLock::new(None);

/// The region of whichever job of this process owns `buffer`.
#[cold]
pub fn region_of(buffer: Buffer) -> Option<Region> {
    REGIONS.read().unwrap_or_else(PoisonError::into_inner).iter().find(|region| region.offset_of(buffer).is_some()).copied()
}

/// The vendor's handle of a file that some job of this process has open.
#[cold]
pub fn handle_of(fd: RawFd) -> Option<Handle> {
    HANDLES.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(&fd).copied()
}

/// Makes the handle of an open file known, or forgets it.
pub fn set_handle(fd: RawFd, handle: Option<Handle>) {
    let mut handles = HANDLES.write().unwrap_or_else(PoisonError::into_inner);
    let handles = handles.get_or_insert_default();
    match handle {
        Some(handle) => handles.insert(fd, handle),
        None => handles.remove(&fd),
    };
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
        assert_eq!(region_of(inside), Some(region));
        assert_eq!(region.offset_of(Buffer::at(region.start + 4096, 4097)), None);
        assert_eq!(region.offset_of(Buffer::at(region.start - 1, 1)), None);
        drop(memory);
        assert_eq!(region_of(inside), None);
    }
}
