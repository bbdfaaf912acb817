//! fio's hooks told in our words: a job's life, queueing and completion. Knows transports by their trait only; [`backend`] chooses one.

mod backend;
mod options;

use std::ptr::NonNull;
use std::time::Duration;

use crate::common::memory::HostMemory;
use crate::common::transport::{Buffer, Moved, Operation, Submitted, Transfer, Transport};
use crate::faults;
use crate::fio::{self, Direction, Done, Entry, IoUnit, OptionSpec, Outcome, Queued, Refusal, UnitId};
use options::Options;

/// One fio job on one transport.
pub struct Job {
    transport: Box<dyn Transport<InFlight>>,
    memory: Option<HostMemory>,
}

/// What is remembered of an I/O unit while the transport has its operation.
#[derive(Clone, Copy)]
struct InFlight {
    unit: UnitId,
    wanted: usize,
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
        let transport = backend::open(&choice, &options).map_err(refuse)?;
        if job.subjob == 0 {
            announce(job, &choice, transport.as_ref());
        }
        Ok(Self { transport, memory: None })
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
        let tag = InFlight { unit: unit.id(), wanted: unit.length() };
        let buffer = Buffer::new(unit.buffer());
        match self.transport.submit(Operation { tag, transfer, fd: unit.file().fd(), offset: unit.offset(), buffer }) {
            Submitted::Done(moved) => Queued::Done(outcome(moved, tag.wanted)),
            Submitted::InFlight => Queued::InFlight,
            Submitted::Busy => Queued::Busy,
        }
    }

    fn commit(&mut self) -> Result<(), i32> {
        self.transport.commit()
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), i32> {
        faults::strike("reap");
        self.transport.reap(min, max, timeout, &mut |tag, moved| {
            done.push(Done { unit: tag.unit, outcome: outcome(moved, tag.wanted) });
        })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        faults::strike("cleanup");
        self.transport.cancel();
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

/// Says once a job group what the engine chose where the job left it open, and what it cannot do.
fn announce(job: &fio::Job, choice: &backend::Choice, transport: &dyn Transport<InFlight>) {
    if let Some(reason) = choice.reason {
        fio::line(&format!("gpu_backend=auto is {}: {reason}", choice.backend.word()));
    }
    let depth = job.fio.int("iodepth").unwrap_or(1);
    if depth > 1 && transport.is_synchronous() {
        fio::line(&format!("gpu_mode=sync has one operation in flight at a time: iodepth={depth} acts as 1"));
    }
}

#[inline]
fn outcome(moved: Moved, wanted: usize) -> Outcome {
    Outcome { error: moved.errno, left: if moved.errno == 0 { wanted - moved.bytes } else { 0 } }
}
