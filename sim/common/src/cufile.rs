//! libcufile as a caller sees it: shapes and functions by the wheels' `cufile.h`, found at run time in any libcufile,
//! real or simulated, and in a libhipfile, which has the same under names of its own. For tests, and for the simulated
//! libraries' own shapes.

use std::ffi::{OsStr, c_int, c_uint, c_void};
use std::os::fd::RawFd;

use libloading::Library;

/// `CUfileError_t`: a status of cuFile's own (0 or 5001 and up), and the driver's code where that is what failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub err: c_int,
    pub driver: c_int,
}

impl Status {
    /// The status as a result.
    pub fn check(self) -> Result<(), Self> {
        if self == Self::default() { Ok(()) } else { Err(self) }
    }
}

/// `CUfileDescr_t`. The union of a descriptor and a pointer is given here as the pointer's eight bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// `CUfileFileHandleType`: 1 is a file descriptor, 3 a file system of the caller's.
    pub kind: c_int,
    pub handle: u64,
    pub operations: *const c_void,
}

/// `CUfileIOParams_t` with its union's only member.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// `CUfileBatchMode_t`: 1.
    pub mode: c_int,
    pub base: *mut c_void,
    pub file_offset: i64,
    pub offset: i64,
    pub size: usize,
    pub file: *mut c_void,
    /// 0 reads, 1 writes.
    pub opcode: c_int,
    pub cookie: *mut c_void,
}

/// `CUfileIOEvents_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub cookie: *mut c_void,
    /// `CUfileStatus_t`.
    pub status: c_int,
    /// Bytes done, or minus an error.
    pub ret: isize,
}

impl Default for Event {
    fn default() -> Self {
        Self { cookie: std::ptr::null_mut(), status: 0, ret: 0 }
    }
}

/// `CUfileDrvProps_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties {
    pub nvfs_major: c_uint,
    pub nvfs_minor: c_uint,
    pub poll_threshold: usize,
    /// KiB.
    pub max_direct_io: usize,
    pub status_flags: c_uint,
    pub control_flags: c_uint,
    pub features: c_uint,
    /// KiB.
    pub max_cache: c_uint,
    /// KiB.
    pub per_buffer_cache: c_uint,
    /// KiB.
    pub max_pinned: c_uint,
    pub max_batch_io: c_uint,
    pub max_batch_timeout_ms: c_uint,
}

pub const WAITING: c_int = 0x01;
pub const PENDING: c_int = 0x02;
pub const INVALID: c_int = 0x04;
pub const CANCELED: c_int = 0x08;
pub const COMPLETE: c_int = 0x10;
pub const FAILED: c_int = 0x40;

const _: () = {
    assert!(size_of::<Status>() == 8);
    assert!(size_of::<Descriptor>() == 24);
    assert!(size_of::<Entry>() == 64);
    assert!(size_of::<Event>() == 24);
    assert!(size_of::<Properties>() == 56);
};

/// The handle of a registered file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHandle(pub *mut c_void);

// SAFETY: the handle is a name that the library looks up; it may be used from any thread.
unsafe impl Send for FileHandle {}
// SAFETY: as for Send.
unsafe impl Sync for FileHandle {}

