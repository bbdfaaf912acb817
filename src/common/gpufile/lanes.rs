//! The vendor's batches of one job: which of them has room for an operation, and which operations must not meet in one.
//!
//! libcufile gives an operation either to the kernel or, where it has to be taken apart (sizes or offsets that are no multiple of 4 KiB), to
//! threads of its own. Version 1.20 (CUDA 13) looks for the second kind only where the batch's latest submission had one: after «one for
//! the threads, then one for the kernel» cuFileBatchIOGetStatus reports the second and never the first (1.14 reports both). So the two
//! kinds have batches of their own, and every submission to a batch is of its kind.

use super::calls::BatchHandle;
use super::codes::Failure;
use super::entries::Entry;
use super::{Library, Vendor};

/// Entries that the vendor's library can really do at a time; more are accepted, and then fail.
const MOST_ENTRIES: usize = 128;

/// Who the vendor's library gives an entry to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Kernel,
    Threads,
}

impl Kind {
    pub fn of(entry: &Entry) -> Self {
        if entry.is_aligned() { Self::Kernel } else { Self::Threads }
    }
}

/// One batch of the vendor's.
pub struct Lane {
    pub handle: BatchHandle,
    pub kind: Kind,
    /// For the next submission.
    pub collected: Vec<Entry>,
    pub submitted: usize,
}

impl Lane {
    fn load(&self) -> usize {
        self.submitted + self.collected.len()
    }
}

/// All batches of a job.
pub struct Lanes<V: Vendor> {
    library: &'static Library<V>,
    lanes: Vec<Lane>,
    /// The one that got an entry last.
    latest: usize,
    /// That each of them takes.
    entries: usize,
    /// That can be needed: where those of one kind are not full, the other kind fills no more than its share.
    most: usize,
}

impl<V: Vendor> Lanes<V> {
    /// Batches for `depth` operations of one kind. The limit of a batch is what the library says, or less where it refuses that.
    pub fn new(library: &'static Library<V>, depth: usize) -> Result<Self, Failure> {
        let told = library.own.batch_limit().map_or(MOST_ENTRIES, |limit| limit as usize);
        let mut entries = told.min(MOST_ENTRIES).min(depth).max(1);
        let mut lanes = Self { library, lanes: Vec::new(), latest: 0, entries, most: 0 };
        while lanes.lanes.len() * entries < depth {
            match lanes.set_up() {
                Ok(()) => {}
                Err(_) if lanes.lanes.is_empty() && entries > 1 => entries /= 2,
                Err(failure) => return Err(failure),
            }
            lanes.entries = entries;
        }
        lanes.most = lanes.lanes.len() * 2;
        lanes.lanes.reserve_exact(lanes.most - lanes.lanes.len());
        Ok(lanes)
    }

    fn set_up(&mut self) -> Result<(), Failure> {
        let handle = self.library.calls.set_up_batch(self.entries as u32)?;
        self.lanes.push(Lane { handle, kind: Kind::Kernel, collected: Vec::with_capacity(self.entries), submitted: 0 });
        Ok(())
    }

    /// How many entries one batch takes.
    pub fn entries(&self) -> usize {
        self.entries
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    pub fn lane(&mut self, index: usize) -> &mut Lane {
        &mut self.lanes[index]
    }

    /// How many batches have something in flight.
    pub fn busy(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.submitted > 0).count()
    }

    /// The batch with the most in flight.
    pub fn fullest(&self) -> Option<usize> {
        (0..self.lanes.len()).filter(|&index| self.lanes[index].submitted > 0).max_by_key(|&index| self.lanes[index].submitted)
    }

    /// A batch with room for one more of this kind.
    #[inline]
    pub fn room(&mut self, kind: Kind) -> Option<usize> {
        let latest = &self.lanes[self.latest];
        if latest.kind == kind && latest.load() < self.entries {
            return Some(self.latest);
        }
        self.latest = self.other_room(kind)?;
        Some(self.latest)
    }

    fn other_room(&mut self, kind: Kind) -> Option<usize> {
        let entries = self.entries;
        let begun = |lane: &Lane| lane.kind == kind && (1..entries).contains(&lane.load());
        if let Some(index) = self.lanes.iter().position(begun) {
            return Some(index);
        }
        let index = match self.lanes.iter().position(|lane| lane.load() == 0) {
            Some(idle) => idle,
            None => self.one_more()?,
        };
        self.lanes[index].kind = kind;
        Some(index)
    }

    /// A further batch, where one kind has those there are.
    #[cold]
    fn one_more(&mut self) -> Option<usize> {
        if self.lanes.len() == self.most {
            return None;
        }
        if self.set_up().is_err() {
            self.most = self.lanes.len(); // then the kinds take turns
            return None;
        }
        Some(self.lanes.len() - 1)
    }

    /// Makes a failed batch anew; what it had is lost.
    pub fn rebuild(&mut self, index: usize) {
        let (calls, lane) = (&self.library.calls, &mut self.lanes[index]);
        calls.destroy_batch(lane.handle);
        lane.collected.clear();
        lane.submitted = 0;
        // Where there is no new batch, every submission to this one fails.
        lane.handle = calls.set_up_batch(self.entries as u32).unwrap_or(BatchHandle::NONE);
    }

    /// Gives the batches back; one with something in flight stays the vendor's, since destroying it would wait for that.
    pub fn end(&mut self) {
        for lane in self.lanes.drain(..).filter(|lane| lane.submitted == 0) {
            self.library.calls.destroy_batch(lane.handle);
        }
    }
}

impl<V: Vendor> Drop for Lanes<V> {
    fn drop(&mut self) {
        self.end();
    }
}
