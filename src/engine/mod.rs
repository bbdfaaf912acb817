//! fio's hooks told in our words: a job's life, queueing and completion. Knows transports by their trait only; [`backend`] chooses one.

mod backend;
mod options;
mod report;

use std::ptr::NonNull;
use std::time::Duration;

use crate::common::memory::HostMemory;
use crate::common::transport::{Buffer, Moved, Operation, Submitted, Transfer, Transport};
use crate::faults;
use crate::fio::{self, Direction, Done, Entry, File, IoUnit, OptionSpec, Outcome, Queued, Refusal, UnitId};
use options::Options;
use report::{Counters, Report};
use serde_json::json;

/// One fio job on one transport.
pub struct Job {
    transport: Box<dyn Transport<InFlight>>,
    memory: Option<HostMemory>,
    counters: Counters,
    report: Option<Report>,
}

/// What is remembered of an I/O unit while the transport has its operation.
#[derive(Clone, Copy)]
struct InFlight {
    unit: UnitId,
    wanted: usize,
    transfer: Transfer,
    file: usize,
}

impl fio::Engine for Job {
    const OPTIONS: &'static [OptionSpec] = options::SPECS;

    fn entries() -> &'static [Entry] {
        &crate::ENTRIES
    }

    fn start(job: &fio::Job) -> Result<Self, Refusal> {
        faults::strike("init");
        let refuse = |line| Refusal { errno: libc::EINVAL, line };
        check_fio_options(job).map_err(refuse)?;
        let options = Options::parse(&job.options).map_err(refuse)?;
        let choice = backend::choose(&options, job.loaded_as).map_err(refuse)?;
        let depth = depth(job);
        let transport = backend::open(&choice, &options, depth).map_err(refuse)?;
        if job.subjob == 0 {
            announce(&choice, depth, transport.as_ref());
        }
        let about = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "job": job.fio.text("name"),
            "loaded_as": job.loaded_as,
            "subjob": job.subjob,
            "backend": choice.backend.word(),
            "iodepth": depth,
            "options": options.to_json(),
        });
        let report = options.report.map(|path| Report::new(&path, job, about)).transpose().map_err(refuse)?;
        Ok(Self { transport, memory: None, counters: Counters::default(), report })
    }

    fn is_synchronous(&self) -> bool {
        self.transport.is_synchronous()
    }

    fn allocate(&mut self, bytes: usize) -> Result<NonNull<u8>, Refusal> {
        faults::strike("iomem_alloc");
        let wanted = if faults::allocation_fails() { usize::MAX } else { bytes };
        let memory = HostMemory::new(wanted).map_err(|error| Refusal {
            errno: libc::ENOMEM,
            line: format!("no memory for the I/O buffers: {bytes} bytes were asked for ({error}); lower iodepth or the block size"),
        })?;
        Ok(self.memory.insert(memory).start())
    }

    fn free(&mut self) {
        self.transport.cancel();
        self.memory = None;
    }

    fn opened(&mut self, file: &File) -> Result<(), Refusal> {
        self.counters.opened(file.index(), &file.name());
        Ok(())
    }

    fn queue(&mut self, unit: &IoUnit) -> Queued {
        faults::strike("queue");
        let transfer = match unit.direction() {
            Direction::Read => Transfer::Read,
            Direction::Write => Transfer::Write,
            // Everything written before it has to be done first: fio reaps and asks again.
            Direction::Trim | Direction::Sync if self.transport.in_flight() > 0 => return Queued::Busy,
            Direction::Trim => return Queued::Done(unit.trim()),
            Direction::Sync => return Queued::Done(unit.sync()),
        };
        let (file, wanted) = (unit.file(), unit.length());
        let tag = InFlight { unit: unit.id(), wanted, transfer, file: file.index() };
        let buffer = Buffer::new(unit.buffer());
        match self.transport.submit(Operation { tag, transfer, fd: file.fd(), offset: unit.offset(), buffer }) {
            Submitted::Done(moved) => Queued::Done(account(&mut self.counters, tag, moved)),
            Submitted::InFlight => Queued::InFlight,
            Submitted::Busy => Queued::Busy,
        }
    }

    fn commit(&mut self) -> Result<(), i32> {
        self.transport.commit()
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), i32> {
        faults::strike("reap");
        let counters = &mut self.counters;
        self.transport.reap(min, max, timeout, &mut |tag, moved| {
            done.push(Done { unit: tag.unit, outcome: account(counters, tag, moved) });
        })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        faults::strike("cleanup");
        self.transport.cancel();
        if let Some(Err(line)) = self.report.as_ref().map(|report| report.write(&self.counters, self.transport.path())) {
            fio::line(&line);
        }
    }
}

/// fio's own options that this engine cannot serve, with the line that says so. fio says less, or nothing, or crashes (up to 3.33).
fn check_fio_options(job: &fio::Job) -> Result<(), String> {
    const ZONE_MODE_ZBD: i32 = 3;
    if job.fio.is_set("mem") {
        return Err("mem= and iomem= conflict with this engine, which allocates the I/O buffers itself: leave them out".to_owned());
    }
    if job.fio.int("zonemode") == Some(ZONE_MODE_ZBD) {
        return Err(fio::ZONED.to_owned());
    }
    Ok(())
}

/// How many operations this job's transport may get at a time. With io_submit_mode=offload fio makes the depth with threads of its own,
/// each of which starts the engine anew.
fn depth(job: &fio::Job) -> u32 {
    const OFFLOAD: i32 = 1;
    match job.fio.int("io_submit_mode") {
        Some(OFFLOAD) => 1,
        _ => job.fio.int("iodepth").and_then(|n| u32::try_from(n).ok()).unwrap_or(1).max(1),
    }
}

/// Says once a job group what the engine chose where the job left it open, and what it cannot do.
fn announce(choice: &backend::Choice, depth: u32, transport: &dyn Transport<InFlight>) {
    if let Some(reason) = choice.reason {
        fio::line(&format!("gpu_backend=auto is {}: {reason}", choice.backend.word()));
    }
    if depth > 1 && transport.is_synchronous() {
        fio::line(&format!("gpu_mode=sync has one operation in flight at a time: iodepth={depth} acts as 1"));
    }
}

/// Counts an operation that has ended, and says how fio is to see it.
#[inline]
fn account(counters: &mut Counters, tag: InFlight, moved: Moved) -> Outcome {
    counters.add(tag.file, tag.transfer, tag.wanted, moved);
    Outcome { error: moved.errno, left: if moved.errno == 0 { tag.wanted - moved.bytes } else { 0 } }
}
