//! The libraries' batch call: what fio queues is collected and submitted at once, and more while others are in flight.
//!
//! One batch takes no more operations than the vendor allows, so a deep queue has several. A batch whose status call fails has lost its
//! operations (so the real library in compat mode after one failed entry): each is done again by a blocking call, and the batch made anew.

use std::collections::VecDeque;
use std::time::Duration;

use super::codes::{self, Failure};
use super::entries::{Entry, Event};
use super::lanes::{Kind, Lanes};
use super::{Direct, Library, Vendor, after_call};
use crate::common::transport::{Moved, Operation, Submitted, Transport};
use crate::common::wait::{Bell, Deadline, Manner};

/// How long one status call of [`Manner::Block`] may sleep, and where several batches have to be looked at in turn.
const LONGEST: Duration = Duration::from_millis(100);
const SLICE: Duration = Duration::from_micros(250);
/// A pause where the status call came back at once and empty-handed, as it does for operations in the vendor's threads.
const NAP: Duration = Duration::from_micros(50);
/// How long operations have to come back when the job ends.
const PATIENCE: Duration = Duration::from_millis(300);

/// What a library has only so many of, for all batches of a process.
pub trait Limit {
    /// Takes one for an operation of `bytes` bytes; its kind, or `None` where all of it are taken.
    fn take(&mut self, bytes: usize) -> Option<usize>;

    fn release(&self, kind: usize);

    /// Why take() gave nothing, for the user.
    fn complaint(&self) -> Option<String>;
}

/// The batches of one job.
pub struct Batches<V: Vendor> {
    direct: Direct<V>,
    lanes: Lanes<V>,
    /// Every operation that is out, by its tag, which is its entry's name, too.
    slots: Vec<Option<Slot>>,
    /// A batch has entries that were not submitted yet.
    has_collected: bool,
    /// Names that no batch had room for yet, in order.
    backlog: VecDeque<usize>,
    slabs: Option<Box<dyn Limit>>,
    events: Vec<Event>,
    /// Ended, and not handed back yet.
    ended: VecDeque<(u32, Moved)>,
    in_flight: usize,
    manner: Manner,
    /// Never rung: the vendor has no way to wake a sleeper but its own status call.
    bell: Bell,
    /// The first failure of a batch, for the user.
    trouble: Option<String>,
    /// Once ended: whether the vendor has no operation any more.
    quiet: Option<bool>,
}

struct Slot {
    operation: Operation,
    /// Bytes that earlier, short calls have moved.
    done: usize,
    /// The batch that it is in.
    lane: Option<usize>,
    /// The class of the bounce buffer that it holds.
    class: Option<usize>,
}

impl Slot {
    /// Whether no batch of the vendor's takes it, so that it is done by a blocking call.
    #[inline]
    fn must_go_round<V: Vendor>(&self) -> bool {
        Direct::<V>::must_go_round(&self.operation, self.done)
    }
}

impl<V: Vendor> Batches<V> {
    /// Batches for `depth` operations, whose tags are below that. `slabs` bounds them in compat mode.
    pub fn new(direct: Direct<V>, depth: usize, slabs: Option<Box<dyn Limit>>, manner: Manner) -> Result<Self, String> {
        let lanes = Lanes::new(direct.library, depth).map_err(|failure| {
            format!("{}BatchIOSetUp: {}; use gpu_mode=pool, or a lower iodepth", V::PREFIX, Library::<V>::explain(failure))
        })?;
        Ok(Self {
            events: vec![Event::EMPTY; lanes.entries()],
            direct,
            lanes,
            slots: (0..depth).map(|_| None).collect(),
            has_collected: false,
            backlog: VecDeque::with_capacity(depth),
            slabs,
            ended: VecDeque::with_capacity(depth),
            in_flight: 0,
            manner,
            bell: Bell::default(),
            trouble: None,
            quiet: None,
        })
    }

    /// Moves the backlog into batches as far as there is room, and submits what is collected.
    #[inline]
    fn pump(&mut self) {
        if self.has_collected || !self.backlog.is_empty() {
            self.submit_all();
        }
    }

    fn submit_all(&mut self) {
        while let Some(&name) = self.backlog.front() {
            if self.slots[name].as_ref().is_some_and(Slot::must_go_round::<V>) {
                self.do_again(name);
            } else if !self.collect(name) {
                break;
            }
            self.backlog.pop_front();
        }
        self.has_collected = false;
        for index in 0..self.lanes.len() {
            if !self.lanes.lane(index).collected.is_empty() {
                self.submit_collected(index);
            }
        }
    }

