//! Registered memory: few ranges, shared by the jobs of the process, since the library ends the process at the seventeenth.

use std::sync::Arc;

use super::calls::{DeviceId, Library};
use super::codes;
use crate::common::device::{Device as Gpu, PinnedRange};
use crate::common::iobuf_lock;
use crate::common::memory::HostMemory;

/// Ranges that the library has room for.
const MOST_RANGES: usize = 16;
/// What a job's part of a range starts at; HostMemory is aligned alike.
const ALIGNMENT: usize = 64 * 1024;
/// Where the library makes the shared memory that it puts in a range's place.
const SHARED_MEMORY: &str = "/dev/shm";

/// The ranges of the process. One that nobody uses stays, unregistered, for the next job.
#[derive(Default)]
pub struct Ranges {
    all: Vec<Range>,
    /// Bytes that the jobs of the process will need in all, as far as it is known.
    expected: usize,
}

/// Page-aligned memory that is registered as one.
struct Range {
    memory: HostMemory,
    bytes: usize,
    /// Parts that jobs have, by start and length from the range's start, in order.
    taken: Vec<(usize, usize)>,
    /// The devices that it is registered for, by their place in the context, each with the number of jobs.
    registered: Vec<(usize, usize)>,
    /// It is locked for GPUs, since the first job that wants that. Registering maps other memory in its place, and so does its end: it is pinned
    /// only in between.
    pinned: Option<PinnedRange>,
}

/// A job's part of a range.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    pub address: usize,
    range: usize,
    at: usize,
}

/// What a part of `bytes` bytes takes.
pub fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

impl Ranges {
    pub fn expecting(expected: usize) -> Self {
        Self { all: Vec::new(), expected }
    }

    /// A part of `bytes` bytes, whose range gets registered for each of `devices`. Registering clears a range, so it is done before anyone has
    /// a part of it: nobody shares an unregistered one. It is pinned for `gpu`, where there is one.
    pub fn take(
        &mut self,
        bytes: usize,
        devices: &[(DeviceId, usize)],
        gpu: Option<&Arc<dyn Gpu>>,
        library: &Library,
    ) -> Result<Slice, String> {
        let bytes = rounded(bytes);
        let found = self.all.iter().enumerate().find_map(|(n, range)| Some((n, range.gap(bytes)?)));
        let (n, at) = match found {
            Some(found) => found,
            None => {
                let size = if self.all.is_empty() { self.expected.max(bytes) } else { bytes };
                self.all.push(Range::new(size)?);
                (self.all.len() - 1, 0)
            }
        };
        let others = self.all.iter().filter(|range| !range.registered.is_empty()).count();
        if self.all[n].registered.is_empty() {
            if others >= MOST_RANGES {
                return Err(format!(
                    "GUSLI's library has room for {MOST_RANGES} ranges of registered memory in a process, and all are taken: start fewer jobs at \
                     once, or use thread=0"
                ));
            }
            check_room(self.all[n].bytes)?;
        }
        let range = &mut self.all[n];
        let mut done = 0;
        let registered = devices.iter().try_for_each(|(id, device)| range.register(library, id, *device).map(|()| done += 1));
        if let Err(line) = registered.and_then(|()| gpu.map_or(Ok(()), |gpu| range.pin(gpu))) {
            devices[..done].iter().for_each(|(id, device)| range.unregister(library, id, *device));
            return Err(line);
        }
        let place = range.taken.partition_point(|(start, _)| *start < at);
        range.taken.insert(place, (at, bytes));
        Ok(Slice { address: range.start() + at, range: n, at })
    }

    /// Undoes [`Ranges::take`].
    pub fn put(&mut self, slice: &Slice, devices: &[(DeviceId, usize)], library: &Library) {
        let range = &mut self.all[slice.range];
        range.taken.retain(|(start, _)| *start != slice.at);
        if range.taken.is_empty() {
            range.pinned = None; // also where a device that is gone is never unregistered
        }
        devices.iter().for_each(|(id, device)| range.unregister(library, id, *device));
    }

    /// The library is to give up all that is registered for a device.
    pub fn forget(&mut self, device: usize) {
        for range in &mut self.all {
            range.registered.retain(|(registered, _)| *registered != device);
            range.unpin_where_unregistered();
        }
    }
}

