//! The bounce buffers of cuFile's compat mode. An asynchronous operation holds one of its size class, and libcufile waits for ever where
//! there is none left, so no more are put in flight than there are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Cufile;
use super::settings;
use crate::common::gpufile::Limit;

/// What cufile.json says where it says nothing: KiB and count of each class.
const DEFAULT: [(usize, usize); 3] = [(4, 128), (1024, 64), (16384, 64)];

/// One job's share of the bounce buffers, which all jobs of a process have in common for each device.
pub struct Slabs {
    classes: Arc<[Class]>,
    /// How many of each class were set aside for this job: as many as it has operations, or none, and then each operation takes its own.
    reserved: usize,
    /// The class that was first found wanting.
    wanting: Option<usize>,
}

/// Buffers of one size, smallest first in a list of them.
struct Class {
    bytes: usize,
    count: usize,
    taken: AtomicUsize,
}

/// The buffers of one device in one process: a forked job has its own, whatever its parent knew.
struct Pool {
    process: u32,
    device: u32,
    classes: Arc<[Class]>,
}

static POOLS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

impl Slabs {
    /// The classes as the library tells them, or its settings, or its documented defaults, for a job of `depth` operations.
    pub fn of(own: &Cufile, device: u32, depth: usize) -> Self {
        let process = std::process::id();
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Pool { classes, .. }) = pools.iter().find(|pool| (pool.process, pool.device) == (process, device)) {
            return Self { classes: classes.clone(), reserved: 0, wanting: None }.reserve(depth);
        }
        let told = own.slabs().filter(|classes| classes.iter().any(|(_, count)| *count > 0));
        let classes = told
            .or_else(|| classes_in(&settings::read()?))
            .unwrap_or_else(|| DEFAULT.iter().map(|(kib, count)| (kib * 1024, *count)).collect());
        let slabs = Self::new(classes);
        pools.push(Pool { process, device, classes: slabs.classes.clone() });
        slabs.reserve(depth)
    }

    fn new(mut classes: Vec<(usize, usize)>) -> Self {
        classes.sort_unstable();
        let class = |(bytes, count): (usize, usize)| Class { bytes, count: count.max(1), taken: AtomicUsize::new(0) };
        Self { classes: classes.into_iter().map(class).collect(), reserved: 0, wanting: None }
    }

    /// Sets buffers aside for all operations of a job where they are few: it never waits then, and need not count. At least half of each class
    /// stays for jobs that do.
    fn reserve(mut self, depth: usize) -> Self {
        let takes_all = |class: &Class| {
            let more = |taken: usize| (taken + depth <= class.count / 2).then_some(taken + depth);
            class.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
        };
        let taken = self.classes.iter().take_while(|class| takes_all(class)).count();
        if taken == self.classes.len() {
            self.reserved = depth;
        } else {
            for class in &self.classes[..taken] {
                class.taken.fetch_sub(depth, Ordering::Relaxed);
            }
        }
        self
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        for class in self.classes.iter() {
            class.taken.fetch_sub(self.reserved, Ordering::Relaxed);
        }
    }
}

impl Limit for Slabs {
    fn take(&mut self, bytes: usize) -> Option<usize> {
        if self.reserved > 0 {
            return Some(0);
        }
        let index = self.classes.iter().position(|class| class.bytes >= bytes).unwrap_or(self.classes.len() - 1);
        let class = &self.classes[index];
        let one_more = |taken| (taken < class.count).then_some(taken + 1);
        if class.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            self.wanting.get_or_insert(index);
            return None;
        }
        Some(index)
    }

    fn release(&self, class: usize) {
        if self.reserved > 0 {
            return;
        }
        self.classes[class].taken.fetch_sub(1, Ordering::Relaxed);
    }

    fn complaint(&self) -> Option<String> {
        let Class { bytes, count, .. } = &self.classes[self.wanting?];
        Some(format!(
            "cuFile's compat mode has {count} bounce buffers of {} KiB for all jobs of a process, so no more operations of that size are in \
             flight at a time; raise posix_pool_slab_count in cufile.json for more",
            bytes / 1024
        ))
    }
}

/// The classes in the settings that libcufile reads.
fn classes_in(settings: &serde_json::Value) -> Option<Vec<(usize, usize)>> {
    let list = |name: &str| -> Option<Vec<usize>> {
        settings["properties"][name].as_array()?.iter().map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok())).collect()
    };
    let (sizes, counts) = (list("posix_pool_slab_size_kb"), list("posix_pool_slab_count")?);
    let sizes = sizes.unwrap_or_else(|| DEFAULT.iter().map(|(kib, _)| *kib).collect());
    (sizes.len() == counts.len() && !sizes.is_empty()).then(|| sizes.into_iter().map(|kib| kib * 1024).zip(counts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_taken_than_there_are_of_the_class() {
        let mut slabs = Slabs::new(vec![(1 << 20, 2), (4096, 1)]);
        assert_eq!(slabs.take(4096), Some(0));
        assert_eq!(slabs.take(512), None);
        assert_eq!(slabs.take(4097), Some(1));
        assert_eq!(slabs.take(64 << 20), Some(1));
        assert_eq!(slabs.take(1 << 20), None);
        slabs.release(1);
        assert_eq!(slabs.take(1 << 20), Some(1));
    }

    #[test]
    fn a_job_that_needs_few_has_them_to_itself_and_half_stay_for_the_others() {
        let classes = || Slabs::new(vec![(4096, 8), (1 << 20, 4)]);
        let first = classes().reserve(2);
        assert_eq!(first.reserved, 2);
        let mut second = Slabs { classes: first.classes.clone(), reserved: 0, wanting: None }.reserve(2);
        assert_eq!((second.reserved, second.take(1 << 20), second.take(1 << 20), second.take(1 << 20)), (0, Some(1), Some(1), None));
        assert_eq!((second.take(1), first.classes[0].taken.load(Ordering::Relaxed)), (Some(0), 3));
        drop(first);
        assert_eq!(second.take(1 << 20), Some(1));
        assert_eq!(classes().reserve(3).reserved, 0);
    }

    #[test]
    fn the_classes_of_the_settings_are_those_that_count() {
        let classes = |text| classes_in(&settings::parse(text).unwrap());
        let text = "{ \"properties\": { \"posix_pool_slab_size_kb\": [4, 1024], \"posix_pool_slab_count\": [7, 9] } }";
        assert_eq!(classes(text), Some(vec![(4096, 7), (1 << 20, 9)]));
        assert_eq!(classes("{ \"properties\": { \"posix_pool_slab_count\": [1, 2, 3] } }").unwrap()[2], (16 << 20, 3));
        assert_eq!(classes("{}"), None);
    }
}
