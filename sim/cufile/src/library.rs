//! What the library keeps: the CUDA driver, open files, registered buffers, batches and streams.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::env;
use std::fs::{File, OpenOptions};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sim_common::cufile::Status;
use sim_common::driver::Driver;
use sim_common::log::Line;

use crate::batch::Batch;
use crate::knobs::knobs;

pub const DRIVER_NOT_INITIALIZED: i32 = 5001;
pub const CUDA_DRIVER_ERROR: i32 = 5011;
pub const POINTER_RANGE: i32 = 5014;
pub const MAPPING_RANGE: i32 = 5017;
pub const INVALID_FILE_TYPE: i32 = 5018;
pub const INVALID_VALUE: i32 = 5022;
pub const ALREADY_REGISTERED: i32 = 5023;
pub const NOT_REGISTERED: i32 = 5024;
pub const HANDLE_NOT_REGISTERED: i32 = 5027;
pub const HANDLE_ALREADY_REGISTERED: i32 = 5028;
pub const INTERNAL: i32 = 5030;
pub const SETUP_ERROR: i32 = 5033;
pub const PINNING_FAILED: i32 = 5036;
pub const BATCH_FULL: i32 = 5037;
pub const BATCH_SUBMIT_ERROR: i32 = 5040;
pub const IO_ERROR: i32 = 5044;

/// `CU_POINTER_ATTRIBUTE_CONTEXT`.
const POINTER_CONTEXT: i32 = 1;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, and its value for a device's memory.
const POINTER_MEMORY_TYPE: i32 = 2;
const MEMORY_DEVICE: u64 = 2;
/// The driver's answers to a question about an address that it does not know: of a range, and of an attribute.
const CUDA_INVALID_VALUE: i32 = 1;

/// A status of cuFile's own.
pub fn status(err: i32) -> Status {
    let driver = if err == CUDA_DRIVER_ERROR { knobs().driver_code } else { 0 };
    Status { err, driver }
}

/// A status that says what the driver said.
pub fn driver_status(driver: i32) -> Status {
    Status { err: CUDA_DRIVER_ERROR, driver }
}

/// A registered file.
pub struct Registered {
    pub fd: RawFd,
    /// A second opening without O_DIRECT, for transfers that do not fit the device's blocks.
    buffered: OnceLock<Option<File>>,
}

impl Registered {
    pub fn new(fd: RawFd) -> Self {
        Self { fd, buffered: OnceLock::new() }
    }

    /// The same file opened without O_DIRECT, if it can be.
    pub fn buffered(&self) -> Option<&File> {
        let open = || {
            let path = format!("/proc/self/fd/{}", self.fd);
            let both = OpenOptions::new().read(true).write(true).open(&path);
            both.or_else(|_| OpenOptions::new().read(true).open(&path)).ok()
        };
        self.buffered.get_or_init(open).as_ref()
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

/// The CUDA driver.
pub fn driver() -> Result<&'static Driver, Status> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    let load = || {
        let path = env::var("GPUIO_CUDA_LIBRARY").unwrap_or_else(|_| "libcuda.so.1".to_owned());
        Driver::load(path).ok()
    };
    DRIVER.get_or_init(load).as_ref().ok_or(status(SETUP_ERROR))
}

/// Where a base lies: the context of its device memory, or None for host memory.
pub fn context_of(base: u64) -> Result<Option<usize>, Status> {
    let driver = driver()?;
    match driver.pointer_attribute(POINTER_CONTEXT, base) {
        Ok(context) => Ok(usize::try_from(context).ok()),
        Err(CUDA_INVALID_VALUE) => Ok(None),
        Err(code) => Err(driver_status(code)),
    }
}

/// Whether an address lies in device memory.
pub fn is_device(base: u64) -> Result<bool, Status> {
    match driver()?.pointer_attribute(POINTER_MEMORY_TYPE, base) {
        Ok(kind) => Ok(kind == MEMORY_DEVICE),
        Err(CUDA_INVALID_VALUE) => Ok(false),
        Err(code) => Err(driver_status(code)),
    }
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

/// Writes a line with the calling thread's device.
pub fn finish(line: Line, name: &str, result: i64) {
    let device = if line.is_kept() { driver().ok().and_then(|driver| driver.context_device().ok()) } else { None };
    line.finish(device.unwrap_or(-1), name, result);
}
