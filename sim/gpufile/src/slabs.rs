//! The bounce buffers of batches, in three classes of size: an entry holds one of its class from its submission until its event is fetched.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::knobs::knobs;

/// KiB of each class, and how many buffers the real library has of it unless told otherwise.
const CLASSES: [(usize, usize); 3] = [(4, 128), (1024, 64), (16_384, 64)];

static TAKEN: Mutex<[u32; CLASSES.len()]> = Mutex::new([0; CLASSES.len()]);
static CHANGED: Condvar = Condvar::new();

/// One bounce buffer; given back when dropped.
pub struct Slab {
    /// None where their number is not limited.
    class: Option<usize>,
}

impl Slab {
    /// Takes a buffer for an entry of this size, and waits for one as long as it takes: the real library does so too, and for ever where
    /// the thread that would fetch events is the one that waits.
    pub fn take(bytes: usize) -> Self {
        let Some(most) = knobs().slabs else { return Self { class: None } };
        let class = CLASSES.iter().position(|(kib, _)| bytes <= kib << 10).unwrap_or(CLASSES.len() - 1);
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        while taken[class] >= most {
            taken = CHANGED.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        taken[class] += 1;
        Self { class: Some(class) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let Some(class) = self.class else { return };
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner)[class] -= 1;
        CHANGED.notify_all();
    }
}

/// KiB of each class, and how many buffers there are of it.
pub fn classes() -> [(usize, usize); CLASSES.len()] {
    let told = knobs().slabs.and_then(|slabs| usize::try_from(slabs).ok());
    CLASSES.map(|(kib, count)| (kib, told.unwrap_or(count)))
}
