//! The hooks on the I/O path: what fio calls for each I/O unit or each look for results. They allocate nothing and take no lock.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::cell::cell;
use super::engine::Queued;
use super::guard;
use super::layout;
use super::times::{self, Issued};
use super::unit::{Direction, IoUnit, Outcome, Units};
use super::waiting::Waiting;
use crate::faults;

const COMPLETED: c_int = 0;
const QUEUED: c_int = 1;
const BUSY: c_int = 2;

pub(super) unsafe extern "C" fn queue(td: *mut c_void, io_u: *mut c_void) -> c_int {
    // SAFETY: fio passes the job, in its own thread.
    let Some(cell) = (unsafe { cell(td) }) else { return -libc::EIO };
    // SAFETY: fio passes one of the job's units, and queues none before the job came up.
    let unit = unsafe { IoUnit::new(NonNull::new_unchecked(io_u), &cell.units) };
    let _path = faults::on_io_path();
    let queued = guard::catch("queue", || cell.running.queue(unit));
    if queued == Some(Queued::Done) {
        return completed(unit);
    }
    if queued == Some(Queued::InFlight) {
        if cell.units.issued != Issued::BeforeQueue && unit.direction() != Direction::Sync {
            cell.queued.push(unit.id());
        }
        return QUEUED;
    }
    if queued == Some(Queued::CommitFirst) {
        let is_any = !cell.queued.is_empty();
        // SAFETY: as above; nothing of the cell is used any more.
        return unsafe { if is_any && commit(td) == 0 { queue(td, io_u) } else { BUSY } };
    }
    not_taken(unit, queued)
}

/// Apart, so that what ends well runs through as little as can be.
#[inline(never)]
fn not_taken(unit: IoUnit, queued: Option<Queued>) -> c_int {
    if queued == Some(Queued::Busy) {
        return BUSY;
    }
    if queued.is_none() {
        unit.stamp_if_ours();
        unit.complete(Outcome::failed(libc::EIO));
    }
    unit.log_error();
    completed(unit)
}

/// A unit has ended in queue(): with a commit hook defined fio leaves these counts to the engine.
#[inline]
fn completed(unit: IoUnit) -> c_int {
    let Units { td, fio, .. } = *unit.units();
    // SAFETY: the job is live during its hook.
    unsafe {
        (fio.io_u_mark_submit)(td, 1);
        (fio.io_u_mark_complete)(td, 1);
    }
    COMPLETED
}

pub(super) unsafe extern "C" fn commit(td: *mut c_void) -> c_int {
    // SAFETY: fio passes the job, in its own thread.
    let Some(cell) = (unsafe { cell(td) }) else { return -libc::EIO };
    if cell.queued.is_empty() {
        return 0; // fio commits before every look for results
    }
    let (fio, count) = (cell.units.fio, cell.queued.len() as c_uint);
    if cell.units.issued != Issued::Never {
        // Stamped before they start, so that no operation ends before it was issued.
        let now = times::now(fio);
        for &unit in &cell.queued {
            // SAFETY: the units are the engine's since queue() answered QUEUED.
            unsafe { times::issue(td, unit, now, fio) };
        }
    }
    cell.queued.clear();
    let _path = faults::on_io_path();
    let committed = guard::catch("commit", || cell.running.commit());
    // SAFETY: the job is live; only statistics are touched.
    unsafe { (fio.io_u_mark_submit)(td, count) };
    match committed {
        Some(Ok(())) => 0,
        Some(Err(errno)) => -errno,
        None => -libc::EIO,
    }
}

pub(super) unsafe extern "C" fn getevents(td: *mut c_void, min: c_uint, max: c_uint, timeout: *const libc::timespec) -> c_int {
    // SAFETY: fio passes the job, in its own thread.
    let (Some(cell), Some(at)) = (unsafe { cell(td) }, layout::thread()) else { return -libc::EIO };
    // SAFETY: as above; the job came up, so its layout was confirmed.
    let waiting = unsafe { Waiting::new(at, &cell.units) };
    // SAFETY: null, or a timespec that lives through the call.
    let timeout = unsafe { timeout.as_ref() }.map(|t| Duration::new(t.tv_sec as u64, t.tv_nsec as u32));
    cell.done.clear();
    let _path = faults::on_io_path();
    let reaped = guard::catch("getevents", || cell.running.reap(min as usize, max as usize, timeout, &waiting, &mut cell.done));
    let errno = match reaped {
        Some(Ok(())) => return cell.done.len() as c_int,
        Some(Err(errno)) => errno,
        None => libc::EIO,
    };
    // fio would report the number returned as it is, and wait again for what is out: the units carry the error instead.
    guard::catch("getevents", || cell.running.fail_all(errno, max as usize, &mut cell.done));
    if cell.done.is_empty() { -errno } else { cell.done.len() as c_int }
}

pub(super) unsafe extern "C" fn event(td: *mut c_void, index: c_int) -> *mut c_void {
    // SAFETY: fio passes the job, in its own thread.
    let Some(cell) = (unsafe { cell(td) }) else { return ptr::null_mut() };
    let Some(&done) = cell.done.get(index as usize) else { return ptr::null_mut() };
    // SAFETY: the unit was the engine's since queue() answered QUEUED, and fio keeps it alive until it gets it back here.
    let unit = unsafe { IoUnit::new(done.unit.pointer(), &cell.units) };
    let _path = faults::on_io_path();
    let outcome = guard::catch("event", || cell.running.finish(unit, done.outcome));
    unit.complete(outcome.unwrap_or(Outcome::failed(libc::EIO)));
    done.unit.as_ptr()
}
