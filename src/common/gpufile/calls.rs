//! libcufile's functions, as cufile.h of CUDA 12 and 13 declares them, and each of them called and checked, nothing more. Codes stay
//! integers. This is the only place of the vendor with unsafe code.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::codes::{self, Failure};
use super::entries::{Entry, Event};
use crate::common::transport::{Operation, Transfer};

use crate::common::library::call_table;

/// `CUfileError_t`: libcufile's own code, and the CUDA driver's beside it where the own one is [`super::codes::CUDA_DRIVER_ERROR`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    pub own: c_int,
    pub cuda: c_int,
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

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
const OPAQUE_FD: c_int = 1;

type File = *mut c_void;
type Batch = *mut c_void;

/// `CUfileDrvProps_t`, of which only two fields are used.
#[repr(C)]
struct Properties {
    before: [u8; 24],
    /// A bit for each kind of storage with a direct path.
    status_flags: c_uint,
    between: [u8; 20],
    max_batch_io_size: c_uint,
    /// Room for what newer versions append.
    after: [u8; 204],
}

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
    pub fn moved(&self, name: usize) -> Result<usize, Failure> {
        // SAFETY: the call has run, so nobody writes to its place.
        match unsafe { (*self.0[name].get()).moved } {
            bytes @ 0.. => Ok(bytes as usize),
            -1 => Err(Failure::Errno(libc::EIO)), // no errno comes from a stream
            code => Err(Failure::of_returned(code)),
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
    /// The functions that are used here.
    pub struct Calls {
        fn cuFileDriverOpen() -> Status;
        fn cuFileHandleRegister(*mut File, *mut Descriptor) -> Status;
        fn cuFileHandleDeregister(File);
        fn cuFileBufRegister(*const c_void, usize, c_int) -> Status;
        fn cuFileBufDeregister(*const c_void) -> Status;
        fn cuFileRead(File, *mut c_void, usize, i64, i64) -> isize;
        fn cuFileWrite(File, *const c_void, usize, i64, i64) -> isize;
        fn cuFileBatchIOSetUp(*mut Batch, c_uint) -> Status;
        fn cuFileBatchIOSubmit(Batch, c_uint, *mut Entry, c_uint) -> Status;
        fn cuFileBatchIOGetStatus(Batch, c_uint, *mut c_uint, *mut Event, *mut libc::timespec) -> Status;
        fn cuFileBatchIODestroy(Batch);
        optional fn cuFileReadAsync(File, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, *mut c_void) -> Status;
        optional fn cuFileWriteAsync(File, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, *mut c_void) -> Status;
        optional fn cuFileStreamRegister(*mut c_void, c_uint) -> Status;
        optional fn cuFileStreamDeregister(*mut c_void) -> Status;
        optional fn cuFileDriverGetProperties(*mut Properties) -> Status;
        optional fn cuFileGetParameterPosixPoolSlabArray(*mut usize, *mut usize, c_int) -> Status;
        optional fn cuFileSetParameterSizeT(c_int, usize) -> Status;
        optional fn cuFileDriverClose_v2() -> Status;
        optional fn cuFileDriverClose() -> Status;
        optional fn cuFileGetVersion(*mut c_int) -> Status;
        optional fn cuFileGetBARSizeInKB(c_int, *mut usize) -> Status;
    }
}

const _: () = assert!(size_of::<Status>() == 8 && size_of::<Descriptor>() == 24);

/// Held in every call that is not I/O: libcufile looks up settings and topology in some of them, and 1.14 crashes where two threads do
/// that at once.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(status: Status) -> Result<(), Failure> {
    Failure::of(status).map_or(Ok(()), Err)
}

impl Calls {
    /// Opens the driver of this process; the caller makes sure that it is closed.
    pub fn open_driver(&self) -> Result<(), Failure> {
        let _alone = alone();
        // SAFETY: takes nothing.
        check(unsafe { (self.cuFileDriverOpen)() })
    }

    /// Closes it again, once nothing of it is in use.
    pub fn close_driver(&self) {
        let _alone = alone();
        if let Some(close) = self.cuFileDriverClose_v2.or(self.cuFileDriverClose) {
            // SAFETY: takes nothing.
            unsafe { close() };
        }
    }

