//! The hooks on the I/O path: what fio calls for each I/O unit or each look for results. They allocate nothing and take no lock.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::cell::{Cell, Issued, cell};
use super::engine::{Engine, Queued};
use super::guard;
use super::layout;
use super::symbols::Symbols;
use super::unit::{self, Direction, IoUnit, Outcome};
use super::waiting::Waiting;
use crate::faults;

const COMPLETED: c_int = 0;
const QUEUED: c_int = 1;
const BUSY: c_int = 2;

pub(super) unsafe extern "C" fn queue<E: Engine>(td: *mut c_void, io_u: *mut c_void) -> c_int {
    // SAFETY: fio passes a live job that came up and one of its units.
    let Some((cell, mut unit, fio)) = (unsafe { open::<E>(td, io_u) }) else { return -libc::EIO };
    if cell.issued == Issued::InCommit && unit.direction() == Direction::Sync {
        unit.stamp(); // it may end in here, and what it does then takes its time
    }
    let _path = faults::on_io_path();
    match guard::catch("queue", || cell.engine.queue(&unit)).unwrap_or(Queued::Done(Outcome::failed(libc::EIO))) {
        Queued::Done(outcome) => {
            unit.complete(outcome);
            // A transfer that comes to nothing before it has begun; syncs and trims are stamped before.
            if cell.issued == Issued::InCommit && matches!(unit.direction(), Direction::Read | Direction::Write) {
                unit.stamp();
            }
            if outcome.error != 0 {
                unit.log_error();
            }
            // SAFETY: the job is live. With a commit hook defined fio leaves this count to the engine.
            unsafe {
                (fio.io_u_mark_submit)(td, 1);
                (fio.io_u_mark_complete)(td, 1);
            }
            COMPLETED
        }
        Queued::InFlight => {
            if cell.issued != Issued::BeforeQueue && unit.direction() != Direction::Sync {
                cell.queued.push(unit.id());
            }
            QUEUED
        }
        Queued::Busy => BUSY,
    }
}

/// The parts that queue() and event() work with; `None` only where fio would call them for a job that never came up.
///
/// # Safety
/// `td` is a live job and `io_u` one of its live units, during a hook in the job's own thread.
#[inline]
unsafe fn open<'a, E>(td: *mut c_void, io_u: *mut c_void) -> Option<(&'a mut Cell<E>, IoUnit<'a>, &'static Symbols)> {
    // SAFETY: as promised by the caller.
    let cell = unsafe { cell::<E>(td)? };
    let (fio, units) = (cell.fio, cell.units?);
    // SAFETY: as promised by the caller; units are only known once confirmed.
    unsafe { Some((cell, IoUnit::new(td, NonNull::new(io_u)?, fio, units), fio)) }
}

pub(super) unsafe extern "C" fn commit<E: Engine>(td: *mut c_void) -> c_int {
    // SAFETY: fio passes the job, in its own thread.
    let Some(cell) = (unsafe { cell::<E>(td) }) else { return -libc::EIO };
    if cell.queued.is_empty() {
        return 0; // fio commits before every look for results
    }
    let (fio, count) = (cell.fio, cell.queued.len() as c_uint);
    if cell.issued != Issued::Never {
        // Stamped before they start, so that no operation ends before it was issued.
        let now = unit::now(fio);
        for &unit in &cell.queued {
            // SAFETY: the units are the engine's since queue() answered QUEUED.
            unsafe { unit::issue(td, unit, now, fio) };
        }
    }
    cell.queued.clear();
    let _path = faults::on_io_path();
    let committed = guard::catch("commit", || cell.engine.commit());
    // SAFETY: the job is live; only statistics are touched.
    unsafe { (fio.io_u_mark_submit)(td, count) };
    match committed {
        Some(Ok(())) => 0,
        Some(Err(errno)) => -errno,
        None => -libc::EIO,
    }
}

pub(super) unsafe extern "C" fn getevents<E: Engine>(td: *mut c_void, min: c_uint, max: c_uint, timeout: *const libc::timespec) -> c_int {
    // SAFETY: fio passes the job, in its own thread.
    let (Some(cell), Some(at)) = (unsafe { cell::<E>(td) }, layout::thread()) else { return -libc::EIO };
    let Some(units) = cell.units else { return -libc::EIO };
    // SAFETY: as above; the job came up, so both layouts were confirmed.
    let waiting = unsafe { Waiting::new(td, at, units, cell.fio) };
    // SAFETY: null, or a timespec that lives through the call.
    let timeout = unsafe { timeout.as_ref() }.map(|t| Duration::new(t.tv_sec as u64, t.tv_nsec as u32));
    cell.done.clear();
    let _path = faults::on_io_path();
    let reaped = guard::catch("getevents", || cell.engine.reap(min as usize, max as usize, timeout, &waiting, &mut cell.done));
    let errno = match reaped {
        Some(Ok(())) => return cell.done.len() as c_int,
        Some(Err(errno)) => errno,
        None => libc::EIO,
    };
    // fio would report the number returned as it is, and wait again for what is out: the units carry the error instead.
    guard::catch("getevents", || cell.engine.fail_all(errno, max as usize, &mut cell.done));
    if cell.done.is_empty() { -errno } else { cell.done.len() as c_int }
}

pub(super) unsafe extern "C" fn event<E: Engine>(td: *mut c_void, index: c_int) -> *mut c_void {
    // SAFETY: fio passes the job, in its own thread, after a getevents() that found more than `index` operations.
    let done = unsafe { cell::<E>(td) }.and_then(|cell| cell.done.get(index as usize).copied());
    let Some(done) = done else { return ptr::null_mut() };
    let io_u = done.unit.as_ptr();
    // SAFETY: the unit was the engine's since queue() answered QUEUED, and fio keeps it alive until it gets it back here.
    if let Some((cell, mut unit, _)) = unsafe { open::<E>(td, io_u) } {
        let _path = faults::on_io_path();
        let outcome = guard::catch("event", || cell.engine.finish(&unit, done.outcome));
        unit.complete(outcome.unwrap_or(Outcome::failed(libc::EIO)));
    }
    io_u
}
