//! The requests of one job: collected by submit(), started by commit(), alone or many in one list, and ended by polling or by callback.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::calls::{LIST_HEAD, Library, ListRange, Manner, Order, Request, Waker, hold_sigpipe, write_list};
use super::codes::{self, CANCELLED, DONE, IN_FLIGHT, INVALID, THROTTLED};
use super::context::Attached;
use super::devices::Kind;
use super::process;
use crate::common::transport::{Buffer, Moved, Operation, Submitted, Transfer, Transport};
use crate::common::wait::{self, Bell, Deadline};

/// Ranges of one list at most; longer ones gain nothing, and each needs its room.
const LONGEST_LIST: usize = 64;
/// How long requests have to come back when the job ends.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long one sleep may be while operations wait for room on a device.
const ROOM_SLICE: Duration = Duration::from_millis(1);
/// The end of a list.
const NONE: u32 = u32::MAX;

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

/// Bytes behind the job's buffers that lists are written to, wherever those end.
pub fn list_room(depth: usize, makes_lists: bool) -> usize {
    if makes_lists { LIST_HEAD + depth * list_bytes(depth) } else { 0 }
}

fn list_bytes(depth: usize) -> usize {
    LIST_HEAD + depth.min(LONGEST_LIST) * size_of::<ListRange>()
}

/// The requests of one job.
pub struct Requests<T> {
    library: &'static Library,
    settings: Settings,
    devices: Vec<Attached>,
    /// One for each operation in flight; the library knows them by their address.
    requests: Box<[Request]>,
    wakers: Box<[Waker]>,
    ended: Arc<Ended>,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<u32>,
    /// Taken since the last commit, which is what fio takes for their start.
    collected: Vec<u32>,
    /// To be started, in order.
    due: Vec<u32>,
    /// Started, each by the number of its request; the rest of a list hangs on it.
    out: Vec<u32>,
    /// Ended, and not handed back yet: the rest of lists.
    ready: VecDeque<(T, Moved)>,
    /// Where lists are written to.
    lists: usize,
    /// Once I/O has begun, in the job's thread.
    holds_sigpipe: bool,
    /// Once cancelled: whether the library has no request any more.
    quiet: Option<bool>,
}

#[derive(Clone, Copy)]
struct Slot<T> {
    tag: T,
    transfer: Transfer,
    device: usize,
    offset: u64,
    buffer: Buffer,
    /// The next operation of the same list.
    next: u32,
    /// It has failed in a list, and is tried again to learn which of them it was.
    is_alone: bool,
}

impl<T: Copy> Requests<T> {
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
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth as u32).rev().collect(),
            collected: Vec::with_capacity(depth),
            due: Vec::with_capacity(depth),
            out: Vec::with_capacity(depth),
            ready: VecDeque::with_capacity(depth),
            lists: 0,
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
        let (mut at, mut kept) = (0, 0);
        while at < self.due.len() {
            let first = self.due[at];
            let count = if self.settings.makes_lists { self.run_at(at) } else { 1 };
            if self.settings.makes_lists {
                for n in at..at + count {
                    let next = if n + 1 < at + count { self.due[n + 1] } else { NONE };
                    self.link(self.due[n], next);
                }
            }
            if !self.start(first, count) {
                self.due.copy_within(at..at + count, kept);
                kept += count;
            }
            at += count;
        }
        self.due.truncate(kept);
    }

    /// How many of the operations that are due from `at` on go into one list.
    fn run_at(&self, at: usize) -> usize {
        let of =
            |n: usize| self.slots[self.due[n] as usize].as_ref().filter(|slot| !slot.is_alone).map(|slot| (slot.device, slot.transfer));
        let Some(first) = of(at) else { return 1 };
        (at..self.due.len()).take(LONGEST_LIST).take_while(|&n| of(n) == Some(first)).count()
    }

    fn link(&mut self, number: u32, next: u32) {
        if let Some(slot) = &mut self.slots[number as usize] {
            slot.next = next;
        }
    }

    /// Starts an operation, or a list of `count` that hang on it. Returns false where the library has no room now.
    #[inline]
    fn start(&mut self, first: u32, count: usize) -> bool {
        let Some(slot) = self.slots[first as usize] else { return true };
        let device = &self.devices[slot.device];
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
            1 => (slot.buffer.address(), slot.buffer.len() as u64, device.offset + slot.offset),
            _ => {
                let at = self.lists + first as usize * list_bytes(self.settings.depth);
                (at, self.write_list(at, first, count, device.offset), 0)
            }
        };
        let order = Order {
            transfer: slot.transfer,
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

    fn write_list(&self, at: usize, first: u32, count: usize, base: u64) -> u64 {
        let mut number = first;
        let ranges = (0..count).map(|_| {
            let slot = self.slots[number as usize].as_ref();
            number = slot.map_or(NONE, |slot| slot.next);
            slot.map_or(ListRange { buffer: 0, bytes: 0, offset: 0 }, |slot| ListRange {
                buffer: slot.buffer.address(),
                bytes: slot.buffer.len() as u64,
                offset: base + slot.offset,
            })
        });
        write_list(at, ranges)
    }

    /// Hands back at most `max` operations that have ended by now; returns how many.
    #[inline]
    fn collect(&mut self, max: usize, done: &mut dyn FnMut(T, Moved)) -> usize {
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
        if let Some(slot) = &self.slots[first as usize] {
            self.devices[slot.device].in_flight.fetch_sub(1, Ordering::AcqRel);
        }
        let is_list = self.slots[first as usize].as_ref().is_some_and(|slot| slot.next != NONE);
        if code == THROTTLED || (is_list && code != DONE && code != CANCELLED) {
            self.take_back(first, code != THROTTLED);
            return;
        }
        let code = if code == INVALID && self.is_of_lost_server(first) { CANCELLED } else { code };
        if let Some(slot) = self.slots[first as usize].as_ref().filter(|_| code == CANCELLED) {
            self.devices[slot.device].is_gone.store(true, Ordering::Release);
        }
        self.end(first, code);
    }

    /// Whether the library finds fault with an operation that has none, because it has given its device up.
    #[cold]
    fn is_of_lost_server(&self, number: u32) -> bool {
        let Some(slot) = &self.slots[number as usize] else { return false };
        let device = &self.devices[slot.device];
        let all = slot.offset | device.offset | slot.buffer.len() as u64 | slot.buffer.address() as u64;
        device.kind == Kind::Server && all % u64::from(device.block_size.max(1)) == 0
    }

    /// Makes an operation, or all of a list, ready to be handed back.
    #[inline]
    fn end(&mut self, first: u32, code: i32) {
        let mut number = first;
        while let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::take) {
            let moved = if code == DONE { Moved::bytes(slot.buffer.len()) } else { codes::failed(code) };
            self.free.push(number);
            self.ready.push_back((slot.tag, moved));
            number = slot.next;
        }
    }

    /// Starts the operations of a request that was not taken, or of a list that failed, once more; these each on its own.
    #[cold]
    fn take_back(&mut self, first: u32, is_alone: bool) {
        let mut number = first;
        while let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) {
            slot.is_alone |= is_alone;
            self.due.push(number);
            number = std::mem::replace(&mut slot.next, NONE);
        }
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
        self.out.iter().any(|&number| self.slots[number as usize].as_ref().is_some_and(|slot| slot.device == device))
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
}

