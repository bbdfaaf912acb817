//! The transfers of one job: collected by submit(), made and started by commit(), alone or several in one, and ended by asking for their status.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use super::calls::{Agent, Piece, Request, Segment, size_of};
use super::codes::{self, DONE, IN_FLIGHT};
use super::plugins::Plugin;
use crate::common::transport::{Moved, Operation, Submitted, Transfer, Transport};
use crate::common::wait::{Bell, Deadline, Manner};

/// How long transfers have to come back when the job ends.
const PATIENCE: Duration = Duration::from_millis(500);
/// One sleep of [`Manner::Block`]: the library wakes nobody.
const NAP: Duration = Duration::from_micros(50);
/// The end of a list.
const NONE: u32 = u32::MAX;

/// How a job's transfers are made and waited for.
#[derive(Clone, Copy)]
pub struct Settings {
    pub depth: usize,
    pub wait: Manner,
    pub plugin: Plugin,
    /// Operations in one transfer at most (`nixl_batch`).
    pub batch: usize,
    /// The device of the I/O buffers, 0 for host memory.
    pub memory_device: u64,
    /// fio's direct=1: a read keeps its size, which has to be in whole sectors.
    pub is_direct: bool,
}

/// The transfers of one job. Operations are known by their tag, which is below the depth.
pub struct Transfers {
    agent: Rc<Agent>,
    settings: Settings,
    slots: Vec<Option<Slot>>,
    /// Taken since the last commit.
    collected: Vec<u32>,
    /// To be started, in order.
    due: Vec<u32>,
    out: Vec<Out>,
    /// By tag: a transfer that has ended well, to be started again where the next one with that tag is the same.
    kept: Vec<Option<(Request, Piece, Transfer)>>,
    /// What the plugin has lost track of.
    stuck: Vec<Out>,
    /// Ended, and not handed back yet.
    ready: VecDeque<(u32, Moved)>,
    /// By descriptor: the sizes of regular files.
    files: Vec<Option<Size>>,
    /// Looks at what has ended.
    looks: u64,
    /// Never rung.
    bell: Bell,
    /// The status after which the plugin has lost track.
    lost: Option<i32>,
    /// Once cancelled: whether the library has no transfer any more.
    quiet: Option<bool>,
}

/// A transfer that was started.
struct Out {
    request: Request,
    /// Its first operation; the others hang on it.
    first: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    operation: Operation,
    /// What is asked for of it: not more than there is.
    bytes: usize,
    /// The next operation of the same transfer.
    next: u32,
    /// It has failed in a transfer of several, and is tried again to learn which of them it was.
    is_alone: bool,
}

/// What a file's size was at a look.
#[derive(Clone, Copy)]
struct Size {
    bytes: u64,
    look: u64,
}

impl Transfers {
    pub fn new(agent: Rc<Agent>, settings: Settings) -> Self {
        let depth = settings.depth;
        Self {
            agent,
            settings,
            slots: (0..depth).map(|_| None).collect(),
            collected: Vec::with_capacity(depth),
            due: Vec::with_capacity(depth),
            out: Vec::with_capacity(depth),
            kept: (0..depth).map(|_| None).collect(),
            stuck: Vec::new(),
            ready: VecDeque::with_capacity(depth),
            files: Vec::new(),
            looks: 0,
            bell: Bell::default(),
            lost: None,
            quiet: None,
        }
    }

    /// How many bytes of a read there can be: the library tells nobody where a file ends.
    fn readable(&mut self, operation: &Operation) -> usize {
        let wanted = operation.buffer.len();
        let end = operation.offset + wanted as u64;
        let Some(size) = usize::try_from(operation.fd).ok().and_then(|fd| self.files.get_mut(fd)?.as_mut()) else { return wanted };
        if end > size.bytes {
            size.bytes = size_of(operation.fd).unwrap_or(size.bytes);
        }
        let left = size.bytes.saturating_sub(operation.offset);
        if left > 0 && self.settings.is_direct && !self.settings.plugin.traits.is_cufile {
            return wanted;
        }
        left.min(wanted as u64) as usize
    }

    /// Starts what is due, several in one transfer where that was asked for.
    #[inline]
    fn start_due(&mut self) {
        let mut at = 0;
        while at < self.due.len() && self.lost.is_none() {
            let count = if self.settings.batch > 1 { self.run_at(at) } else { 1 };
            let first = self.due[at];
            for n in at + 1..at + count {
                self.link(self.due[n - 1], self.due[n]);
            }
            self.start(first);
            at += count;
        }
        self.due.clear();
    }

