//! cuFile's batch call: what fio queues is collected and submitted at once, and more while others are in flight.
//!
//! One batch takes no more operations than the vendor allows, so a deep queue has several. A batch whose status call fails has lost its
//! operations (so the real library in compat mode after one failed entry): each is done again by a blocking call, and the batch made anew.

use std::collections::VecDeque;
use std::time::Duration;

use super::Direct;
use super::calls::{BatchHandle, Entry, Event};
use super::codes::{self, Failure};
use super::process::Library;
use super::slabs::Slabs;
use crate::common::blocking::Blocking;
use crate::common::transport::{Moved, Operation, Submitted, Transport};
use crate::common::wait::{Bell, Deadline, Manner};

/// Entries that the vendor's library can really do at a time; more are accepted, and then fail.
const MOST_ENTRIES: u32 = 128;
/// How long one status call of [`Manner::Block`] may sleep, and where several batches have to be looked at in turn.
const LONGEST: Duration = Duration::from_millis(100);
const SLICE: Duration = Duration::from_millis(1);
/// How long operations have to come back when the job ends.
const PATIENCE: Duration = Duration::from_millis(500);

/// The batches of one job.
pub struct Batches<T> {
    direct: Direct,
    batches: Vec<One>,
    /// Every operation that is out, by the name that its entry has.
    slots: Vec<Option<Slot<T>>>,
    free: Vec<usize>,
    /// Names that no batch had room for yet, in order.
    backlog: VecDeque<usize>,
    slabs: Option<Slabs>,
    events: Vec<Event>,
    /// Ended, and not handed back yet.
    ended: Vec<(T, Moved)>,
    in_flight: usize,
    manner: Manner,
    /// Never rung: the vendor has no way to wake a sleeper but its own status call.
    bell: Bell,
}

/// One batch of the vendor's.
struct One {
    handle: BatchHandle,
    entries: usize,
    /// For the next submission.
    collected: Vec<Entry>,
    submitted: usize,
}

#[derive(Clone, Copy)]
struct Slot<T> {
    operation: Operation<T>,
    /// Bytes that earlier, short calls have moved.
    done: usize,
    /// Where it is: a batch, and the class of its bounce buffer.
    place: Option<(usize, usize)>,
}

impl<T: Copy> Batches<T> {
    /// Batches for `depth` operations. `slabs` bounds them in compat mode.
    pub fn new(direct: Direct, depth: usize, slabs: Option<Slabs>, manner: Manner) -> Result<Self, String> {
        let calls = &direct.library.calls;
        let mut entries =
            calls.batch_limit().unwrap_or(MOST_ENTRIES).min(MOST_ENTRIES).min(u32::try_from(depth).unwrap_or(u32::MAX)).max(1);
        let mut batches: Vec<One> = Vec::new();
        while batches.len() * (entries as usize) < depth {
            match calls.set_up_batch(entries) {
                Ok(handle) => batches.push(One::new(handle, entries as usize)),
                // The limit is lower than the library says: find it.
                Err(_) if batches.is_empty() && entries > 1 => entries /= 2,
                Err(failure) => {
                    batches.iter().for_each(|one| calls.destroy_batch(one.handle));
                    let why = Library::explain(failure);
                    return Err(format!("cuFileBatchIOSetUp of {entries} entries: {why}; use gpu_mode=pool, or a lower iodepth"));
                }
            }
        }
        Ok(Self {
            direct,
            batches,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            backlog: VecDeque::with_capacity(depth),
            slabs,
            events: vec![Event::EMPTY; entries as usize],
            ended: Vec::with_capacity(depth),
            in_flight: 0,
            manner,
            bell: Bell::default(),
        })
    }

