//! Host memory for the buffers of a job.

use std::io;
use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};

/// Device memory is registered at this alignment; fio's buffers lie at the same offsets, so host memory is aligned alike.
const ALIGNMENT: usize = 64 * 1024;

/// A zeroed block of host memory, unmapped when dropped.
pub struct HostMemory {
    map: MmapMut,
    /// Bytes from the start of the mapping to the first aligned one.
    skipped: usize,
}

impl HostMemory {
    /// `bytes` bytes, aligned to 64 KiB.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let all = bytes.checked_add(ALIGNMENT).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapOptions::new().len(all).map_anon()?;
        let skipped = map.as_ptr().align_offset(ALIGNMENT);
        Ok(Self { map, skipped })
    }

    /// The first byte. What lies there is reached through fio and the kernel only, never through a reference of ours.
    pub fn start(&mut self) -> NonNull<u8> {
        NonNull::from(&mut self.map[self.skipped])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zeroed_to_its_last_byte() {
        let mut memory = HostMemory::new(100_001).unwrap();
        assert_eq!(memory.start().as_ptr() as usize % ALIGNMENT, 0);
        assert!(memory.map[memory.skipped..][..100_001].iter().all(|&b| b == 0));
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        assert!(HostMemory::new(usize::MAX).is_err());
        assert!(HostMemory::new(1 << 60).is_err());
    }
}
