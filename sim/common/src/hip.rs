//! The HIP runtime as a caller sees it: the functions that the simulated libhipfile and the tests use, found at run time
//! in any `libamdhip64.so`, real or simulated. Errors are the runtime's own numbers.

use std::ffi::{OsStr, c_char, c_int, c_uint, c_void};

use libloading::Library;

type Code = c_int;
type FileCall = unsafe extern "C" fn(c_int, u64, u64, i64, *mut u64, *mut c_int) -> Code;

fn check(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// `hipPointerAttribute_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    /// `hipMemoryType`: 1 is the host's, 2 a device's, 3 managed.
    pub kind: c_int,
    pub device: c_int,
    pub device_pointer: u64,
    pub host_pointer: u64,
    pub is_managed: c_int,
    pub flags: c_uint,
}

/// A loaded runtime.
pub struct Hip {
    library: Library,
    /// amdgpu's file call to read and to write, where the runtime has it.
    file_calls: Option<[FileCall; 2]>,
}

impl Hip {
    pub fn load(path: impl AsRef<OsStr>) -> Result<Self, String> {
        // SAFETY: a HIP runtime's constructors have no precondition.
        let library = unsafe { Library::new(path.as_ref()) }.map_err(|error| error.to_string())?;
        let mut hip = Self { library, file_calls: None };
        hip.file_calls = hip.address(c"hipAmdFileRead").zip(hip.address(c"hipAmdFileWrite")).map(|(read, write)| [read, write]);
        Ok(hip)
    }

    /// A file call that is in no header.
    fn address(&self, name: &std::ffi::CStr) -> Option<FileCall> {
        type Look = unsafe extern "C" fn(*const c_char, *mut *const c_void, c_int, u64, *mut c_int) -> Code;
        // SAFETY: the function has this type, by hip_runtime_api.h.
        let look = unsafe { self.library.get::<Look>(b"hipGetProcAddress") }.ok()?;
        let (mut found, mut status) = (std::ptr::null(), 0);
        // SAFETY: a C string, and places for the results.
        check(unsafe { look(name.as_ptr(), &raw mut found, 70_200_000, 0, &raw mut status) }).ok()?;
        // SAFETY: the functions of these names have this type; null is none.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*const c_void, FileCall>(found) })
    }

    /// A function that every runtime has.
    ///
    /// # Safety
    /// `F` is the type of the function of this name, by hip_runtime_api.h.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, Code> {
        const NOT_FOUND: Code = 500;
        // SAFETY: this function's own contract.
        unsafe { self.library.get::<F>(name.as_bytes()) }.map(|found| *found).map_err(|_| NOT_FOUND)
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl Hip {$(
            $(#[$doc])*
            pub fn $name(&self, $($argument: $type),*) -> Result<calls!(@type $($result)?), Code> {
                calls!(@body self $symbol ($($argument: $type),*) $($result)?)
            }
        )*}
    };
    (@type) => { () };
    (@type $result:ty) => { $result };
    (@body $self:ident $symbol:literal ($($argument:ident: $type:ty),*)) => {{
        // SAFETY: the function's own type; numbers only, and the runtime checks every handle and address that it is given.
        check(unsafe { $self.function::<unsafe extern "C" fn($($type),*) -> Code>($symbol)?($($argument),*) })
    }};
    (@body $self:ident $symbol:literal ($($argument:ident: $type:ty),*) $result:ty) => {{
        let mut value = <$result>::default();
        // SAFETY: the function's own type; numbers, and a place for the result that lives through the call.
        check(unsafe { $self.function::<unsafe extern "C" fn(*mut $result, $($type),*) -> Code>($symbol)?(&raw mut value, $($argument),*) })?;
        Ok(value)
    }};
}

calls! {
    init = "hipInit" (flags: c_uint);
    device_count = "hipGetDeviceCount" () -> c_int;
    device_set = "hipSetDevice" (device: c_int);
    device = "hipGetDevice" () -> c_int;
    attributes = "hipPointerGetAttributes" (address: u64) -> Attributes;
    mem_alloc = "hipMalloc" (bytes: usize) -> u64;
    mem_alloc_pinned = "hipHostMalloc" (bytes: usize, flags: c_uint) -> u64;
    mem_free = "hipFree" (address: u64);
    set_bytes_pitched = "hipMemset2DAsync" (address: u64, pitch: usize, value: c_int, width: usize, height: usize, stream: usize);
    stream_create = "hipStreamCreateWithFlags" (flags: c_uint) -> usize;
    stream_destroy = "hipStreamDestroy" (stream: usize);
    stream_sync = "hipStreamSynchronize" (stream: usize);
}

impl Hip {
    /// Start and size of the allocation that holds an address.
    pub fn address_range(&self, address: u64) -> Result<(u64, usize), Code> {
        type Range = unsafe extern "C" fn(*mut u64, *mut usize, u64) -> Code;
        let (mut base, mut size) = (0, 0);
        // SAFETY: the function's own type, and places for the results that live through the call.
        check(unsafe { self.function::<Range>("hipMemGetAddressRange")?(&raw mut base, &raw mut size, address) })?;
        Ok((base, size))
    }

    /// Copies in a stream between any two addresses that the runtime can tell apart by itself.
    ///
    /// # Safety
    /// An end that is not memory of the runtime's is host memory valid for `bytes` until the stream has passed the copy.
    pub unsafe fn copy_async(&self, to: u64, from: u64, bytes: usize, stream: usize) -> Result<(), Code> {
        const BY_ADDRESS: c_int = 4;
        type Copy = unsafe extern "C" fn(u64, u64, usize, c_int, usize) -> Code;
        // SAFETY: the function's own type, and this function's own contract.
        check(unsafe { self.function::<Copy>("hipMemcpyAsync")?(to, from, bytes, BY_ADDRESS, stream) })
    }

    /// Runs a function on a stream, in its order.
    ///
    /// # Safety
    /// `function` may be called with `data` from another thread until the stream has passed it.
    pub unsafe fn launch_host(&self, stream: usize, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> Result<(), Code> {
        type Launch = unsafe extern "C" fn(usize, unsafe extern "C" fn(*mut c_void), *mut c_void) -> Code;
        // SAFETY: the function's own type, and this function's own contract.
        check(unsafe { self.function::<Launch>("hipLaunchHostFunc")?(stream, function, data) })
    }

    /// Moves bytes between a file and device memory, where the runtime has the call. The error is an errno.
    pub fn file_call(&self, write: bool, fd: c_int, address: u64, size: usize, offset: i64) -> Option<Result<usize, c_int>> {
        let [read_call, write_call] = self.file_calls?;
        let (mut moved, mut status) = (0, 0);
        let call = if write { write_call } else { read_call };
        // SAFETY: numbers, which the runtime checks, and places for the results that live through the call.
        let code = unsafe { call(fd, address, size as u64, offset, &raw mut moved, &raw mut status) };
        Some(match (code, status) {
            (0, _) => Ok(usize::try_from(moved).unwrap_or(0)),
            (_, 0) => Err(libc::EIO),
            (_, errno) => Err(-errno),
        })
    }
}
