//! CUDA: the driver API's names, and what HIP has not: primary contexts, which the driver counts for the whole process. Declarations are
//! those of cuda.h (CUDA 12 and 13 have the same).

use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::calls::{StreamHandle, check, constant};
use super::{Context, Runtime, Vendor};
use crate::common::device::DeviceError;
use crate::common::library::{Opened, call_table};

call_table! {
    /// The functions that only CUDA has.
    pub struct Cuda {
        fn cuDevicePrimaryCtxRetain(*mut Context, c_int) -> c_int;
        fn cuDevicePrimaryCtxRelease_v2(c_int) -> c_int;
        fn cuDevicePrimaryCtxGetState(c_int, *mut c_uint, *mut c_int) -> c_int;
        fn cuCtxSetCurrent(Context) -> c_int;
        fn cuMemsetD2D32Async(usize, usize, c_uint, usize, usize, usize) -> c_int;
        fn cuGetErrorName(c_int, *mut *const c_char) -> c_int;
        fn cuGetErrorString(c_int, *mut *const c_char) -> c_int;
    }
}

impl Vendor for Cuda {
    const NAME: &'static str = "CUDA";
    const LIBRARY: (&'static str, &'static [&'static str]) = ("GPUIO_CUDA_LIBRARY", &["libcuda.so.1", "libcuda.so"]);
    const FUNCTIONS: &'static [(&'static str, &'static str)] = &[
        ("init", "cuInit"),
        ("version", "cuDriverGetVersion"),
        ("count", "cuDeviceGetCount"),
        ("device", "cuDeviceGet"),
        ("device_name", "cuDeviceGetName"),
        ("device_address", "cuDeviceGetPCIBusId"),
        ("allocate", "cuMemAlloc_v2"),
        ("free", "cuMemFree_v2"),
        ("allocate_managed", "cuMemAllocManaged"),
        ("allocate_pinned", "cuMemHostAlloc"),
        ("free_pinned", "cuMemFreeHost"),
        ("pin", "cuMemHostRegister_v2"),
        ("unpin", "cuMemHostUnregister"),
        ("copy_in", "cuMemcpyHtoDAsync_v2"),
        ("copy_out", "cuMemcpyDtoHAsync_v2"),
        ("set_bytes", "cuMemsetD8Async"),
        ("make_stream", "cuStreamCreate"),
        ("finish_stream", "cuStreamSynchronize"),
        ("ask_stream", "cuStreamQuery"),
        ("destroy_stream", "cuStreamDestroy_v2"),
        ("call_from_stream", "cuLaunchHostFunc"),
    ];
    const NO_LIBRARY: (&'static str, &'static str) = ("no NVIDIA driver", "install the driver, or use gpu_backend=host");
    const NO_DEVICE: (&'static [c_int], &'static str) =
        (&[100], "no NVIDIA GPU: the driver is here, but finds no device; check nvidia-smi and CUDA_VISIBLE_DEVICES");
    const TOOL: &'static str = "nvidia-smi";
    const VISIBLE: &'static str = "CUDA_VISIBLE_DEVICES";

    fn cell() -> &'static OnceLock<Result<Runtime<Self>, String>> {
        static CELL: OnceLock<Result<Runtime<Cuda>, String>> = OnceLock::new();
        &CELL
    }

    fn load(from: &Opened) -> Result<Self, String> {
        Self::load(from, str::to_owned)
    }

    /// 12080 is 12.8.
    fn version(number: c_int) -> String {
        format!("{}.{}", number / 1000, number % 1000 / 10)
    }

    /// The primary context, which the first user makes.
    fn take(&self, device: c_int) -> Result<Context, (&'static str, DeviceError)> {
        let _turn = turn();
        self.retain(device).map_err(|error| ("cuDevicePrimaryCtxRetain", error))
    }

    /// The last user ends the context.
    fn give_back(&self, device: c_int) {
        let _turn = turn();
        // SAFETY: a number.
        unsafe { (self.cuDevicePrimaryCtxRelease_v2)(device) };
    }

    fn enter(&self, _device: c_int, context: Context) -> Result<(), DeviceError> {
        // SAFETY: the context is retained until it is given back.
        check(unsafe { (self.cuCtxSetCurrent)(context) })
    }

    fn start_stamps(&self, address: usize, pitch: usize, value: u32, rows: usize, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: rows of one word within a range of the device's memory, which the driver checks.
        check(unsafe { (self.cuMemsetD2D32Async)(address, pitch, value, 1, rows, stream.0) })
    }

    fn words(&self, code: c_int) -> (Option<String>, Option<String>) {
        let text = |call: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = std::ptr::null();
            // SAFETY: a place for a pointer; the driver leaves null for a code that it does not know, else a constant that ends in NUL.
            unsafe { if call(code, &mut text) == 0 { constant(text) } else { None } }
        };
        (text(self.cuGetErrorName), text(self.cuGetErrorString))
    }
}

/// Contexts are taken and given back in turn.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuda {
    fn retain(&self, device: c_int) -> Result<Context, DeviceError> {
        let mut context = 0;
        // SAFETY: a place for the handle.
        check(unsafe { (self.cuDevicePrimaryCtxRetain)(&mut context, device) }).map(|()| context)
    }
}

impl Runtime<Cuda> {
    /// Runs a call that gives back every device's context once, though it has not taken it: another job may have it. The contexts that there
    /// are get one more user before. Where the call gives nothing back, they stay until the process ends.
    pub fn keep_contexts(&self, call: impl FnOnce()) {
        let _turn = turn();
        for device in 0..self.count() as c_int {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: places for two ints.
            let known = unsafe { (self.own.cuDevicePrimaryCtxGetState)(device, &mut flags, &mut active) } == 0;
            if known && active != 0 {
                // Where it fails there is nothing to keep.
                let _ = self.own.retain(device);
            }
        }
        call();
    }
}