    /// Moves the backlog into batches as far as there is room, and submits what is collected.
    fn pump(&mut self) {
        while let Some(&name) = self.backlog.front() {
            let Some(slot) = &mut self.slots[name] else { break };
            let Some(index) = self.batches.iter().position(|one| one.submitted + one.collected.len() < one.entries) else { break };
            let class = match &mut self.slabs {
                Some(slabs) => match slabs.take(slot.operation.buffer.len() - slot.done) {
                    Some(class) => class,
                    None => break,
                },
                None => 0,
            };
            slot.place = Some((index, class));
            self.batches[index].collected.push(Entry::new(&slot.operation, slot.done, name));
            self.backlog.pop_front();
        }
        for index in 0..self.batches.len() {
            if !self.batches[index].collected.is_empty() {
                self.submit_collected(index);
            }
        }
    }

    fn submit_collected(&mut self, index: usize) {
        let one = &mut self.batches[index];
        match self.direct.library.calls.submit_batch(one.handle, &mut one.collected) {
            Ok(()) => {
                one.submitted += one.collected.len();
                one.collected.clear();
            }
            // Room comes with the next event.
            Err(Failure::Own(codes::BATCH_FULL)) if one.submitted > 0 => {}
            Err(_) if one.submitted == 0 => self.rebuild(index),
            // What is in flight is left alone; the rest is done by blocking calls.
            Err(_) => {
                while let Some(entry) = self.batches[index].collected.pop() {
                    self.do_again(entry.name());
                }
            }
        }
    }

    /// Does one operation by blocking calls in place of its batch.
    #[cold]
    fn do_again(&mut self, name: usize) {
        if let Some(slot) = self.release(name) {
            self.ended.push((slot.operation.tag, finish(&mut self.direct, slot)));
        }
    }

    /// Does again, one by one, what a failed batch has lost, and makes the batch anew.
    #[cold]
    fn rebuild(&mut self, index: usize) {
        let calls = &self.direct.library.calls;
        let one = &mut self.batches[index];
        calls.destroy_batch(one.handle);
        one.collected.clear();
        one.submitted = 0;
        // Where there is no new batch, what comes next is done by blocking calls as well.
        one.handle = calls.set_up_batch(u32::try_from(one.entries).unwrap_or(1)).unwrap_or(BatchHandle::NONE);
        for name in 0..self.slots.len() {
            if self.slots[name].as_ref().is_some_and(|slot| slot.place.is_some_and(|(batch, _)| batch == index)) {
                self.do_again(name);
            }
        }
    }

    /// Takes an operation out of its slot, and gives back what it held.
    fn release(&mut self, name: usize) -> Option<Slot<T>> {
        let slot = self.slots.get_mut(name)?.take()?;
        if let (Some(slabs), Some((_, class))) = (&mut self.slabs, slot.place) {
            slabs.release(class);
        }
        self.free.push(name);
        Some(slot)
    }

    /// Looks at one batch and moves what has ended to the list. There is always room for all events: one that is not fetched may be lost.
    fn poll(&mut self, index: usize, min: usize, wait: Duration) {
        let one = &mut self.batches[index];
        let min = min.min(one.submitted);
        let Ok(count) = self.direct.library.calls.batch_status(one.handle, min, wait, &mut self.events) else {
            return self.rebuild(index);
        };
        for number in 0..count {
            let event = self.events[number];
            let Some(result) = event.result() else { continue };
            let Some(mut slot) = self.release(event.name()) else { continue };
            self.batches[index].submitted -= 1;
            if let Ok(bytes @ 1..) = result {
                slot.done += bytes;
                if slot.done < slot.operation.buffer.len() {
                    self.put_back(slot);
                    continue;
                }
            }
            let moved = match result {
                Err(failure) if slot.done == 0 => failure.moved(),
                _ => Moved::bytes(slot.done),
            };
            self.ended.push((slot.operation.tag, moved));
        }
    }

    /// The rest of a short operation goes before everything that waits.
    fn put_back(&mut self, slot: Slot<T>) {
        if let Some(name) = self.free.pop() {
            self.slots[name] = Some(Slot { place: None, ..slot });
            self.backlog.push_front(name);
        }
    }

