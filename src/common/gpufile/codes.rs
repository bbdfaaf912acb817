//! The one decoder of the libraries' three ways to say no: minus one with errno, minus a code of their own (5001 …), and a status with the GPU
//! runtime's code beside it. The own codes have the same numbers in cufile.h and hipfile.h.

use super::Vendor;
use super::calls::Status;
use crate::common::transport::Moved;

pub const RUNTIME_ERROR: i32 = 5011;
pub const MEMORY_TYPE_INVALID: i32 = 5013;
pub const INVALID_MAPPING_SIZE: i32 = 5016;
pub const HANDLE_NOT_REGISTERED: i32 = 5027;
pub const HANDLE_ALREADY_REGISTERED: i32 = 5028;
pub const INTERNAL_ERROR: i32 = 5030;
pub const PINNING_FAILED: i32 = 5036;
pub const BATCH_FULL: i32 = 5037;
pub const ASYNC_NOT_SUPPORTED: i32 = 5038;
/// No library's code: the engine's own, for an operation that gpu_require_direct=1 forbids.
pub const MISALIGNED: i32 = -4096;

/// The engine's own, too, for an asynchronous call that has failed: a stream has no errno to tell why.
pub const UNTOLD: i32 = -4097;

/// What a read or write that returned `returned` means: bytes, an errno, an own code, or the runtime's. `errno` gives the thread's after the
/// call, which was 0 before it.
#[inline]
pub fn transferred<V: Vendor>(returned: isize, errno: impl FnOnce() -> i32) -> Result<usize, Failure> {
    match returned {
        0.. => Ok(returned as usize),
        // In compat mode libcufile leaves codes of its own in errno, too.
        -1 => Err(match errno() {
            0 => V::small(1),
            errno => Failure::of_code(errno),
        }),
        code => Err(match Failure::of_returned(code) {
            Failure::Errno(small) => V::small(small),
            failure => failure,
        }),
    }
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Errno(i32),
    /// One of the library's codes.
    Own(i32),
    /// A code of the GPU's runtime.
    Runtime(i32),
}

impl Failure {
    /// A negative number that stands where bytes would.
    pub fn of_returned(code: isize) -> Self {
        code.checked_neg().and_then(|code| i32::try_from(code).ok()).map_or(Self::Own(INTERNAL_ERROR), Self::of_code)
    }

    /// How an operation that failed this way ends.
    pub fn moved(self) -> Moved {
        match self {
            Self::Errno(errno) => Moved::failed(errno, 0),
            Self::Own(code) | Self::Runtime(code) => Moved::failed(self.errno(), code),
        }
    }

    /// A positive number that the library gave: its own from 5000 on, else an errno.
    fn of_code(code: i32) -> Self {
        if code > 5000 { Self::Own(code) } else { Self::Errno(code) }
    }

    /// The failure in a status; `None` for success.
    pub fn of(status: Status) -> Option<Self> {
        match status {
            Status { own: 0, .. } => None,
            Status { own: RUNTIME_ERROR, runtime } if runtime != 0 => Some(Self::Runtime(runtime)),
            // Some versions give minus the code, as from a read.
            Status { own, .. } => Some(Self::of_code(own.saturating_abs())),
        }
    }

    /// The errno that fio gets.
    pub fn errno(self) -> i32 {
        match self {
            Self::Errno(errno) => errno,
            Self::Own(5025) => libc::EACCES,
            Self::Own(5008 | 5038) => libc::ENOTSUP,
            Self::Own(5016 | 5036 | 5043) => libc::ENOMEM,
            Self::Own(_) | Self::Runtime(_) => libc::EIO,
        }
    }

    /// Name, number and what to do; `runtime` names a code of the GPU's runtime.
    pub fn explain<V: Vendor>(self, runtime: impl Fn(i32) -> String) -> String {
        let name = |code| V::CODES.iter().find(|(number, ..)| *number == code);
        match self {
            Self::Errno(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
            Self::Runtime(code) => {
                let own = name(RUNTIME_ERROR).map_or("", |(_, own, _)| own);
                format!("{own} ({RUNTIME_ERROR}) with {}", runtime(code))
            }
            Self::Own(code) => match name(code) {
                Some((_, own, "")) => format!("{own} ({code})"),
                Some((_, own, advice)) => format!("{own} ({code}); {advice}"),
                None => format!("{} error {code}", V::PREFIX),
            },
        }
    }
}
