//! libcufile's functions, as cufile.h of CUDA 12 and 13 declares them. Codes stay integers.

use std::ffi::{c_int, c_void};

use crate::common::library::call_table;

/// `CUfileError_t`: libcufile's own code, and the CUDA driver's beside it where the own one is [`super::codes::CUDA_DRIVER_ERROR`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    pub own: c_int,
    pub cuda: c_int,
}

/// `CUfileDescr_t` for a Linux descriptor.
#[repr(C)]
pub struct Descriptor {
    pub kind: c_int,
    /// A union of an int and a pointer.
    pub fd: Fd,
    pub operations: *const c_void,
}

#[repr(C)]
pub union Fd {
    pub fd: c_int,
    pub pointer: *mut c_void,
}

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
pub const OPAQUE_FD: c_int = 1;

pub type File = *mut c_void;

call_table! {
    /// The functions that are used here.
    pub struct Calls {
        fn cuFileDriverOpen() -> Status;
        fn cuFileHandleRegister(*mut File, *mut Descriptor) -> Status;
        fn cuFileHandleDeregister(File);
        fn cuFileBufRegister(*const c_void, usize, c_int) -> Status;
        fn cuFileBufDeregister(*const c_void) -> Status;
        fn cuFileRead(File, *mut c_void, usize, i64, i64) -> isize;
        fn cuFileWrite(File, *const c_void, usize, i64, i64) -> isize;
        optional fn cuFileDriverClose_v2() -> Status;
        optional fn cuFileDriverClose() -> Status;
        optional fn cuFileGetVersion(*mut c_int) -> Status;
        optional fn cuFileGetBARSizeInKB(c_int, *mut usize) -> Status;
    }
}

const _: () = assert!(size_of::<Status>() == 8 && size_of::<Descriptor>() == 24);
