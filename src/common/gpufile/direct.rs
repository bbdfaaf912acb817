//! One blocking call of the vendor's for each operation.

use std::sync::Arc;

use super::calls::Errno;
use super::codes::{self, Failure, MISALIGNED};
use super::{ALIGNMENT, Library, Vendor};
use crate::common::blocking::Blocking;
use crate::common::bounce::Bounce;
use crate::common::device::Device;
use crate::common::posix;
use crate::common::transport::{Moved, Operation, Transfer, move_rest};

/// For one thread.
pub struct Direct<V: Vendor> {
    device: Arc<dyn Device>,
    pub library: &'static Library<V>,
    /// The way of what the library must not see, unless the job forbids it.
    bounce: Option<Bounce>,
    errno: Errno,
}

impl<V: Vendor> Direct<V> {
    pub fn new(device: Arc<dyn Device>, library: &'static Library<V>, require_direct: bool) -> Self {
        let bounce = (!V::TAKES_MISALIGNED && !require_direct).then(|| Bounce::new(device.clone()));
        Self { device, library, bounce, errno: Errno::of_this_thread() }
    }

    /// Moves what is left after `done` bytes of an operation that is off the alignment. A block that the library has left half done is done
    /// again as a whole: a file with direct=1 takes nothing else.
    #[cold]
    fn go_round(&mut self, operation: &Operation, done: usize) -> Result<usize, Moved> {
        let Some(bounce) = &mut self.bounce else {
            // fio asks for the rest of what the end of a file has cut short.
            let is_over = operation.transfer == Transfer::Read && posix::is_past_end(operation.fd, operation.offset + done as u64);
            return if is_over { Ok(0) } else { Err(Moved::failed(libc::EINVAL, MISALIGNED)) };
        };
        let half = done % ALIGNMENT;
        let moved = bounce.run(&operation.after(done - half));
        if moved.errno == 0 { Ok(moved.bytes.saturating_sub(half)) } else { Err(moved) }
    }

    /// Moves what is left after `done` bytes that another call has moved. Returns all that is moved then.
    pub fn run_rest(&mut self, operation: &Operation, done: usize) -> Moved {
        let half = if V::TAKES_MISALIGNED { 0 } else { done % ALIGNMENT };
        let moved = self.run(&operation.after(done - half));
        if done > 0 { Moved::bytes(done + moved.bytes.saturating_sub(half)) } else { moved }
    }

    /// One call for what is left after `done` bytes.
    fn step(&mut self, operation: &Operation, done: usize) -> Result<usize, Moved> {
        if Self::must_go_round(operation, done) {
            return self.go_round(operation, done);
        }
        Self::told(self.library.calls.transfer(operation, done, &self.errno))
    }

    /// What a call that returned `returned` just now has moved.
    fn told(returned: isize) -> Result<usize, Moved> {
        codes::transferred::<V>(returned, || std::io::Error::last_os_error().raw_os_error().unwrap_or(0)).map_err(Failure::moved)
    }

    /// Whether the library must not see what is left after `done` bytes of an operation.
    #[inline]
    pub fn must_go_round(operation: &Operation, done: usize) -> bool {
        !V::TAKES_MISALIGNED && !is_aligned(operation, done)
    }
}

impl<V: Vendor> Blocking for Direct<V> {
    const PATH: &'static str = V::PATH;

    fn enter(&mut self) -> Result<(), i32> {
        self.errno = Errno::of_this_thread();
        self.device.enter().map_err(|error| error.0)
    }

    #[inline]
    fn first(&mut self, operation: &Operation) -> isize {
        if Self::must_go_round(operation, 0) { NO_CALL } else { self.library.calls.transfer(operation, 0, &self.errno) }
    }

    fn go_on(&mut self, operation: &Operation, returned: isize) -> Moved {
        let first = if returned == NO_CALL { self.go_round(operation, 0) } else { Self::told(returned) };
        move_rest(operation.buffer.len(), first, |done| self.step(operation, done))
    }
}

/// Stands for the first call of an operation that the library must not see.
const NO_CALL: isize = isize::MIN;

/// Whether what is left of an operation after `done` bytes is for the direct path.
fn is_aligned(operation: &Operation, done: usize) -> bool {
    let (offset, at) = (operation.offset as usize + done, operation.base + operation.at + done);
    (offset | at | (operation.buffer.len() - done)) % ALIGNMENT == 0
}
