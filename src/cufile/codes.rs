//! libcufile's codes, with the names of cufile.h.

/// Name and what to do, by code; the codes that nobody can do anything about have only a name.
pub const CODES: &[(i32, &str, &str)] = &[
    (
        5001,
        "CU_FILE_DRIVER_NOT_INITIALIZED",
        "nvidia-fs is not loaded and compat mode is off: load it (modprobe nvidia-fs), or allow_compat_mode=true in cufile.json",
    ),
    (5002, "CU_FILE_DRIVER_INVALID_PROPS", "check cufile.json"),
    (5003, "CU_FILE_DRIVER_UNSUPPORTED_LIMIT", "check the limits in cufile.json"),
    (5004, "CU_FILE_DRIVER_VERSION_MISMATCH", "nvidia-fs and libcufile are of different releases: update the older"),
    (5005, "CU_FILE_DRIVER_VERSION_READ_ERROR", "reload nvidia-fs"),
    (5006, "CU_FILE_DRIVER_CLOSING", ""),
    (5007, "CU_FILE_PLATFORM_NOT_SUPPORTED", "run gdscheck -p"),
    (
        5008,
        "CU_FILE_IO_NOT_SUPPORTED",
        "GPUDirect Storage cannot serve this file: run gdscheck -p for the file systems it can, or use gpu_io=posix",
    ),
    (5009, "CU_FILE_DEVICE_NOT_SUPPORTED", "this GPU has no GPUDirect Storage: use gpu_io=posix"),
    (5010, "CU_FILE_NVFS_DRIVER_ERROR", "see dmesg for nvidia-fs"),
    (5011, "CU_FILE_CUDA_DRIVER_ERROR", ""),
    (5012, "CU_FILE_CUDA_POINTER_INVALID", ""),
    (5013, "CU_FILE_CUDA_MEMORY_TYPE_INVALID", "use gpu_mem=device"),
    (5014, "CU_FILE_CUDA_POINTER_RANGE_ERROR", ""),
    (5015, "CU_FILE_CUDA_CONTEXT_MISMATCH", ""),
    (5016, "CU_FILE_INVALID_MAPPING_SIZE", "more than can be pinned: lower iodepth or the block size, or use gpu_register=0"),
    (5017, "CU_FILE_INVALID_MAPPING_RANGE", ""),
    (5018, "CU_FILE_INVALID_FILE_TYPE", "use a regular file or a block device"),
    (5019, "CU_FILE_INVALID_FILE_OPEN_FLAG", "use direct=1"),
    (5020, "CU_FILE_DIO_NOT_SET", "use direct=1"),
    (5022, "CU_FILE_INVALID_VALUE", "sizes and offsets must lie inside the buffer and the file"),
    (5023, "CU_FILE_MEMORY_ALREADY_REGISTERED", ""),
    (5024, "CU_FILE_MEMORY_NOT_REGISTERED", ""),
    (5025, "CU_FILE_PERMISSION_DENIED", "check the permissions of the file and of /dev/nvidia-fs*"),
    (5026, "CU_FILE_DRIVER_ALREADY_OPEN", ""),
    (5027, "CU_FILE_HANDLE_NOT_REGISTERED", ""),
    (5028, "CU_FILE_HANDLE_ALREADY_REGISTERED", ""),
    (5029, "CU_FILE_DEVICE_NOT_FOUND", "check nvidia-smi"),
    (5030, "CU_FILE_INTERNAL_ERROR", "see cufile.log"),
    (5031, "CU_FILE_GETNEWFD_FAILED", "raise the limit of open files (ulimit -n)"),
    (5033, "CU_FILE_NVFS_SETUP_ERROR", "see dmesg for nvidia-fs"),
    (5034, "CU_FILE_IO_DISABLED", "cufile.json disables GPUDirect Storage for this file"),
    (5035, "CU_FILE_BATCH_SUBMIT_FAILED", ""),
    (
        5036,
        "CU_FILE_GPU_MEMORY_PINNING_FAILED",
        "the GPU's BAR1 has no room: lower iodepth or the block size, run fewer jobs, or use gpu_register=0",
    ),
    (5037, "CU_FILE_BATCH_FULL", ""),
    (5038, "CU_FILE_ASYNC_NOT_SUPPORTED", "use gpu_mode=batch or sync"),
    (5039, "CU_FILE_INTERNAL_BATCH_SETUP_ERROR", ""),
    (5040, "CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR", ""),
    (5041, "CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR", ""),
    (5042, "CU_FILE_INTERNAL_BATCH_CANCEL_ERROR", ""),
    (5043, "CU_FILE_NOMEM_ERROR", "lower iodepth or the block size"),
    (5044, "CU_FILE_IO_ERROR", "see dmesg for the device and cufile.log"),
    (5045, "CU_FILE_INTERNAL_BUF_REGISTER_ERROR", "use gpu_register=0"),
    (5046, "CU_FILE_HASH_OPR_ERROR", ""),
    (5047, "CU_FILE_INVALID_CONTEXT_ERROR", ""),
    (5048, "CU_FILE_NVFS_INTERNAL_DRIVER_ERROR", "see dmesg for nvidia-fs"),
    (5049, "CU_FILE_BATCH_NOCOMPAT_ERROR", "allow_compat_mode=true in cufile.json, or load nvidia-fs"),
    (5050, "CU_FILE_IO_MAX_ERROR", ""),
];

