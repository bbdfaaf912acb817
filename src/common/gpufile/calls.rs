//! The functions that the vendors' libraries have alike, each called and checked, nothing more. hipfile.h declares each of them as cufile.h
//! does but for its name. Codes stay integers.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Vendor;
use super::codes::{self, Failure};
use super::entries::{Entry, Event};
use crate::common::library::call_table;
use crate::common::transport::{Operation, Transfer};

/// `CUfileError_t`: the library's own code, and the GPU runtime's beside it where the own one is [`super::codes::RUNTIME_ERROR`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    pub own: c_int,
    pub runtime: c_int,
}

/// `CUfileDescr_t` for a Linux descriptor.
#[repr(C)]
pub struct Descriptor {
    pub kind: c_int,
    /// A union of an int and a pointer.
    pub fd: Fd,
    pub operations: *const c_void,
}

#[repr(C)]
pub union Fd {
    pub fd: c_int,
    pub pointer: *mut c_void,
}

/// A file descriptor.
const OPAQUE_FD: c_int = 1;

type File = *mut c_void;
type Batch = *mut c_void;

/// A batch of the vendor's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHandle(usize);

impl BatchHandle {
    /// No batch: every call on it fails.
    pub const NONE: Self = Self(0);
}

/// A registered file.
pub type FileHandle = usize;

/// Places for the parameters of asynchronous calls, which the library reads and writes until the call has run.
pub struct Parameters(ManuallyDrop<Box<[UnsafeCell<Parameter>]>>);

#[derive(Clone, Copy, Default)]
struct Parameter {
    size: usize,
    file_offset: i64,
    buffer_offset: i64,
    moved: isize,
}

impl Parameters {
    pub fn new(count: usize) -> Self {
        Self(ManuallyDrop::new((0..count).map(|_| UnsafeCell::default()).collect()))
    }

    /// What the call with place `name` moved, or why it failed; to be asked once the stream has passed the call.
    pub fn moved<V: Vendor>(&self, name: usize) -> Result<usize, Failure> {
        // SAFETY: the call has run, so nobody writes to its place.
        let moved = unsafe { (*self.0[name].get()).moved };
        match moved {
            -1 => Err(Failure::Own(codes::UNTOLD)),
            told => codes::transferred::<V>(told, || libc::EIO),
        }
    }

    /// Gives the places up for good: a call that never ran may still use them.
    pub fn leak(&mut self) {
        self.0 = ManuallyDrop::new(Box::default());
    }
}

impl Drop for Parameters {
    fn drop(&mut self) {
        // SAFETY: dropped once, here; leak() has put an empty box in place of what is still in use.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

// SAFETY: the places are used by the job's own thread and by the library, never at the same time (see moved).
unsafe impl Send for Parameters {}

call_table! {
    /// The functions, without the prefix that each vendor has for all of them.
    pub struct Calls {
        fn DriverOpen() -> Status;
        fn HandleRegister(*mut File, *mut Descriptor) -> Status;
        fn HandleDeregister(File);
        fn BufRegister(*const c_void, usize, c_int) -> Status;
        fn BufDeregister(*const c_void) -> Status;
        fn Read(File, *mut c_void, usize, i64, i64) -> isize;
        fn Write(File, *const c_void, usize, i64, i64) -> isize;
        fn BatchIOSetUp(*mut Batch, c_uint) -> Status;
        fn BatchIOSubmit(Batch, c_uint, *mut Entry, c_uint) -> Status;
        fn BatchIOGetStatus(Batch, c_uint, *mut c_uint, *mut Event, *mut libc::timespec) -> Status;
        fn BatchIODestroy(Batch);
        optional fn ReadAsync(File, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, *mut c_void) -> Status;
        optional fn WriteAsync(File, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, *mut c_void) -> Status;
        optional fn StreamRegister(*mut c_void, c_uint) -> Status;
        optional fn StreamDeregister(*mut c_void) -> Status;
        optional fn DriverClose_v2() -> Status;
        optional fn DriverClose() -> Status;
    }
}

const _: () = assert!(size_of::<Status>() == 8 && size_of::<Descriptor>() == 24);

/// Where the calling thread keeps its errno, looked up once.
pub struct Errno(*mut c_int);

impl Errno {
    pub fn of_this_thread() -> Self {
        // SAFETY: takes nothing.
        Self(unsafe { libc::__errno_location() })
    }
}

// SAFETY: a mere address; who goes to another thread with it looks it up anew there before it is used (see Direct::enter).
unsafe impl Send for Errno {}

/// Held in every call that is not I/O: libcufile looks up settings and topology in some of them, and 1.14 crashes where two threads do
/// that at once.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn check(status: Status) -> Result<(), Failure> {
    Failure::of(status).map_or(Ok(()), Err)
}

impl Calls {
    /// Opens the driver of this process; the caller makes sure that it is closed.
    pub fn open_driver(&self) -> Result<(), Failure> {
        let _alone = alone();
        // SAFETY: takes nothing.
        check(unsafe { (self.DriverOpen)() })
    }

