//! How operations begin: what is asked of an I/O unit, staged where it has to be, and given to the transport.

use super::ending::{SLICE, complain, outcome_of};
use super::way::Way;
use super::{Barrier, InFlight, Job};
use crate::common::transport::{Buffer, Moved, Operation, Place, Submitted, Transfer};
use crate::faults;
use crate::fio::{self, Direction, Done, IoUnit, Outcome, Queued};

/// The tag of what never is in flight.
const NO_PLACE: Place = 0;

impl<T: Way> Job<T> {
    #[inline]
    pub fn take(&mut self, unit: IoUnit) -> Queued {
        faults::strike("queue");
        let Some(transfer) = transfer_of(unit) else { return self.take_other(unit) };
        if self.is_staged[transfer as usize] { self.start_staged(unit, transfer) } else { self.start::<false>(unit, transfer) }
    }

    #[cold] // beside what staging does, what the call costs is nothing
    fn start_staged(&mut self, unit: IoUnit, transfer: Transfer) -> Queued {
        // fio fetches what is held, and asks again. A write is never turned away: up to 3.38 fio then gives it another verify header.
        if self.held.is_some() && transfer == Transfer::Read {
            return Queued::Busy;
        }
        self.start::<true>(unit, transfer)
    }

    #[inline]
    fn start<const IS_STAGED: bool>(&mut self, unit: IoUnit, transfer: Transfer) -> Queued {
        let (buffer, offset) = (Buffer::new(unit.buffer()), unit.offset());
        let Some(at) = self.region.offset_of(buffer) else { return failed(unit, libc::EIO) };
        if IS_STAGED && transfer == Transfer::Write && !self.stage(unit, at, buffer) {
            return failed(unit, libc::EIO);
        }
        if (offset as usize | buffer.len() | at) & self.misaligned != 0 {
            self.say_misaligned(offset, buffer.len());
        }
        let tag = if T::IS_SYNCHRONOUS {
            NO_PLACE
        } else if let Some(place) = self.flying.next() {
            place
        } else {
            return failed(unit, libc::ECANCELED);
        };
        let Some(file) = self.files.get_mut(unit.file().index()) else { return failed(unit, libc::EBADF) };
        let (fd, handle, base) = (unit.file().fd(), file.handle, self.region.base);
        match self.transport.submit(&Operation { tag, transfer, fd, handle, offset, buffer, base, at }) {
            Submitted::All => {
                file.counts.add_all(transfer, buffer.len());
                if IS_STAGED && transfer == Transfer::Read { self.hold(unit, Outcome::DONE) } else { Queued::Done }
            }
            Submitted::Less(returned) => self.go_on(unit, transfer, returned),
            Submitted::Done(moved) => self.ended(unit, transfer, moved),
            Submitted::InFlight => {
                self.flying.insert(InFlight::new(unit, transfer, self.number));
                self.number += 1;
                self.collected += 1;
                Queued::InFlight
            }
            Submitted::Busy => Queued::Busy,
        }
    }

    /// Ends an operation whose first call has not moved all. What it is about is asked anew: what is kept across a call, for another that
    /// mostly does not come, costs.
    #[cold]
    fn go_on(&mut self, unit: IoUnit, transfer: Transfer, returned: isize) -> Queued {
        let (file, buffer) = (unit.file(), Buffer::new(unit.buffer()));
        let handle = self.files.get(file.index()).map(|open| open.handle).unwrap_or_default();
        let (fd, offset, base) = (file.fd(), unit.offset(), self.region.base);
        let Some(at) = self.region.offset_of(buffer) else { return failed(unit, libc::EIO) };
        let operation = Operation { tag: NO_PLACE, transfer, fd, handle, offset, buffer, base, at };
        let moved = self.transport.go_on(&operation, returned);
        self.ended(unit, transfer, moved)
    }

    /// An operation that has ended in submit(), otherwise than as a whole.
    #[cold]
    fn ended(&mut self, unit: IoUnit, transfer: Transfer, moved: Moved) -> Queued {
        unit.stamp_if_ours();
        if let Some(file) = self.files.get_mut(unit.file().index()) {
            file.counts.add(transfer, unit.length(), moved);
        }
        let outcome = outcome_of(unit.length(), moved);
        if outcome.error != 0 {
            complain(&mut self.notices, self.driver.as_ref(), &self.files, &InFlight::new(unit, transfer, 0), moved);
        }
        if self.is_staged[transfer as usize] && transfer == Transfer::Read { self.hold(unit, outcome) } else { end(unit, outcome) }
    }

