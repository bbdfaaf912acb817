//! `gpu_io=uring`: a job's operations on an io_uring, at full depth, with registered files and buffers; straight on fio's buffers, or through
//! a pinned block and copies where the job's buffers are a device's.
//!
//! `ring` is the only one to touch the ring, `registered` knows what the ring was told of, `bounce` copies.

mod bounce;
mod registered;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use super::device::Device;
use super::transport::{Buffer, Moved, Operation, Submitted, Transfer, Transport};
use super::wait::{Deadline, Manner};
use crate::faults;
use bounce::BounceBlock;
use registered::{Block, Files};
use ring::{Entry, Ring};

/// How long cancel() waits for what the kernel has.
const CANCEL_LIMIT: Duration = Duration::from_millis(1000);
/// Times that the kernel may ask for an operation to be tried again before that is its error.
const MOST_TRIES: u16 = 1000;

/// What a job asks of its ring.
pub struct Settings {
    pub depth: usize,
    pub manner: Manner,
    /// `gpu_register`: whether the I/O buffers are registered.
    pub register: bool,
    /// The device that the job's buffers are on; none where the kernel can move bytes to and from them itself.
    pub device: Option<Arc<dyn Device>>,
}

/// The ring of one job. What could not be registered is moved all the same.
pub struct Uring {
    ring: Ring,
    manner: Manner,
    register: bool,
    block: Block,
    files: Files,
    bounce: Option<BounceBlock>,
    /// By the operation's tag, which is the entry's name in the ring, too. One that is out of date stays until its tag comes again: moving
    /// it out would copy all of it.
    slots: Vec<Option<Slot>>,
    in_flight: usize,
    /// Writes whose bytes are on the way to the bounce block; they go to the ring with the next commit.
    copying: Vec<u32>,
    /// Reads whose bytes are on the way from the bounce block, and whatever failed outside of the ring.
    ended: VecDeque<(u32, Moved)>,
    /// Once cancelled: whether the kernel has no operation any more.
    quiet: Option<bool>,
}

/// An operation while this transport has it.
struct Slot {
    transfer: Transfer,
    fd: RawFd,
    offset: u64,
    /// What the kernel reads or writes: fio's buffer, or its place in the bounce block.
    buffer: Buffer,
    /// The device's address of the same bytes.
    device: usize,
    done: usize,
    tries: u16,
}

impl Uring {
    /// Makes the ring, for the calling thread and operations whose tags are below the depth. The error is a line for the user.
    pub fn open(settings: Settings) -> Result<Self, String> {
        let depth = settings.depth.max(1);
        Ok(Self {
            ring: Ring::new(depth)?,
            manner: settings.manner,
            register: settings.register,
            block: Block::default(),
            files: Files::default(),
            bounce: settings.device.map(BounceBlock::new),
            slots: (0..depth).map(|_| None).collect(),
            in_flight: 0,
            copying: Vec::with_capacity(depth),
            ended: VecDeque::with_capacity(depth),
            quiet: None,
        })
    }

    /// Operations that are the kernel's now.
    fn in_kernel(&self) -> usize {
        self.in_flight - self.copying.len() - self.ended.len() - self.ring.collected()
    }

    /// Gives what is left of an operation to the ring. The error is an errno.
    #[inline(never)]
    fn push(&mut self, number: u32) -> Result<(), i32> {
        let Some(slot) = &self.slots[number as usize] else { return Err(libc::EIO) };
        let buffer = slot.buffer.after(slot.done);
        let (transfer, fd, offset) = (slot.transfer, slot.fd, slot.offset + slot.done as u64);
        self.push_part(number, transfer, fd, offset, buffer)
    }

    #[inline(always)]
    fn push_part(&mut self, name: u32, transfer: Transfer, fd: RawFd, offset: u64, buffer: Buffer) -> Result<(), i32> {
        let (is_file_registered, registered) = (self.files.has(fd), self.block.part_of(buffer));
        self.ring.push(&Entry { transfer, fd, is_file_registered, offset, buffer, registered, name })
    }

