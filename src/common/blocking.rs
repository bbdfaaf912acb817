//! Calls that block until the bytes are moved, and the plainest transport made of one: each operation ends in submit().

use std::time::Duration;

use super::transport::{Moved, Operation, Place, Submitted, Transport};

/// Who moves an operation's bytes in blocking calls. Used by one thread, which is the job's own or one of a pool.
pub trait Blocking: Send + 'static {
    /// What the report calls the way that the bytes take.
    const PATH: &'static str;

    /// Called once in the thread that will call run(): a vendor's current device belongs to the thread. The error is a vendor's code.
    fn enter(&mut self) -> Result<(), i32> {
        Ok(())
    }

    /// The first call, which mostly moves all. Any other answer than the operation's length is for [`Blocking::go_on`] alone, before this
    /// thread calls anything else.
    fn first(&mut self, operation: &Operation) -> isize;

    /// Ends an operation of which the first call has not moved all.
    fn go_on(&mut self, operation: &Operation, returned: isize) -> Moved;

    /// Moves all bytes of the operation, or as many as go.
    fn run(&mut self, operation: &Operation) -> Moved {
        match self.first(operation) {
            all if all as usize == operation.buffer.len() => Moved::bytes(operation.buffer.len()),
            returned => self.go_on(operation, returned),
        }
    }
}

/// One operation at a time, in the job's own thread (`gpu_mode=sync`).
pub struct Synchronous<B>(pub B);

impl<B: Blocking> Transport for Synchronous<B> {
    fn path(&self) -> &'static str {
        B::PATH
    }

    #[inline]
    fn submit(&mut self, operation: &Operation) -> Submitted {
        match self.0.first(operation) {
            all if all as usize == operation.buffer.len() => Submitted::All,
            returned => Submitted::Less(returned),
        }
    }

    fn go_on(&mut self, operation: &Operation, returned: isize) -> Moved {
        self.0.go_on(operation, returned)
    }

    fn reap(&mut self, _min: usize, _max: usize, _timeout: Option<Duration>, _done: &mut dyn FnMut(Place, Moved)) -> Result<(), i32> {
        Ok(())
    }
}