    /// Closes it again, once nothing of it is in use.
    pub fn close_driver(&self) {
        let _alone = alone();
        if let Some(close) = self.DriverClose_v2.or(self.DriverClose) {
            // SAFETY: takes nothing.
            unsafe { close() };
        }
    }

    pub fn register_file(&self, fd: RawFd) -> Result<FileHandle, Failure> {
        let _alone = alone();
        let mut handle: File = std::ptr::null_mut();
        let mut descriptor = Descriptor { kind: OPAQUE_FD, fd: Fd { fd }, operations: std::ptr::null() };
        // SAFETY: places for the handle and for the descriptor, which the call copies.
        check(unsafe { (self.HandleRegister)(&mut handle, &mut descriptor) }).map(|()| handle as FileHandle)
    }

    pub fn deregister_file(&self, handle: FileHandle) {
        let _alone = alone();
        // SAFETY: a handle that register_file() gave, given back once by its owner.
        unsafe { (self.HandleDeregister)(handle as File) };
    }

    /// A descriptor of the same open file with a number of its own.
    pub fn duplicate(fd: RawFd) -> std::io::Result<OwnedFd> {
        // SAFETY: the descriptor is open for as long as the caller's file is.
        unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
    }

    pub fn register_buffer(&self, base: usize, bytes: usize) -> Result<(), Failure> {
        let _alone = alone();
        // SAFETY: the library looks the block up with the GPU's runtime; its owner keeps it until it is deregistered.
        check(unsafe { (self.BufRegister)(base as *const c_void, bytes, 0) })
    }

    pub fn deregister_buffer(&self, base: usize) {
        let _alone = alone();
        // SAFETY: registered by the owner of the block, who has nothing in flight.
        unsafe { (self.BufDeregister)(base as *const c_void) };
    }

    /// One blocking call for what is left of an operation after `done` bytes. The address is always the registered base, the rest is in the
    /// offset. What it returns is for [`codes::transferred`], before this thread calls anything else. `errno` is the calling thread's.
    #[inline]
    pub fn transfer(&self, operation: &Operation, done: usize, errno: &Errno) -> isize {
        let left = operation.buffer.len() - done;
        let (offset, at) = (operation.offset as i64 + done as i64, (operation.at + done) as i64);
        let (file, base) = (operation.handle.0 as File, operation.base as *mut c_void);
        // SAFETY: file and block live as long as the operation; the library checks the range against the block. errno is this thread's own,
        // and cleared: not every failure sets it.
        unsafe {
            *errno.0 = 0;
            match operation.transfer {
                Transfer::Read => (self.Read)(file, base, left, offset, at),
                Transfer::Write => (self.Write)(file, base, left, offset, at),
            }
        }
    }

    pub fn has_streams(&self) -> bool {
        self.ReadAsync.is_some() && self.WriteAsync.is_some()
    }

