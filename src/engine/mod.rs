//! fio's hooks told in our words: a job's life, queueing, completion, staging. Knows transports and drivers by their traits only;
//! [`backend`] chooses them.

mod backend;
mod checks;
mod ending;
mod flying;
mod memory;
mod options;
mod report;
mod staging;
mod start;

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::common::driver::{Driver, Handle};
use crate::common::transport::{Buffer, Operation, Submitted, Transfer, Transport};
use crate::faults;
use crate::fio::{self, Direction, Done, Entry, File, IoUnit, OptionSpec, Outcome, Queued, Refusal, UnitId, Waiting};
use ending::{SLICE, complain, outcome_of};
use flying::{Flying, Place};
use memory::{Memory, Region};
use report::{Counters, Report};
use staging::Staging;

/// One fio job on one transport. Fields are dropped in this order: no operation outlives the driver, nor the driver the memory.
pub struct Job {
    transport: Box<dyn Transport<Place>>,
    driver: Box<dyn Driver>,
    memory: Option<Memory>,
    layout: memory::Layout,
    region: Region,
    staging: Option<Staging>,
    /// What [`Staging`] has to do; nothing where there is none.
    stages_writes: bool,
    copies_back: bool,
    /// The bits that sizes and offsets are not to have, until the user was told that they have.
    misaligned: usize,
    files: Vec<OpenFile>,
    flying: Flying,
    /// Whether nothing of the vendor's touches the buffers once the transport is cancelled.
    is_quiet: bool,
    /// Units that were given up, and that fio has not fetched yet.
    given_up: Vec<Done>,
    /// Syncs that wait for what was queued before them, in order.
    barriers: Vec<Barrier>,
    /// The number of the next operation.
    number: u64,
    /// fio's runtime, which ends no wait by itself, and when it is over.
    runtime: Option<Duration>,
    end: Option<Instant>,
    /// Operations taken since the last commit.
    collected: usize,
    /// A read that has ended, kept back so that fio stamps its completion before its bytes are copied.
    held: Option<Done>,
    notices: Notices,
    counters: Counters,
    report: Option<Report>,
}

/// A sync that waits for all operations with a lower number.
#[derive(Clone, Copy)]
struct Barrier {
    unit: UnitId,
    number: u64,
}

/// What is remembered of an I/O unit while the transport has its operation.
#[derive(Clone, Copy)]
struct InFlight {
    /// Counts the job's operations.
    number: u64,
    unit: UnitId,
    wanted: usize,
    transfer: Transfer,
    file: usize,
    offset: u64,
}

impl InFlight {
    /// Read from the unit once its operation is under way: what is kept across a call costs more.
    #[inline]
    fn new(unit: &IoUnit, transfer: Transfer, number: u64) -> Self {
        Self { number, unit: unit.id(), wanted: unit.length(), transfer, file: unit.file().index(), offset: unit.offset() }
    }
}

/// A file of the job, by its number.
#[derive(Clone, Default)]
struct OpenFile {
    fd: Option<RawFd>,
    handle: Handle,
    name: String,
}

/// Lines that are said once a job.
#[derive(Default)]
struct Notices {
    failed: bool,
    /// The number of the operation from which on the transport is asked again whether it keeps the depth; it doubles each time.
    shallow_from: u64,
    staging: bool,
}

impl fio::Engine for Job {
    const OPTIONS: &'static [OptionSpec] = options::SPECS;

