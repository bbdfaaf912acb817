//! What the engine can ask of fio while it waits for operations.

use std::time::Duration;

use super::layout::tables::ThreadData;
use super::thread;
use super::times;
use super::unit::{IoUnit, UnitId, Units};

/// A job during its getevents hook.
pub struct Waiting<'hook> {
    at: &'static ThreadData,
    units: &'hook Units,
}

impl<'hook> Waiting<'hook> {
    /// # Safety
    /// The getevents hook of the live job of `units` is running, and `at` was confirmed for it.
    #[inline]
    pub(super) unsafe fn new(at: &'static ThreadData, units: &'hook Units) -> Self {
        Self { at, units }
    }

    /// Whether fio has told the job to end: by a signal, a limit, or the failure of another job.
    pub fn must_end(&self) -> bool {
        // SAFETY: the job is live and `at` is its layout (see new).
        unsafe { thread::must_end(self.units.td, self.at) }
    }

    /// A unit of this job that the engine has taken.
    pub fn unit(&self, unit: UnitId) -> IoUnit<'_> {
        // SAFETY: a UnitId is only made for a unit that fio has queued, and the engine has it until it hands it back; the job is live, and
        // came up before it queued one.
        unsafe { IoUnit::new(unit.pointer(), self.units) }
    }

    /// How long ago a unit of this job was issued; `None` for a job that wants no latencies, whose units nobody stamps.
    pub fn age(&self, unit: UnitId) -> Option<Duration> {
        // SAFETY: a UnitId is only made for a unit that fio has queued, and a job's units live as long as the job.
        let issued = unsafe { times::issued(unit) };
        let now = times::now(self.units.fio);
        let nanoseconds = |time: libc::timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        (nanoseconds(issued) != 0).then(|| Duration::from_nanos(u64::try_from(nanoseconds(now) - nanoseconds(issued)).unwrap_or(0)))
    }
}
