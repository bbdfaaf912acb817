//! The transport on real files and pipes, with a device that keeps a list of its copies. Where io_uring is forbidden, the tests say so and end.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::time::Instant;

use super::*;
use crate::common::device::{DeviceError, Kind, Place};
use crate::common::driver::Handle;
use crate::common::memory::HostMemory;

const MANNERS: [Manner; 3] = [Manner::Spin, Manner::Yield, Manner::Block];

fn open(depth: usize, manner: Manner, device: Option<Arc<dyn Device>>) -> Option<Uring> {
    let opened = Uring::open(Settings { depth, manner, register: true, device });
    // Past libtest's capture, so that whoever counts skips sees it.
    opened.inspect_err(|line| writeln!(std::io::stderr(), "skipped: a test of the ring: {line}").unwrap()).ok()
}

macro_rules! open_or_skip {
    ($($argument:expr),*) => {
        match open($($argument),*) {
            Some(ring) => ring,
            None => return,
        }
    };
}

/// A file without a name.
fn file(content: &[u8]) -> File {
    static NUMBER: Mutex<u32> = Mutex::new(0);
    let mut number = NUMBER.lock().unwrap();
    *number += 1;
    let path = std::env::temp_dir().join(format!("gpuio-uring-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all_at(content, 0).unwrap();
    file
}

fn noise(length: usize) -> Vec<u8> {
    (0..length as u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect()
}

/// An I/O block of `bytes` bytes.
struct Memory(Vec<u8>);

impl Memory {
    fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    fn at(&mut self, at: usize, length: usize) -> Buffer {
        Buffer::new(&mut self.0[at..at + length])
    }

    fn whole(&mut self) -> Buffer {
        self.at(0, self.0.len())
    }
}

fn operation(tag: usize, transfer: Transfer, fd: RawFd, offset: u64, buffer: Buffer) -> Operation {
    Operation { tag: tag as u32, transfer, fd, handle: Handle::default(), offset, buffer, base: buffer.address(), at: 0 }
}

#[track_caller]
fn take(ring: &mut Uring, operation: Operation) {
    assert!(matches!(ring.submit(&operation), Submitted::InFlight));
}

/// Everything that ends until `count` have, in order.
fn reap(ring: &mut Uring, count: usize) -> Vec<(usize, Moved)> {
    let mut ended = Vec::new();
    ring.reap(count, count, None, &mut |tag, moved| ended.push((tag as usize, moved))).unwrap();
    ended
}

#[test]
fn blocks_of_all_sizes_go_out_and_come_back_at_every_depth() {
    for (depth, manner) in [(1, Manner::Yield), (7, Manner::Block), (32, Manner::Spin), (128, Manner::Block), (512, Manner::Yield)] {
        for is_registered in [true, false] {
            let mut ring = open_or_skip!(depth, manner, None);
            let (file, unit) = (file(&[]), 16 << 10);
            let mut memory = Memory::new(depth * unit);
            if is_registered {
                assert_eq!(ring.attach(memory.whole()), Ok(None));
                assert_eq!(ring.file_opened(file.as_raw_fd()), None);
            }
            let lengths: Vec<usize> = (0..depth).map(|n| [512, 4096, unit, 1, 5000][n % 5]).collect();
            memory.0.copy_from_slice(&noise(depth * unit));
            let written = memory.0.clone();
            for transfer in [Transfer::Write, Transfer::Read] {
                for (n, &length) in lengths.iter().enumerate() {
                    take(&mut ring, operation(n, transfer, file.as_raw_fd(), (n * unit) as u64, memory.at(n * unit, length)));
                }
                assert_eq!(ring.in_flight(), depth);
                let mut ended = reap(&mut ring, depth);
                ended.sort_by_key(|(tag, _)| *tag);
                assert_eq!(ended, lengths.iter().map(|&l| Moved::bytes(l)).enumerate().collect::<Vec<_>>());
                assert_eq!(ring.in_flight(), 0);
                let kept = memory.0.clone();
                memory.0.fill(0);
                assert!(
                    transfer == Transfer::Write
                        || lengths.iter().enumerate().all(|(n, &l)| kept[n * unit..][..l] == written[n * unit..][..l])
                );
            }
            assert!(ring.cancel());
        }
    }
}

#[test]
fn a_read_across_the_end_is_short_and_one_past_it_empty() {
    let mut ring = open_or_skip!(4, Manner::Yield, None);
    let (file, mut memory) = (file(&noise(5000)), Memory::new(8192));
    take(&mut ring, operation(1, Transfer::Read, file.as_raw_fd(), 4096, memory.at(0, 4096)));
    take(&mut ring, operation(2, Transfer::Read, file.as_raw_fd(), 8192, memory.at(4096, 4096)));
    let mut ended = reap(&mut ring, 2);
    ended.sort_by_key(|(tag, _)| *tag);
    assert_eq!(ended, [(1, Moved::bytes(904)), (2, Moved::bytes(0))]);
    assert_eq!(memory.0[..904], noise(5000)[4096..]);
}

#[test]
fn an_operation_that_fails_leaves_its_neighbours_alone() {
    let mut ring = open_or_skip!(3, Manner::Block, None);
    let (file, mut memory) = (file(&noise(4096)), Memory::new(4096));
    for (tag, fd) in [(0, file.as_raw_fd()), (1, -1), (2, file.as_raw_fd())] {
        take(&mut ring, operation(tag, Transfer::Read, fd, 0, memory.at(tag * 1024, 1024)));
    }
    let mut ended = reap(&mut ring, 3);
    ended.sort_by_key(|(tag, _)| *tag);
    assert_eq!(ended, [(0, Moved::bytes(1024)), (1, Moved::failed(libc::EBADF, 0)), (2, Moved::bytes(1024))]);
}

#[test]
fn a_short_transfer_is_resumed_until_nothing_comes_any_more() {
    let mut ring = open_or_skip!(2, Manner::Block, None);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut memory = Memory::new(100);
    writer.write_all(&noise(30)).unwrap();
    take(&mut ring, operation(1, Transfer::Read, reader.as_raw_fd(), 0, memory.whole()));
    let mut ended = Vec::new();
    ring.reap(1, 2, Some(Duration::from_millis(30)), &mut |tag, moved| ended.push((tag as usize, moved))).unwrap();
    assert_eq!((ended.len(), ring.in_flight()), (0, 1), "the first 30 bytes are not the end");
    writer.write_all(&noise(50)[30..]).unwrap();
    drop(writer);
    assert_eq!(reap(&mut ring, 1), [(1, Moved::bytes(50))]);
    assert_eq!(memory.0[..50], noise(50));
}

#[test]
fn a_time_out_ends_a_reap_in_every_manner_of_waiting() {
    for manner in MANNERS {
        let mut ring = open_or_skip!(2, manner, None);
        let (reader, _writer) = std::io::pipe().unwrap();
        let mut memory = Memory::new(8);
        take(&mut ring, operation(1, Transfer::Read, reader.as_raw_fd(), 0, memory.whole()));
        let started = Instant::now();
        ring.reap(1, 2, Some(Duration::from_millis(30)), &mut |_, _| panic!("nothing can have ended")).unwrap();
        assert!((29..1000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
        assert!(ring.cancel());
    }
}

#[test]
fn a_cancelled_ring_holds_nothing_and_takes_nothing() {
    let mut ring = open_or_skip!(8, Manner::Yield, None);
    let pipes: Vec<(OwnedFd, OwnedFd)> = (0..4).map(|_| std::io::pipe().map(|(r, w)| (r.into(), w.into())).unwrap()).collect();
    let mut memory = Memory::new(64);
    ring.attach(memory.whole()).unwrap();
    for (n, (reader, _)) in pipes.iter().enumerate() {
        take(&mut ring, operation(n, Transfer::Read, reader.as_raw_fd(), 0, memory.at(n * 8, 8)));
        if n == 2 {
            ring.commit().unwrap(); // the last one is collected only
        }
    }
    let started = Instant::now();
    assert!(ring.cancel() && started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    assert_eq!(ring.in_flight(), 0);
    for (_, writer) in &pipes {
        File::from(writer.try_clone().unwrap()).write_all(&[7; 8]).unwrap();
    }
    let late = operation(9, Transfer::Read, pipes[0].0.as_raw_fd(), 0, memory.at(0, 8));
    assert!(matches!(ring.submit(&late), Submitted::Done(Moved { errno: libc::ECANCELED, .. })));
    assert!(ring.commit().is_err() && ring.cancel());
    assert_eq!(memory.0, [0; 64]);
}

#[test]
fn a_descriptor_that_comes_again_is_the_new_file() {
    let mut ring = open_or_skip!(1, Manner::Yield, None);
    let mut memory = Memory::new(16);
    let first = file(&[1; 16]);
    ring.file_opened(first.as_raw_fd());
    ring.file_closed(first.as_raw_fd());
    let second = file(&[2; 16]);
    // SAFETY: both descriptors are the test's own.
    assert!(unsafe { libc::dup2(second.as_raw_fd(), first.as_raw_fd()) } >= 0);
    for is_registered in [false, true] {
        if is_registered {
            ring.file_opened(first.as_raw_fd());
        }
        memory.0.fill(0);
        take(&mut ring, operation(0, Transfer::Read, first.as_raw_fd(), 0, memory.whole()));
        assert_eq!(reap(&mut ring, 1), [(0, Moved::bytes(16))]);
        assert_eq!(memory.0, [2; 16]);
    }
}

/// A device whose memory is nowhere: it notes the copies, and fails where it is told to.
struct Ledger {
    place: Place,
    pinned: Mutex<Vec<HostMemory>>,
    started: Mutex<Vec<(Transfer, usize, usize)>>,
    finished: Mutex<usize>,
    failure: Option<DeviceError>,
}

impl Ledger {
    fn new(failure: Option<DeviceError>) -> Arc<Self> {
        let place = Place { ordinal: 0, name: "test".to_owned(), pci: None, numa_node: None };
        let (pinned, started, finished) = Default::default();
        Arc::new(Self { place, pinned, started, finished, failure })
    }

    fn start(&self, transfer: Transfer, device: usize, host: Buffer) -> Result<(), DeviceError> {
        self.started.lock().unwrap().push((transfer, device, host.len()));
        Ok(())
    }
}

impl Device for Ledger {
    fn driver(&self) -> String {
        "test".to_owned()
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn enter(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn allocate(&self, kind: Kind, bytes: usize) -> Result<usize, DeviceError> {
        assert_eq!(kind, Kind::Pinned);
        let mut memory = HostMemory::new(bytes).map_err(|_| DeviceError(2))?;
        let address = memory.start().as_ptr().expose_provenance();
        self.pinned.lock().unwrap().push(memory);
        Ok(address)
    }

    fn free(&self, _kind: Kind, _address: usize) {}

    fn pin(&self, _address: usize, _bytes: usize) -> Result<(), DeviceError> {
        panic!("the ring has its own memory")
    }

    fn unpin(&self, _address: usize) {}

    fn clear(&self, _address: usize, _bytes: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    fn copy_in(&self, _to: usize, _from: Buffer) -> Result<(), DeviceError> {
        panic!("the ring only starts copies")
    }

    fn copy_out(&self, _from: usize, _to: Buffer) -> Result<(), DeviceError> {
        panic!("the ring only starts copies")
    }

    fn start_copy_in(&self, to: usize, from: Buffer) -> Result<(), DeviceError> {
        self.start(Transfer::Read, to, from)
    }

    fn start_copy_out(&self, from: usize, to: Buffer) -> Result<(), DeviceError> {
        self.start(Transfer::Write, from, to)
    }

    fn finish_copies(&self) -> Result<(), DeviceError> {
        *self.finished.lock().unwrap() += 1;
        self.failure.map_or(Ok(()), Err)
    }

    fn stamp(&self, _address: usize, _bytes: usize, _value: u32) -> Result<(), DeviceError> {
        Ok(())
    }

    fn explain(&self, error: DeviceError) -> String {
        format!("test error {}", error.0)
    }
}

/// Operation `n` of a job whose block starts at the device's address 1,000,000.
fn on_device(n: usize, transfer: Transfer, fd: RawFd, memory: &mut Memory) -> Operation {
    let at = n * 4096;
    Operation { base: 1_000_000, at, ..operation(n, transfer, fd, at as u64, memory.at(at, 4096)) }
}

#[test]
fn copies_to_and_from_a_device_are_awaited_once_for_many() {
    let device = Ledger::new(None);
    let mut ring = open_or_skip!(8, Manner::Block, Some(device.clone()));
    let (file, mut memory) = (file(&[]), Memory::new(8 * 4096));
    assert_eq!(ring.attach(memory.whole()), Ok(None));
    for transfer in [Transfer::Write, Transfer::Read] {
        (0..8).for_each(|n| take(&mut ring, on_device(n, transfer, file.as_raw_fd(), &mut memory)));
        ring.commit().unwrap();
        assert!(reap(&mut ring, 8).iter().all(|(_, moved)| *moved == Moved::bytes(4096)));
        let mut started = std::mem::take(&mut *device.started.lock().unwrap());
        started.sort_by_key(|copy| copy.1);
        assert_eq!(started, (0..8).map(|n| (transfer, 1_000_000 + n * 4096, 4096)).collect::<Vec<_>>());
    }
    assert!(*device.finished.lock().unwrap() < 8);
    assert_eq!(device.pinned.lock().unwrap().len(), 1);
}

#[test]
fn a_copy_that_fails_fails_the_operations_that_waited_for_it() {
    let mut ring = open_or_skip!(4, Manner::Block, Some(Ledger::new(Some(DeviceError(700)))));
    let (file, mut memory) = (file(&noise(16384)), Memory::new(4 * 4096));
    ring.attach(memory.whole()).unwrap();
    for transfer in [Transfer::Write, Transfer::Read] {
        (0..4).for_each(|n| take(&mut ring, on_device(n, transfer, file.as_raw_fd(), &mut memory)));
        assert!(reap(&mut ring, 4).iter().all(|(_, moved)| *moved == Moved::failed(libc::EIO, 700)));
        assert_eq!(ring.in_flight(), 0);
    }
    let mut content = vec![0; 16384];
    file.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(content, noise(16384), "a write went out without its bytes");
}
