//! What the batch call takes and gives, as cufile.h and hipfile.h declare it. Addresses are numbers here: only the vendor's library follows
//! them.

use std::ffi::c_int;

use super::ALIGNMENT;
use super::codes::Failure;
use crate::common::transport::{Operation, Transfer};

/// `CUfileIOParams_t`: one operation of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    mode: c_int,
    base: usize,
    file_offset: i64,
    buffer_offset: i64,
    size: usize,
    file: usize,
    opcode: c_int,
    /// What the caller calls the operation.
    cookie: usize,
}

impl Entry {
    /// What is left of an operation after `done` bytes. `name` comes back with its event.
    pub fn new(operation: &Operation, done: usize, name: usize) -> Self {
        const BATCH: c_int = 1;
        Self {
            mode: BATCH,
            base: operation.base,
            file_offset: operation.offset as i64 + done as i64,
            buffer_offset: (operation.at + done) as i64,
            size: operation.buffer.len() - done,
            file: operation.handle.0,
            opcode: c_int::from(operation.transfer == Transfer::Write),
            cookie: name,
        }
    }

    /// The name that it was given.
    pub fn name(&self) -> usize {
        self.cookie
    }

    /// Whether its size, its place in the file and its place in memory are multiples of 4 KiB.
    pub fn is_aligned(&self) -> bool {
        (self.size as u64 | self.file_offset as u64 | self.base as u64 | self.buffer_offset as u64) % ALIGNMENT as u64 == 0
    }
}

/// `CUfileIOEvents_t`: how one operation of a batch ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    cookie: usize,
    status: c_int,
    /// Bytes, or a negative code.
    returned: isize,
}

impl Event {
    pub const EMPTY: Self = Self { cookie: 0, status: 0, returned: 0 };

    /// The name that the entry was given.
    pub fn name(&self) -> usize {
        self.cookie
    }

    /// The bytes it moved, or why it failed; `None` where the event is about an operation that still goes on.
    pub fn result(&self) -> Option<Result<usize, Failure>> {
        const NOTHING: c_int = 0;
        const WAITING: c_int = 1;
        const PENDING: c_int = 2;
        const COMPLETE: c_int = 16;
        match (self.status, self.returned) {
            (NOTHING | WAITING | PENDING, _) => None,
            (COMPLETE, 0..) => Some(Ok(self.returned as usize)),
            // Status and return value contradict each other, or no errno is given: an I/O error is all that is known.
            (_, 0..) => Some(Err(Failure::Errno(libc::EIO))),
            (_, code) => Some(Err(Failure::of_returned(code))),
        }
    }
}

const _: () = assert!(size_of::<Entry>() == 64 && size_of::<Event>() == 24);