    fn entries() -> &'static [Entry] {
        &crate::ENTRIES
    }

    fn start(job: &fio::Job) -> Result<Self, Refusal> {
        faults::strike("init");
        start::start(job).map_err(|line| Refusal { errno: libc::EINVAL, line })
    }

    fn allocate(&mut self, bytes: usize) -> Result<NonNull<u8>, Refusal> {
        faults::strike("iomem_alloc");
        let refuse = |line| Refusal { errno: libc::ENOMEM, line };
        if faults::allocation_fails() {
            return Err(refuse(memory::no_memory(bytes, &std::io::ErrorKind::OutOfMemory.into())));
        }
        let mut memory = match self.driver.allocate(bytes).transpose().map_err(refuse)? {
            Some(address) => Memory::lent(address, bytes),
            None => Memory::new(self.layout, self.driver.device(), bytes).map_err(refuse)?,
        };
        self.region = memory.region();
        self.driver.attach(self.region.base, bytes).map_err(refuse)?.iter().for_each(|line| fio::line(line));
        self.transport.attach(self.region.whole()).map_err(refuse)?.iter().for_each(|line| fio::line(line));
        Ok(self.memory.insert(memory).start())
    }

    fn size(job: &fio::Job, file: &File) -> Result<Option<u64>, Refusal> {
        start::size(job, file).map_err(|line| Refusal { errno: libc::EINVAL, line })
    }

    fn open_own(&mut self, file: &File) -> Option<Result<RawFd, Refusal>> {
        let opened = self.driver.open_own(&file.name())?;
        Some(opened.map(|fd| fd.unwrap_or(fio::NO_FD)).map_err(|line| Refusal { errno: libc::EIO, line }))
    }

    fn ready(&mut self) -> Result<bool, Refusal> {
        if let (Some(staging), Some(_)) = (&self.staging, &self.memory) {
            staging.fill(&self.region).map_err(|error| Refusal {
                errno: libc::EIO,
                line: format!("filling the I/O buffers on the device: {}", staging.explain(error)),
            })?;
        }
        self.end = self.runtime.and_then(|runtime| Instant::now().checked_add(runtime));
        Ok(self.transport.is_synchronous())
    }

    fn free(&mut self) {
        self.cancel();
        self.driver.detach();
        if let Some(memory) = self.memory.take().filter(|_| !self.is_quiet) {
            std::mem::forget(memory); // something still may write to it
        }
    }

    fn opened(&mut self, file: &File) -> Result<(), Refusal> {
        let (index, name) = (file.index(), file.name());
        self.counters.opened(index, &name);
        let handle = self.driver.open_file(file.fd(), &name).map_err(|line| Refusal { errno: libc::EIO, line })?;
        if self.files.len() <= index {
            self.files.resize(index + 1, OpenFile::default());
        }
        self.transport.file_opened(file.fd()).iter().for_each(|line| fio::line(line));
        self.files[index] = OpenFile { fd: Some(file.fd()), handle, name };
        Ok(())
    }

    fn closing(&mut self, file: &File) {
        if let Some(fd) = self.files.get_mut(file.index()).and_then(|open| open.fd.take()) {
            self.transport.file_closed(fd);
            if self.is_quiet {
                self.driver.close_file(self.files[file.index()].handle);
            }
        }
    }

    fn queue(&mut self, unit: &IoUnit) -> Queued {
        faults::strike("queue");
        // fio fetches what is held, and asks again. A write is never turned away: up to 3.38 fio then gives it another verify header.
        if self.held.is_some() && unit.direction() != Direction::Write {
            return Queued::Busy;
        }
        let transfer = match unit.direction() {
            Direction::Read => Transfer::Read,
            Direction::Write => Transfer::Write,
            // What is only collected may be about the same bytes: fio starts it first, and asks again.
            Direction::Trim if self.collected > 0 => return Queued::Busy,
            Direction::Trim => return Queued::Done(self.discard(unit)),
            Direction::Sync if self.flying.len() == 0 => return Queued::Done(sync(&mut self.counters, unit)),
            Direction::Sync => {
                self.barriers.push(Barrier { unit: unit.id(), number: self.number });
                return Queued::InFlight;
            }
        };
        let (file, buffer, offset) = (unit.file(), Buffer::new(unit.buffer()), unit.offset());
        let Some(at) = self.region.offset_of(buffer) else { return Queued::Done(Outcome::failed(libc::EIO)) };
        if transfer == Transfer::Write && self.stages_writes && !self.stage(unit, at, buffer) {
            return Queued::Done(Outcome::failed(libc::EIO));
        }
        if (offset as usize | buffer.len() | at) & self.misaligned != 0 {
            self.say_misaligned(offset, buffer.len());
        }
        let Some(place) = self.flying.next() else { return Queued::Done(Outcome::failed(libc::ECANCELED)) };
        let (fd, handle, base) = (file.fd(), self.files.get(file.index()).map_or(Handle::default(), |open| open.handle), self.region.base);
        match self.transport.submit(&Operation { tag: place, transfer, fd, handle, offset, buffer, base, at }) {
            Submitted::Done(moved) => {
                self.counters.add(unit.file().index(), transfer, unit.length(), moved);
                let outcome = outcome_of(unit.length(), moved);
                if outcome.error != 0 {
                    complain(&mut self.notices, self.driver.as_ref(), &self.files, &InFlight::new(unit, transfer, 0), moved);
                }
                if self.copies_back && transfer == Transfer::Read {
                    self.held = Some(Done { unit: unit.id(), outcome });
                    return Queued::InFlight;
                }
                Queued::Done(outcome)
            }
            Submitted::InFlight => {
                self.flying.insert(InFlight::new(unit, transfer, self.number));
                self.number += 1;
                self.collected += 1;
                Queued::InFlight
            }
            Submitted::Busy => Queued::Busy,
        }
    }

    fn commit(&mut self) -> Result<(), i32> {
        self.collected = 0;
        if self.flying.is_over() { Ok(()) } else { self.transport.commit() }
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, waiting: &Waiting, done: &mut Vec<Done>) -> Result<(), i32> {
        faults::strike("reap");
        if let Some(held) = self.held.take() {
            done.push(held);
            return Ok(());
        }
        let min = min.min(max).min(self.flying.len() + self.barriers.len());
        self.collected = 0;
        let mut left = timeout;
        if self.barriers.is_empty() && !self.flying.is_over() {
            self.reap_slice(min, max, timeout.map_or(SLICE, |timeout| timeout.min(SLICE)), done)?;
            left = timeout.map(|timeout| timeout.saturating_sub(SLICE));
        }
        if done.len() < min || !self.barriers.is_empty() || self.flying.is_over() {
            self.wait(min, max, left, waiting, done)?;
        }
        if self.number >= self.notices.shallow_from {
            self.say_why_shallow();
        }
        Ok(())
    }
    fn fail_all(&mut self, errno: i32, max: usize, done: &mut Vec<Done>) {
        done.extend(self.held.take());
        if !self.flying.is_over() {
            self.give_up(errno);
        }
        self.hand_over_given_up(max, done);
    }

    fn finish(&mut self, unit: &IoUnit, outcome: Outcome) -> Outcome {
        if !self.copies_back || unit.direction() != Direction::Read || outcome.error != 0 {
            return outcome;
        }
        let Some(staging) = &self.staging else { return outcome };
        let buffer = Buffer::new(unit.buffer());
        let came = buffer.first(buffer.len() - outcome.left);
        let copied = self.region.offset_of(buffer).ok_or(None).and_then(|at| staging.after_read(&self.region, at, came).map_err(Some));
        match copied {
            Ok(()) => outcome,
            Err(error) => {
                let what = error.map_or_else(|| "its buffer is unknown".to_owned(), |e| staging.explain(e));
                self.staging_failed("copying a read back from the device, for fio to verify", &what);
                Outcome::failed(libc::EIO) // what was not seen is not verified
            }
        }
    }
}

