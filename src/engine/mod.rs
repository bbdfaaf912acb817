//! fio's hooks told in our words: a job's life, queueing, completion, staging. Knows transports and drivers by their traits only;
//! [`backend`] chooses them.

mod backend;
mod checks;
mod ending;
mod flying;
mod memory;
mod options;
mod queue;
mod report;
mod staging;
mod start;
mod way;

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::common::driver::{Driver, Handle};
use crate::common::transport::{Buffer, Transfer};
use crate::faults;
use crate::fio::{self, Direction, Done, Entry, File, IoUnit, OptionSpec, Outcome, Queued, Refusal, Running, UnitId, Waiting};
use ending::SLICE;
use flying::Flying;
use memory::{Memory, Region};
use report::{Counts, Report};
use staging::Staging;
use way::Way;

/// This library as fio's engine.
pub struct Gpuio;

impl fio::Engine for Gpuio {
    const OPTIONS: &'static [OptionSpec] = options::SPECS;

    fn entries() -> &'static [Entry] {
        &crate::ENTRIES
    }

    fn start(job: &fio::Job) -> Result<Box<dyn Running>, Refusal> {
        faults::strike("init");
        start::start(job).map_err(|line| Refusal { errno: libc::EINVAL, line })
    }

    fn size(job: &fio::Job, file: &File) -> Result<Option<u64>, Refusal> {
        start::size(job, file).map_err(|line| Refusal { errno: libc::EINVAL, line })
    }
}

/// One fio job on one transport. What moves an operation in one call is a type of its own here, so that all between fio and the vendor is one
/// piece of code. Fields are dropped in this order: no operation outlives the driver, nor the driver the memory.
struct Job<T: Way> {
    transport: T,
    driver: Box<dyn Driver>,
    memory: Option<Memory>,
    layout: memory::Layout,
    region: Region,
    staging: Option<Staging>,
    /// Whether [`Staging`] has to do with reads and with writes, by the [`Transfer`].
    is_staged: [bool; 2],
    /// The bits that sizes and offsets are not to have, until the user was told that they have.
    misaligned: usize,
    files: Vec<OpenFile>,
    flying: Flying,
    /// Whether nothing of the vendor's touches the buffers once the transport is cancelled.
    is_quiet: bool,
    /// Units that have ended and that fio has not fetched yet: given up, or waited for by a trim.
    unfetched: Vec<Done>,
    /// Syncs that wait for what was queued before them, in order.
    barriers: Vec<Barrier>,
    /// The number of the next operation.
    number: u64,
    /// Operations taken since the last commit.
    collected: usize,
    /// fio's runtime, which ends no wait by itself, and when it is over.
    runtime: Option<Duration>,
    end: Option<Instant>,
    /// A read that has ended, kept back so that fio stamps its completion before its bytes are copied.
    held: Option<Done>,
    notices: Notices,
    report: Option<Report>,
}

/// What a job is made of, beside its transport.
struct Setup {
    driver: Box<dyn Driver>,
    layout: memory::Layout,
    staging: Option<Staging>,
    depth: u32,
    runtime: Option<Duration>,
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
    fn new(unit: IoUnit, transfer: Transfer, number: u64) -> Self {
        Self { number, unit: unit.id(), wanted: unit.length(), transfer, file: unit.file().index(), offset: unit.offset() }
    }
}

/// A file of the job, by its number.
#[derive(Clone, Default)]
struct OpenFile {
    fd: Option<RawFd>,
    handle: Handle,
    /// Empty where it was never opened.
    name: String,
    counts: Counts,
}

/// Lines that are said once a job.
#[derive(Default)]
struct Notices {
    failed: bool,
    /// The number of the operation from which on the transport is asked again whether it keeps the depth; it doubles each time.
    shallow_from: u64,
    staging: bool,
}

impl<T: Way> Running for Job<T> {
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
        Ok(T::IS_SYNCHRONOUS)
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
        let handle = self.driver.open_file(file.fd(), &name).map_err(|line| Refusal { errno: libc::EIO, line })?;
        if self.files.len() <= index {
            self.files.resize(index + 1, OpenFile::default());
        }
        self.transport.file_opened(file.fd()).iter().for_each(|line| fio::line(line));
        let open = &mut self.files[index];
        (open.fd, open.handle, open.name) = (Some(file.fd()), handle, name);
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

    fn queue(&mut self, unit: IoUnit) -> Queued {
        self.take(unit)
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
        self.hand_over(max, done);
        let min = min.min(max).min(done.len() + self.flying.len() + self.barriers.len());
        self.collected = 0;
        let mut left = timeout;
        if self.barriers.is_empty() && !self.flying.is_over() {
            self.reap_slice(min.saturating_sub(done.len()), max - done.len(), timeout.map_or(SLICE, |timeout| timeout.min(SLICE)), done)?;
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
        self.hand_over(max, done);
    }

    fn finish(&mut self, unit: IoUnit, outcome: Outcome) -> Outcome {
        if !self.is_staged[Transfer::Read as usize] || unit.direction() != Direction::Read || outcome.error != 0 {
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

impl<T: Way> Job<T> {
    fn new(transport: T, Setup { driver, layout, staging, depth, runtime, report }: Setup) -> Self {
        Self {
            transport,
            memory: None,
            layout,
            region: Region::default(),
            is_staged: staging.as_ref().map_or([false; 2], |staging| [staging.copies_back(), staging.stages_writes()]),
            staging,
            misaligned: driver.alignment().map_or(0, |unit| unit - 1),
            driver,
            files: Vec::new(),
            flying: Flying::new(depth),
            is_quiet: true,
            unfetched: Vec::with_capacity(depth as usize),
            barriers: Vec::with_capacity(depth as usize),
            number: 0,
            collected: 0,
            runtime,
            end: None,
            held: None,
            notices: Notices::default(),
            report,
        }
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
    fn staging_failed(&mut self, doing: &str, what: &str) {
        if !self.notices.staging {
            self.notices.staging = true;
            fio::line(&format!("{doing}: {what}; the I/O fails (said once)"));
        }
    }
}

impl<T: Way> Drop for Job<T> {
    fn drop(&mut self) {
        faults::strike("cleanup");
        faults::account().iter().for_each(|line| fio::line(line));
        if self.notices.shallow_from < u64::MAX {
            self.say_why_shallow();
        }
        self.cancel();
        for file in &self.files {
            if file.fd.is_some() && self.is_quiet {
                self.driver.close_file(file.handle);
            }
        }
        self.driver.detach();
        if let Some(Err(line)) = self
            .report
            .as_ref()
            .map(|report| report.write(self.files.iter().map(|file| (&*file.name, &file.counts)), self.transport.path()))
        {
            fio::line(&line);
        }
    }
}
