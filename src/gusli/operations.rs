//! The operations of one job until they have ended: by their tags, in the order in which they are to be started, alone or many in one list.

use super::calls::{LIST_HEAD, ListRange, write_list};
use crate::common::transport::{Buffer, Operation};

/// Ranges of one list at most; longer ones gain nothing, and each needs its room.
const LONGEST_LIST: usize = 64;
/// The end of a list.
const NONE: u32 = u32::MAX;

/// Bytes behind the job's buffers that lists are written to, wherever those end.
pub fn list_room(depth: usize, makes_lists: bool) -> usize {
    if makes_lists { LIST_HEAD + depth * list_bytes(depth) } else { 0 }
}

fn list_bytes(depth: usize) -> usize {
    LIST_HEAD + depth.min(LONGEST_LIST) * size_of::<ListRange>()
}

/// The operations of one job.
pub struct Operations {
    makes_lists: bool,
    /// By their tags, which are below the job's depth.
    slots: Box<[Option<Slot>]>,
    count: usize,
    /// Taken since the last commit, which is what fio takes for their start.
    collected: Vec<u32>,
    /// To be started, in order.
    due: Vec<u32>,
    /// Where lists are written to.
    lists: usize,
}

struct Slot {
    operation: Operation,
    /// The next operation of the same list.
    next: u32,
    /// It has failed in a list, and is tried again to learn which of them it was.
    is_alone: bool,
}

impl Operations {
    pub fn new(depth: usize, makes_lists: bool) -> Self {
        Self {
            makes_lists,
            slots: (0..depth).map(|_| None).collect(),
            count: 0,
            collected: Vec::with_capacity(depth),
            due: Vec::with_capacity(depth),
            lists: 0,
        }
    }

    /// The job's buffers are `block`; the room for lists lies behind them.
    pub fn attach(&mut self, block: Buffer) {
        self.lists = (block.address() + block.len()).next_multiple_of(LIST_HEAD);
    }

    /// How many have not ended.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub fn get(&self, tag: u32) -> Option<&Operation> {
        self.slots[tag as usize].as_ref().map(|slot| &slot.operation)
    }

    #[inline]
    pub fn collect(&mut self, operation: &Operation) {
        self.slots[operation.tag as usize] = Some(Slot { operation: *operation, next: NONE, is_alone: false });
        self.count += 1;
        self.collected.push(operation.tag);
    }

    /// Makes what was collected due; returns whether there is any.
    #[inline]
    pub fn commit(&mut self) -> bool {
        let is_any = !self.collected.is_empty();
        self.due.append(&mut self.collected);
        is_any
    }

    #[inline]
    pub fn is_any_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// All that are due, in order; what is not started is to be given back.
    #[inline]
    pub fn take_due(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.due)
    }

    #[inline]
    pub fn give_back(&mut self, due: Vec<u32>) {
        self.due = due;
    }

    /// How many of `due` go out as one, which hangs on the first.
    #[inline]
    pub fn link(&mut self, due: &[u32]) -> usize {
        if !self.makes_lists {
            return 1;
        }
        let slot = |tag: &u32| self.slots[*tag as usize].as_ref().filter(|slot| !slot.is_alone);
        let kind = |tag: &u32| slot(tag).map(|slot| (slot.operation.handle, slot.operation.transfer));
        let first = kind(&due[0]);
        let count = if first.is_none() { 1 } else { due.iter().take(LONGEST_LIST).take_while(|tag| kind(tag) == first).count() };
        for n in 0..count {
            if let Some(slot) = &mut self.slots[due[n] as usize] {
                slot.next = if n + 1 < count { due[n + 1] } else { NONE };
            }
        }
        count
    }

    /// Whether others hang on an operation.
    #[inline]
    pub fn is_list(&self, first: u32) -> bool {
        self.slots[first as usize].as_ref().is_some_and(|slot| slot.next != NONE)
    }

    /// Writes the list of `count` operations that hangs on `first`, for a device on which the file starts at `base`. Returns where, and its
    /// length in bytes.
    pub fn write_list(&self, first: u32, count: usize, base: u64) -> (usize, u64) {
        let at = self.lists + first as usize * list_bytes(self.slots.len());
        let mut tag = first;
        let ranges = (0..count).map(|_| {
            let slot = self.slots.get(tag as usize).and_then(Option::as_ref);
            tag = slot.map_or(NONE, |slot| slot.next);
            slot.map_or(ListRange { buffer: 0, bytes: 0, offset: 0 }, |Slot { operation, .. }| ListRange {
                buffer: operation.buffer.address(),
                bytes: operation.buffer.len() as u64,
                offset: base + operation.offset,
            })
        });
        (at, write_list(at, ranges))
    }

    /// Makes an operation, or all of a list, due once more; these each on its own where `is_alone`.
    #[cold]
    pub fn take_back(&mut self, first: u32, is_alone: bool) {
        let mut tag = first;
        while let Some(slot) = self.slots.get_mut(tag as usize).and_then(Option::as_mut) {
            slot.is_alone |= is_alone;
            self.due.push(tag);
            tag = std::mem::replace(&mut slot.next, NONE);
        }
    }

    /// An operation, or all of a list, has ended: each is handed to `ended`.
    #[inline]
    pub fn end(&mut self, first: u32, mut ended: impl FnMut(Operation)) {
        let mut tag = first;
        while let Some(slot) = self.slots.get_mut(tag as usize).and_then(Option::take) {
            self.count -= 1;
            ended(slot.operation);
            tag = slot.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::driver::Handle;
    use crate::common::transport::Transfer;

    fn operation(tag: u32, transfer: Transfer, device: usize) -> Operation {
        let buffer = Buffer::at(4096 * (tag as usize + 1), 4096);
        Operation { tag, transfer, fd: -1, handle: Handle(device), offset: u64::from(tag), buffer, base: 4096, at: 0 }
    }

    #[test]
    fn neighbours_for_one_device_and_direction_make_a_list_that_ends_as_a_whole() {
        let mut all = Operations::new(8, true);
        let kinds = [(Transfer::Read, 0), (Transfer::Read, 0), (Transfer::Write, 0), (Transfer::Write, 1), (Transfer::Write, 1)];
        (0..).zip(kinds).for_each(|(tag, (transfer, device))| all.collect(&operation(tag, transfer, device)));
        assert!(!all.is_any_due() && all.commit() && !all.commit());
        let due = all.take_due();
        assert_eq!((all.link(&due), all.link(&due[2..]), all.link(&due[3..])), (2, 1, 2));
        assert!(all.is_list(0) && !all.is_list(2) && all.is_list(3));
        let mut ended = Vec::new();
        all.end(0, |operation| ended.push(operation.tag));
        assert_eq!((ended, all.len()), (vec![0, 1], 3));
    }

    #[test]
    fn what_failed_in_a_list_goes_out_alone() {
        let mut all = Operations::new(4, true);
        (0..3).for_each(|tag| all.collect(&operation(tag, Transfer::Read, 0)));
        all.commit();
        let due = all.take_due();
        assert_eq!(all.link(&due), 3);
        all.take_back(0, true);
        let due = all.take_due();
        assert_eq!((due.clone(), all.link(&due), all.is_list(0)), (vec![0, 1, 2], 1, false));
    }
}
