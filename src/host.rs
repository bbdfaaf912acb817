//! The host backend: pread and pwrite on host memory, on any machine, one at a time or by a pool of threads.

use std::time::Duration;

use crate::common::pool::Blocking;
use crate::common::transport::{Moved, Operation, Submitted, Transfer, Transport};
use crate::faults;

/// One blocking call for each operation, as fio's psync.
pub struct Posix;

impl<T> Transport<T> for Posix {
    fn is_synchronous(&self) -> bool {
        true
    }

    fn path(&self) -> &'static str {
        "posix"
    }

    fn submit(&mut self, operation: Operation<T>) -> Submitted {
        Submitted::Done(run(&operation))
    }

    fn reap(&mut self, _min: usize, _max: usize, _timeout: Option<Duration>, _done: &mut dyn FnMut(T, Moved)) -> Result<(), i32> {
        Ok(())
    }
}

impl<T: Send + 'static> Blocking<T> for Posix {
    fn run(&mut self, operation: &Operation<T>) -> Moved {
        run(operation)
    }
}

/// Moves all of an operation's bytes: a short call is resumed until the rest fails or returns 0.
fn run<T>(operation: &Operation<T>) -> Moved {
    let wanted = operation.buffer.len();
    let mut moved = 0;
    while moved < wanted {
        let called = faults::errno().map_or_else(|| sys::call(operation, moved), Err);
        match called {
            Ok(0) => break,
            Ok(bytes) => moved += bytes,
            Err(libc::EINTR) => {}
            // What was moved so far counts; fio asks for the rest again and gets the error with its own offset.
            Err(_) if moved > 0 => break,
            Err(errno) => return Moved { bytes: 0, errno },
        }
    }
    Moved { bytes: moved, errno: 0 }
}

/// The call table.
mod sys {
    use super::{Operation, Transfer};
    use crate::faults;

    /// One pread or pwrite of what is left after `skip` bytes. Bytes moved, or an errno.
    #[inline]
    pub fn call<T>(operation: &Operation<T>, skip: usize) -> Result<usize, i32> {
        let left = faults::cap(operation.buffer.len() - skip);
        let offset = (operation.offset + skip as u64) as i64;
        // SAFETY: the buffer belongs to the operation, which is borrowed here (see Operation); `skip` is within it.
        let moved = unsafe {
            let start = operation.buffer.start().add(skip).cast();
            match operation.transfer {
                Transfer::Read => libc::pread(operation.fd, start, left, offset),
                Transfer::Write => libc::pwrite(operation.fd, start, left, offset),
            }
        };
        usize::try_from(moved).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::transport::Buffer;
    use std::os::fd::AsRawFd;
    use std::ptr::NonNull;

    fn read_at(fd: i32, offset: u64, into: &mut [u8]) -> Moved {
        super::run(&Operation { tag: (), transfer: Transfer::Read, fd, offset, buffer: Buffer::new(NonNull::from(into)) })
    }

    #[test]
    fn a_read_past_the_end_is_short_and_no_error() {
        let file = std::fs::File::open(file!()).unwrap();
        let size = file.metadata().unwrap().len();
        let mut into = vec![0; 64];
        assert_eq!(read_at(file.as_raw_fd(), size - 10, &mut into), Moved { bytes: 10, errno: 0 });
        assert_eq!(read_at(file.as_raw_fd(), size + 10, &mut into), Moved { bytes: 0, errno: 0 });
    }

    #[test]
    fn a_closed_descriptor_is_its_errno() {
        assert_eq!(read_at(-1, 0, &mut [0; 8]), Moved { bytes: 0, errno: libc::EBADF });
    }
}