macro_rules! functions {
    ($($field:ident: $name:literal ($($type:ty),*) $(-> $result:ty)?;)*) => {
        /// A loaded libcufile.
        pub struct CuFile {
            // Keeps the functions valid; never read.
            _library: Library,
            $($field: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl CuFile {
            /// Loads the library and finds every function; the error says what is missing.
            pub fn load(path: impl AsRef<OsStr>) -> Result<Self, String> {
                Self::load_as(path, str::to_owned)
            }

            /// As load(), where each function of cuFile's has the name that `rename` gives.
            pub fn load_as(path: impl AsRef<OsStr>, rename: impl Fn(&str) -> String) -> Result<Self, String> {
                // SAFETY: a libcufile's constructors have no precondition.
                let library = unsafe { Library::new(path.as_ref()) }.map_err(|error| error.to_string())?;
                Ok(Self {
                    $($field: {
                        // SAFETY: the library's function of this name has this type, by cufile.h.
                        let found = unsafe { library.get(rename($name).as_bytes()) };
                        *found.map_err(|error| error.to_string())?
                    },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    driver_open: "cuFileDriverOpen" () -> Status;
    driver_close: "cuFileDriverClose_v2" () -> Status;
    use_count: "cuFileUseCount" () -> i64;
    version: "cuFileGetVersion" (*mut c_int) -> Status;
    properties: "cuFileDriverGetProperties" (*mut Properties) -> Status;
    handle_register: "cuFileHandleRegister" (*mut *mut c_void, *const Descriptor) -> Status;
    handle_deregister: "cuFileHandleDeregister" (*mut c_void);
    buf_register: "cuFileBufRegister" (*const c_void, usize, c_int) -> Status;
    buf_deregister: "cuFileBufDeregister" (*const c_void) -> Status;
    read: "cuFileRead" (*mut c_void, *mut c_void, usize, i64, i64) -> isize;
    write: "cuFileWrite" (*mut c_void, *const c_void, usize, i64, i64) -> isize;
    batch_set_up: "cuFileBatchIOSetUp" (*mut *mut c_void, c_uint) -> Status;
    batch_submit: "cuFileBatchIOSubmit" (*mut c_void, c_uint, *mut Entry, c_uint) -> Status;
    batch_status: "cuFileBatchIOGetStatus"
        (*mut c_void, c_uint, *mut c_uint, *mut Event, *mut libc::timespec) -> Status;
    batch_cancel: "cuFileBatchIOCancel" (*mut c_void) -> Status;
    batch_destroy: "cuFileBatchIODestroy" (*mut c_void);
    read_async: "cuFileReadAsync"
        (*mut c_void, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, usize) -> Status;
    write_async: "cuFileWriteAsync"
        (*mut c_void, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, usize) -> Status;
    stream_register: "cuFileStreamRegister" (usize, c_uint) -> Status;
    stream_deregister: "cuFileStreamDeregister" (usize) -> Status;
}

/// The parameters of one asynchronous operation: the library reads and writes them when it runs.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Parameters {
    pub size: usize,
    pub file_offset: i64,
    pub offset: i64,
    pub done: isize,
}

impl CuFile {
    pub fn driver_open(&self) -> Result<(), Status> {
        // SAFETY: no argument, no precondition.
        unsafe { (self.driver_open)() }.check()
    }

    pub fn driver_close(&self) -> Result<(), Status> {
        // SAFETY: no argument, no precondition.
        unsafe { (self.driver_close)() }.check()
    }

    pub fn use_count(&self) -> i64 {
        // SAFETY: no argument, no precondition.
        unsafe { (self.use_count)() }
    }

    /// 1000 times the major number plus 10 times the minor one.
    pub fn version(&self) -> Result<c_int, Status> {
        let mut version = 0;
        // SAFETY: a place for the result that lives through the call.
        unsafe { (self.version)(&raw mut version) }.check()?;
        Ok(version)
    }

    pub fn properties(&self) -> Result<Properties, Status> {
        let mut properties = Properties::default();
        // SAFETY: a place for the result that lives through the call.
        unsafe { (self.properties)(&raw mut properties) }.check()?;
        Ok(properties)
    }

    pub fn handle_register(&self, fd: RawFd) -> Result<FileHandle, Status> {
        let descriptor = Descriptor { kind: 1, handle: fd as u64, operations: std::ptr::null() };
        let mut handle = std::ptr::null_mut();
        // SAFETY: places that live through the call; the library keeps none of them.
        unsafe { (self.handle_register)(&raw mut handle, &raw const descriptor) }.check()?;
        Ok(FileHandle(handle))
    }

    pub fn handle_deregister(&self, file: FileHandle) {
        // SAFETY: handles are the library's own, and it looks them up.
        unsafe { (self.handle_deregister)(file.0) }
    }

    pub fn buf_register(&self, base: u64, bytes: usize) -> Result<(), Status> {
        // SAFETY: the library asks the driver about the address and does not follow it.
        unsafe { (self.buf_register)(base as *const c_void, bytes, 0) }.check()
    }

    pub fn buf_deregister(&self, base: u64) -> Result<(), Status> {
        // SAFETY: the library only looks the address up.
        unsafe { (self.buf_deregister)(base as *const c_void) }.check()
    }

    /// Reads into device memory.
    ///
    /// # Safety
    /// Where `base` is host memory, `offset` and `bytes` stay inside of it.
    pub unsafe fn read(&self, file: FileHandle, base: u64, bytes: usize, file_offset: i64, offset: i64) -> isize {
        // SAFETY: this function's own contract.
        unsafe { (self.read)(file.0, base as *mut c_void, bytes, file_offset, offset) }
    }

    /// Writes from device memory.
    ///
    /// # Safety
    /// Where `base` is host memory, `offset` and `bytes` stay inside of it.
    pub unsafe fn write(&self, file: FileHandle, base: u64, bytes: usize, file_offset: i64, offset: i64) -> isize {
        // SAFETY: this function's own contract.
        unsafe { (self.write)(file.0, base as *const c_void, bytes, file_offset, offset) }
    }

    /// A batch that holds up to `room` entries at a time.
    pub fn batch_set_up(&self, room: c_uint) -> Result<Batch<'_>, Status> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: a place for the result that lives through the call.
        unsafe { (self.batch_set_up)(&raw mut handle, room) }.check()?;
        Ok(Batch { cufile: self, handle })
    }

    /// # Safety
    /// `parameters`, and `base` where it is host memory, stay valid until the stream has passed the operation.
    pub unsafe fn transfer_async(
        &self,
        write: bool,
        file: FileHandle,
        base: u64,
        parameters: *mut Parameters,
        stream: usize,
    ) -> Result<(), Status> {
        let call = if write { self.write_async } else { self.read_async };
        // SAFETY: the parameters are valid by this function's contract, and so are the places of their members.
        let status = unsafe {
            let (size, file_offset) = (&raw mut (*parameters).size, &raw mut (*parameters).file_offset);
            let (offset, done) = (&raw mut (*parameters).offset, &raw mut (*parameters).done);
            call(file.0, base as *mut c_void, size, file_offset, offset, done, stream)
        };
        status.check()
    }

    pub fn stream_register(&self, stream: usize, flags: c_uint) -> Result<(), Status> {
        // SAFETY: numbers only, which the library looks up.
        unsafe { (self.stream_register)(stream, flags) }.check()
    }

    pub fn stream_deregister(&self, stream: usize) -> Result<(), Status> {
        // SAFETY: numbers only, which the library looks up.
        unsafe { (self.stream_deregister)(stream) }.check()
    }
}

/// A batch; destroyed when dropped.
pub struct Batch<'a> {
    cufile: &'a CuFile,
    handle: *mut c_void,
}

// SAFETY: the handle is a name that the library looks up; the calls on a batch may come from any thread.
unsafe impl Send for Batch<'_> {}
// SAFETY: as for Send; the library locks what it keeps of a batch.
unsafe impl Sync for Batch<'_> {}

impl Batch<'_> {
    /// # Safety
    /// Where an entry's base is host memory, its range stays inside of it until the entry is done.
    pub unsafe fn submit(&self, entries: &mut [Entry]) -> Result<(), Status> {
        let count = c_uint::try_from(entries.len()).expect("fewer entries than a number can count");
        // SAFETY: the array lives through the call, which copies it; the rest is this function's contract.
        unsafe { (self.cufile.batch_submit)(self.handle, count, entries.as_mut_ptr(), 0) }.check()
    }

    /// Waits until `least` entries are done, at most `milliseconds`; at most `most` events.
    pub fn status(&self, least: c_uint, most: c_uint, milliseconds: u32) -> Result<Vec<Event>, Status> {
        let mut events = vec![Event::default(); most as usize];
        let mut count = most;
        let mut wait = libc::timespec { tv_sec: (milliseconds / 1000).into(), tv_nsec: (milliseconds % 1000 * 1_000_000).into() };
        let events_at = events.as_mut_ptr();
        // SAFETY: `count` events have room, and all places live through the call.
        unsafe { (self.cufile.batch_status)(self.handle, least, &raw mut count, events_at, &raw mut wait) }.check()?;
        events.truncate(count as usize);
        Ok(events)
    }

    pub fn cancel(&self) -> Result<(), Status> {
        // SAFETY: the library's own handle, not destroyed yet.
        unsafe { (self.cufile.batch_cancel)(self.handle) }.check()
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // SAFETY: the library's own handle, destroyed once.
        unsafe { (self.cufile.batch_destroy)(self.handle) }
    }
}
