//! Numbers and shapes, from the CUDA toolkit's `cuda.h` (12.8). HIP has the same numbers for all of these codes.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A `CUresult`; zero is success. Kept an integer: what crosses the boundary is never made into an enum.
pub type Code = c_int;

pub const SUCCESS: Code = 0;
pub const INVALID_VALUE: Code = 1;
pub const OUT_OF_MEMORY: Code = 2;
pub const NOT_INITIALIZED: Code = 3;
pub const NO_DEVICE: Code = 100;
pub const INVALID_DEVICE: Code = 101;
pub const INVALID_CONTEXT: Code = 201;
pub const INVALID_HANDLE: Code = 400;
pub const NOT_FOUND: Code = 500;
pub const NOT_READY: Code = 600;
pub const ILLEGAL_ADDRESS: Code = 700;
pub const PEER_ACCESS_ALREADY_ENABLED: Code = 704;
pub const CONTEXT_IS_DESTROYED: Code = 709;
pub const HOST_MEMORY_ALREADY_REGISTERED: Code = 712;
pub const HOST_MEMORY_NOT_REGISTERED: Code = 713;
pub const LAUNCH_FAILED: Code = 719;
pub const NOT_PERMITTED: Code = 800;
pub const NOT_SUPPORTED: Code = 801;

/// `CUdevice`: an ordinal.
pub type Device = c_int;
/// `CUcontext`, `CUstream`, `CUevent`: here a number that points at nothing, so that following it faults.
pub type Handle = usize;
/// `CUdeviceptr`.
pub type DevicePtr = u64;
/// `CUhostFn`.
pub type HostFn = unsafe extern "C" fn(*mut c_void);
/// `CUstreamCallback`: stream, status, user data.
pub type StreamCallback = unsafe extern "C" fn(Handle, Code, *mut c_void);
/// `CUuuid`.
pub type Uuid = [u8; 16];

/// `CUstream` values that name no stream that was created.
pub const STREAM_NULL: Handle = 0;
pub const STREAM_LEGACY: Handle = 1;
pub const STREAM_PER_THREAD: Handle = 2;

pub const STREAM_NON_BLOCKING: c_uint = 1;
pub const EVENT_DISABLE_TIMING: c_uint = 2;

/// `CUpointer_attribute`.
pub mod pointer {
    pub const CONTEXT: i32 = 1;
    pub const MEMORY_TYPE: i32 = 2;
    pub const DEVICE_POINTER: i32 = 3;
    pub const HOST_POINTER: i32 = 4;
    pub const SYNC_MEMOPS: i32 = 6;
    pub const BUFFER_ID: i32 = 7;
    pub const IS_MANAGED: i32 = 8;
    pub const DEVICE_ORDINAL: i32 = 9;
    pub const IS_LEGACY_IPC_CAPABLE: i32 = 10;
    pub const RANGE_START: i32 = 11;
    pub const RANGE_SIZE: i32 = 12;
    pub const MAPPED: i32 = 13;
    pub const ALLOWED_HANDLE_TYPES: i32 = 14;
    pub const IS_GPU_DIRECT_RDMA_CAPABLE: i32 = 15;
    pub const ACCESS_FLAGS: i32 = 16;
    pub const MEMPOOL_HANDLE: i32 = 17;
}

/// `CUmemorytype`.
pub const MEMORY_HOST: c_uint = 1;
pub const MEMORY_DEVICE: c_uint = 2;

/// An output parameter as C hands it over; only C can make one.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// An output that nobody wants.
    pub fn none() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Stores the value; null is an invalid argument.
    pub fn set(self, value: T) -> Result<(), Code> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and the API's contract is that the caller passes a place for one T that it may write.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Stores the value where the caller wants it, and nothing where it passed null.
    pub fn set_if_wanted(self, value: T) {
        // Null is the only way for `set` to fail, and is what this function permits.
        let _ = self.set(value);
    }
}

/// A buffer for a string as C hands it over, with its length in bytes.
pub fn copy_string(Out(to): Out<c_char>, room: c_int, text: &str) -> Result<(), Code> {
    let room = usize::try_from(room).map_err(|_| INVALID_VALUE)?;
    if to.is_null() || room == 0 {
        return Err(INVALID_VALUE);
    }
    let length = text.len().min(room - 1);
    // SAFETY: the caller's buffer holds `room` bytes by the API's contract; `length` + 1 is at most that; the source
    // is our own string.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), to, length);
        to.add(length).write(0);
    }
    Ok(())
}
