//! A libhipfile simulated on the HIP runtime: `libhipfile.so.0`, which is in no package registry. For tests only.
//!
//! How it works, and the environment that it reads, is said in `sim_gpufile`; it reads the real one's own variables, too. The
//! runtime is the process's own `libamdhip64.so.7`, or the one that `GPUIO_HIP_LIBRARY` names. Codes are those of hipFile 0.2.0.
//!
//! As in the real library there are two ways for bytes, with a counter each in the log's line of `hipFileDriverClose`: amdgpu's
//! file call, where memory, file and O_DIRECT allow it; else a bounce buffer, a descriptor without O_DIRECT, and fdatasync after
//! every part of a blocking write. A batch is accepted and never done. A success leaves something in errno, and a failure that
//! is not an errno leaves it alone.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use sim_common::cufile::Status;
use sim_common::hip::Hip;
use sim_gpufile::vendor::{Code, Gpu, Memory, Rules, Vendor};

sim_gpufile::exports! {
    HIPFILE,
    driver_open: hipFileDriverOpen,
    driver_close: hipFileDriverClose,
    use_count: hipFileUseCount,
    properties: hipFileDriverGetProperties,
    handle_register: hipFileHandleRegister,
    handle_deregister: hipFileHandleDeregister,
    buf_register: hipFileBufRegister,
    buf_deregister: hipFileBufDeregister,
    read: hipFileRead,
    write: hipFileWrite,
    stream_register: hipFileStreamRegister,
    stream_deregister: hipFileStreamDeregister,
    read_async: hipFileReadAsync,
    write_async: hipFileWriteAsync,
    batch_set_up: hipFileBatchIOSetUp,
    batch_submit: hipFileBatchIOSubmit,
    batch_status: hipFileBatchIOGetStatus,
    batch_cancel: hipFileBatchIOCancel,
    batch_destroy: hipFileBatchIODestroy,
    set_poll_mode: hipFileDriverSetPollMode,
    set_max_direct_size: hipFileDriverSetMaxDirectIOSize,
    set_max_cache_size: hipFileDriverSetMaxCacheSize,
    set_max_pinned_size: hipFileDriverSetMaxPinnedMemSize,
}

static HIPFILE: Vendor = Vendor {
    prefix: "hipFile",
    knobs: "GPUIO_SIM_HIPFILE_",
    gpu,
    rules: Rules {
        counts_opens: true,
        moves_host_memory: false,
        has_properties: false,
        batch_works: false,
        syncs_bounced_writes: true,
        clears_results: true,
        bad_file: 5030,
        unknown_file: -5027,
        outside: -5022,
    },
};

/// # Safety
/// Each place may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipFileGetVersion(major: *mut c_uint, minor: *mut c_uint, patch: *mut c_uint) -> Status {
    for (place, number) in [(major, 0), (minor, 2), (patch, 0)] {
        if !place.is_null() {
            // SAFETY: not null, and writable by this function's contract.
            unsafe { place.write(number) };
        }
    }
    Status::default()
}

/// The HIP runtime; an owner of memory is a device, counted from 1.
struct Runtime(Hip);

fn gpu() -> Option<&'static dyn Gpu> {
    static HIP: OnceLock<Option<Runtime>> = OnceLock::new();
    let load = || {
        let path = std::env::var("GPUIO_HIP_LIBRARY").unwrap_or_else(|_| "libamdhip64.so.7".to_owned());
        Hip::load(path).ok().map(Runtime)
    };
    HIP.get_or_init(load).as_ref().map(|hip| hip as &dyn Gpu)
}

thread_local! {
    /// Devices that the thread had before each push.
    static BEFORE: RefCell<Vec<c_int>> = const { RefCell::new(Vec::new()) };
}

fn owner(device: c_int) -> usize {
    usize::try_from(device).map_or(0, |device| device + 1)
}

impl Gpu for Runtime {
    fn init(&self) -> Result<(), Code> {
        self.0.init(0)
    }

    fn memory(&self, address: u64) -> Result<Option<Memory>, Code> {
        const DEVICE: c_int = 2;
        const INVALID_VALUE: Code = 1; // the answer for an address that the runtime does not know
        match self.0.attributes(address) {
            Ok(found) => Ok(Some(Memory { owner: owner(found.device), is_device: found.kind == DEVICE })),
            Err(INVALID_VALUE) => Ok(None),
            Err(code) => Err(code),
        }
    }

    fn range(&self, address: u64) -> Result<(u64, usize), Code> {
        self.0.address_range(address)
    }

    fn owner(&self) -> Result<usize, Code> {
        self.0.device().map(owner)
    }

    fn push(&self, owner: usize) -> Result<(), Code> {
        let before = self.0.device()?;
        self.0.device_set(c_int::try_from(owner).unwrap_or(0) - 1)?;
        BEFORE.with_borrow_mut(|all| all.push(before));
        Ok(())
    }

    fn pop(&self) {
        if let Some(before) = BEFORE.with_borrow_mut(Vec::pop) {
            // A device that was there is there still.
            let _ = self.0.device_set(before);
        }
    }

    fn device(&self) -> Option<c_int> {
        self.0.device().ok()
    }

    fn make_stream(&self) -> Result<usize, Code> {
        self.0.stream_create(1)
    }

    fn destroy_stream(&self, stream: usize) {
        // Whoever made it is the only one to destroy it.
        let _ = self.0.stream_destroy(stream);
    }

    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, stream: usize) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        unsafe { self.0.copy_async(to, from, bytes, stream) }?;
        self.0.stream_sync(stream)
    }

    unsafe fn launch(&self, stream: usize, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        unsafe { self.0.launch_host(stream, function, data) }
    }

    fn file_call(&self, write: bool, fd: c_int, address: u64, size: usize, offset: i64) -> Option<Result<usize, c_int>> {
        self.0.file_call(write, fd, address, size, offset)
    }
}