    /// How many of the operations that are due from `at` on go into one transfer.
    fn run_at(&self, at: usize) -> usize {
        let of = |n: usize| self.slots[self.due[n] as usize].as_ref().filter(|slot| !slot.is_alone).map(|slot| slot.operation.transfer);
        let Some(first) = of(at) else { return 1 };
        (at..self.due.len()).take(self.settings.batch).take_while(|&n| of(n) == Some(first)).count()
    }

    fn link(&mut self, number: u32, next: u32) {
        if let Some(slot) = &mut self.slots[number as usize] {
            slot.next = next;
        }
    }

    #[inline]
    fn start(&mut self, first: u32) {
        let Some(slot) = self.slots[first as usize] else { return };
        match self.request(first, &slot) {
            Ok(request) => {
                let status = self.agent.post(&request);
                self.out.push(Out { request, first });
                if status != IN_FLIGHT {
                    self.settle(self.out.len() - 1, status);
                }
            }
            Err(status) => self.end(first, status),
        }
    }

    /// The transfer for an operation and those that hang on it: a new one, unless the last one with the tag was the same.
    #[inline]
    fn request(&mut self, first: u32, slot: &Slot) -> Result<Request, i32> {
        if let Some((request, piece, transfer)) = self.kept[first as usize].take() {
            if slot.next == NONE && piece == self.piece(slot) && transfer == slot.operation.transfer {
                return Ok(request);
            }
            self.agent.release(request);
        }
        let mut number = first;
        let pieces = std::iter::from_fn(|| {
            let slot = self.slots.get(number as usize)?.as_ref()?;
            number = slot.next;
            Some(self.piece(slot))
        });
        self.agent.request(slot.operation.transfer, pieces)
    }

    #[inline]
    fn piece(&self, slot: &Slot) -> Piece {
        let Operation { base, at, offset, handle, .. } = slot.operation;
        let storage_device = handle.0 as u64;
        // Memory was registered for each of the block devices.
        let memory_device = if self.settings.plugin.storage == Segment::Block { storage_device } else { self.settings.memory_device };
        Piece { memory: base + at, memory_device, bytes: slot.bytes, offset, storage_device }
    }

    /// Gives up all transfers that were kept.
    #[cold]
    fn let_go(&mut self) {
        self.kept.iter_mut().filter_map(Option::take).for_each(|(request, ..)| self.agent.release(request));
    }

    /// Looks at all that is out, once what was found before is handed back.
    #[inline]
    fn look(&mut self) {
        self.looks += 1;
        let mut at = 0;
        while at < self.out.len() {
            match self.agent.status(&self.out[at].request) {
                IN_FLIGHT => at += 1,
                status => self.settle(at, status),
            }
        }
    }

    /// Hands back at most `max` operations that have ended; returns how many.
    #[inline]
    fn hand_over(&mut self, max: usize, done: &mut dyn FnMut(u32, Moved)) -> usize {
        let found = self.ready.len().min(max);
        self.ready.drain(..found).for_each(|(tag, moved)| done(tag, moved));
        found
    }

    /// Ends the transfer at `at` of `out`, which is not in flight any more.
    #[inline]
    fn settle(&mut self, at: usize, status: i32) {
        // In order: the oldest is the likeliest to have ended.
        let Out { request, first } = self.out.remove(at);
        if status < 0 && self.settings.plugin.traits.loses_track {
            self.stuck.push(Out { request, first });
            return self.lose(status);
        }
        let is_several = self.slots[first as usize].as_ref().is_some_and(|slot| slot.next != NONE);
        match self.slots[first as usize].as_ref() {
            Some(slot) if status == DONE && !is_several && self.settings.plugin.traits.starts_again => {
                self.kept[first as usize] = Some((request, self.piece(slot), slot.operation.transfer));
            }
            _ => self.agent.release(request),
        }
        if status < 0 && is_several { self.take_back(first) } else { self.end(first, status) }
    }

