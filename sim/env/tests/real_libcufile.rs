//! The real libcufile of both wheels on the simulated driver: the bytes that arrive are right, synchronously and in
//! batches.
//!
//! The wheels are fetched by pip the first time. A machine that cannot be prepared (no pip, no package libudev1, not
//! root where udev's data are missing) fails here with the reason.

use std::ffi::c_void;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, process, thread};

use sim_common::child;
use sim_common::cufile::{COMPLETE, CuFile, Entry, FileHandle};
use sim_common::driver::Driver;

const MIB: usize = 1 << 20;
const BLOCK: usize = 4096;

/// Runs `body` under an environment, in a process of its own.
fn under(environment: &str, test: &str, body: impl FnOnce()) {
    let program = env::current_exe().unwrap();
    let target = program.ancestors().find(|path| path.ends_with("target")).expect("cargo's target folder");
    let variables = sim_env::prepare(environment, target, &[]).unwrap();
    let mut pairs: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    pairs.push(("GPUIO_SIM_DEVICES", "2"));
    child::run(test, &pairs, body);
}

/// A driver on device 1 with `bytes` of memory, an open libcufile, and a file on the target folder's file system.
struct Stage {
    driver: Driver,
    cufile: CuFile,
    path: PathBuf,
    file: File,
    handle: FileHandle,
    base: u64,
    bytes: usize,
}

