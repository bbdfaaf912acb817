//! The boundary between the engine and whoever moves the bytes: submit, commit, reap, cancel.

use std::os::fd::RawFd;
use std::ptr;
use std::time::Duration;

use super::driver::Handle;

/// The name of an operation while a transport has it: its place among those of its job, below the job's depth.
pub type Place = u32;

/// Which way an operation moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    Read,
    Write,
}

/// One transfer between a file and memory. It is owned by whoever has it: the engine until [`Transport::submit`], the transport until it
/// hands the result back.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// The engine's name for it, handed back with the result.
    pub tag: Place,
    pub transfer: Transfer,
    /// Open for as long as the operation lives.
    pub fd: RawFd,
    /// The vendor's name for the same file.
    pub handle: Handle,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// fio's buffer for it: host memory that nobody else touches while the operation lives. Its length is the operation's.
    pub buffer: Buffer,
    /// Where the job's I/O buffers start, as registered with the vendor; on host memory, where fio's start.
    pub base: usize,
    /// How far behind `base` the operation's buffer lies: the same as fio's own from the start of its block.
    pub at: usize,
}

impl Operation {
    /// What is left of it after `done` bytes.
    pub fn after(&self, done: usize) -> Self {
        Self { offset: self.offset + done as u64, buffer: self.buffer.after(done), at: self.at + done, ..*self }
    }
}

/// Host memory that an operation owns for as long as it lives, whichever thread has the operation. Only the kernel and the vendors' call
/// tables reach the bytes.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    address: usize,
    length: usize,
}

impl Buffer {
    /// `length` bytes at a host address that a device's driver gave.
    #[inline]
    pub fn at(address: usize, length: usize) -> Self {
        Self { address, length }
    }

    #[inline]
    pub fn new(bytes: *mut [u8]) -> Self {
        Self { address: bytes.cast::<u8>().expose_provenance(), length: bytes.len() }
    }

    /// The first `length` bytes of it.
    #[inline]
    pub fn first(self, length: usize) -> Self {
        Self { address: self.address, length: length.min(self.length) }
    }

    /// All but the first `done` bytes of it.
    pub fn after(self, done: usize) -> Self {
        let done = done.min(self.length);
        Self { address: self.address + done, length: self.length - done }
    }

    #[inline]
    pub fn address(self) -> usize {
        self.address
    }

    /// The first byte, for a call table.
    #[inline]
    pub fn start(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.address)
    }

    /// How many bytes there are.
    #[inline]
    pub fn len(self) -> usize {
        self.length
    }
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Bytes moved, from the start of the buffer; less than asked for at the end of a file or before an error.
    pub bytes: usize,
    /// The errno that ended it with nothing moved, or 0.
    pub errno: i32,
    /// The vendor's code behind the errno, for [`super::driver::Driver::explain`]; 0 where there is none.
    pub code: i32,
}

impl Moved {
    #[inline]
    pub const fn bytes(bytes: usize) -> Self {
        Self { bytes, errno: 0, code: 0 }
    }

    pub const fn failed(errno: i32, code: i32) -> Self {
        Self { bytes: 0, errno, code }
    }
}

/// Goes on after a first call for an operation that did not move all, for what is left: until all is moved, the rest fails, or a call moves
/// nothing. `step` gets how many bytes are done.
pub fn move_rest(wanted: usize, first: Result<usize, Moved>, mut step: impl FnMut(usize) -> Result<usize, Moved>) -> Moved {
    let mut result = first;
    let mut moved = 0;
    loop {
        match result {
            Ok(0) => break,
            Ok(bytes) => moved += bytes,
            Err(Moved { errno: libc::EINTR, .. }) => {}
            // What was moved so far counts; fio asks for the rest again and gets the error with its own offset.
            Err(_) if moved > 0 => break,
            Err(failed) => return failed,
        }
        if moved >= wanted {
            break;
        }
        result = step(moved);
    }
    Moved::bytes(moved)
}

/// What [`Transport::submit`] did with an operation.
#[derive(Debug, Clone, Copy)]
pub enum Submitted {
    /// It has ended, and all is moved.
    All,
    /// Its first call has returned this, which is not all; [`Transport::go_on`] ends it.
    Less(isize),
    /// It has ended.
    Done(Moved),
    /// It is the transport's until [`Transport::reap`] hands its tag back.
    InFlight,
    /// There is no room for it now; it was not taken.
    Busy,
}

/// Who moves the bytes of one job. Used from the job's own thread.
pub trait Transport {
    /// What the report calls the way that the bytes take.
    fn path(&self) -> &'static str;

    /// The job's I/O buffers are there: `block` is fio's, which on host memory is all there is. The line is for the user, where something
    /// is not as the job asked; the error too, where the job cannot run.
    fn attach(&mut self, _block: Buffer) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// A file is open, and operations on it may come. The line is for the user.
    fn file_opened(&mut self, _fd: RawFd) -> Option<String> {
        None
    }

    /// The file is about to be closed. No operation on it is in flight.
    fn file_closed(&mut self, _fd: RawFd) {}

    /// Takes one operation; where it is in flight, the transport keeps a copy.
    fn submit(&mut self, operation: &Operation) -> Submitted;

    /// Ends an operation for which submit() has just answered [`Submitted::Less`].
    fn go_on(&mut self, _operation: &Operation, _returned: isize) -> Moved {
        Moved::failed(libc::EIO, 0)
    }

    /// Starts the operations that submit() only collected. The error is an errno.
    fn commit(&mut self) -> Result<(), i32> {
        Ok(())
    }

    /// Operations taken and not handed back yet.
    fn in_flight(&self) -> usize {
        0
    }

    /// Waits until `min` operations have ended, or `timeout` has passed, and hands at most `max` of them to `done`. The error is an errno.
    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(Place, Moved)) -> Result<(), i32>;

    /// A line for the user where fewer operations are really in flight than the depth that was asked for.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// Ends what is in flight, as far as it can be ended. Returns whether nothing touches a buffer any more; where it is false, something
    /// that the vendor never finished still may, and the buffers have to stay.
    fn cancel(&mut self) -> bool {
        true
    }
}

/// A transport of any type.
impl Transport for Box<dyn Transport> {
    fn path(&self) -> &'static str {
        (**self).path()
    }

    fn attach(&mut self, block: Buffer) -> Result<Option<String>, String> {
        (**self).attach(block)
    }

    fn file_opened(&mut self, fd: RawFd) -> Option<String> {
        (**self).file_opened(fd)
    }

    fn file_closed(&mut self, fd: RawFd) {
        (**self).file_closed(fd);
    }

    #[inline]
    fn submit(&mut self, operation: &Operation) -> Submitted {
        (**self).submit(operation)
    }

    fn go_on(&mut self, operation: &Operation, returned: isize) -> Moved {
        (**self).go_on(operation, returned)
    }

    fn commit(&mut self) -> Result<(), i32> {
        (**self).commit()
    }

    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(Place, Moved)) -> Result<(), i32> {
        (**self).reap(min, max, timeout, done)
    }

    fn complaint(&self) -> Option<String> {
        (**self).complaint()
    }

    fn cancel(&mut self) -> bool {
        (**self).cancel()
    }
}
