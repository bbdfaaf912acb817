//! The requests of one job: collected by submit(), started by commit(), alone or many in one list, and ended by polling or by callback.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::calls::{Library, Manner, Order, Request, Waker, hold_sigpipe};
use super::codes::{self, CANCELLED, DONE, IN_FLIGHT, INVALID, THROTTLED};
use super::context::Attached;
use super::devices::Kind;
use super::operations::Operations;
use super::{closing, process};
use crate::common::transport::{Buffer, Moved, Operation, Submitted, Transport};
use crate::common::wait::{self, Bell, Deadline};

/// How long requests have to come back when the job ends.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long one sleep may be while operations wait for room on a device.
const ROOM_SLICE: Duration = Duration::from_millis(1);

/// Where the library's threads say which requests have ended.
pub struct Ended {
    queue: ArrayQueue<u32>,
    bell: Bell,
}

impl Ended {
    /// Called by a thread of the library, which may hold locks of its own.
    pub fn tell(&self, number: u32) {
        let _ = self.queue.push(number); // there is room for every request
        self.bell.ring(1);
    }
}

/// How a job's requests are made and waited for.
#[derive(Clone, Copy)]
pub struct Settings {
    pub depth: usize,
    pub wait: wait::Manner,
    pub requests: Manner,
    /// `gusli_completion=callback`.
    pub has_callback: bool,
    /// `gusli_sgl`.
    pub makes_lists: bool,
}

/// The requests of one job.
pub struct Requests {
    library: &'static Library,
    settings: Settings,
    devices: Vec<Attached>,
    /// One for each operation, by its tag; the library knows them by their address.
    requests: Box<[Request]>,
    wakers: Box<[Waker]>,
    ended: Arc<Ended>,
    operations: Operations,
    /// Started, each by its tag; the rest of a list hangs on it.
    out: Vec<u32>,
    /// Ended, and not handed back yet: the rest of lists.
    ready: VecDeque<(u32, Moved)>,
    /// Once I/O has begun, in the job's thread.
    holds_sigpipe: bool,
    /// Once cancelled: whether the library has no request any more.
    quiet: Option<bool>,
}

impl Requests {
    pub fn new(library: &'static Library, devices: &[Attached], settings: Settings) -> Self {
        let depth = settings.depth;
        let ended = Arc::new(Ended { queue: ArrayQueue::new(depth.max(1)), bell: Bell::default() });
        let wakers: Box<[Waker]> = (0..depth as u32).map(|number| Waker { ended: ended.clone(), number }).collect();
        let requests = wakers.iter().map(|waker| Request::new(settings.requests, settings.has_callback.then_some(waker))).collect();
        Self {
            library,
            settings,
            devices: devices.to_vec(),
            requests,
            wakers,
            ended,
            operations: Operations::new(depth, settings.makes_lists),
            out: Vec::with_capacity(depth),
            ready: VecDeque::with_capacity(depth),
            holds_sigpipe: false,
            quiet: None,
        }
    }

    /// Starts what is due, in lists where there are to be some, as far as the devices take it. What they do not take stays, in order.
    #[inline]
    fn start_due(&mut self) {
        if !self.holds_sigpipe {
            self.holds_sigpipe = true;
            hold_sigpipe();
        }
        let mut due = self.operations.take_due();
        let (mut at, mut kept) = (0, 0);
        while at < due.len() {
            let count = self.operations.link(&due[at..]);
            if !self.start(due[at], count) {
                due.copy_within(at..at + count, kept);
                kept += count;
            }
            at += count;
        }
        due.truncate(kept);
        self.operations.give_back(due);
    }