    /// What an error leaves of an operation: what was moved before it counts, else the error. fio asks for the rest again.
    #[cold]
    fn broken_off(&self, number: u32, errno: i32, code: i32) -> Moved {
        match self.slots[number as usize].as_ref().map_or(0, |slot| slot.done) {
            0 => Moved::failed(errno, code),
            done => Moved::bytes(done),
        }
    }

    /// What a result means for its operation: how it ended, or nothing where the rest of it is on its way.
    #[inline(always)]
    fn settle(&mut self, number: u32, result: i32) -> Option<Moved> {
        let result = faults::errno().map_or(result, |errno| -errno);
        let slot = self.slots[number as usize].as_mut()?;
        if let Ok(bytes) = usize::try_from(result) {
            slot.done += bytes;
            slot.tries = 0;
            if bytes == 0 || slot.done >= slot.buffer.len() {
                return Some(Moved::bytes(slot.done));
            }
        } else {
            slot.tries += 1;
            if !matches!(-result, libc::EINTR | libc::EAGAIN) || slot.tries == MOST_TRIES {
                return Some(self.broken_off(number, -result, 0));
            }
        }
        self.push(number).err().map(|errno| self.broken_off(number, errno, 0))
    }

    /// Hands an operation that has ended to the engine.
    #[inline]
    fn hand_back(&mut self, number: u32, moved: Moved, done: &mut dyn FnMut(u32, Moved)) {
        self.in_flight -= 1;
        done(number, moved);
    }

    /// Hands back at most `max` operations that have ended by now; returns how many.
    #[inline]
    fn collect(&mut self, max: usize, done: &mut dyn FnMut(u32, Moved)) -> usize {
        let mut found = 0;
        if self.bounce.is_some() {
            self.land(max);
        } else {
            while found < max {
                let Some((number, result)) = self.ring.next() else { break };
                if let Some(moved) = self.settle(number, result) {
                    self.hand_back(number, moved, done);
                    found += 1;
                }
            }
        }
        while found < max {
            let Some((number, moved)) = self.ended.pop_front() else { break };
            self.hand_back(number, moved, done);
            found += 1;
        }
        found
    }

    /// Copies to the device what reads have brought, all of them in one wait, until `max` operations have ended.
    fn land(&mut self, max: usize) {
        let first = self.ended.len();
        while self.ended.len() < max {
            let Some((number, result)) = self.ring.next() else { break };
            let Some(moved) = self.settle(number, result) else { continue };
            let copied = match (&mut self.bounce, &self.slots[number as usize]) {
                (Some(bounce), Some(slot)) if slot.transfer == Transfer::Read && moved.bytes > 0 => {
                    bounce.start_copy(Transfer::Read, slot.device, slot.buffer.first(moved.bytes))
                }
                _ => Ok(()),
            };
            self.ended.push_back((number, copied.map_or_else(|code| Moved::failed(libc::EIO, code), |()| moved)));
        }
        if let Err(code) = self.bounce.as_mut().map_or(Ok(()), BounceBlock::finish) {
            for (number, moved) in self.ended.range_mut(first..) {
                let is_read = self.slots[*number as usize].as_ref().is_some_and(|slot| slot.transfer == Transfer::Read);
                if is_read && moved.errno == 0 {
                    *moved = Moved::failed(libc::EIO, code); // which of them it was, the device does not say
                }
            }
        }
    }

    /// Gives the writes whose bytes have come to the ring.
    fn send_copied(&mut self) {
        let copied = self.bounce.as_mut().map_or(Ok(()), BounceBlock::finish);
        let mut copying = std::mem::take(&mut self.copying);
        for number in copying.drain(..) {
            let sent = copied.map_err(|code| Moved::failed(libc::EIO, code));
            let sent = sent.and_then(|()| self.push(number).map_err(|errno| Moved::failed(errno, 0)));
            if let Err(failed) = sent {
                self.ended.push_back((number, failed));
            }
        }
        self.copying = copying;
    }

    #[inline(never)]
    fn start_collected(&mut self) -> Result<(), i32> {
        if self.quiet.is_some() {
            return Err(libc::ECANCELED); // what was collected only must not start any more
        }
        if !self.copying.is_empty() {
            self.send_copied();
        }
        self.ring.submit()
    }

