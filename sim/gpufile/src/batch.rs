//! Batches: up to a number of entries in flight at a time, each with a fate and an event of its own.

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sim_common::cufile::{COMPLETE, Entry, Event, FAILED, Status};
use sim_common::log::Line;

use crate::api::{note, store};
use crate::instant;
use crate::knobs::knobs;
use crate::library::{BATCH_FULL, BATCH_SUBMIT_ERROR, INTERNAL, INVALID_VALUE, IO_ERROR, call, fresh_handle, state, status};
use crate::scheduler::schedule;
use crate::slabs::Slab;
use crate::transfer::{Failure, Request, Transfer};

/// A caller's cookie, carried to a thread of ours and only ever handed back.
#[derive(Clone, Copy)]
struct Cookie(usize);

/// An entry that was looked at.
struct Checked {
    size: usize,
    cookie: Cookie,
    /// For the library's threads.
    pooled: bool,
    /// Refused, or ready to run.
    transfer: Result<Transfer, Failure>,
}

impl Checked {
    fn new(request: &Request, cookie: Cookie) -> Self {
        let unit = knobs().pooled;
        let numbers = [request.size as u64, request.file_offset.unsigned_abs(), request.offset.unsigned_abs()];
        let pooled = unit > 0 && numbers.iter().any(|number| number % unit != 0);
        Self { size: request.size, cookie, pooled, transfer: Transfer::new(request, false) }
    }
}

/// An event that waits to be fetched.
struct Done {
    cookie: Cookie,
    status: c_int,
    ret: isize,
    /// Held until the event is fetched.
    _slab: Option<Slab>,
}

impl Done {
    fn new(cookie: Cookie, slab: Option<Slab>, result: Result<usize, Failure>) -> Self {
        let (status, ret) = match result {
            Ok(bytes) => (COMPLETE, bytes.try_into().unwrap_or(isize::MAX)),
            Err(failure) => (FAILED, -(failure.unsigned_abs() as isize)),
        };
        Self { cookie, status, ret, _slab: slab }
    }

    fn event(&self) -> Event {
        Event { cookie: self.cookie.0 as *mut _, status: self.status, ret: self.ret }
    }
}

#[derive(Default)]
struct Inner {
    in_flight: u32,
    running: u32,
    done: VecDeque<Done>,
    /// Done by the library's threads, and not told yet.
    pooled: VecDeque<Done>,
    /// The latest submission had an entry for them.
    tells_pooled: bool,
    /// What the entries hold that never end.
    stuck: Vec<Slab>,
    /// Counts cancellations: an entry of an earlier epoch is forgotten.
    epoch: u64,
    /// A failed entry that takes the others of its batch with it.
    lost: Option<Done>,
}

impl Inner {
    fn forget(&mut self) {
        self.epoch += 1;
        self.in_flight = 0;
        self.stuck.clear();
        self.done.clear();
        self.pooled.clear();
    }
}

