//! What the library keeps: whose it is, open files, registered buffers, batches and streams.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::os::fd::RawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sim_common::cufile::Status;
use sim_common::log::Line;

use crate::batch::Batch;
use crate::knobs::knobs;
use crate::vendor::{Gpu, Memory, Rules, Vendor};

pub const DRIVER_NOT_INITIALIZED: i32 = 5001;
pub const RUNTIME_ERROR: i32 = 5011;
pub const POINTER_RANGE: i32 = 5014;
pub const MEMORY_TYPE_INVALID: i32 = 5013;
pub const INVALID_FILE_TYPE: i32 = 5018;
pub const INVALID_VALUE: i32 = 5022;
pub const ALREADY_REGISTERED: i32 = 5023;
pub const NOT_REGISTERED: i32 = 5024;
pub const HANDLE_ALREADY_REGISTERED: i32 = 5028;
pub const INTERNAL: i32 = 5030;
pub const SETUP_ERROR: i32 = 5033;
pub const PINNING_FAILED: i32 = 5036;
pub const BATCH_FULL: i32 = 5037;
pub const BATCH_SUBMIT_ERROR: i32 = 5040;
pub const IO_ERROR: i32 = 5044;

/// A status of the library's own.
pub fn status(err: i32) -> Status {
    let driver = if err == RUNTIME_ERROR { knobs().driver_code } else { 0 };
    Status { err, driver }
}

/// A status that says what the driver said.
pub fn driver_status(driver: i32) -> Status {
    Status { err: RUNTIME_ERROR, driver }
}

/// A registered file.
pub struct Registered {
    pub fd: RawFd,
    /// A second opening without O_DIRECT, for transfers that do not fit the device's blocks.
    buffered: OnceLock<Option<File>>,
    /// One with O_DIRECT, for a direct path.
    unbuffered: OnceLock<Option<File>>,
}

impl Registered {
    pub fn new(fd: RawFd) -> Self {
        Self { fd, buffered: OnceLock::new(), unbuffered: OnceLock::new() }
    }

    /// The same file opened without O_DIRECT, if it can be.
    pub fn buffered(&self) -> Option<&File> {
        self.buffered.get_or_init(|| self.reopened(0)).as_ref()
    }

    /// The same file opened with O_DIRECT, if it can be.
    pub fn unbuffered(&self) -> Option<&File> {
        self.unbuffered.get_or_init(|| self.reopened(libc::O_DIRECT)).as_ref()
    }

    fn reopened(&self, flags: i32) -> Option<File> {
        let path = format!("/proc/self/fd/{}", self.fd);
        let open = |write| OpenOptions::new().read(true).write(write).custom_flags(flags).open(&path);
        open(true).or_else(|_| open(false)).ok()
    }
}

/// A registered buffer.
#[derive(Clone, Copy)]
pub struct Buffer {
    pub size: u64,
    pub device: bool,
}

#[derive(Default)]
pub struct State {
    /// How often the driver was opened since it was last closed; one close closes it, as in the real library.
    pub opens: i64,
    pub files: HashMap<usize, Arc<Registered>>,
    pub buffers: BTreeMap<u64, Buffer>,
    pub batches: HashMap<usize, Arc<Batch>>,
    pub streams: HashSet<usize>,
}

pub fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    // A panic aborts (every caller is a C function), so a poisoned lock cannot be seen.
    STATE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle never given before, far from any mapping.
pub fn fresh_handle() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    0x7c00_0000_0000_0000 + (NEXT.fetch_add(1, Ordering::Relaxed) << 8)
}

static VENDOR: OnceLock<&'static Vendor> = OnceLock::new();

/// Says whose library this is; every exported function begins with it.
#[inline]
pub fn enter(vendor: &'static Vendor) {
    if VENDOR.get().is_none() {
        let _ = VENDOR.set(vendor);
    }
}

pub fn vendor() -> &'static Vendor {
    VENDOR.get().expect("every exported function has entered")
}

pub fn rules() -> &'static Rules {
    &vendor().rules
}

/// The GPU runtime.
pub fn gpu() -> Result<&'static dyn Gpu, Status> {
    (vendor().gpu)().ok_or(status(SETUP_ERROR))
}

/// Where a base lies; None for memory that only the host knows.
pub fn memory(base: u64) -> Result<Option<Memory>, Status> {
    gpu()?.memory(base).map_err(driver_status)
}

/// One call that returns a status: refused before the driver is open, logged with what it adds to the line.
pub fn call(name: &str, action: impl FnOnce(&mut Line) -> Result<(), Status>) -> Status {
    let mut line = Line::new();
    let result = if state().opens == 0 { Err(status(DRIVER_NOT_INITIALIZED)) } else { action(&mut line) };
    let status = result.err().unwrap_or_default();
    if status.driver != 0 {
        line.put("driver", status.driver);
    }
    finish(line, name, i64::from(status.err));
    status
}

/// Writes a line with the calling thread's device; the name is without the library's prefix.
pub fn finish(line: Line, name: &str, result: i64) {
    let device = if line.is_kept() { gpu().ok().and_then(Gpu::device) } else { None };
    line.finish(device.unwrap_or(-1), &format!("{}{name}", vendor().prefix), result);
}
