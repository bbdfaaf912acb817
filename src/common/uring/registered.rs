//! What a job has registered with its ring: its I/O buffers, so that the kernel need not pin them for each operation, and its files.

use std::os::fd::RawFd;

use rustix::process::{Resource, getrlimit};

use super::ring::{MOST_BYTES, Ring};
use crate::common::transport::Buffer;

/// Registered buffers overlap by half, so that an operation of up to this many bytes always lies within one.
const STRIDE: usize = MOST_BYTES / 2;

/// A registered block; of no bytes where none is.
#[derive(Default)]
pub struct Block {
    start: usize,
    bytes: usize,
    /// The number of its last part.
    last: usize,
}

impl Block {
    /// Registers all of `block`. The error is a line for the user; the job can go on without.
    pub fn register(ring: &mut Ring, block: Buffer) -> Result<Self, String> {
        let registered = Self { start: block.address(), bytes: block.len(), last: last_part(block.len()) };
        let parts: Vec<_> = (0..=registered.last).map(|n| block.after(n * STRIDE).first(MOST_BYTES)).collect();
        ring.register_buffers(&parts).map_err(|error| {
            let what = match error.raw_os_error() {
                Some(libc::ENOMEM) => format!("{}; raise it (ulimit -l, or LimitMEMLOCK= of a service)", locked_memory()),
                _ => "the kernel cannot lock this kind of memory".to_owned(),
            };
            format!(
                "gpu_io=uring: {} bytes of I/O buffers cannot be registered with io_uring: {error}: {what}; every I/O locks its own \
                 buffer instead, which is slower (gpu_register=0 asks for that)",
                block.len()
            )
        })?;
        Ok(registered)
    }

    /// The number of the registered part that holds all of `buffer`.
    #[inline]
    pub fn part_of(&self, buffer: Buffer) -> Option<u16> {
        let at = buffer.address().wrapping_sub(self.start);
        if at >= self.bytes || buffer.len() > self.bytes - at {
            return None;
        }
        if self.last == 0 {
            return Some(0);
        }
        let part = (at / STRIDE).min(self.last);
        (at - part * STRIDE + buffer.len() <= MOST_BYTES).then_some(part as u16)
    }
}

fn last_part(bytes: usize) -> usize {
    bytes.div_ceil(STRIDE).saturating_sub(2)
}

fn locked_memory() -> String {
    match getrlimit(Resource::Memlock).current {
        Some(bytes) => format!("RLIMIT_MEMLOCK is {bytes} bytes for all processes of this user"),
        None => "there is no memory left to lock (RLIMIT_MEMLOCK has no limit)".to_owned(),
    }
}

/// The job's files in the ring's table: each has its descriptor's number.
#[derive(Default)]
pub struct Files {
    /// What is registered; empty until the first file comes, or where the kernel has refused the table.
    table: Vec<bool>,
    is_made: bool,
    /// The user knows that the table is too small.
    is_small: bool,
}

/// Larger tables are not made; who opens more files at a time does so without registering the rest.
const MOST_FILES: u64 = 1 << 15;

impl Files {
    /// Registers an open file. The error is a line for the user, who gets each only once; the job can go on without.
    pub fn open(&mut self, ring: &mut Ring, fd: RawFd) -> Result<(), String> {
        if !std::mem::replace(&mut self.is_made, true) {
            let size = getrlimit(Resource::Nofile).current.unwrap_or(MOST_FILES).min(MOST_FILES) as usize;
            let made = ring.register_files(size);
            made.map_err(|error| format!("gpu_io=uring: no table of registered files: {error}; every I/O looks its file up instead"))?;
            self.table = vec![false; size];
        }
        let size = self.table.len();
        match self.table.get_mut(fd as usize) {
            Some(place) => {
                let set = ring.set_file(fd as u32, Some(fd));
                *place = set.is_ok();
                set.map_err(|error| format!("gpu_io=uring: a file cannot be registered: {error}; every I/O on it looks it up instead"))
            }
            None if size == 0 || std::mem::replace(&mut self.is_small, true) => Ok(()),
            None => Err(format!("gpu_io=uring: more than {size} open files: every I/O on the others looks its file up")),
        }
    }

    pub fn close(&mut self, ring: &mut Ring, fd: RawFd) {
        if let Some(place) = self.table.get_mut(fd as usize).filter(|place| **place) {
            *place = false;
            let _ = ring.set_file(fd as u32, None); // the place is set anew before it is used again
        }
    }

    #[inline]
    pub fn has(&self, fd: RawFd) -> bool {
        self.table.get(fd as usize).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;

    fn block(bytes: usize) -> Block {
        Block { start: GIB, bytes, last: last_part(bytes) }
    }

    fn part(block: &Block, at: usize, length: usize) -> Option<u16> {
        block.part_of(Buffer::at(GIB + at, length))
    }

    #[test]
    fn what_is_not_all_in_the_block_is_in_no_part() {
        assert_eq!(part(&Block::default(), 0, 1), None);
        let block = block(8192);
        assert_eq!(part(&block, 0, 8192), Some(0));
        assert_eq!(part(&block, 4096, 4096), Some(0));
        assert_eq!(part(&block, 4096, 4097), None);
        assert_eq!(block.part_of(Buffer::at(GIB - 1, 1)), None);
    }

    #[test]
    fn half_a_gibibyte_fits_one_part_wherever_it_lies() {
        for bytes in [GIB - 1, GIB, GIB + 1, 3 * GIB / 2, 3 * GIB + 4096] {
            let block = block(bytes);
            for at in (0..bytes - GIB / 2).step_by(GIB / 16).chain([bytes - GIB / 2]) {
                let n = usize::from(part(&block, at, GIB / 2).unwrap());
                assert!(n * STRIDE <= at && at + GIB / 2 <= (n * STRIDE + GIB).min(bytes), "{at} of {bytes} in {n}");
            }
        }
        assert_eq!((last_part(0), last_part(GIB), last_part(GIB + 1), last_part(2 * GIB)), (0, 0, 1, 2));
    }
}
