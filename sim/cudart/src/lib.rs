//! The few functions of the CUDA runtime that fio's own libcufile engine and NIXL's GDS plugins import, on top of
//! whatever `libcuda.so.1` the process finds. For tests only.
//!
//! As in the real runtime, a thread that has chosen no device works on device 0, in the device's primary context, which
//! stays retained until the process ends; an error is the driver's own number where the runtime has no other for it.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use sim_common::driver::Driver;

/// A `cudaError_t`.
type Error = c_int;

const INVALID_VALUE: Error = 1;
const INSUFFICIENT_DRIVER: Error = 35;

thread_local! {
    static LAST: Cell<Error> = const { Cell::new(0) };
}

/// The driver, initialised; an error of its own if there is none.
fn driver() -> Result<&'static Driver, Error> {
    static DRIVER: OnceLock<Result<Driver, Error>> = OnceLock::new();
    let loaded = DRIVER.get_or_init(|| {
        let driver = Driver::load("libcuda.so.1").map_err(|_| INSUFFICIENT_DRIVER)?;
        driver.init(0)?;
        Ok(driver)
    });
    loaded.as_ref().map_err(|&error| error)
}

/// Makes a device's primary context current.
fn choose(driver: &Driver, device: c_int) -> Result<(), Error> {
    static RETAINED: Mutex<Option<HashSet<(c_int, usize)>>> = Mutex::new(None);
    let mut retained = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    let retained = retained.get_or_insert_default();
    let known = retained.iter().find(|(of, _)| *of == device).map(|&(_, context)| context);
    let context = match known {
        Some(context) => context,
        None => {
            let context = driver.primary_retain(device)?;
            retained.insert((device, context));
            context
        }
    };
    driver.context_set(context)
}

/// One call: the driver with a context current, the result remembered for `cudaGetLastError`.
fn call(action: impl FnOnce(&Driver) -> Result<(), Error>) -> Error {
    let run = || {
        let driver = driver()?;
        if driver.context_current()? == 0 {
            choose(driver, 0)?;
        }
        action(driver)
    };
    let error = run().err().unwrap_or(0);
    if error != 0 {
        LAST.set(error);
    }
    error
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// `to` may be written, or is null.
unsafe fn store<T>(to: *mut T, value: T) -> Result<(), Error> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and writable by this function's contract.
    unsafe { to.write(value) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cudaSetDevice(device: c_int) -> Error {
    let run = || choose(driver()?, device);
    let error = run().err().unwrap_or(0);
    if error != 0 {
        LAST.set(error);
    }
    error
}

/// # Safety
/// `device` may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cudaGetDevice(device: *mut c_int) -> Error {
    // SAFETY: this function's own contract.
    call(|driver| unsafe { store(device, driver.context_device()?) })
}

/// # Safety
/// `count` may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> Error {
    // SAFETY: this function's own contract.
    call(|driver| unsafe { store(count, driver.device_count()?) })
}

#[unsafe(no_mangle)]
extern "C" fn cudaDeviceSynchronize() -> Error {
    call(Driver::context_sync)
}

/// # Safety
/// `pointer` may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMalloc(pointer: *mut *mut c_void, bytes: usize) -> Error {
    // SAFETY: this function's own contract.
    call(|driver| unsafe { store(pointer, driver.mem_alloc(bytes)? as *mut c_void) })
}

/// # Safety
/// `pointer` may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMallocManaged(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Error {
    // SAFETY: this function's own contract.
    call(|driver| unsafe { store(pointer, driver.mem_alloc_managed(bytes, flags)? as *mut c_void) })
}

#[unsafe(no_mangle)]
extern "C" fn cudaFree(pointer: *mut c_void) -> Error {
    call(|driver| driver.mem_free(pointer as u64))
}

/// # Safety
/// `pointer` may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cudaHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Error {
    // SAFETY: this function's own contract.
    call(|driver| unsafe { store(pointer, driver.host_alloc(bytes, flags)?.cast()) })
}

/// # Safety
/// `pointer` may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMallocHost(pointer: *mut *mut c_void, bytes: usize) -> Error {
    // SAFETY: this function's own contract.
    unsafe { cudaHostAlloc(pointer, bytes, 0) }
}

/// # Safety
/// Nothing uses the memory any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn cudaFreeHost(pointer: *mut c_void) -> Error {
    // SAFETY: this function's own contract.
    call(|driver| unsafe { driver.host_free(pointer.cast()) })
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemset(pointer: *mut c_void, value: c_int, bytes: usize) -> Error {
    // The runtime takes an int and uses its low byte.
    call(|driver| driver.set_bytes(pointer as u64, value.to_le_bytes()[0], bytes))
}

/// The direction is not needed: the driver tells device memory from host memory by its address.
///
/// # Safety
/// An end that is host memory is valid for `bytes`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, _direction: c_int) -> Error {
    // SAFETY: this function's own contract.
    call(|driver| unsafe { driver.copy(to as u64, from as u64, bytes) })
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamSynchronize(stream: usize) -> Error {
    call(|driver| driver.stream_sync(stream))
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> Error {
    LAST.replace(0)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> Error {
    LAST.get()
}

/// Name and description of the errors that the functions here return.
fn describe(error: Error) -> (&'static std::ffi::CStr, &'static std::ffi::CStr) {
    match error {
        0 => (c"cudaSuccess", c"no error"),
        1 => (c"cudaErrorInvalidValue", c"invalid argument"),
        2 => (c"cudaErrorMemoryAllocation", c"out of memory"),
        3 => (c"cudaErrorInitializationError", c"initialization error"),
        35 => (c"cudaErrorInsufficientDriver", c"CUDA driver version is insufficient for CUDA runtime version"),
        100 => (c"cudaErrorNoDevice", c"no CUDA-capable device is detected"),
        101 => (c"cudaErrorInvalidDevice", c"invalid device ordinal"),
        201 => (c"cudaErrorDeviceUninitialized", c"invalid device context"),
        400 => (c"cudaErrorInvalidResourceHandle", c"invalid resource handle"),
        600 => (c"cudaErrorNotReady", c"device not ready"),
        700 => (c"cudaErrorIllegalAddress", c"an illegal memory access was encountered"),
        719 => (c"cudaErrorLaunchFailure", c"unspecified launch failure"),
        _ => (c"unrecognized error code", c"unrecognized error code"),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(error: Error) -> *const c_char {
    describe(error).0.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(error: Error) -> *const c_char {
    describe(error).1.as_ptr()
}
