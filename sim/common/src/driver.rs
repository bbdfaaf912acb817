//! The CUDA driver as a caller sees it: the functions that the simulated libraries and the tests use, found at run
//! time in any `libcuda.so.1`, real or simulated.
//!
//! Errors are the driver's own numbers.

use std::ffi::{OsStr, c_int, c_uint, c_void};

use libloading::Library;

type Code = c_int;

fn check(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

macro_rules! functions {
    ($($field:ident: $name:literal ($($type:ty),*);)*) => {
        /// A loaded driver.
        pub struct Driver {
            // Keeps the functions valid; never read.
            _library: Library,
            $($field: unsafe extern "C" fn($($type),*) -> Code,)*
        }

        impl Driver {
            /// Loads the library and finds every function; the error says what is missing.
            pub fn load(path: impl AsRef<OsStr>) -> Result<Self, String> {
                // SAFETY: a CUDA driver's constructors have no precondition.
                let library = unsafe { Library::new(path.as_ref()) }.map_err(|error| error.to_string())?;
                Ok(Self {
                    $($field: {
                        // SAFETY: the driver's function of this name has this type, by the toolkit's cuda.h.
                        let found = unsafe { library.get($name.as_bytes()) };
                        *found.map_err(|error| error.to_string())?
                    },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    init: "cuInit" (c_uint);
    device_count: "cuDeviceGetCount" (*mut c_int);
    device_get: "cuDeviceGet" (*mut c_int, c_int);
    primary_retain: "cuDevicePrimaryCtxRetain" (*mut usize, c_int);
    primary_release: "cuDevicePrimaryCtxRelease_v2" (c_int);
    context_create: "cuCtxCreate_v2" (*mut usize, c_uint, c_int);
    context_destroy: "cuCtxDestroy_v2" (usize);
    context_current: "cuCtxGetCurrent" (*mut usize);
    context_set: "cuCtxSetCurrent" (usize);
    context_push: "cuCtxPushCurrent_v2" (usize);
    context_pop: "cuCtxPopCurrent_v2" (*mut usize);
    context_device: "cuCtxGetDevice" (*mut c_int);
    context_sync: "cuCtxSynchronize" ();
    mem_alloc: "cuMemAlloc_v2" (*mut u64, usize);
    mem_alloc_managed: "cuMemAllocManaged" (*mut u64, usize, c_uint);
    mem_free: "cuMemFree_v2" (u64);
    host_alloc: "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    host_free: "cuMemFreeHost" (*mut c_void);
    host_register: "cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
    host_unregister: "cuMemHostUnregister" (*mut c_void);
    address_range: "cuMemGetAddressRange_v2" (*mut u64, *mut usize, u64);
    pointer_attribute: "cuPointerGetAttribute" (*mut c_void, c_int, u64);
    copy: "cuMemcpy" (u64, u64, usize);
    copy_async: "cuMemcpyAsync" (u64, u64, usize, usize);
    to_device: "cuMemcpyHtoD_v2" (u64, *const c_void, usize);
    to_host: "cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
    between: "cuMemcpyDtoD_v2" (u64, u64, usize);
    to_device_async: "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, usize);
    to_host_async: "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, usize);
    set_bytes: "cuMemsetD8_v2" (u64, u8, usize);
    set_words_pitched_async: "cuMemsetD2D32Async" (u64, usize, u32, usize, usize, usize);
    stream_create: "cuStreamCreate" (*mut usize, c_uint);
    stream_destroy: "cuStreamDestroy_v2" (usize);
    stream_sync: "cuStreamSynchronize" (usize);
    stream_query: "cuStreamQuery" (usize);
    stream_wait: "cuStreamWaitEvent" (usize, usize, c_uint);
    launch_host: "cuLaunchHostFunc" (usize, unsafe extern "C" fn(*mut c_void), *mut c_void);
    event_create: "cuEventCreate" (*mut usize, c_uint);
    event_destroy: "cuEventDestroy_v2" (usize);
    event_record: "cuEventRecord" (usize, usize);
    event_query: "cuEventQuery" (usize);
    event_sync: "cuEventSynchronize" (usize);
    event_elapsed: "cuEventElapsedTime" (*mut f32, usize, usize);
}

/// Methods that pass numbers and get at most one value back.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self, $($argument: $type),*) -> Result<plain!(@type $($result)?), Code> {
            plain!(@body self $name ($($argument),*) $($result)?)
        }
    )*};
    (@type) => { () };
    (@type $result:ty) => { $result };
    (@body $self:ident $name:ident ($($argument:ident),*)) => {{
        // SAFETY: numbers only; the driver checks every handle and address that it is given.
        check(unsafe { ($self.$name)($($argument),*) })
    }};
    (@body $self:ident $name:ident ($($argument:ident),*) $result:ty) => {{
        let mut value = <$result>::default();
        // SAFETY: numbers, and a place for the result that lives through the call.
        check(unsafe { ($self.$name)(&raw mut value, $($argument),*) })?;
        Ok(value)
    }};
}

impl Driver {
    plain! {
        init(flags: c_uint);
        device_count() -> c_int;
        device_get(ordinal: c_int) -> c_int;
        /// The handle of the device's primary context.
        primary_retain(device: c_int) -> usize;
        primary_release(device: c_int);
        context_create(flags: c_uint, device: c_int) -> usize;
        context_destroy(context: usize);
        context_current() -> usize;
        context_set(context: usize);
        context_push(context: usize);
        context_pop() -> usize;
        context_device() -> c_int;
        context_sync();
        mem_alloc(bytes: usize) -> u64;
        mem_alloc_managed(bytes: usize, flags: c_uint) -> u64;
        mem_free(address: u64);
        between(to: u64, from: u64, bytes: usize);
        set_bytes(address: u64, value: u8, count: usize);
        /// `pitch` in bytes, `width` in words.
        set_words_pitched_async(address: u64, pitch: usize, value: u32, width: usize, height: usize, stream: usize);
        stream_create(flags: c_uint) -> usize;
        stream_destroy(stream: usize);
        stream_sync(stream: usize);
        stream_query(stream: usize);
        stream_wait(stream: usize, event: usize, flags: c_uint);
        event_create(flags: c_uint) -> usize;
        event_destroy(event: usize);
        event_record(event: usize, stream: usize);
        event_query(event: usize);
        event_sync(event: usize);
        /// Milliseconds from one event to another.
        event_elapsed(start: usize, end: usize) -> f32;
    }

    /// Copies host bytes to device memory.
    pub fn to_device(&self, to: u64, from: &[u8]) -> Result<(), Code> {
        // SAFETY: the host end is a slice of that length; the driver checks the device end.
        check(unsafe { (self.to_device)(to, from.as_ptr().cast(), from.len()) })
    }

    /// Copies device memory to host bytes.
    pub fn to_host(&self, to: &mut [u8], from: u64) -> Result<(), Code> {
        // SAFETY: the host end is a slice of that length; the driver checks the device end.
        check(unsafe { (self.to_host)(to.as_mut_ptr().cast(), from, to.len()) })
    }

    /// Copies between any two addresses that the driver can tell apart by itself.
    ///
    /// # Safety
    /// An end that is not memory of the driver's is host memory valid for `bytes`.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        check(unsafe { (self.copy)(to, from, bytes) })
    }

    /// Copies in a stream between any two addresses that the driver can tell apart by itself.
    ///
    /// # Safety
    /// An end that is not memory of the driver's is host memory valid for `bytes` until the stream has passed the copy.
    pub unsafe fn copy_async(&self, to: u64, from: u64, bytes: usize, stream: usize) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        check(unsafe { (self.copy_async)(to, from, bytes, stream) })
    }

    /// Copies host bytes to device memory in a stream.
    ///
    /// # Safety
    /// `from` stays valid and unchanged until the stream has passed the copy.
    pub unsafe fn to_device_async(&self, to: u64, from: *const u8, bytes: usize, stream: usize) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        check(unsafe { (self.to_device_async)(to, from.cast(), bytes, stream) })
    }

    /// Copies device memory to host bytes in a stream.
    ///
    /// # Safety
    /// `to` stays valid and untouched until the stream has passed the copy.
    pub unsafe fn to_host_async(&self, to: *mut u8, from: u64, bytes: usize, stream: usize) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        check(unsafe { (self.to_host_async)(to.cast(), from, bytes, stream) })
    }

    /// Pinned host memory: its address.
    pub fn host_alloc(&self, bytes: usize, flags: c_uint) -> Result<*mut u8, Code> {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: a place for the result that lives through the call.
        check(unsafe { (self.host_alloc)(&raw mut pointer, bytes, flags) })?;
        Ok(pointer.cast())
    }

    /// Frees pinned host memory.
    ///
    /// # Safety
    /// Nothing uses the memory any more.
    pub unsafe fn host_free(&self, pointer: *mut u8) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        check(unsafe { (self.host_free)(pointer.cast()) })
    }

    /// Registers host memory.
    ///
    /// # Safety
    /// The memory stays mapped until it is unregistered.
    pub unsafe fn host_register(&self, pointer: *mut u8, bytes: usize, flags: c_uint) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        check(unsafe { (self.host_register)(pointer.cast(), bytes, flags) })
    }

    /// Ends a registration.
    pub fn host_unregister(&self, pointer: *mut u8) -> Result<(), Code> {
        // SAFETY: the driver only looks the address up.
        check(unsafe { (self.host_unregister)(pointer.cast()) })
    }

    /// Start and size of the allocation that holds an address.
    pub fn address_range(&self, address: u64) -> Result<(u64, usize), Code> {
        let (mut base, mut size) = (0, 0);
        // SAFETY: places for the results that live through the call.
        check(unsafe { (self.address_range)(&raw mut base, &raw mut size, address) })?;
        Ok((base, size))
    }

    /// One attribute of an address, of those that are at most eight bytes long; shorter ones are zero-extended.
    pub fn pointer_attribute(&self, attribute: c_int, address: u64) -> Result<u64, Code> {
        // The two tokens of attribute 5 take sixteen bytes.
        if attribute == 5 {
            return Err(1);
        }
        let mut value = 0_u64;
        // SAFETY: eight zeroed bytes that live through the call, and no attribute but that one is longer.
        check(unsafe { (self.pointer_attribute)((&raw mut value).cast(), attribute, address) })?;
        Ok(value)
    }

    /// Runs a function on a stream, in its order.
    ///
    /// # Safety
    /// `function` may be called with `data` from another thread until the stream has passed it.
    pub unsafe fn launch_host(&self, stream: usize, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> Result<(), Code> {
        // SAFETY: this function's own contract.
        check(unsafe { (self.launch_host)(stream, function, data) })
    }
}
