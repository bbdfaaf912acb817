//! A library that takes no time (`INSTANT`): nothing is looked at, and what a call costs is next to nothing, so that a benchmark on it
//! measures its engine. An entry of a batch is told in the thread that has submitted it.

use std::cell::Cell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, Ordering};

use sim_common::cufile::{COMPLETE, Entry, Event, Status};

/// Set with the other knobs, which opening the driver asks for first.
static IS_ON: AtomicBool = AtomicBool::new(false);

#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

pub fn switch_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// More entries than a thread has out at a time.
const MOST: usize = 1024;

/// An entry that is done.
#[derive(Clone, Copy)]
struct Done {
    batch: usize,
    /// The caller's, only ever handed back.
    cookie: usize,
    bytes: isize,
}

struct List {
    entries: [Cell<Done>; MOST],
    length: Cell<usize>,
}

thread_local! {
    static DONE: List = const {
        List { entries: [const { Cell::new(Done { batch: 0, cookie: 0, bytes: 0 }) }; MOST], length: Cell::new(0) }
    };
}

/// # Safety
/// `entries` has `count` entries.
pub unsafe fn submit(batch: usize, count: c_uint, entries: *const Entry) -> Status {
    // SAFETY: this function's own contract.
    let entries = unsafe { std::slice::from_raw_parts(entries, count as usize) };
    DONE.with(|list| {
        for entry in entries {
            let at = list.length.get();
            list.entries[at].set(Done { batch, cookie: entry.cookie as usize, bytes: entry.size as isize });
            list.length.set(at + 1);
        }
    });
    Status::default()
}

/// # Safety
/// `count` may be read and written, and `events` has room for what it holds.
pub unsafe fn status(batch: usize, count: *mut c_uint, events: *mut Event) -> Status {
    // SAFETY: this function's own contract.
    let most = unsafe { count.read() } as usize;
    let (mut told, mut at) = (0, 0);
    DONE.with(|list| {
        while told < most && at < list.length.get() {
            let Done { batch: owner, cookie, bytes } = list.entries[at].get();
            if owner != batch {
                at += 1;
                continue;
            }
            let event = Event { cookie: cookie as *mut _, status: COMPLETE, ret: bytes };
            // SAFETY: fewer than `most` events were written, for which there is room.
            unsafe { events.add(told).write(event) };
            told += 1;
            let last = list.length.get() - 1;
            list.entries[at].set(list.entries[last].get());
            list.length.set(last);
        }
    });
    // SAFETY: this function's own contract; no more than what `count` held.
    unsafe { count.write(told as c_uint) };
    Status::default()
}
