//! A libcufile simulated on the CUDA driver: `libcufile.so.0` for what the real one cannot be made to do. Tests only.
//!
//! How it works, and the environment that it reads, is said in `sim_gpufile`. The driver is the process's own
//! `libcuda.so.1`, or the one that `GPUIO_CUDA_LIBRARY` names. Codes are those of the real library for CUDA 13 (1.20) in
//! compatibility mode where they were measured.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use sim_common::driver::Driver;
use sim_gpufile::vendor::{Code, Gpu, Memory, Rules, Vendor};

sim_gpufile::exports! {
    CUFILE,
    driver_open: cuFileDriverOpen,
    driver_close: cuFileDriverClose_v2,
    use_count: cuFileUseCount,
    properties: cuFileDriverGetProperties,
    handle_register: cuFileHandleRegister,
    handle_deregister: cuFileHandleDeregister,
    buf_register: cuFileBufRegister,
    buf_deregister: cuFileBufDeregister,
    read: cuFileRead,
    write: cuFileWrite,
    stream_register: cuFileStreamRegister,
    stream_deregister: cuFileStreamDeregister,
    read_async: cuFileReadAsync,
    write_async: cuFileWriteAsync,
    batch_set_up: cuFileBatchIOSetUp,
    batch_submit: cuFileBatchIOSubmit,
    batch_status: cuFileBatchIOGetStatus,
    batch_cancel: cuFileBatchIOCancel,
    batch_destroy: cuFileBatchIODestroy,
    set_poll_mode: cuFileDriverSetPollMode,
    set_max_direct_size: cuFileDriverSetMaxDirectIOSize,
    set_max_cache_size: cuFileDriverSetMaxCacheSize,
    set_max_pinned_size: cuFileDriverSetMaxPinnedMemSize,
}

mod own;

static CUFILE: Vendor = Vendor {
    prefix: "cuFile",
    knobs: "GPUIO_SIM_CUFILE_",
    gpu,
    rules: Rules {
        counts_opens: false,
        moves_host_memory: true,
        has_properties: true,
        batch_works: true,
        syncs_bounced_writes: false,
        clears_results: false,
        bad_file: 5022,
        unknown_file: 5027,
        outside: 5017,
    },
};

/// The CUDA driver; an owner of memory is a context.
struct Cuda(Driver);

fn gpu() -> Option<&'static dyn Gpu> {
    static CUDA: OnceLock<Option<Cuda>> = OnceLock::new();
    let load = || {
        let path = std::env::var("GPUIO_CUDA_LIBRARY").unwrap_or_else(|_| "libcuda.so.1".to_owned());
        Driver::load(path).ok().map(Cuda)
    };
    CUDA.get_or_init(load).as_ref().map(|cuda| cuda as &dyn Gpu)
}

impl Gpu for Cuda {
    fn init(&self) -> Result<(), Code> {
        self.0.init(0)
    }

    fn memory(&self, address: u64) -> Result<Option<Memory>, Code> {
        const CONTEXT: c_int = 1;
        const MEMORY_TYPE: c_int = 2;
        const DEVICE: u64 = 2;
        const INVALID_VALUE: Code = 1; // the answer for an address that the driver does not know
        let attribute = |which| self.0.pointer_attribute(which, address);
        match attribute(CONTEXT) {
            Ok(context) => {
                let is_device = attribute(MEMORY_TYPE)? == DEVICE;
                Ok(Some(Memory { owner: usize::try_from(context).unwrap_or(0), is_device }))
            }
            Err(INVALID_VALUE) => Ok(None),
            Err(code) => Err(code),
        }
    }

    fn range(&self, address: u64) -> Result<(u64, usize), Code> {
        self.0.address_range(address)
    }

    fn owner(&self) -> Result<usize, Code> {
        self.0.context_current()
    }

    fn push(&self, owner: usize) -> Result<(), Code> {
        self.0.context_push(owner)
    }

    fn pop(&self) {
        // What was pushed is there to pop, or its context is gone.
        let _ = self.0.context_pop();
    }

    fn device(&self) -> Option<c_int> {
        self.0.context_device().ok()
    }

    fn make_stream(&self) -> Result<usize, Code> {
        self.0.stream_create(1)
    }

    fn destroy_stream(&self, stream: usize) {
        // A context that is gone has taken its streams along.
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
}
