//! When I/O units were made and issued, which fio counts their latencies from.

use std::ffi::c_void;
use std::ptr;

use super::job_options::JobOptions;
use super::layout;
use super::symbols::Symbols;
use super::unit::UnitId;

/// Where a unit keeps when it was made and when it was issued, in every version.
pub(super) const START_TIME: usize = 0;
pub(super) const ISSUE_TIME: usize = 16;

/// fio's own time, which its units are stamped with.
#[inline]
pub(super) fn now(fio: &Symbols) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for one timespec; the second argument is unused.
    unsafe { (fio.fio_gettime)(&mut time, ptr::null_mut()) };
    time
}

/// When a unit was issued.
///
/// # Safety
/// `unit` is live.
pub(super) unsafe fn issued(unit: UnitId) -> libc::timespec {
    // SAFETY: as promised by the caller; issue_time is inside every version's unit.
    unsafe { unit.as_ptr().byte_add(ISSUE_TIME).cast::<libc::timespec>().read() }
}

/// Stamps a unit as issued at `time` and counts its submission latency, as fio's own asynchronous engines do.
///
/// # Safety
/// `td` is a live job, and the unit is one of its own that fio has queued.
#[inline]
pub(super) unsafe fn issue(td: *mut c_void, unit: UnitId, time: libc::timespec, fio: &Symbols) {
    // SAFETY: as promised by the caller; issue_time is inside every version's unit.
    unsafe {
        unit.as_ptr().byte_add(ISSUE_TIME).cast::<libc::timespec>().write(time);
        (fio.io_u_queued)(td, unit.as_ptr());
    }
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
