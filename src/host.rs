//! The host backend: pread and pwrite on host memory, on any machine, as fio's psync.

use crate::common::blocking::Blocking;
use crate::common::posix;
use crate::common::transport::{Moved, Operation};

/// One blocking call for each operation, on fio's own buffer.
pub struct Posix;

impl Blocking for Posix {
    const PATH: &'static str = "posix";

    #[inline]
    fn first(&mut self, operation: &Operation) -> isize {
        posix::first(operation.transfer, operation.fd, operation.offset, operation.buffer)
    }

    fn go_on(&mut self, operation: &Operation, returned: isize) -> Moved {
        posix::go_on(operation.transfer, operation.fd, operation.offset, operation.buffer, returned)
    }
}
