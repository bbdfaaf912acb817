//! The functions that only libcufile has.

use std::ffi::c_int;

use sim_common::cufile::Status;
use sim_gpufile::api::{bar, store, version_number};
use sim_gpufile::{call, enter, status};

use crate::CUFILE;

const INVALID_VALUE: i32 = 5022;

/// As CUDA 11 called it.
#[unsafe(no_mangle)]
extern "C" fn cuFileDriverClose() -> Status {
    enter(&CUFILE);
    sim_gpufile::api::driver_close()
}

/// # Safety
/// `version` may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetVersion(version: *mut c_int) -> Status {
    enter(&CUFILE);
    // SAFETY: this function's own contract.
    unsafe { store(version, version_number()) }.err().unwrap_or_default()
}

/// # Safety
/// `size` may be written, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetBARSizeInKB(_device: c_int, size: *mut usize) -> Status {
    call("GetBARSizeInKB", |_| {
        let kib = usize::try_from(bar() >> 10).map_err(|_| status(5030))?;
        // SAFETY: this function's own contract.
        unsafe { store(size, kib) }
    })
}

/// Sizes in KiB and counts; only the right number of classes is answered.
///
/// # Safety
/// Both arrays have room for `classes` numbers, or are null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetParameterPosixPoolSlabArray(sizes: *mut usize, counts: *mut usize, classes: c_int) -> Status {
    call("GetParameterPosixPoolSlabArray", |_| {
        if sizes.is_null() || counts.is_null() || usize::try_from(classes) != Ok(sim_gpufile::slabs::classes().len()) {
            return Err(status(INVALID_VALUE));
        }
        for (index, (kib, count)) in sim_gpufile::slabs::classes().into_iter().enumerate() {
            // SAFETY: not null, and `index` is below `classes`, for which there is room by this function's contract.
            unsafe {
                sizes.add(index).write(kib);
                counts.add(index).write(count);
            }
        }
        Ok(())
    })
}
