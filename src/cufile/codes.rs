//! The one decoder of libcufile's three ways to say no: minus one with errno, minus a code of its own (5001 …), and a status with the CUDA
//! driver's code beside it. Names and numbers are those of cufile.h.

use super::calls::Status;
use crate::common::transport::Moved;

pub const CUDA_DRIVER_ERROR: i32 = 5011;
pub const MEMORY_TYPE_INVALID: i32 = 5013;
pub const INVALID_MAPPING_SIZE: i32 = 5016;
pub const HANDLE_NOT_REGISTERED: i32 = 5027;
pub const INTERNAL_ERROR: i32 = 5030;
pub const PINNING_FAILED: i32 = 5036;
pub const BATCH_FULL: i32 = 5037;
pub const ASYNC_NOT_SUPPORTED: i32 = 5038;

/// Name and what to do, by code; the codes that nobody can do anything about have only a name.
const CODES: &[(i32, &str, &str)] = &[
    (
        5001,
        "DRIVER_NOT_INITIALIZED",
        "nvidia-fs is not loaded and compat mode is off: load it (modprobe nvidia-fs), or allow_compat_mode=true in cufile.json",
    ),
    (5002, "DRIVER_INVALID_PROPS", "check cufile.json"),
    (5003, "DRIVER_UNSUPPORTED_LIMIT", "check the limits in cufile.json"),
    (5004, "DRIVER_VERSION_MISMATCH", "nvidia-fs and libcufile are of different releases: update the older"),
    (5005, "DRIVER_VERSION_READ_ERROR", "reload nvidia-fs"),
    (5006, "DRIVER_CLOSING", ""),
    (5007, "PLATFORM_NOT_SUPPORTED", "run gdscheck -p"),
    (
        5008,
        "IO_NOT_SUPPORTED",
        "GPUDirect Storage cannot serve this file: run gdscheck -p for the file systems it can, or use gpu_io=posix",
    ),
    (5009, "DEVICE_NOT_SUPPORTED", "this GPU has no GPUDirect Storage: use gpu_io=posix"),
    (5010, "NVFS_DRIVER_ERROR", "see dmesg for nvidia-fs"),
    (5011, "CUDA_DRIVER_ERROR", ""),
    (5012, "CUDA_POINTER_INVALID", ""),
    (5013, "CUDA_MEMORY_TYPE_INVALID", "use gpu_mem=device"),
    (5014, "CUDA_POINTER_RANGE_ERROR", ""),
    (5015, "CUDA_CONTEXT_MISMATCH", ""),
    (5016, "INVALID_MAPPING_SIZE", "more than can be pinned: lower iodepth or the block size, or use gpu_register=0"),
    (5017, "INVALID_MAPPING_RANGE", ""),
    (5018, "INVALID_FILE_TYPE", "use a regular file or a block device"),
    (5019, "INVALID_FILE_OPEN_FLAG", "use direct=1"),
    (5020, "DIO_NOT_SET", "use direct=1"),
    (5022, "INVALID_VALUE", "sizes and offsets must lie inside the buffer and the file"),
    (5023, "MEMORY_ALREADY_REGISTERED", ""),
    (5024, "MEMORY_NOT_REGISTERED", ""),
    (5025, "PERMISSION_DENIED", "check the permissions of the file and of /dev/nvidia-fs*"),
    (5026, "DRIVER_ALREADY_OPEN", ""),
    (5027, "HANDLE_NOT_REGISTERED", ""),
    (5028, "HANDLE_ALREADY_REGISTERED", ""),
    (5029, "DEVICE_NOT_FOUND", "check nvidia-smi"),
    (5030, "INTERNAL_ERROR", "see cufile.log"),
    (5031, "GETNEWFD_FAILED", "raise the limit of open files (ulimit -n)"),
    (5033, "NVFS_SETUP_ERROR", "see dmesg for nvidia-fs"),
    (5034, "IO_DISABLED", "cufile.json disables GPUDirect Storage for this file"),
    (5035, "BATCH_SUBMIT_FAILED", ""),
    (
        5036,
        "GPU_MEMORY_PINNING_FAILED",
        "the GPU's BAR1 has no room: lower iodepth or the block size, run fewer jobs, or use gpu_register=0",
    ),
    (5037, "BATCH_FULL", ""),
    (5038, "ASYNC_NOT_SUPPORTED", "use gpu_mode=batch or sync"),
    (5039, "INTERNAL_BATCH_SETUP_ERROR", ""),
    (5040, "INTERNAL_BATCH_SUBMIT_ERROR", ""),
    (5041, "INTERNAL_BATCH_GETSTATUS_ERROR", ""),
    (5042, "INTERNAL_BATCH_CANCEL_ERROR", ""),
    (5043, "NOMEM_ERROR", "lower iodepth or the block size"),
    (5044, "IO_ERROR", "see dmesg for the device and cufile.log"),
    (5045, "INTERNAL_BUF_REGISTER_ERROR", "use gpu_register=0"),
    (5046, "HASH_OPR_ERROR", ""),
    (5047, "INVALID_CONTEXT_ERROR", ""),
    (5048, "NVFS_INTERNAL_DRIVER_ERROR", "see dmesg for nvidia-fs"),
    (5049, "BATCH_NOCOMPAT_ERROR", "allow_compat_mode=true in cufile.json, or load nvidia-fs"),
    (5050, "IO_MAX_ERROR", ""),
];