/// One batch.
pub struct Batch {
    room: u32,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Batch {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what has not begun, waits for what has; no event comes of either, as with the real library.
    pub fn cancel(&self) {
        let mut inner = self.lock();
        inner.forget();
        inner.lost = None;
        while inner.running > 0 {
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts checked entries in flight.
    fn start(self: &Arc<Self>, entries: Vec<Checked>) {
        if !knobs().batch_works {
            return;
        }
        self.lock().tells_pooled = entries.iter().any(|entry| entry.pooled);
        for Checked { size, cookie, pooled, transfer } in entries {
            let slab = Slab::take(size);
            let epoch = {
                let mut inner = self.lock();
                inner.in_flight += 1;
                inner.epoch
            };
            let fails = fails_by_number() || self.room > knobs().batch_max;
            let batch = Arc::clone(self);
            match transfer {
                // A refused entry fails when it is served, not when it is submitted.
                Err(failure) => schedule(Instant::now(), move || batch.serve(epoch, pooled, cookie, slab, || Err(failure))),
                // No event ever comes of an empty entry, as with the real library.
                Ok(transfer) if transfer.fate.stuck || transfer.size == 0 => self.lock().stuck.push(slab),
                Ok(transfer) => {
                    let due = Instant::now() + transfer.fate.delay;
                    let code = knobs().batch_fail_code;
                    let run = move || if fails { Err(code) } else { transfer.run_now() };
                    schedule(due, move || batch.serve(epoch, pooled, cookie, slab, run));
                }
            }
        }
    }

    fn serve(&self, epoch: u64, pooled: bool, cookie: Cookie, slab: Slab, run: impl FnOnce() -> Result<usize, Failure>) {
        let begin = || {
            let mut inner = self.lock();
            let alive = inner.epoch == epoch;
            inner.running += u32::from(alive);
            alive
        };
        if begin() {
            let done = Done::new(cookie, Some(slab), run());
            let mut inner = self.lock();
            inner.running -= 1;
            if inner.epoch == epoch {
                if knobs().batch_loses && done.status == FAILED {
                    inner.lost.get_or_insert(done);
                } else if pooled {
                    inner.pooled.push_back(done);
                } else {
                    inner.done.push_back(done);
                }
            }
            self.changed.notify_all();
        }
    }

    /// Waits for events; the failure that took all others with it comes as an error.
    fn fetch(&self, least: u32, most: u32, until: Option<Instant>) -> Result<Vec<Done>, Done> {
        let mut inner = self.lock();
        loop {
            if let Some(lost) = inner.lost.take() {
                inner.forget();
                return Err(lost);
            }
            if inner.tells_pooled {
                let Inner { done, pooled, .. } = &mut *inner;
                done.append(pooled);
            }
            let ready = inner.done.len();
            // What was never submitted cannot come: without a time to wait for, that ends the wait.
            let hopeless = until.is_none() && inner.in_flight as usize == ready;
            if ready >= least.min(most) as usize || hopeless {
                break;
            }
            inner = match until {
                None => self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let now = Instant::now();
                    if now >= until {
                        break;
                    }
                    self.changed.wait_timeout(inner, until - now).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let count = inner.done.len().min(most as usize);
        inner.in_flight -= u32::try_from(count).unwrap_or(inner.in_flight);
        Ok(inner.done.drain(..count).collect())
    }
}

/// Whether the next entry is one that the knob's list names.
fn fails_by_number() -> bool {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let list = &knobs().batch_fail;
    !list.is_empty() && list.contains(&(COUNT.fetch_add(1, Ordering::Relaxed) + 1))
}

fn find(handle: usize) -> Result<Arc<Batch>, Status> {
    state().batches.get(&handle).cloned().ok_or(status(INVALID_VALUE))
}

/// # Safety
/// `handle` may be written, or is null.
pub unsafe fn batch_set_up(handle: *mut usize, room: c_uint) -> Status {
    call("BatchIOSetUp", |line| {
        line.put("room", room);
        if room == 0 || room > knobs().batch_limit {
            return Err(status(INVALID_VALUE));
        }
        if let Some(code) = knobs().fail_setup.hit(INTERNAL) {
            return Err(status(code));
        }
        let fresh = fresh_handle();
        // SAFETY: this function's own contract.
        unsafe { store(handle, fresh) }?;
        let batch = Batch { room, inner: Mutex::default(), changed: Condvar::new() };
        state().batches.insert(fresh, Arc::new(batch));
        line.put_address("batch", fresh as u64);
        Ok(())
    })
}

/// Checks entries as the real library does before it takes any: an unknown file or a negative offset refuses them all,
/// a bad range fails its entry alone.
fn check(entries: &[Entry]) -> Result<Vec<Checked>, Status> {
    for entry in entries {
        let request = request(entry);
        if entry.mode != 1 || !matches!(entry.opcode, 0 | 1) || request.file_offset < 0 || request.offset < 0 {
            return Err(status(INVALID_VALUE));
        }
        crate::transfer::file(request.file).map_err(|failure| status(failure.abs()))?;
    }
    Ok(entries.iter().map(|entry| Checked::new(&request(entry), Cookie(entry.cookie as usize))).collect())
}

fn request(entry: &Entry) -> Request {
    Request {
        write: entry.opcode == 1,
        file: entry.file as usize,
        base: entry.base as u64,
        size: entry.size,
        file_offset: entry.file_offset,
        offset: entry.offset,
    }
}

/// # Safety
/// `entries` has `count` entries, or is null.
pub unsafe fn batch_submit(handle: usize, count: c_uint, entries: *mut Entry, _flags: c_uint) -> Status {
    if instant::is_on() {
        // SAFETY: this function's own contract.
        return unsafe { instant::submit(handle, count, entries) };
    }
    call("BatchIOSubmit", |line| {
        line.put_address("batch", handle as u64);
        line.put("count", count);
        let batch = find(handle)?;
        if entries.is_null() || count > batch.room {
            return Err(status(BATCH_SUBMIT_ERROR));
        }
        if let Some(code) = knobs().fail_submit.hit(INTERNAL) {
            return Err(status(code));
        }
        // SAFETY: not null, and `count` entries by this function's contract.
        let entries = unsafe { std::slice::from_raw_parts(entries, count as usize) };
        if batch.lock().in_flight + count > batch.room {
            return Err(status(BATCH_FULL));
        }
        let checked = check(entries)?;
        if line.is_kept() {
            for entry in entries {
                let mut line = Line::new();
                note(&mut line, &request(entry));
                crate::library::finish(line, if entry.opcode == 1 { "BatchWrite" } else { "BatchRead" }, 0);
            }
        }
        batch.start(checked);
        Ok(())
    })
}

/// # Safety
/// `count` may be read and written, `events` has room for what it holds, and `wait` may be read or is null.
pub unsafe fn batch_status(handle: usize, least: c_uint, count: *mut c_uint, events: *mut Event, wait: *const libc::timespec) -> Status {
    if instant::is_on() {
        // SAFETY: this function's own contract.
        return unsafe { instant::status(handle, count, events) };
    }
    call("BatchIOGetStatus", |line| {
        line.put_address("batch", handle as u64);
        let batch = find(handle)?;
        if count.is_null() || events.is_null() {
            return Err(status(INVALID_VALUE));
        }
        if let Some(code) = knobs().fail_status.hit(INTERNAL).or((!knobs().batch_works).then_some(INTERNAL)) {
            return Err(status(code));
        }
        // SAFETY: not null, and readable by this function's contract.
        let most = unsafe { count.read() };
        // SAFETY: null or readable by this function's contract.
        let wait = unsafe { wait.as_ref() }.map(|wait| {
            let seconds = u64::try_from(wait.tv_sec).unwrap_or(0);
            Duration::new(seconds, u32::try_from(wait.tv_nsec).unwrap_or(0))
        });
        let until = wait.map(|wait| Instant::now() + wait);
        let fetched = match batch.fetch(least, most, until) {
            Ok(fetched) => fetched,
            Err(lost) => {
                if most > 0 {
                    // SAFETY: room for one event; like the real library this tells the failed one and leaves `count`.
                    unsafe { events.write(lost.event()) };
                }
                return Err(status(IO_ERROR));
            }
        };
        for (index, done) in fetched.iter().enumerate() {
            // SAFETY: at most `most` events, for which there is room by this function's contract.
            unsafe { events.add(index).write(done.event()) };
        }
        line.put("events", fetched.len());
        // SAFETY: not null, and writable by this function's contract.
        unsafe { count.write(u32::try_from(fetched.len()).unwrap_or(most)) };
        Ok(())
    })
}

pub fn batch_cancel(handle: usize) -> Status {
    call("BatchIOCancel", |line| {
        line.put_address("batch", handle as u64);
        find(handle)?.cancel();
        Ok(())
    })
}

pub fn batch_destroy(handle: usize) {
    // The real function returns nothing; an unknown handle is only logged.
    call("BatchIODestroy", |line| {
        line.put_address("batch", handle as u64);
        let batch = state().batches.remove(&handle).ok_or(status(INVALID_VALUE))?;
        batch.cancel();
        Ok(())
    });
}
