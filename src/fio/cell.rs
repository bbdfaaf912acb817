//! What the hooks keep of a job between two calls.

use std::ffi::c_void;

use super::engine::Done;
use super::job_options::JobOptions;
use super::layout::{self, tables::IoU};
use super::symbols::Symbols;
use super::unit::UnitId;

/// What hangs at the job's `io_ops_data`.
pub(super) struct Cell<E> {
    pub engine: E,
    /// What the last getevents() found, for event() to fetch one by one.
    pub done: Vec<Done>,
    /// Taken by queue() and not started by commit() yet.
    pub queued: Vec<UnitId>,
    pub issued: Issued,
    pub fio: &'static Symbols,
    /// Known once fio has made the job's units.
    pub units: Option<&'static IoU>,
    /// iomem_alloc() was called and gave none.
    pub without_memory: bool,
}

/// Who stamps a unit with the time at which it was issued. Latencies are counted from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issued {
    /// fio, before queue(), which does the I/O itself.
    BeforeQueue,
    /// fio, after queue() and with that after the commit() of a full batch; commit() does what it can, and stamps before it starts anything.
    AfterQueue,
    /// commit(), and fio not at all; what ends in queue() is stamped there.
    InCommit,
    /// Nobody: the job wants no latencies.
    Never,
}

impl Issued {
    /// For a job whose queue() does not do the I/O itself.
    pub fn of(job: &JobOptions, fio: &Symbols) -> Self {
        let is_off = |name| job.int(name).is_some_and(|value| value != 0);
        if job.text("read_iolog").is_some() {
            Self::AfterQueue // what fio itself has stamped last times the replay
        } else if ["disable_clat", "disable_slat", "disable_bw_measurement"].into_iter().all(is_off) {
            Self::Never // as fio_fill_issue_time() of fio
        } else if commit_stamps(fio).is_some() {
            Self::InCommit
        } else {
            Self::AfterQueue
        }
    }
}

/// `FIO_ASYNCIO_SETS_ISSUE_TIME`, for the versions that have it (from 3.31).
pub(super) fn commit_stamps(fio: &Symbols) -> Option<u64> {
    layout::of_version(fio)?.consts.fio_asyncio_sets_issue_time.map(|flag| flag as u64)
}

/// The cell of a job, or `None` for one that never came up.
///
/// # Safety
/// `td` is a live job, and no other reference to its cell exists: fio calls the hooks of a job from one thread at a time.
#[inline]
pub(super) unsafe fn cell<'a, E>(td: *mut c_void) -> Option<&'a mut Cell<E>> {
    let at = layout::thread()?;
    // SAFETY: the field is inside the job; it holds null or what init() has put there.
    unsafe { td.byte_add(at.io_ops_data).cast::<*mut Cell<E>>().read().as_mut() }
}