    /// Makes the operations of a transfer ready to be handed back.
    #[inline]
    fn end(&mut self, first: u32, status: i32) {
        let mut number = first;
        while let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::take) {
            let moved = if status == DONE { Moved::bytes(self.came(&slot)) } else { codes::failed(status) };
            self.ready.push_back((number, moved));
            number = slot.next;
        }
    }

    /// The bytes of an operation that was reported as done: a short read is, too, so the file's size has the last word.
    #[inline]
    fn came(&mut self, slot: &Slot) -> usize {
        let operation = &slot.operation;
        if operation.transfer == Transfer::Write || self.settings.plugin.traits.tells_short {
            return slot.bytes;
        }
        let Some(size) = usize::try_from(operation.fd).ok().and_then(|fd| self.files.get_mut(fd)?.as_mut()) else { return slot.bytes };
        if size.look != self.looks {
            *size = Size { bytes: size_of(operation.fd).unwrap_or(size.bytes), look: self.looks };
        }
        size.bytes.saturating_sub(operation.offset).min(slot.bytes as u64) as usize
    }

    /// Starts the operations of a transfer that failed once more, each on its own.
    #[cold]
    fn take_back(&mut self, first: u32) {
        let mut number = first;
        while let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) {
            slot.is_alone = true;
            self.due.push(number);
            number = std::mem::replace(&mut slot.next, NONE);
        }
    }

    /// The plugin has lost track: all that is in flight fails, the one that it told of first, and so does what comes later.
    #[cold]
    fn lose(&mut self, status: i32) {
        self.lost = Some(status);
        self.end(self.stuck[0].first, status);
        self.stuck.append(&mut self.out);
        for number in 0..self.slots.len() {
            self.end(number as u32, status);
        }
        self.collected.clear();
        self.due.clear();
    }
}

impl Transport for Transfers {
    fn path(&self) -> &'static str {
        match self.settings.plugin.storage {
            Segment::Object => "nixl-object",
            Segment::Block => "nixl-block",
            _ => "nixl-file",
        }
    }

    fn file_opened(&mut self, fd: RawFd) -> Option<String> {
        let index = usize::try_from(fd).ok()?;
        if self.files.len() <= index {
            self.files.resize(index + 1, None);
        }
        self.files[index] = size_of(fd).map(|bytes| Size { bytes, look: self.looks });
        None
    }

    fn file_closed(&mut self, fd: RawFd) {
        self.let_go();
        if let Some(file) = usize::try_from(fd).ok().and_then(|fd| self.files.get_mut(fd)) {
            *file = None;
        }
    }

    #[inline]
    fn submit(&mut self, operation: &Operation) -> Submitted {
        if let Some(status) = self.lost {
            return Submitted::Done(codes::failed(status));
        }
        if self.quiet.is_some() {
            return Submitted::Done(Moved::failed(libc::ECANCELED, 0));
        }
        let bytes = match operation.transfer {
            Transfer::Read => self.readable(operation),
            // The plugins for objects know no other.
            Transfer::Write if self.settings.plugin.storage == Segment::Object && operation.offset > 0 => {
                return Submitted::Done(codes::failed(-1));
            }
            Transfer::Write => operation.buffer.len(),
        };
        if bytes == 0 {
            return Submitted::Done(Moved::bytes(0));
        }
        self.slots[operation.tag as usize] = Some(Slot { operation: *operation, bytes, next: NONE, is_alone: false });
        self.collected.push(operation.tag);
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
        self.slots.iter().flatten().count() + self.ready.len()
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(u32, Moved)) -> Result<(), i32> {
        let deadline = Deadline::after(timeout);
        let (mut found, mut turns) = (0, 0);
        loop {
            if self.ready.is_empty() {
                self.start_due();
                self.look();
            }
            found += self.hand_over(max - found, done);
            if found >= min || (self.out.is_empty() && self.due.is_empty() && self.ready.is_empty()) || deadline.is_past() {
                return Ok(());
            }
            let nap = Deadline::after(Some(NAP));
            self.settings.wait.pause(&mut turns, &self.bell, self.bell.ticket(), nap.sooner(&deadline));
        }
    }

    fn cancel(&mut self) -> bool {
        if let Some(quiet) = self.quiet {
            return quiet;
        }
        let deadline = Deadline::after(Some(PATIENCE));
        while !self.out.is_empty() && !deadline.is_past() {
            self.look();
            std::thread::sleep(NAP);
        }
        if self.stuck.is_empty() {
            self.let_go();
        }
        // What the plugin has not let go of is not released: it may still write to it.
        let quiet = self.stuck.is_empty() && self.out.is_empty();
        self.out.clear();
        self.ready.clear();
        *self.quiet.insert(quiet)
    }
}