    /// Starts an operation, or a list of `count` that hang on it. Returns false where the library has no room now.
    #[inline]
    fn start(&mut self, first: u32, count: usize) -> bool {
        let Some(operation) = self.operations.get(first) else { return true };
        let device = &self.devices[operation.handle.0];
        if device.is_closed() {
            self.end(first, CANCELLED);
            return true;
        }
        // The library crashes where it turns a list away, so it is never asked for more than it takes, by all jobs together.
        if device.in_flight.fetch_add(1, Ordering::AcqRel) >= device.limit {
            device.in_flight.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        let (buffer, bytes, offset) = match count {
            1 => (operation.buffer.address(), operation.buffer.len() as u64, device.offset + operation.offset),
            _ => {
                let (at, bytes) = self.operations.write_list(first, count, device.offset);
                (at, bytes, 0)
            }
        };
        let order = Order {
            transfer: operation.transfer,
            descriptor: device.descriptor,
            offset,
            buffer,
            bytes,
            is_list: count > 1,
            // fio stays within the file, and the engine within its buffers. The library would refuse the last block, too, and what it takes a
            // file's size for.
            is_checked: device.kind.is_local(),
        };
        let request = &self.requests[first as usize];
        self.library.submit(request, &order);
        self.out.push(first);
        true
    }

    /// Hands back at most `max` operations that have ended by now; returns how many.
    #[inline]
    fn collect(&mut self, max: usize, done: &mut dyn FnMut(u32, Moved)) -> usize {
        let mut at = 0;
        while self.ready.len() < max {
            if self.settings.has_callback {
                let Some(number) = self.ended.queue.pop() else { break };
                let Some(at) = self.out.iter().position(|&out| out == number) else { continue };
                self.settle(at);
            } else if at == self.out.len() {
                break;
            } else if self.library.error(&self.requests[self.out[at] as usize]) == IN_FLIGHT {
                at += 1;
            } else {
                self.settle(at);
            }
        }
        let found = self.ready.len().min(max);
        self.ready.drain(..found).for_each(|(tag, moved)| done(tag, moved));
        found
    }

    /// Ends the request at `at` of `out`, which is not in flight any more.
    #[inline]
    fn settle(&mut self, at: usize) {
        let first = self.out.swap_remove(at);
        let code = self.library.error(&self.requests[first as usize]);
        self.library.done(&self.requests[first as usize]);
        let device = self.operations.get(first).map(|operation| &self.devices[operation.handle.0]);
        if let Some(device) = device {
            device.in_flight.fetch_sub(1, Ordering::AcqRel);
        }
        let is_failed_list = code != DONE && code != CANCELLED && self.operations.is_list(first);
        if code == THROTTLED || is_failed_list {
            self.operations.take_back(first, code != THROTTLED);
            return;
        }
        let code = if code == INVALID && self.is_of_lost_server(first) { CANCELLED } else { code };
        if let Some(device) = device.filter(|_| code == CANCELLED) {
            device.is_gone.store(true, Ordering::Release);
        }
        self.end(first, code);
    }

    /// Whether the library finds fault with an operation that has none, because it has given its device up.
    #[cold]
    fn is_of_lost_server(&self, first: u32) -> bool {
        let Some(operation) = self.operations.get(first) else { return false };
        let device = &self.devices[operation.handle.0];
        let all = operation.offset | device.offset | operation.buffer.len() as u64 | operation.buffer.address() as u64;
        device.kind == Kind::Server && all % u64::from(device.block_size.max(1)) == 0
    }

    /// Makes an operation, or all of a list, ready to be handed back.
    #[inline]
    fn end(&mut self, first: u32, code: i32) {
        self.operations.end(first, |operation| {
            let moved = if code == DONE { Moved::bytes(operation.buffer.len()) } else { codes::failed(code) };
            self.ready.push_back((operation.tag, moved));
        });
    }

    /// Nothing has come for a while: whether a server is gone. The library cancels what was in flight when it went; what was sent afterwards it
    /// forgets.
    #[cold]
    fn look_for_lost_servers(&mut self) {
        self.find_cancelled();
        for device in 0..self.devices.len() {
            let attached = &self.devices[device];
            if attached.is_lost() && self.has_out(device) {
                process::force_close(attached);
            }
        }
        self.find_cancelled();
    }

    fn has_out(&self, device: usize) -> bool {
        self.out.iter().any(|&tag| self.operations.get(tag).is_some_and(|operation| operation.handle.0 == device))
    }

    /// The library tells nobody of what it cancels itself: those that wait for a callback are looked for.
    #[cold]
    fn find_cancelled(&mut self) {
        let mut at = 0;
        while at < self.out.len() {
            match self.library.error(&self.requests[self.out[at] as usize]) {
                CANCELLED => self.settle(at),
                _ => at += 1,
            }
        }
    }

    /// Drops what comes back within `most`. The library does not get on with closing a device before each job has collected what has ended.
    #[cold]
    fn drain(&mut self, most: Duration) {
        let deadline = Deadline::after(Some(most));
        while !self.out.is_empty() && !deadline.is_past() {
            self.collect(usize::MAX, &mut |_, _| {});
            self.find_cancelled();
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Transport<u32> for Requests {
    fn is_synchronous(&self) -> bool {
        false
    }

    fn path(&self) -> &'static str {
        if self.settings.makes_lists { "gusli-sgl" } else { "gusli" }
    }

    fn attach(&mut self, block: Buffer) -> Result<Option<String>, String> {
        self.operations.attach(block);
        Ok(None)
    }

    #[inline]
    fn submit(&mut self, operation: &Operation<u32>) -> Submitted {
        if self.quiet.is_some() {
            return Submitted::Done(Moved::failed(libc::ECANCELED, 0));
        }
        let Some(device) = self.devices.get(operation.handle.0) else { return Submitted::Done(Moved::failed(libc::EBADF, 0)) };
        if device.is_closed() {
            return Submitted::Done(codes::failed(CANCELLED));
        }
        // A write is never turned away, since up to 3.38 fio then gives it another verify header. What the device has no room for waits here.
        self.operations.collect(operation);
        Submitted::InFlight
    }

    #[inline]
    fn commit(&mut self) -> Result<(), i32> {
        if self.operations.commit() {
            self.start_due();
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.operations.len()
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(u32, Moved)) -> Result<(), i32> {
        let deadline = Deadline::after(timeout);
        let (mut found, mut turns) = (0, 0);
        loop {
            if self.operations.is_any_due() {
                self.start_due();
            }
            let ticket = self.ended.bell.ticket();
            found += self.collect(max - found, done);
            if found >= min || self.in_flight() == 0 {
                return Ok(());
            }
            if deadline.is_past() {
                if found == 0 {
                    self.look_for_lost_servers();
                    self.collect(max, done);
                }
                return Ok(());
            }
            // Nobody rings where it is another job's request that makes room.
            let short = Deadline::after(Some(ROOM_SLICE));
            let most = if self.operations.is_any_due() { short.sooner(&deadline) } else { &deadline };
            self.settings.wait.pause(&mut turns, &self.ended.bell, ticket, most);
        }
    }

    fn cancel(&mut self) -> bool {
        if let Some(quiet) = self.quiet {
            return quiet;
        }
        self.drain(PATIENCE);
        // What a device in the kernel has, the kernel gives back some day; the others can be cut off.
        let cut_off = (0..self.devices.len()).filter(|&device| !self.devices[device].kind.is_local() && self.has_out(device));
        let count = cut_off.map(|device| process::force_close(&self.devices[device])).count();
        if count > 0 {
            self.drain(closing::PATIENCE);
        }
        self.ready.clear();
        let quiet = self.out.is_empty();
        if !quiet {
            // The library still has their addresses.
            std::mem::forget(std::mem::take(&mut self.requests));
            std::mem::forget(std::mem::take(&mut self.wakers));
        }
        self.out.clear();
        *self.quiet.insert(quiet)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        debug_assert!(self.out.is_empty(), "a job cancels its transport first");
    }
}
