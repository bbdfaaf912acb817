//! What the hooks keep of a job between two calls.

use std::ffi::c_void;

use super::engine::{Done, Running};
use super::layout;
use super::unit::{UnitId, Units};

/// What hangs at the job's `io_ops_data`.
pub(super) struct Cell {
    pub running: Box<dyn Running>,
    pub units: Units,
    /// What the last getevents() found, for event() to fetch one by one.
    pub done: Vec<Done>,
    /// Taken by queue() and not started by commit() yet.
    pub queued: Vec<UnitId>,
    /// iomem_alloc() was called and gave none.
    pub without_memory: bool,
}

/// The cell of a job, or `None` for one that never came up.
///
/// # Safety
/// `td` is a live job, and no other reference to its cell exists: fio calls the hooks of a job from one thread at a time.
#[inline]
pub(super) unsafe fn cell<'a>(td: *mut c_void) -> Option<&'a mut Cell> {
    // SAFETY: the field is inside the job; it holds null or what init() has put there.
    unsafe { td.byte_add(layout::cell_at()?).cast::<*mut Cell>().read().as_mut() }
}
