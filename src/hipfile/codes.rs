//! libhipfile's codes, with the names of hipfile.h.

/// Name and what to do, by code; the codes that nobody can do anything about have only a name.
pub const CODES: &[(i32, &str, &str)] = &[
    (5001, "hipFileDriverNotInitialized", "check that amdgpu is loaded and that you may use /dev/kfd (groups render and video)"),
    (5002, "hipFileDriverInvalidProps", ""),
    (5003, "hipFileDriverUnsupportedLimit", ""),
    (5004, "hipFileDriverVersionMismatch", "libhipfile, the HIP runtime and amdgpu are of different releases: update the older"),
    (5005, "hipFileDriverVersionReadError", ""),
    (5006, "hipFileDriverClosing", ""),
    (5007, "hipFilePlatformNotSupported", "use gpu_io=posix"),
    (5008, "hipFileIONotSupported", "use ext4 (data=ordered), xfs or a block device, or gpu_io=posix"),
    (5009, "hipFileDeviceNotSupported", "use gpu_io=posix"),
    (5010, "hipFileDriverError", "see dmesg for amdgpu"),
    (5011, "hipFileHipDriverError", ""),
    (5012, "hipFileHipPointerInvalid", ""),
    (5013, "hipFileHipMemoryTypeInvalid", "use gpu_mem=device"),
    (5014, "hipFileHipPointerRangeError", ""),
    (5015, "hipFileHipContextMismatch", ""),
    (5016, "hipFileInvalidMappingSize", "lower iodepth or the block size, or use gpu_register=0"),
    (5017, "hipFileInvalidMappingRange", ""),
    (5018, "hipFileInvalidFileType", "use a regular file or a block device"),
    (5019, "hipFileInvalidFileOpenFlag", "use direct=1"),
    (5020, "hipFileDIONotSet", "use direct=1"),
    (5022, "hipFileInvalidValue", "sizes and offsets must lie inside the buffer and the file"),
    (5023, "hipFileMemoryAlreadyRegistered", ""),
    (5024, "hipFileMemoryNotRegistered", ""),
    (5025, "hipFilePermissionDenied", "check the permissions of the file and of /dev/kfd"),
    (5026, "hipFileDriverAlreadyOpen", ""),
    (5027, "hipFileHandleNotRegistered", ""),
    (5028, "hipFileHandleAlreadyRegistered", ""),
    (5029, "hipFileDeviceNotFound", "check rocminfo"),
    (5030, "hipFileInternalError", "see the system's log for hipFile"),
    (5031, "hipFileGetNewFDFailed", "raise the limit of open files (ulimit -n)"),
    (5033, "hipFileDriverSetupError", "see dmesg for amdgpu"),
    (5034, "hipFileIODisabled", "hipFile's settings disable direct I/O for this file"),
    (5035, "hipFileBatchSubmitFailed", ""),
    (5036, "hipFileGPUMemoryPinningFailed", "lower iodepth or the block size, run fewer jobs, or use gpu_register=0"),
    (5037, "hipFileBatchFull", ""),
    (5038, "hipFileAsyncNotSupported", "use gpu_mode=pool or sync"),
];

#[cfg(test)]
mod tests {
    use super::super::Hipfile;
    use super::*;
    use crate::common::gpufile::codes::{Failure, transferred};

    #[test]
    fn a_code_of_hip_is_told_from_an_errno() {
        let transferred = |returned, errno| transferred::<Hipfile>(returned, || errno);
        assert_eq!(transferred(4096, 0), Ok(4096));
        assert_eq!(transferred(-1, libc::ENOSPC), Err(Failure::Errno(libc::ENOSPC)));
        assert_eq!(transferred(-1, 0), Err(Failure::Runtime(1))); // hipErrorInvalidValue
        assert_eq!(transferred(-5, 0), Err(Failure::Runtime(5)));
        assert_eq!(transferred(-719, libc::EIO), Err(Failure::Runtime(719)));
        assert_eq!(transferred(-5022, 0), Err(Failure::Own(5022)));
    }

    #[test]
    fn a_code_is_named_and_an_unknown_one_stays_a_number() {
        let explain = |f: Failure| f.explain::<Hipfile>(|code| format!("HIP {code}"));
        assert_eq!(explain(Failure::Own(5022)), "hipFileInvalidValue (5022); sizes and offsets must lie inside the buffer and the file");
        assert_eq!(explain(Failure::Own(5999)), "hipFile error 5999");
        assert_eq!(explain(Failure::Runtime(719)), "hipFileHipDriverError (5011) with HIP 719");
        assert!(CODES.is_sorted_by_key(|c| c.0));
    }
}
