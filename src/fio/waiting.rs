//! What the engine can ask of fio while it waits for operations.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::time::Duration;

use super::layout::tables::{IoU, ThreadData};
use super::symbols::Symbols;
use super::unit::{self, IoUnit, UnitId};

/// A job during its getevents hook.
pub struct Waiting<'hook> {
    td: *const c_void,
    at: &'static ThreadData,
    units: &'static IoU,
    fio: &'static Symbols,
    hook: PhantomData<&'hook ()>,
}

impl Waiting<'_> {
    /// # Safety
    /// `td` is the live job whose getevents hook is running; `at` and `units` were confirmed for it.
    #[inline]
    pub(super) unsafe fn new(td: *const c_void, at: &'static ThreadData, units: &'static IoU, fio: &'static Symbols) -> Self {
        Self { td, at, units, fio, hook: PhantomData }
    }

    /// Whether fio has told the job to end: by a signal, a limit, or the failure of another job.
    pub fn must_end(&self) -> bool {
        // SAFETY: `terminate` is a volatile bool inside the live job (see new), which fio's other threads set.
        unsafe { self.td.byte_add(self.at.terminate).cast::<u8>().read_volatile() != 0 }
    }

    /// A unit of this job that the engine has taken.
    pub fn unit(&self, unit: UnitId) -> IoUnit<'_> {
        // SAFETY: a UnitId is only made for a unit that fio has queued, and the engine has it until it hands it back; the job is live, and
        // the layout of units was confirmed before the first one was queued.
        unsafe { IoUnit::new(self.td.cast_mut(), unit.pointer(), self.fio, self.units) }
    }

    /// How long ago a unit of this job was issued; `None` for a job that wants no latencies, whose units nobody stamps.
    pub fn age(&self, unit: UnitId) -> Option<Duration> {
        // SAFETY: a UnitId is only made for a unit that fio has queued, and a job's units live as long as the job.
        let issued = unsafe { unit::issued(unit) };
        let now = unit::now(self.fio);
        let nanoseconds = |time: libc::timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        (nanoseconds(issued) != 0).then(|| Duration::from_nanos(u64::try_from(nanoseconds(now) - nanoseconds(issued)).unwrap_or(0)))
    }
}