    /// Gives an operation to a batch for its next submission. Returns whether one had room.
    fn collect(&mut self, name: usize) -> bool {
        let Some(slot) = &mut self.slots[name] else { return true };
        if slot.must_go_round::<V>() {
            return false;
        }
        let entry = Entry::new(&slot.operation, slot.done, name);
        let Some(lane) = self.lanes.room(Kind::of(&entry)) else { return false };
        if let Some(slabs) = &mut self.slabs {
            slot.class = slabs.take(slot.operation.buffer.len() - slot.done);
            if slot.class.is_none() {
                return false;
            }
        }
        slot.lane = Some(lane);
        self.lanes.lane(lane).collected.push(entry);
        self.has_collected = true;
        true
    }

    fn submit_collected(&mut self, index: usize) {
        let lane = self.lanes.lane(index);
        match self.direct.library.calls.submit_batch(lane.handle, &mut lane.collected) {
            Ok(()) => {
                lane.submitted += lane.collected.len();
                lane.collected.clear();
            }
            // Room comes with the next event.
            Err(Failure::Own(codes::BATCH_FULL)) if lane.submitted > 0 => self.has_collected = true,
            Err(failure) => self.not_submitted(index, failure),
        }
    }

    /// What is in flight is left alone; the rest is done by blocking calls.
    #[cold]
    fn not_submitted(&mut self, index: usize, failure: Failure) {
        self.note("BatchIOSubmit", failure);
        if self.lanes.lane(index).submitted == 0 {
            return self.rebuild(index);
        }
        while let Some(entry) = self.lanes.lane(index).collected.pop() {
            self.do_again(entry.name());
        }
    }

    /// Does one operation by blocking calls in place of its batch.
    fn do_again(&mut self, name: usize) {
        if let Some(slot) = self.release(name) {
            let moved = self.direct.run_rest(&slot.operation, slot.done);
            self.ended.push_back((slot.operation.tag, moved));
        }
    }

    /// Makes a batch anew, and does again, one by one, what it has lost. Destroying it waits for what still runs.
    #[cold]
    fn rebuild(&mut self, index: usize) {
        self.lanes.rebuild(index);
        for name in 0..self.slots.len() {
            if self.is_in(name, index) {
                self.do_again(name);
            }
        }
    }

    fn is_in(&self, name: usize, lane: usize) -> bool {
        self.slots.get(name).and_then(Option::as_ref).is_some_and(|slot| slot.lane == Some(lane))
    }

    #[cold]
    fn note(&mut self, call: &str, failure: Failure) {
        if self.trouble.is_none() {
            let (prefix, why) = (V::PREFIX, Library::<V>::explain(failure));
            self.trouble =
                Some(format!("{prefix}{call}: {why}; the operations of that batch are done one by one by blocking calls (said once)"));
        }
    }

    /// Looks at one batch and moves what has ended to the list. There is always room for all events: one that is not fetched may be lost.
    fn poll(&mut self, index: usize, min: usize, wait: Duration) {
        let lane = self.lanes.lane(index);
        let min = min.min(lane.submitted);
        self.events[0] = Event::EMPTY;
        match self.direct.library.calls.batch_status(lane.handle, min, wait, &mut self.events) {
            Ok(count) => {
                for number in 0..count {
                    self.take(index, self.events[number]);
                }
            }
            Err(failure) => {
                // The entry that failed is told all the same, and ends as it failed.
                let told = self.events[0];
                if told.result().is_some_and(|result| result.is_err()) && self.is_in(told.name(), index) {
                    self.take(index, told);
                }
                self.note("BatchIOGetStatus", failure);
                self.rebuild(index);
            }
        }
    }

    /// Takes one event: its operation has ended, or its rest goes before everything that waits.
    #[inline]
    fn take(&mut self, index: usize, event: Event) {
        let (name, Some(result)) = (event.name(), event.result()) else { return };
        let Some(slot) = self.slots.get_mut(name).and_then(Option::as_mut) else { return };
        self.lanes.lane(index).submitted -= 1;
        slot.lane = None;
        if let (Some(slabs), Some(class)) = (&self.slabs, slot.class.take()) {
            slabs.release(class);
        }
        let Some(moved) = after_call(result, &mut slot.done, slot.operation.buffer.len()) else {
            return self.backlog.push_front(name);
        };
        self.ended.push_back((slot.operation.tag, moved));
        self.slots[name] = None;
    }

