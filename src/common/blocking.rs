//! Calls that block until the bytes are moved, and the plainest transport made of one: each operation ends in submit().

use std::time::Duration;

use super::transport::{Moved, Operation, Submitted, Transport};

/// Who moves an operation's bytes in one blocking call. Used by one thread, which is the job's own or one of a pool.
pub trait Blocking<T>: Send + 'static {
    /// What the report calls the way that the bytes take.
    const PATH: &'static str;

    /// Called once in the thread that will call run(): a vendor's current device belongs to the thread. The error is a vendor's code.
    fn enter(&mut self) -> Result<(), i32> {
        Ok(())
    }

    /// Moves all bytes of the operation, or as many as go.
    fn run(&mut self, operation: &Operation<T>) -> Moved;
}

/// One operation at a time, in the job's own thread (`gpu_mode=sync`).
pub struct Synchronous<B>(pub B);

impl<T, B: Blocking<T>> Transport<T> for Synchronous<B> {
    fn is_synchronous(&self) -> bool {
        true
    }

    fn path(&self) -> &'static str {
        B::PATH
    }

    #[inline]
    fn submit(&mut self, operation: &Operation<T>) -> Submitted {
        Submitted::Done(self.0.run(operation))
    }

    fn reap(&mut self, _min: usize, _max: usize, _timeout: Option<Duration>, _done: &mut dyn FnMut(T, Moved)) -> Result<(), i32> {
        Ok(())
    }
}