    /// The library's version, thousands for the major and tens for the minor number.
    pub fn version(&self) -> Option<i32> {
        let mut number = 0;
        // SAFETY: a place for one int.
        self.cuFileGetVersion.is_some_and(|call| unsafe { call(&mut number) }.own == 0).then_some(number)
    }

    pub fn register_file(&self, fd: RawFd) -> Result<FileHandle, Failure> {
        let _alone = alone();
        let mut handle: File = std::ptr::null_mut();
        let mut descriptor = Descriptor { kind: OPAQUE_FD, fd: Fd { fd }, operations: std::ptr::null() };
        // SAFETY: places for the handle and for the descriptor, which the call copies.
        check(unsafe { (self.cuFileHandleRegister)(&mut handle, &mut descriptor) }).map(|()| handle as FileHandle)
    }

    pub fn deregister_file(&self, handle: FileHandle) {
        let _alone = alone();
        // SAFETY: a handle that register_file() gave, given back once by its owner.
        unsafe { (self.cuFileHandleDeregister)(handle as File) };
    }

    pub fn register_buffer(&self, base: usize, bytes: usize) -> Result<(), Failure> {
        let _alone = alone();
        // SAFETY: the library looks the block up with the CUDA driver; its owner keeps it until it is deregistered.
        check(unsafe { (self.cuFileBufRegister)(base as *const c_void, bytes, 0) })
    }

    pub fn deregister_buffer(&self, base: usize) {
        let _alone = alone();
        // SAFETY: registered by the owner of the block, who has nothing in flight.
        unsafe { (self.cuFileBufDeregister)(base as *const c_void) };
    }

    /// KiB of a device's BAR1, where this version tells.
    pub fn bar_size(&self, device: u32) -> Option<usize> {
        let _alone = alone();
        let mut kib = 0;
        // SAFETY: a place for one word.
        self.cuFileGetBARSizeInKB.is_some_and(|call| unsafe { call(device as c_int, &mut kib) }.own == 0).then_some(kib)
    }