    fn hand_over_ended(&mut self, room: usize, done: &mut dyn FnMut(T, Moved)) -> usize {
        let count = self.ended.len().min(room);
        for (tag, moved) in self.ended.drain(..count) {
            done(tag, moved);
        }
        self.in_flight -= count;
        count
    }
}

impl One {
    fn new(handle: BatchHandle, entries: usize) -> Self {
        Self { handle, entries, collected: Vec::with_capacity(entries), submitted: 0 }
    }
}

/// Does the rest of an operation by blocking calls.
fn finish<T: Copy>(direct: &mut Direct, slot: Slot<T>) -> Moved {
    let Slot { operation, done, .. } = slot;
    if done == 0 {
        return direct.run(&operation);
    }
    let rest = operation.after(done);
    Moved::bytes(done + direct.run(&rest).bytes)
}

impl<T: Copy + Send + 'static> Transport<T> for Batches<T> {
    fn is_synchronous(&self) -> bool {
        false
    }

    fn path(&self) -> &'static str {
        "cufile-batch"
    }

    fn submit(&mut self, operation: &Operation<T>) -> Submitted {
        let Some(name) = self.free.pop() else { return Submitted::Busy };
        self.slots[name] = Some(Slot { operation: *operation, done: 0, place: None });
        self.backlog.push_back(name);
        self.in_flight += 1;
        Submitted::InFlight
    }

    fn commit(&mut self) -> Result<(), i32> {
        self.pump();
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(T, Moved)) -> Result<(), i32> {
        let deadline = Deadline::after(timeout);
        let min = min.min(self.in_flight).min(max);
        let (mut found, mut turns) = (0, 0);
        loop {
            self.pump();
            let busy = self.batches.iter().filter(|one| one.submitted > 0).count();
            for index in 0..self.batches.len() {
                let missing = min.saturating_sub(found + self.ended.len());
                if self.batches[index].submitted > 0 {
                    let (least, wait) = self.patience(missing, busy, &deadline);
                    self.poll(index, least, wait);
                }
            }
            found += self.hand_over_ended(max - found, done);
            if found >= min || deadline.is_past() {
                self.pump();
                return Ok(());
            }
            if self.manner != Manner::Block {
                self.manner.pause(&mut turns, &self.bell, self.bell.ticket(), &deadline);
            }
        }
    }

    fn complaint(&self) -> Option<String> {
        self.slabs.as_ref()?.complaint()
    }

    fn cancel(&mut self) -> bool {
        let calls = &self.direct.library.calls;
        self.backlog.clear();
        let deadline = Deadline::after(Some(PATIENCE));
        let mut is_quiet = true;
        for one in &mut self.batches {
            one.collected.clear();
            // Nothing comes any more once a batch was cancelled, so what is in flight gets its time first.
            while one.submitted > 0 && !deadline.is_past() {
                match calls.batch_status(one.handle, 1, SLICE, &mut self.events) {
                    Ok(count) => {
                        let ended = self.events[..count].iter().filter(|event| event.result().is_some()).count();
                        one.submitted = one.submitted.saturating_sub(ended);
                    }
                    Err(_) => break,
                }
            }
            if one.submitted > 0 {
                is_quiet = false;
                let _ = calls.cancel_batch(one.handle);
            }
            calls.destroy_batch(one.handle);
        }
        self.batches.clear();
        self.in_flight = 0;
        is_quiet
    }
}

impl<T> Batches<T> {
    /// How many events one status call is to wait for, and how long.
    fn patience(&self, missing: usize, busy: usize, deadline: &Deadline) -> (usize, Duration) {
        let left = deadline.left().unwrap_or(LONGEST);
        match self.manner {
            _ if missing == 0 => (0, Duration::ZERO),
            Manner::Block if busy == 1 && self.backlog.is_empty() => (missing, left.min(LONGEST)),
            Manner::Block => (1, left.min(SLICE)),
            Manner::Spin | Manner::Yield => (0, Duration::ZERO),
        }
    }
}
