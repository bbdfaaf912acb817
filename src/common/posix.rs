//! pread and pwrite: the plain way between a file and host memory.

use std::io;
use std::os::fd::RawFd;

use super::transport::{Buffer, Moved, Transfer, move_rest};

/// Moves all bytes of `buffer` from or to `offset` of the file `fd`.
pub fn transfer(transfer: Transfer, fd: RawFd, offset: u64, buffer: Buffer) -> Moved {
    go_on(transfer, fd, offset, buffer, first(transfer, fd, offset, buffer))
}

/// The first call for all of it. Returns as pread does.
#[inline]
pub fn first(transfer: Transfer, fd: RawFd, offset: u64, buffer: Buffer) -> isize {
    sys::call(transfer, fd, offset, buffer, 0)
}

/// Goes on after a first call that has returned `returned` just now.
pub fn go_on(transfer: Transfer, fd: RawFd, offset: u64, buffer: Buffer, returned: isize) -> Moved {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    let told = |returned: isize| usize::try_from(returned).map_err(|_| Moved::failed(errno(), 0));
    move_rest(buffer.len(), told(returned), |done| told(sys::call(transfer, fd, offset, buffer, done)))
}

/// Whether a regular file ends at `offset` or before.
pub fn is_past_end(fd: RawFd, offset: u64) -> bool {
    sys::size(fd).is_some_and(|size| offset >= size)
}

/// The call table.
mod sys {
    use super::{Buffer, RawFd, Transfer};
    use crate::faults;

    /// One pread or pwrite of what is left after `skip` bytes. Returns as they do.
    #[inline]
    pub fn call(transfer: Transfer, fd: RawFd, offset: u64, buffer: Buffer, skip: usize) -> isize {
        let left = faults::cap(buffer.len() - skip);
        let offset = (offset + skip as u64) as i64;
        // SAFETY: the buffer belongs to the operation that is under way (see Buffer); `skip` is within it. errno is this thread's own.
        unsafe {
            if let Some(errno) = faults::errno() {
                *libc::__errno_location() = errno;
                return -1;
            }
            let start = buffer.start().add(skip).cast();
            match transfer {
                Transfer::Read => libc::pread(fd, start, left, offset),
                Transfer::Write => libc::pwrite(fd, start, left, offset),
            }
        }
    }

    /// The size of a regular file.
    pub fn size(fd: RawFd) -> Option<u64> {
        let mut about = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a place for the struct, which is read only where the call has filled it.
        let about = unsafe {
            if libc::fstat(fd, about.as_mut_ptr()) != 0 {
                return None;
            }
            about.assume_init()
        };
        (about.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(about.st_size as u64)
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
