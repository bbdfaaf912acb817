//! libgpuio: an external ioengine for fio. This file is what the library exports, and nothing more.

mod common;
mod cufile;
mod engine;
mod faults;
mod fio;
mod gusli;
mod hipfile;
mod host;
mod nixl;

use std::ffi::c_void;

use fio::{Entry, OpsTable};

/// The engine's own table, which no exported name leads to.
static GPUIO: OpsTable = OpsTable::new();

/// What fio finds where a symlink of this name serves job files written for fio's own engine (`ioengine=libcufile`).
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "fio looks the engine's table up by the engine's name")]
pub static libcufile: OpsTable = OpsTable::new();

/// As [`libcufile`], for `ioengine=libhipfile`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "fio looks the engine's table up by the engine's name")]
pub static libhipfile: OpsTable = OpsTable::new();

static ENTRIES: [Entry; 3] = [
    Entry { name: c"gpuio", table: &GPUIO },
    Entry { name: c"libcufile", table: &libcufile },
    Entry { name: c"libhipfile", table: &libhipfile },
];

/// Gives fio the engine's table: the same address at every call.
///
/// # Safety
/// `ops` is null or points to a pointer, as fio's `get_ioengine_t` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn get_ioengine(ops: *mut *mut c_void) {
    fio::fill::<engine::Gpuio>(&ENTRIES);
    // SAFETY: as promised by the caller.
    if let Some(ops) = unsafe { ops.as_mut() } {
        *ops = GPUIO.address();
    }
}

/// fio reads `libcufile` and `libhipfile` without calling anything, so they are filled when the library is loaded. In a process that is
/// not fio this looks up one name and is done.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = {
    extern "C" fn loaded() {
        fio::fill::<engine::Gpuio>(&ENTRIES);
    }
    loaded
};
