//! pread and pwrite: the plain way between a file and host memory.

use std::os::fd::RawFd;

use super::transport::{Buffer, Moved, Transfer, move_all};
use crate::faults;

/// Moves all bytes of `buffer` from or to `offset` of the file `fd`.
#[inline]
pub fn transfer(transfer: Transfer, fd: RawFd, offset: u64, buffer: Buffer) -> Moved {
    move_all(buffer.len(), |done| {
        let called = faults::errno().map_or_else(|| sys::call(transfer, fd, offset, buffer, done), Err);
        called.map_err(|errno| Moved::failed(errno, 0))
    })
}

/// The call table.
mod sys {
    use super::{Buffer, RawFd, Transfer};
    use crate::faults;

    /// One pread or pwrite of what is left after `skip` bytes. Bytes moved, or an errno.
    #[inline]
    pub fn call(transfer: Transfer, fd: RawFd, offset: u64, buffer: Buffer, skip: usize) -> Result<usize, i32> {
        let left = faults::cap(buffer.len() - skip);
        let offset = (offset + skip as u64) as i64;
        // SAFETY: the buffer belongs to the operation that is under way (see Buffer); `skip` is within it.
        let moved = unsafe {
            let start = buffer.start().add(skip).cast();
            match transfer {
                Transfer::Read => libc::pread(fd, start, left, offset),
                Transfer::Write => libc::pwrite(fd, start, left, offset),
            }
        };
        usize::try_from(moved).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn read_at(fd: i32, offset: u64, into: &mut [u8]) -> Moved {
        transfer(Transfer::Read, fd, offset, Buffer::new(into))
    }

    #[test]
    fn a_read_past_the_end_is_short_and_no_error() {
        let file = std::fs::File::open(file!()).unwrap();
        let size = file.metadata().unwrap().len();
        let mut into = vec![0; 64];
        assert_eq!(read_at(file.as_raw_fd(), size - 10, &mut into), Moved::bytes(10));
        assert_eq!(read_at(file.as_raw_fd(), size + 10, &mut into), Moved::bytes(0));
    }

    #[test]
    fn a_closed_descriptor_is_its_errno() {
        assert_eq!(read_at(-1, 0, &mut [0; 8]), Moved::failed(libc::EBADF, 0));
    }
}