    /// Keeps back a read that has ended.
    fn hold(&mut self, unit: IoUnit, outcome: Outcome) -> Queued {
        self.held = Some(Done { unit: unit.id(), outcome });
        Queued::InFlight
    }

    /// Trims and syncs.
    #[inline(never)]
    fn take_other(&mut self, unit: IoUnit) -> Queued {
        if unit.direction() == Direction::Trim {
            return self.take_trim(unit);
        }
        unit.stamp_if_ours(); // it may end in here, and what it does then takes its time
        if self.flying.len() == 0 {
            return end(unit, self.sync(unit));
        }
        self.barriers.push(Barrier { unit: unit.id(), number: self.number });
        Queued::InFlight
    }

    /// Trims once nothing is in flight that is about the same bytes: fio trims what it has only queued a write of. It is not turned away
    /// meanwhile, since fio forgets the last one then and takes it for done.
    fn take_trim(&mut self, unit: IoUnit) -> Queued {
        while self.is_in_flight(unit) {
            if self.collected > 0 {
                return Queued::CommitFirst;
            }
            let mut ended = std::mem::take(&mut self.unfetched);
            let reaped = self.reap_slice(1, self.flying.len(), SLICE, &mut ended);
            self.unfetched = ended;
            if let Err(errno) = reaped {
                return end(unit, Outcome::failed(errno));
            }
            if unit.must_job_end() && self.flying.is_stuck() {
                return end(unit, Outcome::failed(libc::ECANCELED)); // what holds it up is named when fio looks for it
            }
        }
        end(unit, self.discard(unit))
    }

    /// Whether an operation is out that is about some of the unit's bytes.
    fn is_in_flight(&self, unit: IoUnit) -> bool {
        let (file, start) = (unit.file().index(), unit.offset());
        let end = start + unit.length() as u64;
        self.flying.iter().any(|flight| flight.file == file && flight.offset < end && start < flight.offset + flight.wanted as u64)
    }

    fn discard(&mut self, unit: IoUnit) -> Outcome {
        let outcome = if unit.file().fd() == fio::NO_FD { Outcome::failed(libc::EOPNOTSUPP) } else { unit.trim() };
        if let Some(file) = self.files.get_mut(unit.file().index()) {
            file.counts.add_trim(unit.length(), outcome.error);
        }
        outcome
    }

    /// Syncs as fio's own engines do, and counts it. What has no descriptor has nothing to sync beyond the operations before.
    pub fn sync(&mut self, unit: IoUnit) -> Outcome {
        let outcome = if unit.file().fd() == fio::NO_FD { Outcome::DONE } else { unit.sync() };
        if let Some(file) = self.files.get_mut(unit.file().index()) {
            file.counts.add_sync(outcome.error);
        }
        outcome
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
    fn stage(&mut self, unit: IoUnit, at: usize, buffer: Buffer) -> bool {
        let Some(staging) = &mut self.staging else { return true };
        let staged = unit.untimed(|| staging.before_write(&self.region, at, buffer));
        let Err(error) = staged else { return true };
        let what = staging.explain(error);
        self.staging_failed("staging a write on the device", &what);
        false
    }
}

#[inline]
fn transfer_of(unit: IoUnit) -> Option<Transfer> {
    match unit.direction() {
        Direction::Read => Some(Transfer::Read),
        Direction::Write => Some(Transfer::Write),
        Direction::Trim | Direction::Sync => None,
    }
}

/// A transfer that comes to nothing before it has begun.
#[cold]
fn failed(unit: IoUnit, errno: i32) -> Queued {
    unit.stamp_if_ours();
    end(unit, Outcome::failed(errno))
}

/// The unit has ended in here.
fn end(unit: IoUnit, outcome: Outcome) -> Queued {
    unit.complete(outcome);
    if outcome.error == 0 { Queued::Done } else { Queued::Failed }
}
