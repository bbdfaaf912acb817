//! Batches that are done when they are submitted (`INSTANT`): nothing is looked at, and what a call costs is next to nothing, so that a
//! benchmark on them measures its engine. An entry is told in the thread that has submitted it.

use std::cell::RefCell;
use std::ffi::c_uint;

use sim_common::cufile::{COMPLETE, Entry, Event, Status};

/// An entry that is done.
struct Done {
    batch: usize,
    /// The caller's, only ever handed back.
    cookie: usize,
    bytes: isize,
}

thread_local! {
    static DONE: RefCell<Vec<Done>> = const { RefCell::new(Vec::new()) };
}

/// # Safety
/// `entries` has `count` entries.
pub unsafe fn submit(batch: usize, count: c_uint, entries: *const Entry) -> Status {
    // SAFETY: this function's own contract.
    let entries = unsafe { std::slice::from_raw_parts(entries, count as usize) };
    let done =
        entries.iter().map(|entry| Done { batch, cookie: entry.cookie as usize, bytes: entry.size.try_into().unwrap_or(isize::MAX) });
    DONE.with_borrow_mut(|all| all.extend(done));
    Status::default()
}

/// # Safety
/// `count` may be read and written, and `events` has room for what it holds.
pub unsafe fn status(batch: usize, count: *mut c_uint, events: *mut Event) -> Status {
    // SAFETY: this function's own contract.
    let most = unsafe { count.read() } as usize;
    let (mut told, mut at) = (0, 0);
    DONE.with_borrow_mut(|all| {
        while told < most && at < all.len() {
            if all[at].batch != batch {
                at += 1;
                continue;
            }
            let Done { cookie, bytes, .. } = all.swap_remove(at);
            let event = Event { cookie: cookie as *mut _, status: COMPLETE, ret: bytes };
            // SAFETY: fewer than `most` events were written, for which there is room.
            unsafe { events.add(told).write(event) };
            told += 1;
        }
    });
    // SAFETY: this function's own contract; no more than what `count` held.
    unsafe { count.write(told as c_uint) };
    Status::default()
}
