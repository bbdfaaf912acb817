//! The functions that only libhipfile has, as hipfile.h declares them, and the environment that it reads.

use std::ffi::c_uint;

use crate::common::gpufile::calls::Status;
use crate::common::library::call_table;

call_table! {
    pub struct Hipfile {
        optional fn hipFileGetVersion(*mut c_uint, *mut c_uint, *mut c_uint) -> Status;
    }
}

impl Hipfile {
    /// Major, minor and patch number.
    pub fn numbers(&self) -> Option<[c_uint; 3]> {
        let [mut major, mut minor, mut patch] = [0; 3];
        // SAFETY: places for three ints.
        let told = self.hipFileGetVersion.is_some_and(|call| unsafe { call(&mut major, &mut minor, &mut patch) }.own == 0);
        told.then_some([major, minor, patch])
    }
}

/// Tells a libhipfile that is loaded next not to fall back to host memory.
pub fn forbid_compat_mode() {
    // SAFETY: std's lock keeps this library's own readers away, fio reads no environment once its jobs run, the HIP runtime has read its own
    // when it was initialised, which is over, and libhipfile is not loaded yet. No other thread that reads it is known.
    unsafe { std::env::set_var(super::ALLOW_COMPAT_MODE, "false") };
}
