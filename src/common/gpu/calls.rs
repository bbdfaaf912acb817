//! The functions that the runtimes have alike, each called and checked, nothing more. On LP64 the vendors declare each of them the same but
//! for its name, and for whether a device's address is a pointer or a number of 64 bits.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::common::device::{DeviceError, Kind};
use crate::common::library::call_table;
use crate::common::transport::Buffer;

type Status = c_int;

call_table! {
    /// The functions by what they do; [`super::Vendor::FUNCTIONS`] has their names.
    pub struct Calls {
        fn init(c_uint) -> Status;
        fn version(*mut c_int) -> Status;
        fn count(*mut c_int) -> Status;
        fn device(*mut c_int, c_int) -> Status;
        fn device_name(*mut c_char, c_int, c_int) -> Status;
        fn device_address(*mut c_char, c_int, c_int) -> Status;
        fn allocate(*mut usize, usize) -> Status;
        fn free(usize) -> Status;
        fn allocate_managed(*mut usize, usize, c_uint) -> Status;
        fn allocate_pinned(*mut usize, usize, c_uint) -> Status;
        fn free_pinned(usize) -> Status;
        fn copy_in(usize, *const c_void, usize, usize) -> Status;
        fn copy_out(*mut c_void, usize, usize, usize) -> Status;
        fn set_bytes(usize, u8, usize, usize) -> Status;
        fn make_stream(*mut usize, c_uint) -> Status;
        fn finish_stream(usize) -> Status;
        fn ask_stream(usize) -> Status;
        fn destroy_stream(usize) -> Status;
        optional fn pin(usize, usize, c_uint) -> Status;
        optional fn unpin(usize) -> Status;
        optional fn call_from_stream(usize, unsafe extern "C" fn(*mut c_void), *mut c_void) -> Status;
    }
}

/// A stream of a device; any thread may use it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StreamHandle(pub usize);

/// Work on a stream does not wait for the default stream.
const NON_BLOCKING: c_uint = 1;
/// Pinned memory that is so for every context of the process.
const PORTABLE: c_uint = 1;
/// Managed memory that every stream may use.
const ATTACH_GLOBAL: c_uint = 1;
const NOT_READY: Status = 600;
/// `CUDA_ERROR_NOT_SUPPORTED`, `hipErrorNotSupported`.
const NOT_SUPPORTED: Status = 801;

#[inline]
pub fn check(status: Status) -> Result<(), DeviceError> {
    if status == 0 { Ok(()) } else { Err(DeviceError(status)) }
}

impl Calls {
    pub fn init(&self) -> Result<(), DeviceError> {
        // SAFETY: takes a word of flags, which must be 0.
        check(unsafe { (self.init)(0) })
    }

    pub fn version(&self) -> Result<c_int, DeviceError> {
        let mut version = 0;
        // SAFETY: a place for one int.
        check(unsafe { (self.version)(&mut version) }).map(|()| version)
    }

    pub fn count(&self) -> u32 {
        let mut count = 0;
        // SAFETY: a place for one int.
        let status = unsafe { (self.count)(&mut count) };
        if status == 0 { u32::try_from(count).unwrap_or(0) } else { 0 }
    }

    pub fn device(&self, ordinal: u32) -> Result<c_int, DeviceError> {
        let mut device = 0;
        // SAFETY: a place for one int.
        check(unsafe { (self.device)(&mut device, ordinal as c_int) }).map(|()| device)
    }

    pub fn device_name(&self, device: c_int) -> Option<String> {
        text(self.device_name, device)
    }

    /// On PCI.
    pub fn device_address(&self, device: c_int) -> Option<String> {
        text(self.device_address, device)
    }

    pub fn allocate(&self, kind: Kind, bytes: usize) -> Result<usize, DeviceError> {
        let mut address = 0;
        // SAFETY: a place for the address; the device is current in a thread that has entered.
        let status = unsafe {
            match kind {
                Kind::Device => (self.allocate)(&mut address, bytes),
                Kind::Managed => (self.allocate_managed)(&mut address, bytes, ATTACH_GLOBAL),
                Kind::Pinned => (self.allocate_pinned)(&mut address, bytes, 0),
            }
        };
        check(status).map(|()| address)
    }