impl Range {
    fn new(bytes: usize) -> Result<Self, String> {
        let memory = HostMemory::new(bytes).map_err(|error| {
            format!("no memory for the I/O buffers: {bytes} bytes were asked for ({error}); lower iodepth or the block size")
        })?;
        Ok(Self { memory, bytes, taken: Vec::new(), registered: Vec::new(), pinned: None })
    }

    fn start(&mut self) -> usize {
        self.memory.start().as_ptr().expose_provenance()
    }

    /// Where `bytes` bytes are free.
    fn gap(&self, bytes: usize) -> Option<usize> {
        let starts = [0].into_iter().chain(self.taken.iter().map(|(start, length)| start + length));
        let ends = self.taken.iter().map(|(start, _)| *start).chain([self.bytes]);
        starts.zip(ends).find(|(start, end)| end.saturating_sub(*start) >= bytes).map(|(start, _)| start)
    }

    fn register(&mut self, library: &Library, id: &DeviceId, device: usize) -> Result<(), String> {
        if let Some((_, jobs)) = self.registered.iter_mut().find(|(registered, _)| *registered == device) {
            *jobs += 1;
            return Ok(());
        }
        let start = self.start();
        let _alone = iobuf_lock::alone()?;
        match library.add_buffer(id, start, self.bytes) {
            0 => self.registered.push((device, 1)),
            code => return Err(format!("registering {} bytes for I/O: {}", self.bytes, codes::connecting(code))),
        }
        Ok(())
    }

    fn unregister(&mut self, library: &Library, id: &DeviceId, device: usize) {
        let Some(n) = self.registered.iter().position(|(registered, _)| *registered == device) else { return };
        self.registered[n].1 -= 1;
        if self.registered[n].1 == 0 {
            self.registered.remove(n);
            self.unpin_where_unregistered();
            let start = self.start();
            let _alone = iobuf_lock::alone(); // where it cannot be had, the memory must be given back all the same
            library.remove_buffer(id, start, self.bytes);
        }
    }

    fn pin(&mut self, gpu: &Arc<dyn Gpu>) -> Result<(), String> {
        if self.pinned.is_none() {
            let pinned = PinnedRange::new(gpu.clone(), self.start(), self.bytes).map_err(|error| {
                let (bytes, place, what) = (self.bytes, gpu.place(), gpu.explain(error));
                format!("pinning {bytes} bytes of I/O buffers on {place}: {what}; lower iodepth or the block size, or use gpu_mem=host")
            })?;
            self.pinned = Some(pinned);
        }
        Ok(())
    }

    fn unpin_where_unregistered(&mut self) {
        if self.registered.is_empty() {
            self.pinned = None;
        }
    }
}

/// Where there is too little room the library goes on, and the first touch of what is missing ends the process.
fn check_room(bytes: usize) -> Result<(), String> {
    let about = rustix::fs::statvfs(SHARED_MEMORY).map_err(|error| format!("{SHARED_MEMORY}: {error}; GUSLI's library needs it"))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free >= bytes as u64 {
        return Ok(());
    }
    Err(format!(
        "registering the I/O buffers takes {bytes} bytes of {SHARED_MEMORY}, and {free} are free: make it larger (mount -o remount,size=…), or \
         lower iodepth or the block size"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_given_out_where_they_fit_and_again_when_they_are_back() {
        let mut range = Range::new(4 * ALIGNMENT).unwrap();
        assert_eq!(range.gap(4 * ALIGNMENT), Some(0));
        range.taken = vec![(0, ALIGNMENT), (2 * ALIGNMENT, ALIGNMENT)];
        assert_eq!(range.gap(ALIGNMENT), Some(ALIGNMENT));
        assert_eq!(range.gap(2 * ALIGNMENT), None);
        range.taken.remove(0);
        assert_eq!(range.gap(2 * ALIGNMENT), Some(0));
    }

    #[test]
    fn more_shared_memory_than_there_is_is_refused_with_both_sizes() {
        let line = check_room(usize::MAX >> 2).unwrap_err();
        assert!(line.contains("bytes of /dev/shm") && line.contains("are free"), "{line}");
    }
}