    /// One blocking call for what is left of an operation after `done` bytes. The address is always the registered base, the rest is in the
    /// offset.
    pub fn transfer<T>(&self, operation: &Operation<T>, done: usize) -> Result<usize, Failure> {
        let left = operation.buffer.len() - done;
        let (offset, at) = (operation.offset as i64 + done as i64, (operation.at + done) as i64);
        let (file, base) = (operation.handle.0 as File, operation.base as *mut c_void);
        // SAFETY: file and block live as long as the operation; the library checks the range against the block.
        let returned = unsafe {
            match operation.transfer {
                Transfer::Read => (self.cuFileRead)(file, base, left, offset, at),
                Transfer::Write => (self.cuFileWrite)(file, base, left, offset, at),
            }
        };
        codes::transferred(returned, || std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    fn properties(&self) -> Option<Properties> {
        let _alone = alone();
        let mut properties = Properties { before: [0; 24], status_flags: 0, between: [0; 20], max_batch_io_size: 0, after: [0; 204] };
        // SAFETY: a place larger than any version's struct.
        self.cuFileDriverGetProperties.is_some_and(|call| unsafe { call(&mut properties) }.own == 0).then_some(properties)
    }

    /// The largest batch that the driver's properties promise.
    pub fn batch_limit(&self) -> Option<u32> {
        self.properties().map(|properties| properties.max_batch_io_size).filter(|&limit| limit > 0)
    }

    /// How many I/O threads the library has for each GPU, to be said before the driver is opened. A version that cannot be told has none.
    pub fn set_io_threads(&self, count: usize) {
        const EXECUTION_MAX_IO_THREADS: c_int = 2;
        if let Some(set) = self.cuFileSetParameterSizeT {
            // SAFETY: two numbers.
            unsafe { set(EXECUTION_MAX_IO_THREADS, count) };
        }
    }

    /// Whether every byte goes through bounce buffers in host memory, since no kind of storage has a direct path here.
    pub fn always_bounces(&self) -> bool {
        self.properties().is_some_and(|properties| properties.status_flags == 0)
    }

    /// Sizes in bytes and counts of the bounce buffers for compat mode, where this version tells.
    pub fn slabs(&self) -> Option<Vec<(usize, usize)>> {
        let _alone = alone();
        // The number of classes is asked for, not told: the library refuses a wrong one.
        (1..=16).rev().find_map(|n| {
            let (mut sizes, mut counts) = (vec![0; n], vec![0; n]);
            let call = self.cuFileGetParameterPosixPoolSlabArray?;
            // SAFETY: both places hold `n` words.
            let status = unsafe { call(sizes.as_mut_ptr(), counts.as_mut_ptr(), n as c_int) };
            (status.own == 0).then(|| sizes.into_iter().map(|kib| kib * 1024).zip(counts).collect()) // told in KiB
        })
    }

    pub fn has_streams(&self) -> bool {
        self.cuFileReadAsync.is_some() && self.cuFileWriteAsync.is_some()
    }

    /// Makes a CUDA stream known. Parameters are fixed from submission on, which saves the library a look.
    pub fn register_stream(&self, stream: usize) -> Result<(), Failure> {
        let _alone = alone();
        const FIXED_BUFFER_OFFSET: c_uint = 1;
        const FIXED_FILE_OFFSET: c_uint = 2;
        const FIXED_SIZE: c_uint = 4;
        let Some(call) = self.cuFileStreamRegister else { return Ok(()) };
        // SAFETY: a live stream of the current context.
        check(unsafe { call(stream as *mut c_void, FIXED_BUFFER_OFFSET | FIXED_FILE_OFFSET | FIXED_SIZE) })
    }

    pub fn deregister_stream(&self, stream: usize) {
        let _alone = alone();
        if let Some(call) = self.cuFileStreamDeregister {
            // SAFETY: registered before, and live.
            unsafe { call(stream as *mut c_void) };
        }
    }

    /// Puts what is left of an operation after `done` bytes on a stream. Place `name` of `places` is the call's until it has run.
    pub fn start<T>(&self, operation: &Operation<T>, done: usize, places: &Parameters, name: usize, stream: usize) -> Result<(), Failure> {
        let (Some(read), Some(write)) = (self.cuFileReadAsync, self.cuFileWriteAsync) else {
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
        check(unsafe { (self.cuFileBatchIOSetUp)(&mut batch, entries) }).map(|()| BatchHandle(batch as usize))
    }

    /// Submits all of `entries`, or none.
    pub fn submit_batch(&self, batch: BatchHandle, entries: &mut [Entry]) -> Result<(), Failure> {
        if batch == BatchHandle::NONE {
            return Err(Failure::Own(codes::INTERNAL_ERROR));
        }
        // SAFETY: the entries are read before the call returns; what they name lives as long as the operations.
        check(unsafe { (self.cuFileBatchIOSubmit)(batch.0 as Batch, entries.len() as c_uint, entries.as_mut_ptr(), 0) })
    }

    /// Waits for at least `min` events or for `timeout`, and fetches as many as there is room for. Returns how many came.
    pub fn batch_status(&self, batch: BatchHandle, min: usize, timeout: Duration, events: &mut [Event]) -> Result<usize, Failure> {
        let mut count = events.len() as c_uint;
        let mut time = libc::timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // SAFETY: `count` says how many events there is room for.
        let status = unsafe { (self.cuFileBatchIOGetStatus)(batch.0 as Batch, min as c_uint, &mut count, events.as_mut_ptr(), &mut time) };
        check(status).map(|()| (count as usize).min(events.len()))
    }

    pub fn destroy_batch(&self, batch: BatchHandle) {
        let _alone = alone();
        if batch != BatchHandle::NONE {
            // SAFETY: a live batch, destroyed once by its owner.
            unsafe { (self.cuFileBatchIODestroy)(batch.0 as Batch) };
        }
    }
}

/// Whether fopen can open /proc/modules, which is how libcufile reads it.
pub fn modules_are_listed() -> bool {
    // SAFETY: both texts end in NUL; the stream is closed once.
    unsafe {
        let file = libc::fopen(c"/proc/modules".as_ptr(), c"r".as_ptr());
        !file.is_null() && libc::fclose(file) == 0
    }
}