impl<T: Copy> Transport<T> for Requests<T> {
    fn is_synchronous(&self) -> bool {
        false
    }

    fn path(&self) -> &'static str {
        if self.settings.makes_lists { "gusli-sgl" } else { "gusli" }
    }

    fn attach(&mut self, block: Buffer) -> Result<Option<String>, String> {
        self.lists = (block.address() + block.len()).next_multiple_of(LIST_HEAD);
        Ok(None)
    }

    #[inline]
    fn submit(&mut self, operation: &Operation<T>) -> Submitted {
        if self.quiet.is_some() {
            return Submitted::Done(Moved::failed(libc::ECANCELED, 0));
        }
        let device = operation.handle.0;
        let Some(attached) = self.devices.get(device) else { return Submitted::Done(Moved::failed(libc::EBADF, 0)) };
        if attached.is_closed() {
            return Submitted::Done(codes::failed(CANCELLED));
        }
        // There is one for each operation that fio can have out: a write is never turned away, since up to 3.38 fio then gives it another verify
        // header. What the device has no room for waits here.
        let Some(number) = self.free.pop() else { return Submitted::Busy };
        let Operation { tag, transfer, offset, buffer, .. } = *operation;
        self.slots[number as usize] = Some(Slot { tag, transfer, device, offset, buffer, next: NONE, is_alone: false });
        self.collected.push(number);
        Submitted::InFlight
    }

    #[inline]
    fn commit(&mut self) -> Result<(), i32> {
        if !self.collected.is_empty() {
            self.due.append(&mut self.collected);
            self.start_due();
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(T, Moved)) -> Result<(), i32> {
        let deadline = Deadline::after(timeout);
        let (mut found, mut turns) = (0, 0);
        loop {
            if !self.due.is_empty() {
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
            let most = if self.due.is_empty() { &deadline } else { short.sooner(&deadline) };
            self.settings.wait.pause(&mut turns, &self.ended.bell, ticket, most);
        }
    }

    fn cancel(&mut self) -> bool {
        if let Some(quiet) = self.quiet {
            return quiet;
        }
        let drop_it = &mut |_, _| {};
        let deadline = Deadline::after(Some(PATIENCE));
        while !self.out.is_empty() && !deadline.is_past() {
            self.collect(usize::MAX, drop_it);
            self.find_cancelled();
            std::thread::sleep(Duration::from_micros(100));
        }
        // What a device in the kernel has, the kernel gives back some day; the others can be cut off.
        for device in 0..self.devices.len() {
            if !self.devices[device].kind.is_local() && self.has_out(device) {
                process::force_close(&self.devices[device]);
            }
        }
        self.find_cancelled();
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

impl<T> Drop for Requests<T> {
    fn drop(&mut self) {
        debug_assert!(self.out.is_empty(), "a job cancels its transport first");
    }
}