#[cfg(test)]
mod tests {
    use super::super::Cufile;
    use super::*;
    use crate::common::gpufile::calls::Status;
    use crate::common::gpufile::codes::{Failure, INTERNAL_ERROR, transferred};

    #[test]
    fn each_way_to_say_no_is_told_apart() {
        let transferred = |returned, errno| transferred::<Cufile>(returned, || errno);
        assert_eq!(transferred(4096, 5), Ok(4096));
        assert_eq!(transferred(0, 5), Ok(0));
        assert_eq!(transferred(-1, libc::ENOSPC), Err(Failure::Errno(libc::ENOSPC)));
        assert_eq!(transferred(-1, 0), Err(Failure::Errno(libc::EIO)));
        assert_eq!(transferred(-1, 5017), Err(Failure::Own(5017)));
        assert_eq!(transferred(-5008, 0), Err(Failure::Own(5008)));
        assert_eq!(transferred(-22, 0), Err(Failure::Errno(22)));
        assert_eq!(transferred(isize::MIN + 1, 0), Err(Failure::Own(INTERNAL_ERROR)));
        assert_eq!(Failure::of(Status { own: 0, runtime: 5 }), None);
        assert_eq!(Failure::of(Status { own: 5011, runtime: 2 }), Some(Failure::Runtime(2)));
        assert_eq!(Failure::of(Status { own: -5030, runtime: 0 }), Some(Failure::Own(5030)));
    }

    #[test]
    fn a_code_is_named_and_an_unknown_one_stays_a_number() {
        let explain = |f: Failure| f.explain::<Cufile>(|code| format!("CUDA {code}"));
        assert_eq!(explain(Failure::Own(5020)), "CU_FILE_DIO_NOT_SET (5020); use direct=1");
        assert_eq!(explain(Failure::Own(5012)), "CU_FILE_CUDA_POINTER_INVALID (5012)");
        assert_eq!(explain(Failure::Own(5999)), "cuFile error 5999");
        assert_eq!(explain(Failure::Runtime(201)), "CU_FILE_CUDA_DRIVER_ERROR (5011) with CUDA 201");
        assert!(explain(Failure::Own(5036)).contains("gpu_register=0"));
        assert!(CODES.is_sorted_by_key(|c| c.0));
    }

    #[test]
    fn fio_gets_an_errno_for_each() {
        assert_eq!(Failure::Errno(libc::ENOSPC).errno(), libc::ENOSPC);
        assert_eq!(Failure::Own(5008).errno(), libc::ENOTSUP);
        assert_eq!(Failure::Runtime(2).errno(), libc::EIO);
    }
}