impl Stage {
    fn new(name: &str, bytes: usize) -> Self {
        let driver = Driver::load("libcuda.so.1").unwrap();
        driver.init(0).unwrap();
        driver.context_set(driver.primary_retain(1).unwrap()).unwrap();
        let cufile = CuFile::load("libcufile.so.0").unwrap();
        cufile.driver_open().unwrap();
        let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
        let path = folder.join(format!("{name}-{}.data", process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
        let file = options.open(&path).unwrap();
        let handle = cufile.handle_register(file.as_raw_fd()).unwrap();
        let base = driver.mem_alloc(bytes).unwrap();
        cufile.buf_register(base, bytes).unwrap();
        Self { driver, cufile, path, file, handle, base, bytes }
    }

    /// What the file holds, read by ordinary means.
    fn on_disk(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn in_memory(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        self.driver.to_host(&mut bytes, self.base).unwrap();
        bytes
    }

    fn close(self) {
        self.cufile.buf_deregister(self.base).unwrap();
        self.cufile.handle_deregister(self.handle);
        self.driver.mem_free(self.base).unwrap();
        self.cufile.driver_close().unwrap();
        drop(self.file);
        fs::remove_file(&self.path).unwrap();
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 131 + index / BLOCK * 7) as u8).collect()
}

fn sync_transfers() {
    let stage = Stage::new("sync", 2 * MIB);
    let data = pattern(MIB);
    stage.driver.to_device(stage.base, &data).unwrap();
    for (file_offset, offset, length) in [(0, 0, 4096), (8192, 65_536, 65_536), (MIB, 4096, 512 << 10)] {
        // SAFETY: device memory, of which the library checks the range.
        let done = unsafe { stage.cufile.write(stage.handle, stage.base, length, file_offset as i64, offset as i64) };
        assert_eq!(done, length as isize);
        assert_eq!(stage.on_disk()[file_offset..file_offset + length], data[offset..offset + length]);
        // SAFETY: as above.
        let done = unsafe { stage.cufile.read(stage.handle, stage.base, length, file_offset as i64, MIB as i64) };
        assert_eq!(done, length as isize);
        assert_eq!(stage.in_memory()[MIB..MIB + length], data[offset..offset + length]);
    }
    // Past the end: nothing is read.
    // SAFETY: as above.
    assert_eq!(unsafe { stage.cufile.read(stage.handle, stage.base, BLOCK, 8 * MIB as i64, 0) }, 0);
    stage.close();
}

fn entry(stage: &Stage, opcode: i32, index: usize, file_block: usize, memory_block: usize) -> Entry {
    Entry {
        mode: 1,
        base: stage.base as *mut c_void,
        file_offset: (file_block * BLOCK) as i64,
        offset: (memory_block * BLOCK) as i64,
        size: BLOCK,
        file: stage.handle.0,
        opcode,
        cookie: (index + 1) as *mut c_void,
    }
}

fn run_batch(stage: &Stage, entries: &mut [Entry]) {
    let batch = stage.cufile.batch_set_up(entries.len() as u32).unwrap();
    // SAFETY: device memory, of which the library checks the ranges.
    unsafe { batch.submit(entries) }.unwrap();
    let mut seen = vec![0; entries.len()];
    while seen.contains(&0) {
        for event in batch.status(1, entries.len() as u32, 5000).unwrap() {
            assert_eq!((event.status, event.ret), (COMPLETE, BLOCK as isize));
            seen[event.cookie as usize - 1] += 1;
        }
    }
    assert!(seen.iter().all(|&times| times == 1));
}

fn batch_transfers() {
    const ENTRIES: usize = 32;
    let stage = Stage::new("batch", 2 * ENTRIES * BLOCK);
    let data = pattern(ENTRIES * BLOCK);
    stage.driver.to_device(stage.base, &data).unwrap();
    // Each block to another place in the file, and back to another place in memory.
    let shuffle = |index: usize| (index * 13 + 5) % ENTRIES;
    let mut writes: Vec<_> = (0..ENTRIES).map(|index| entry(&stage, 1, index, shuffle(index), index)).collect();
    run_batch(&stage, &mut writes);
    let disk = stage.on_disk();
    let block = |bytes: &[u8], index: usize| bytes[index * BLOCK..(index + 1) * BLOCK].to_vec();
    for index in 0..ENTRIES {
        assert_eq!(block(&disk, shuffle(index)), block(&data, index));
    }
    let mut reads: Vec<_> = (0..ENTRIES).map(|index| entry(&stage, 0, index, shuffle(index), ENTRIES + index)).collect();
    run_batch(&stage, &mut reads);
    let memory = stage.in_memory();
    for index in 0..ENTRIES {
        assert_eq!(block(&memory, ENTRIES + index), block(&data, index));
    }
    // Held to the end so that the file is there for a second look by ordinary means.
    let mut first = [0; BLOCK];
    File::open(&stage.path).unwrap().read_exact_at(&mut first, 0).unwrap();
    assert_eq!(first[..], disk[..BLOCK]);
    stage.close();
}

/// Four threads on two devices, each with a buffer and a file of its own, all through one library at once.
fn threads_on_two_devices() {
    let driver = Driver::load("libcuda.so.1").unwrap();
    driver.init(0).unwrap();
    let contexts = [driver.primary_retain(0).unwrap(), driver.primary_retain(1).unwrap()];
    driver.context_set(contexts[0]).unwrap();
    let cufile = CuFile::load("libcufile.so.0").unwrap();
    cufile.driver_open().unwrap();
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    let work = |number: usize| {
        driver.context_set(contexts[number % 2]).unwrap();
        let path = folder.join(format!("thread-{number}-{}.data", process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
        let file = options.open(&path).unwrap();
        let handle = cufile.handle_register(file.as_raw_fd()).unwrap();
        let base = driver.mem_alloc(MIB).unwrap();
        assert_eq!(driver.pointer_attribute(9, base), Ok((number % 2) as u64));
        cufile.buf_register(base, MIB).unwrap();
        for round in 0..50 {
            let data = vec![(number * 60 + round) as u8; BLOCK];
            let (place, other) = (round * BLOCK, (round + 64) * BLOCK);
            driver.to_device(base + place as u64, &data).unwrap();
            // SAFETY: device memory, of which the library checks the ranges.
            let moved = unsafe {
                let written = cufile.write(handle, base, BLOCK, place as i64, place as i64);
                (written, cufile.read(handle, base, BLOCK, place as i64, other as i64))
            };
            assert_eq!(moved, (BLOCK as isize, BLOCK as isize));
            let mut back = vec![0; BLOCK];
            driver.to_host(&mut back, base + other as u64).unwrap();
            assert_eq!(back, data);
        }
        let disk = fs::read(&path).unwrap();
        for (round, block) in disk.chunks(BLOCK).enumerate() {
            assert!(block.iter().all(|&byte| byte == (number * 60 + round) as u8));
        }
        cufile.buf_deregister(base).unwrap();
        cufile.handle_deregister(handle);
        driver.mem_free(base).unwrap();
        fs::remove_file(&path).unwrap();
    };
    thread::scope(|scope| {
        for number in 0..4 {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
    cufile.driver_close().unwrap();
}

#[test]
fn cuda_12_keeps_threads_and_devices_apart() {
    under("cufile12", "cuda_12_keeps_threads_and_devices_apart", threads_on_two_devices);
}

#[test]
fn cuda_13_keeps_threads_and_devices_apart() {
    under("cufile13", "cuda_13_keeps_threads_and_devices_apart", threads_on_two_devices);
}

#[test]
fn cuda_12_moves_the_right_bytes_in_single_calls() {
    under("cufile12", "cuda_12_moves_the_right_bytes_in_single_calls", sync_transfers);
}

#[test]
fn cuda_12_moves_the_right_bytes_in_batches() {
    under("cufile12", "cuda_12_moves_the_right_bytes_in_batches", batch_transfers);
}

#[test]
fn cuda_13_moves_the_right_bytes_in_single_calls() {
    under("cufile13", "cuda_13_moves_the_right_bytes_in_single_calls", sync_transfers);
}

#[test]
fn cuda_13_moves_the_right_bytes_in_batches() {
    under("cufile13", "cuda_13_moves_the_right_bytes_in_batches", batch_transfers);
}

#[test]
fn the_simulated_library_stands_in_for_the_real_one() {
    under("cufile-sim", "the_simulated_library_stands_in_for_the_real_one", || {
        sync_transfers();
        batch_transfers();
        threads_on_two_devices();
    });
}

/// Which of two entries are told, the first of which ends so far into the registered buffer that libcufile's threads do it, and the second of
/// which, submitted later, goes to the kernel.
fn told_of_two() -> Vec<usize> {
    let stage = Stage::new("two", 2 * MIB);
    let batch = stage.cufile.batch_set_up(8).unwrap();
    for (index, memory_block) in [(0, 400), (1, 0)] {
        // SAFETY: device memory, of which the library checks the range.
        unsafe { batch.submit(&mut [entry(&stage, 1, index, index, memory_block)]) }.unwrap();
    }
    let start = Instant::now();
    let mut told = Vec::new();
    while told.len() < 2 && start.elapsed().as_millis() < 300 {
        told.extend(batch.status(1, 8, 10).unwrap().iter().map(|event| event.cookie as usize));
    }
    told.sort_unstable();
    // Not closed: what was never told would be waited for.
    fs::remove_file(&stage.path).unwrap();
    std::mem::forget(batch);
    told
}

#[test]
fn cuda_12_tells_every_entry_of_a_batch() {
    under("cufile12", "cuda_12_tells_every_entry_of_a_batch", || assert_eq!(told_of_two(), [1, 2]));
}

/// The reason for gpu_mode=batch to keep such entries apart. Where this fails a newer library has mended it.
#[test]
fn cuda_13_forgets_an_entry_of_its_threads_once_another_is_submitted() {
    under("cufile13", "cuda_13_forgets_an_entry_of_its_threads_once_another_is_submitted", || assert_eq!(told_of_two(), [2]));
}

#[test]
fn an_unknown_environment_is_refused_by_name() {
    let refusal = sim_env::prepare("cufile99", Path::new("/nonexistent"), &[]).unwrap_err();
    assert!(refusal.contains("cufile99") && refusal.contains("cufile12"), "{refusal}");
}