    pub fn free(&self, kind: Kind, address: usize) {
        // SAFETY: an address that allocate() gave for the same kind, freed once by its owner.
        unsafe {
            match kind {
                Kind::Device | Kind::Managed => (self.free)(address),
                Kind::Pinned => (self.free_pinned)(address),
            }
        };
    }

    pub fn pin(&self, address: usize, bytes: usize) -> Result<(), DeviceError> {
        let Some(pin) = self.pin else { return Err(DeviceError(NOT_SUPPORTED)) };
        // SAFETY: host memory that stays mapped until it is unpinned (see PinnedRange); the runtime checks the range.
        check(unsafe { pin(address, bytes, PORTABLE) })
    }

    pub fn unpin(&self, address: usize) {
        let Some(unpin) = self.unpin else { return };
        // SAFETY: an address that was pinned, given back once by its owner.
        unsafe { unpin(address) };
    }

    pub fn start_copy_in(&self, to: usize, from: Buffer, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: `from` is host memory that lives until the copy is finished (see Buffer); the runtime checks the device's range.
        check(unsafe { (self.copy_in)(to, from.start().cast(), from.len(), stream.0) })
    }

    pub fn start_copy_out(&self, from: usize, to: Buffer, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: as in start_copy_in.
        check(unsafe { (self.copy_out)(to.start().cast(), from, to.len(), stream.0) })
    }

    pub fn start_clearing(&self, address: usize, bytes: usize, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: a range of a device's memory, checked by the runtime.
        check(unsafe { (self.set_bytes)(address, 0, bytes, stream.0) })
    }

    /// A stream of the current device.
    pub fn make_stream(&self) -> Result<StreamHandle, DeviceError> {
        let mut stream = 0;
        // SAFETY: a place for the handle; the device is current.
        check(unsafe { (self.make_stream)(&mut stream, NON_BLOCKING) }).map(|()| StreamHandle(stream))
    }

    /// Waits until all that is on the stream has run.
    pub fn finish_stream(&self, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: a live stream.
        check(unsafe { (self.finish_stream)(stream.0) })
    }

    /// Whether all that is on the stream has run.
    pub fn is_stream_done(&self, stream: StreamHandle) -> Result<bool, DeviceError> {
        // SAFETY: a live stream.
        match unsafe { (self.ask_stream)(stream.0) } {
            0 => Ok(true),
            NOT_READY => Ok(false),
            failed => Err(DeviceError(failed)),
        }
    }

    pub fn destroy_stream(&self, stream: StreamHandle) {
        // SAFETY: made by make_stream(), destroyed once by its owner.
        unsafe { (self.destroy_stream)(stream.0) };
    }

    /// Whether a stream can call a function of ours.
    pub fn can_call_from_streams(&self) -> bool {
        self.call_from_stream.is_some()
    }

    /// Has the stream call `function` when it has run what is on it now.
    ///
    /// # Safety
    /// `function` may be called with `data` from another thread until the stream has come to it.
    pub unsafe fn call_from_stream(
        &self,
        stream: StreamHandle,
        function: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> Result<(), DeviceError> {
        let Some(call) = self.call_from_stream else { return Err(DeviceError(NOT_SUPPORTED)) };
        // SAFETY: a live stream; the rest is this function's own contract.
        check(unsafe { call(stream.0, function, data) })
    }
}

/// A text that the runtime has about a device.
fn text(call: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Status, device: c_int) -> Option<String> {
    let mut raw = [0u8; 256];
    // SAFETY: the buffer is as long as said; the runtime ends the text in NUL.
    let status = unsafe { call(raw.as_mut_ptr().cast(), raw.len() as c_int - 1, device) };
    let text = CStr::from_bytes_until_nul(&raw).ok().and_then(|text| text.to_str().ok());
    text.filter(|text| status == 0 && !text.is_empty()).map(str::to_owned)
}

/// A constant text of the runtime's; none for a null pointer.
///
/// # Safety
/// `text` is null, or a constant that ends in NUL.
pub unsafe fn constant(text: *const c_char) -> Option<String> {
    // SAFETY: not null, and a constant that ends in NUL by this function's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