/// What a read or write that returned `returned` means: bytes, an errno, or an own code. `errno` gives the thread's after the call.
#[inline]
pub fn transferred(returned: isize, errno: impl FnOnce() -> i32) -> Result<usize, Failure> {
    match returned {
        0.. => Ok(returned as usize),
        // In compat mode the library leaves codes of its own in errno, too.
        -1 => Err(match errno() {
            0 => Failure::Errno(libc::EIO),
            errno => Failure::of_code(errno),
        }),
        code => Err(Failure::of_returned(code)),
    }
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Errno(i32),
    /// One of libcufile's codes.
    Own(i32),
    /// A code of the CUDA driver.
    Cuda(i32),
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
            Self::Own(code) | Self::Cuda(code) => Moved::failed(self.errno(), code),
        }
    }

    /// A positive number that libcufile gave: its own from 5000 on, else an errno.
    fn of_code(code: i32) -> Self {
        if code > 5000 { Self::Own(code) } else { Self::Errno(code) }
    }

    /// The failure in a status; `None` for success.
    pub fn of(status: Status) -> Option<Self> {
        match status {
            Status { own: 0, .. } => None,
            Status { own: CUDA_DRIVER_ERROR, cuda } if cuda != 0 => Some(Self::Cuda(cuda)),
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
            Self::Own(_) | Self::Cuda(_) => libc::EIO,
        }
    }

    /// Name, number and what to do; `cuda` names a CUDA code.
    pub fn explain(self, cuda: impl Fn(i32) -> String) -> String {
        match self {
            Self::Errno(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
            Self::Cuda(code) => format!("CU_FILE_CUDA_DRIVER_ERROR ({CUDA_DRIVER_ERROR}) with {}", cuda(code)),
            Self::Own(code) => match CODES.iter().find(|(number, ..)| *number == code) {
                Some((_, name, "")) => format!("CU_FILE_{name} ({code})"),
                Some((_, name, advice)) => format!("CU_FILE_{name} ({code}); {advice}"),
                None => format!("cuFile error {code}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_say_no_is_told_apart() {
        assert_eq!(transferred(4096, || 5), Ok(4096));
        assert_eq!(transferred(0, || 5), Ok(0));
        assert_eq!(transferred(-1, || libc::ENOSPC), Err(Failure::Errno(libc::ENOSPC)));
        assert_eq!(transferred(-1, || 0), Err(Failure::Errno(libc::EIO)));
        assert_eq!(transferred(-1, || 5017), Err(Failure::Own(5017)));
        assert_eq!(transferred(-5008, || 0), Err(Failure::Own(5008)));
        assert_eq!(transferred(-22, || 0), Err(Failure::Errno(22)));
        assert_eq!(transferred(isize::MIN + 1, || 0), Err(Failure::Own(INTERNAL_ERROR)));
        assert_eq!(Failure::of(Status { own: 0, cuda: 5 }), None);
        assert_eq!(Failure::of(Status { own: 5011, cuda: 2 }), Some(Failure::Cuda(2)));
        assert_eq!(Failure::of(Status { own: -5030, cuda: 0 }), Some(Failure::Own(5030)));
    }

    #[test]
    fn a_code_is_named_and_an_unknown_one_stays_a_number() {
        let explain = |f: Failure| f.explain(|code| format!("CUDA {code}"));
        assert_eq!(explain(Failure::Own(5020)), "CU_FILE_DIO_NOT_SET (5020); use direct=1");
        assert_eq!(explain(Failure::Own(5012)), "CU_FILE_CUDA_POINTER_INVALID (5012)");
        assert_eq!(explain(Failure::Own(5999)), "cuFile error 5999");
        assert_eq!(explain(Failure::Cuda(201)), "CU_FILE_CUDA_DRIVER_ERROR (5011) with CUDA 201");
        assert!(explain(Failure::Own(5036)).contains("gpu_register=0"));
        assert!(CODES.is_sorted_by_key(|c| c.0));
    }

    #[test]
    fn fio_gets_an_errno_for_each() {
        assert_eq!(Failure::Errno(libc::ENOSPC).errno(), libc::ENOSPC);
        assert_eq!(Failure::Own(5008).errno(), libc::ENOTSUP);
        assert_eq!(Failure::Cuda(2).errno(), libc::EIO);
    }
}