    /// Where the kernel is to find the bytes of an operation, and whether they are still on the way there. The error is the device's code.
    #[inline]
    fn host_side(&mut self, operation: &Operation) -> Result<(Buffer, bool), i32> {
        let Some(bounce) = &mut self.bounce else { return Ok((operation.buffer, false)) };
        let buffer = bounce.place(operation.at, operation.buffer.len());
        let is_write = operation.transfer == Transfer::Write;
        if is_write {
            bounce.start_copy(Transfer::Write, operation.base + operation.at, buffer)?;
        }
        Ok((buffer, is_write))
    }
}

impl Transport for Uring {
    fn path(&self) -> &'static str {
        if self.bounce.is_some() { "uring-bounce" } else { "uring" }
    }

    fn attach(&mut self, block: Buffer) -> Result<Option<String>, String> {
        let block = match &mut self.bounce {
            Some(bounce) => bounce.attach(block.len())?,
            None => block,
        };
        if !self.register {
            return Ok(None);
        }
        match Block::register(&mut self.ring, block) {
            Ok(registered) => self.block = registered,
            Err(line) => return Ok(Some(line)),
        }
        Ok(None)
    }

    fn file_opened(&mut self, fd: RawFd) -> Option<String> {
        self.files.open(&mut self.ring, fd).err()
    }

    fn file_closed(&mut self, fd: RawFd) {
        self.files.close(&mut self.ring, fd);
    }

    #[inline]
    fn submit(&mut self, operation: &Operation) -> Submitted {
        if self.quiet.is_some() {
            return Submitted::Done(Moved::failed(libc::ECANCELED, 0));
        }
        let (buffer, is_copying) = match self.host_side(operation) {
            Ok(side) => side,
            Err(code) => return Submitted::Done(Moved::failed(libc::EIO, code)),
        };
        let Operation { tag: number, transfer, fd, offset, base, at, .. } = *operation;
        self.slots[number as usize] = Some(Slot { transfer, fd, offset, buffer, device: base + at, done: 0, tries: 0 });
        if is_copying {
            self.copying.push(number);
        } else if self.push_part(number, transfer, fd, offset, buffer).is_err() {
            return Submitted::Busy;
        }
        self.in_flight += 1;
        Submitted::InFlight
    }

    #[inline]
    fn commit(&mut self) -> Result<(), i32> {
        // fio commits before every look for results, mostly with nothing new.
        if self.ring.collected() == 0 && self.copying.is_empty() { Ok(()) } else { self.start_collected() }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(u32, Moved)) -> Result<(), i32> {
        self.commit()?;
        let deadline = Deadline::after(timeout);
        let min = min.min(self.in_flight).min(max);
        let (mut found, mut turns) = (0, 0);
        if min == 0 && self.ring.has_work() {
            self.ring.work()?;
        }
        loop {
            found += self.collect(max - found, done);
            if found >= min || deadline.is_past() {
                return Ok(());
            }
            if self.ring.has_work() {
                self.ring.work()?;
            } else if self.manner.polls(&mut turns) {
                std::hint::spin_loop();
            } else {
                // To yield is to sleep, too: what is waited for may be done by threads of the kernel that want this very processor.
                self.ring.wait(min - found, deadline.left())?;
            }
        }
    }

    fn cancel(&mut self) -> bool {
        if let Some(quiet) = self.quiet {
            return quiet;
        }
        let deadline = Deadline::after(Some(CANCEL_LIMIT));
        if self.in_kernel() > 0 {
            self.ring.end_all(CANCEL_LIMIT);
        }
        loop {
            while self.ring.next().is_some() {
                self.in_flight -= 1;
            }
            if self.in_kernel() == 0 || deadline.is_past() || self.ring.wait_only(deadline.left()).is_err() {
                break;
            }
        }
        let left = self.in_kernel();
        let quiet = left == 0;
        match &mut self.bounce {
            _ if quiet => self.ring.unregister_buffers(),
            Some(bounce) => bounce.abandon(),
            None => {}
        }
        self.in_flight = left;
        self.copying.clear();
        self.ended.clear();
        self.quiet = Some(quiet);
        quiet
    }
}
