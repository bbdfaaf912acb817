//! How operations end: waited for, handed back to fio with what they moved, or given up.

use std::time::{Duration, Instant};

use super::way::Way;
use super::{InFlight, Job, Notices, OpenFile};
use crate::common::driver::Driver;
use crate::common::transport::{Moved, Transfer};
use crate::common::wait::Deadline;
use crate::fio::{self, Done, Outcome, Waiting};

/// How long a transport may wait before fio is asked whether it wants to end the job.
pub const SLICE: Duration = Duration::from_millis(50);

impl<T: Way> Job<T> {
    /// Waits until `min` operations have ended or `timeout` has passed, through slices after each of which fio is asked whether it wants to
    /// end the job.
    pub fn wait(&mut self, min: usize, max: usize, timeout: Option<Duration>, waiting: &Waiting, done: &mut Vec<Done>) -> Result<(), i32> {
        let deadline = Deadline::after(timeout);
        loop {
            self.pass_barriers(max, waiting, done);
            if self.flying.is_over() {
                self.hand_over(max, done);
                return Ok(());
            }
            self.reap_slice(min.saturating_sub(done.len()), max - done.len(), deadline.left().map_or(SLICE, |left| left.min(SLICE)), done)?;
            self.pass_barriers(max, waiting, done);
            if done.len() >= min || deadline.is_past() {
                return Ok(());
            }
            if (waiting.must_end() || self.end.is_some_and(|end| Instant::now() > end)) && self.flying.is_stuck() {
                self.name_the_stuck(waiting);
                self.give_up(libc::ECANCELED);
            }
        }
    }

    /// Waits no longer than `most`.
    #[inline]
    pub fn reap_slice(&mut self, min: usize, max: usize, most: Duration, done: &mut Vec<Done>) -> Result<(), i32> {
        let Self { transport, notices, driver, files, flying, .. } = self;
        transport.reap(min, max, Some(most), &mut |place, moved| {
            // Looked at where it lies: moving it out would copy all of it.
            if let Some(flight) = flying.get(place) {
                done.push(Done { unit: flight.unit, outcome: account(notices, driver.as_ref(), files, flight, moved) });
                flying.remove(place);
            }
        })
    }

    /// Says what does not end, each operation with a line: fio would wait for it for ever, and a signal would not end the job.
    #[cold]
    fn name_the_stuck(&self, waiting: &Waiting) {
        for flight in self.flying.iter() {
            let what = describe(&self.files, &flight);
            let after = waiting.age(flight.unit).map_or_else(String::new, |age| format!(" after {:.1} s", age.as_secs_f64()));
            fio::line(&format!("{what} is not back{after} and was given up"));
        }
    }

    /// Ends everything that is out with `errno`.
    #[cold]
    pub fn give_up(&mut self, errno: i32) {
        for flight in self.flying.give_up() {
            let failed = Moved::failed(errno, 0);
            let outcome = account(&mut self.notices, self.driver.as_ref(), &mut self.files, &flight, failed);
            self.unfetched.push(Done { unit: flight.unit, outcome });
        }
        self.unfetched.extend(self.barriers.drain(..).map(|barrier| Done { unit: barrier.unit, outcome: Outcome::failed(errno) }));
        self.cancel();
    }

    /// Syncs that all operations queued before them have ended for.
    fn pass_barriers(&mut self, max: usize, waiting: &Waiting, done: &mut Vec<Done>) {
        while let Some(&barrier) = self.barriers.first().filter(|_| done.len() < max) {
            if self.flying.iter().any(|flight| flight.number < barrier.number) {
                return;
            }
            self.barriers.remove(0);
            done.push(Done { unit: barrier.unit, outcome: self.sync(waiting.unit(barrier.unit)) });
        }
    }

    pub fn hand_over(&mut self, max: usize, done: &mut Vec<Done>) {
        let count = self.unfetched.len().min(max.saturating_sub(done.len()));
        done.extend(self.unfetched.drain(..count));
    }

    #[cold]
    pub fn say_why_shallow(&mut self) {
        self.notices.shallow_from = self.number.saturating_mul(2);
        if let Some(line) = self.transport.complaint() {
            self.notices.shallow_from = u64::MAX;
            fio::line(&line);
        }
    }
}

/// Counts an operation that has ended, and says how fio is to see it.
#[inline]
fn account(notices: &mut Notices, driver: &dyn Driver, files: &mut [OpenFile], flight: &InFlight, moved: Moved) -> Outcome {
    if let Some(file) = files.get_mut(flight.file) {
        file.counts.add(flight.transfer, flight.wanted, moved);
    }
    let outcome = outcome_of(flight.wanted, moved);
    if outcome.error != 0 {
        complain(notices, driver, files, flight, moved);
    }
    outcome
}

#[inline]
pub fn outcome_of(wanted: usize, moved: Moved) -> Outcome {
    match moved.errno {
        0 => Outcome { error: 0, left: wanted - moved.bytes },
        errno => Outcome::failed(errno),
    }
}

/// Says once a job what a vendor's failure means; fio itself says what an errno means.
#[cold]
#[inline(never)]
pub fn complain(notices: &mut Notices, driver: &dyn Driver, files: &[OpenFile], flight: &InFlight, moved: Moved) {
    if moved.code == 0 || notices.failed {
        return;
    }
    notices.failed = true;
    fio::line(&format!("{}: {} (said once; the report counts them all)", describe(files, flight), driver.explain(moved.code)));
}

fn describe(files: &[OpenFile], flight: &InFlight) -> String {
    let name = files.get(flight.file).map_or("a file", |file| &file.name);
    let what = if flight.transfer == Transfer::Read { "read" } else { "write" };
    format!("{what} of {name} at offset {}, {} bytes", flight.offset, flight.wanted)
}