impl Job {
    fn discard(&mut self, unit: &IoUnit) -> Outcome {
        let outcome = if unit.file().fd() == fio::NO_FD { Outcome::failed(libc::EOPNOTSUPP) } else { unit.trim() };
        self.counters.add_trim(unit.file().index(), unit.length(), outcome.error);
        outcome
    }

    /// Ends the transport. Where the vendor does not let go of an operation, whatever it may still use stays: the memory, its registration
    /// and the files' are leaked on purpose.
    fn cancel(&mut self) {
        if self.is_quiet && !self.transport.cancel() {
            self.is_quiet = false;
            self.driver.abandon();
        }
    }

    #[cold]
    fn say_misaligned(&mut self, offset: u64, length: usize) {
        let unit = std::mem::take(&mut self.misaligned) + 1;
        fio::line(&format!(
            "an I/O at offset {offset} of {length} bytes is not a multiple of {unit} bytes, so {} (said once; use bs and offsets that are \
             multiples of {unit})",
            self.driver.detour()
        ));
    }

    /// Puts the bytes of a write into device memory, outside of the unit's latency. Returns whether the unit can go on.
    #[inline(never)]
    fn stage(&mut self, unit: &IoUnit, at: usize, buffer: Buffer) -> bool {
        let Some(staging) = &mut self.staging else { return true };
        let staged = unit.untimed(|| staging.before_write(&self.region, at, buffer));
        let Err(error) = staged else { return true };
        let what = staging.explain(error);
        self.staging_failed("staging a write on the device", &what);
        false
    }

    #[cold]
    fn staging_failed(&mut self, doing: &str, what: &str) {
        if !self.notices.staging {
            self.notices.staging = true;
            fio::line(&format!("{doing}: {what}; the I/O fails (said once)"));
        }
    }
}

/// Syncs as fio's own engines do, and counts it. What has no descriptor has nothing to sync beyond the operations before.
fn sync(counters: &mut Counters, unit: &IoUnit) -> Outcome {
    let outcome = if unit.file().fd() == fio::NO_FD { Outcome::DONE } else { unit.sync() };
    counters.add_sync(unit.file().index(), outcome.error);
    outcome
}

impl Drop for Job {
    fn drop(&mut self) {
        faults::strike("cleanup");
        faults::account().iter().for_each(|line| fio::line(line));
        if self.notices.shallow_from < u64::MAX {
            self.say_why_shallow();
        }
        self.cancel();
        for file in self.files.drain(..) {
            if file.fd.is_some() && self.is_quiet {
                self.driver.close_file(file.handle);
            }
        }
        self.driver.detach();
        if let Some(Err(line)) = self.report.as_ref().map(|report| report.write(&self.counters, self.transport.path())) {
            fio::line(&line);
        }
    }
}
