//! Names and descriptions of the codes.

use std::ffi::{CStr, c_char};

use sim_gpu::abi::Code;

const NAMES: &[(Code, &CStr, &CStr)] = &[
    (0, c"hipSuccess", c"no error"),
    (1, c"hipErrorInvalidValue", c"invalid argument"),
    (2, c"hipErrorOutOfMemory", c"out of memory"),
    (3, c"hipErrorNotInitialized", c"initialization error"),
    (100, c"hipErrorNoDevice", c"no ROCm-capable device is detected"),
    (101, c"hipErrorInvalidDevice", c"invalid device ordinal"),
    (201, c"hipErrorInvalidContext", c"invalid device context"),
    (400, c"hipErrorInvalidHandle", c"invalid resource handle"),
    (500, c"hipErrorNotFound", c"named symbol not found"),
    (600, c"hipErrorNotReady", c"device not ready"),
    (700, c"hipErrorIllegalAddress", c"an illegal memory access was encountered"),
    (712, c"hipErrorHostMemoryAlreadyRegistered", c"part or all of the requested memory range is already mapped"),
    (719, c"hipErrorLaunchFailure", c"unspecified launch failure"),
    (801, c"hipErrorNotSupported", c"operation not supported"),
    (999, c"hipErrorUnknown", c"unknown error"),
];

/// A code that is not known is the unknown error, as in the real runtime.
fn find(code: Code) -> &'static (Code, &'static CStr, &'static CStr) {
    NAMES.iter().find(|(known, ..)| *known == code).unwrap_or(&NAMES[NAMES.len() - 1])
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(code: Code) -> *const c_char {
    find(code).1.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorString(code: Code) -> *const c_char {
    find(code).2.as_ptr()
}