    /// Makes a stream known. Parameters are fixed from submission on, which saves the library a look.
    pub fn register_stream(&self, stream: usize) -> Result<(), Failure> {
        let _alone = alone();
        const FIXED_BUFFER_OFFSET: c_uint = 1;
        const FIXED_FILE_OFFSET: c_uint = 2;
        const FIXED_SIZE: c_uint = 4;
        let Some(call) = self.StreamRegister else { return Ok(()) };
        // SAFETY: a live stream of the current context.
        check(unsafe { call(stream as *mut c_void, FIXED_BUFFER_OFFSET | FIXED_FILE_OFFSET | FIXED_SIZE) })
    }

    pub fn deregister_stream(&self, stream: usize) {
        let _alone = alone();
        if let Some(call) = self.StreamDeregister {
            // SAFETY: registered before, and live.
            unsafe { call(stream as *mut c_void) };
        }
    }

    /// Puts what is left of an operation after `done` bytes on a stream. Place `name` of `places` is the call's until it has run.
    pub fn start(&self, operation: &Operation, done: usize, places: &Parameters, name: usize, stream: usize) -> Result<(), Failure> {
        let (Some(read), Some(write)) = (self.ReadAsync, self.WriteAsync) else {
            return Err(Failure::Own(codes::ASYNC_NOT_SUPPORTED));
        };
        let (place, base) = (places.0[name].get(), operation.base as *mut c_void);
        // SAFETY: the place is free: its last call has run. File and block live as long as the operation, the places until all have run.
        check(unsafe {
            *place = Parameter {
                size: operation.buffer.len() - done,
                file_offset: operation.offset as i64 + done as i64,
                buffer_offset: (operation.at + done) as i64,
                moved: 0,
            };
            let call = if operation.transfer == Transfer::Read { read } else { write };
            let (size, offset, at) = (&raw mut (*place).size, &raw mut (*place).file_offset, &raw mut (*place).buffer_offset);
            call(operation.handle.0 as File, base, size, offset, at, &raw mut (*place).moved, stream as *mut c_void)
        })
    }

    pub fn set_up_batch(&self, entries: u32) -> Result<BatchHandle, Failure> {
        let _alone = alone();
        let mut batch: Batch = std::ptr::null_mut();
        // SAFETY: a place for the handle.
        check(unsafe { (self.BatchIOSetUp)(&mut batch, entries) }).map(|()| BatchHandle(batch as usize))
    }

    /// Submits all of `entries`, or none.
    pub fn submit_batch(&self, batch: BatchHandle, entries: &mut [Entry]) -> Result<(), Failure> {
        if batch == BatchHandle::NONE {
            return Err(Failure::Own(codes::INTERNAL_ERROR));
        }
        // SAFETY: the entries are read before the call returns; what they name lives as long as the operations.
        check(unsafe { (self.BatchIOSubmit)(batch.0 as Batch, entries.len() as c_uint, entries.as_mut_ptr(), 0) })
    }

    /// Waits for at least `min` events or for `timeout`, and fetches as many as there is room for. Returns how many came.
    pub fn batch_status(&self, batch: BatchHandle, min: usize, timeout: Duration, events: &mut [Event]) -> Result<usize, Failure> {
        let mut count = events.len() as c_uint;
        let mut time = libc::timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // SAFETY: `count` says how many events there is room for.
        let status = unsafe { (self.BatchIOGetStatus)(batch.0 as Batch, min as c_uint, &mut count, events.as_mut_ptr(), &mut time) };
        check(status).map(|()| (count as usize).min(events.len()))
    }

    pub fn destroy_batch(&self, batch: BatchHandle) {
        let _alone = alone();
        if batch != BatchHandle::NONE {
            // SAFETY: a live batch, destroyed once by its owner.
            unsafe { (self.BatchIODestroy)(batch.0 as Batch) };
        }
    }
}