    /// Looks at every batch that has something in flight; where that is not enough and the manner is to sleep, sleeps a while.
    fn look(&mut self, min: usize, deadline: &Deadline) {
        for index in 0..self.lanes.len() {
            if self.lanes.lane(index).submitted > 0 {
                self.poll(index, 0, Duration::ZERO);
            }
        }
        let missing = min.saturating_sub(self.ended.len());
        if self.manner == Manner::Block && missing > 0 {
            self.sleep(missing, deadline);
        }
    }

    #[cold]
    fn sleep(&mut self, missing: usize, deadline: &Deadline) {
        let left = deadline.left().unwrap_or(LONGEST);
        let before = self.ended.len();
        if let Some(index) = self.lanes.fullest() {
            match self.lanes.busy() == 1 && self.backlog.is_empty() {
                true => self.poll(index, missing, left.min(LONGEST)),
                false => self.poll(index, 1, left.min(SLICE)),
            }
        }
        if self.ended.len() == before {
            self.bell.sleep(self.bell.ticket(), Some(left.min(NAP)));
        }
    }

    fn hand_over(&mut self, room: usize, done: &mut dyn FnMut(u32, Moved)) -> usize {
        let mut count = 0;
        while count < room {
            let Some((tag, moved)) = self.ended.pop_front() else { break };
            done(tag, moved);
            count += 1;
        }
        self.in_flight -= count;
        count
    }
}

impl<V: Vendor> Transport for Batches<V> {
    fn path(&self) -> &'static str {
        V::BATCH_PATH
    }

    fn submit(&mut self, operation: &Operation) -> Submitted {
        let name = operation.tag as usize;
        self.slots[name] = Some(Slot { operation: *operation, done: 0, lane: None, class: None });
        if !self.backlog.is_empty() || !self.collect(name) {
            self.backlog.push_back(name);
        }
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

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(u32, Moved)) -> Result<(), i32> {
        let deadline = Deadline::after(timeout);
        let min = min.min(self.in_flight).min(max);
        let (mut found, mut turns) = (0, 0);
        loop {
            self.pump();
            if self.ended.len() < max - found {
                self.look(min - found, &deadline);
            }
            found += self.hand_over(max - found, done);
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
        self.trouble.clone().or_else(|| self.slabs.as_ref()?.complaint())
    }

    fn cancel(&mut self) -> bool {
        self.end()
    }
}

impl<V: Vendor> Batches<V> {
    /// Takes an operation out of its slot, and gives back what it held.
    #[inline]
    fn release(&mut self, name: usize) -> Option<Slot> {
        let slot = self.slots.get_mut(name)?.take()?;
        if let (Some(slabs), Some(class)) = (&self.slabs, slot.class) {
            slabs.release(class);
        }
        Some(slot)
    }

    /// Nothing is submitted any more; what is in flight gets a while to come back, since after cuFileBatchIOCancel nothing would. Says
    /// whether it has.
    fn end(&mut self) -> bool {
        if let Some(quiet) = self.quiet {
            return quiet;
        }
        self.backlog.clear();
        let deadline = Deadline::after(Some(PATIENCE));
        while self.lanes.busy() > 0 && !deadline.is_past() {
            for index in 0..self.lanes.len() {
                self.drain(index);
            }
            self.bell.sleep(self.bell.ticket(), Some(NAP));
        }
        let quiet = self.lanes.busy() == 0;
        self.lanes.end();
        if quiet {
            // What is left was never submitted.
            (0..self.slots.len()).for_each(|name| {
                self.release(name);
            });
        }
        self.in_flight = 0;
        *self.quiet.insert(quiet)
    }

    fn drain(&mut self, index: usize) {
        let lane = self.lanes.lane(index);
        lane.collected.clear();
        if lane.submitted == 0 {
            return;
        }
        match self.direct.library.calls.batch_status(lane.handle, 0, Duration::ZERO, &mut self.events) {
            Ok(count) => {
                let ended = self.events[..count].iter().filter(|event| event.result().is_some()).count();
                lane.submitted = lane.submitted.saturating_sub(ended);
            }
            Err(_) => lane.submitted = 0, // it has lost them
        }
    }
}

impl<V: Vendor> Drop for Batches<V> {
    fn drop(&mut self) {
        self.end();
    }
}
