//! The simulated libcufile on the simulated driver: data, and each way of failing that a knob can ask for.

use std::ffi::c_void;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use sim_common::child;
use sim_common::cufile::{COMPLETE, CuFile, Entry, Event, FAILED, FileHandle, Parameters, Status};
use sim_common::driver::Driver;

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

/// Runs `body` in a process of its own under the knobs.
fn under(test: &str, knobs: &[(&str, &str)], body: impl FnOnce()) {
    let cuda = child::library("sim_cuda");
    let names: Vec<String> = knobs.iter().map(|(name, _)| format!("GPUIO_SIM_CUFILE_{name}")).collect();
    let mut variables = vec![("GPUIO_CUDA_LIBRARY", cuda.to_str().unwrap())];
    variables.extend(names.iter().map(String::as_str).zip(knobs.iter().map(|(_, value)| *value)));
    child::run(test, &variables, body);
}

/// A driver with 4 MiB of registered memory, the library open, and a file of 1 MiB of a pattern.
struct Stage {
    driver: Driver,
    cufile: CuFile,
    path: PathBuf,
    file: File,
    handle: FileHandle,
    base: u64,
    data: Vec<u8>,
}

impl Stage {
    fn new() -> Self {
        let driver = Driver::load(child::library("sim_cuda")).unwrap();
        driver.init(0).unwrap();
        driver.context_set(driver.primary_retain(0).unwrap()).unwrap();
        let cufile = CuFile::load(child::library("sim_cufile")).unwrap();
        cufile.driver_open().unwrap();
        let path = env::temp_dir().join(format!("gpuio-sim-cufile-{}.data", process::id()));
        let data: Vec<u8> = (0..MIB).map(|index| (index * 131 + index / BLOCK * 7) as u8).collect();
        fs::write(&path, &data).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        let file = options.open(&path).unwrap();
        let handle = cufile.handle_register(file.as_raw_fd()).unwrap();
        let base = driver.mem_alloc(4 * MIB).unwrap();
        cufile.buf_register(base, 4 * MIB).unwrap();
        Self { driver, cufile, path, file, handle, base, data }
    }

    fn read(&self, bytes: usize, file_offset: usize, offset: usize) -> isize {
        // SAFETY: device memory, of which the library checks the range.
        unsafe { self.cufile.read(self.handle, self.base, bytes, file_offset as i64, offset as i64) }
    }

    fn write(&self, bytes: usize, file_offset: usize, offset: usize) -> isize {
        // SAFETY: device memory, of which the library checks the range.
        unsafe { self.cufile.write(self.handle, self.base, bytes, file_offset as i64, offset as i64) }
    }

    /// A read that fails: what it returned and errno.
    fn refusal(&self, bytes: usize, file_offset: usize, offset: usize) -> (isize, i32) {
        let result = self.read(bytes, file_offset, offset);
        (result, io::Error::last_os_error().raw_os_error().unwrap())
    }

    fn memory(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut copy = vec![0; bytes];
        self.driver.to_host(&mut copy, self.base + offset as u64).unwrap();
        copy
    }

    /// A read of the n-th block to the n-th block, with n + 1 as cookie.
    fn entry(&self, index: usize) -> Entry {
        Entry {
            mode: 1,
            base: self.base as *mut c_void,
            file_offset: (index * BLOCK) as i64,
            offset: (index * BLOCK) as i64,
            size: BLOCK,
            file: self.handle.0,
            opcode: 0,
            cookie: (index + 1) as *mut c_void,
        }
    }

    fn entries(&self, count: usize) -> Vec<Entry> {
        (0..count).map(|index| self.entry(index)).collect()
    }

    fn close(self) {
        self.cufile.buf_deregister(self.base).unwrap();
        self.cufile.handle_deregister(self.handle);
        self.cufile.driver_close().unwrap();
        drop(self.file);
        fs::remove_file(&self.path).unwrap();
    }
}

/// Cookie, status and result.
fn told(events: &[Event]) -> Vec<(usize, i32, isize)> {
    let mut told: Vec<_> = events.iter().map(|event| (event.cookie as usize, event.status, event.ret)).collect();
    told.sort_unstable();
    told
}

fn refused(err: i32) -> Result<(), Status> {
    Err(Status { err, driver: 0 })
}

#[test]
fn blocking_calls_move_the_right_bytes_of_any_size_and_offset() {
    under("blocking_calls_move_the_right_bytes_of_any_size_and_offset", &[], || {
        let stage = Stage::new();
        assert_eq!(stage.read(MIB, 0, MIB), MIB as isize);
        assert_eq!(stage.memory(MIB, MIB), stage.data);
        assert_eq!(stage.write(65_536, 8192, MIB + 4096), 65_536);
        assert_eq!(fs::read(&stage.path).unwrap()[8192..8192 + 65_536], stage.data[4096..4096 + 65_536]);
        assert_eq!(stage.write(100, 3, MIB + 5), 100);
        assert_eq!(fs::read(&stage.path).unwrap()[3..103], stage.data[5..105]);
        // The end of the file, and past it.
        assert_eq!(stage.read(8192, MIB - 4096, 0), 4096);
        assert_eq!(stage.read(8192, MIB, 0), 0);
        stage.close();
    });
}

#[test]
fn a_wrong_argument_is_told_as_the_real_library_tells_it() {
    under("a_wrong_argument_is_told_as_the_real_library_tells_it", &[("BAR", "4m")], || {
        let stage = Stage::new();
        assert_eq!(stage.refusal(4096, 0, 4 * MIB - 512), (-1, 5017));
        let unknown = FileHandle(0x1234_5600 as *mut c_void);
        // SAFETY: device memory, of which the library checks the range.
        assert_eq!(unsafe { stage.cufile.read(unknown, stage.base, 4096, 0, 0) }, -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(5027));
        // SAFETY: as above; an address inside a registered buffer is not its base.
        assert_eq!(unsafe { stage.cufile.read(stage.handle, stage.base + 4096, 4096, 0, 0) }, -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(5024));
        assert_eq!(stage.cufile.buf_register(stage.base, 4 * MIB), refused(5023));
        assert_eq!(stage.cufile.buf_register(stage.base + 4096, 4 * MIB), refused(5014));
        let other = stage.driver.mem_alloc(MIB).unwrap();
        assert_eq!(stage.cufile.buf_register(other, MIB), refused(5036));
        assert_eq!(stage.cufile.buf_deregister(other), refused(5024));
        assert_eq!(stage.cufile.handle_register(stage.file.as_raw_fd()), Err(Status { err: 5028, driver: 0 }));
        assert_eq!(stage.cufile.handle_register(-1), Err(Status { err: 5022, driver: 0 }));
        let null = File::open("/dev/null").unwrap();
        assert_eq!(stage.cufile.handle_register(null.as_raw_fd()), Err(Status { err: 5018, driver: 0 }));
        assert_eq!(stage.cufile.batch_set_up(129).err(), Some(Status { err: 5022, driver: 0 }));
        // Unregistered memory of the driver's is served too.
        // SAFETY: device memory, of which the library checks the range.
        assert_eq!(unsafe { stage.cufile.read(stage.handle, other, 4096, 0, 0) }, 4096);
        stage.close();
    });
}

#[test]
fn nothing_works_before_the_driver_is_open_and_one_close_closes() {
    under("nothing_works_before_the_driver_is_open_and_one_close_closes", &[], || {
        let cufile = CuFile::load(child::library("sim_cufile")).unwrap();
        assert_eq!(cufile.handle_register(0), Err(Status { err: 5001, driver: 0 }));
        cufile.driver_open().unwrap();
        cufile.driver_open().unwrap();
        assert_eq!(cufile.use_count(), 2);
        cufile.driver_close().unwrap();
        assert_eq!(cufile.driver_close(), refused(5001));
    });
}

#[test]
fn transfers_fail_in_each_of_the_three_ways() {
    under("transfers_fail_in_each_of_the_three_ways", &[("FAIL_IO", "2!:28")], || {
        let stage = Stage::new();
        assert_eq!(stage.read(4096, 0, 0), 4096);
        assert_eq!(stage.refusal(4096, 0, 0), (-1, libc::ENOSPC));
        assert_eq!(stage.read(4096, 0, 0), 4096);
        stage.close();
    });
}

#[test]
fn a_transfer_can_return_minus_a_status() {
    under("a_transfer_can_return_minus_a_status", &[("FAIL_IO", "1:-5030")], || {
        let stage = Stage::new();
        assert_eq!(stage.read(4096, 0, 0), -5030);
        assert_eq!(stage.read(4096, 0, 0), -5030);
        stage.close();
    });
}

#[test]
fn a_registration_can_fail_with_the_drivers_code() {
    under("a_registration_can_fail_with_the_drivers_code", &[("FAIL_BUF", "2!:5011"), ("DRIVER_CODE", "304")], || {
        let stage = Stage::new();
        let other = stage.driver.mem_alloc(MIB).unwrap();
        assert_eq!(stage.cufile.buf_register(other, MIB), Err(Status { err: 5011, driver: 304 }));
        assert_eq!(stage.cufile.buf_register(other, MIB), Ok(()));
        stage.close();
    });
}

#[test]
fn transfers_can_be_short_or_refuse_what_is_not_aligned() {
    let knobs = [("SHORT_EVERY", "2"), ("SHORT_BYTES", "8192"), ("ALIGN", "4096")];
    under("transfers_can_be_short_or_refuse_what_is_not_aligned", &knobs, || {
        let stage = Stage::new();
        assert_eq!([stage.read(65_536, 0, 0), stage.read(65_536, 0, 0)], [65_536, 8192]);
        assert_eq!([stage.read(4096, 0, 0), stage.read(4096, 0, 0)], [4096, 2048]);
        assert_eq!(stage.refusal(512, 0, 0), (-1, libc::EINVAL));
        assert_eq!(stage.refusal(4096, 512, 0), (-1, libc::EINVAL));
        stage.close();
    });
}

#[test]
fn a_batch_completes_each_entry_once_and_takes_more_while_others_fly() {
    under("a_batch_completes_each_entry_once_and_takes_more_while_others_fly", &[], || {
        let stage = Stage::new();
        let batch = stage.cufile.batch_set_up(32).unwrap();
        let mut entries = stage.entries(48);
        // SAFETY: device memory, of which the library checks the ranges, here and below.
        let submit = |part: &mut [Entry]| unsafe { batch.submit(part) };
        submit(&mut entries[..32]).unwrap();
        let mut seen = told(&batch.status(16, 16, 5000).unwrap());
        submit(&mut entries[32..]).unwrap();
        assert_eq!(submit(&mut stage.entries(33)), refused(5040));
        while seen.len() < 48 {
            seen.extend(told(&batch.status(1, 48, 5000).unwrap()));
        }
        seen.sort_unstable();
        let wanted: Vec<_> = (1..=48).map(|cookie| (cookie, COMPLETE, BLOCK as isize)).collect();
        assert_eq!(seen, wanted);
        assert_eq!(stage.memory(0, 48 * BLOCK), stage.data[..48 * BLOCK]);
        assert_eq!(batch.status(1, 1, 10).unwrap().len(), 0);
        let mut wrong = stage.entries(2);
        wrong[1].file = 0x1_0000 as *mut c_void;
        assert_eq!(submit(&mut wrong), refused(5027));
        drop(batch);
        stage.close();
    });
}

#[test]
fn entries_of_a_batch_fail_one_by_one() {
    let knobs = [("BATCH_FAIL", "2,4"), ("BATCH_FAIL_CODE", "28")];
    under("entries_of_a_batch_fail_one_by_one", &knobs, || {
        let stage = Stage::new();
        let batch = stage.cufile.batch_set_up(8).unwrap();
        let mut entries = stage.entries(5);
        entries[4].offset = 4 * MIB as i64;
        // SAFETY: device memory, of which the library checks the ranges.
        unsafe { batch.submit(&mut entries) }.unwrap();
        let bytes = BLOCK as isize;
        let wanted = [(1, COMPLETE, bytes), (2, FAILED, -28), (3, COMPLETE, bytes), (4, FAILED, -28), (5, FAILED, -5017)];
        assert_eq!(told(&batch.status(5, 8, 5000).unwrap()), wanted);
        drop(batch);
        stage.close();
    });
}

#[test]
fn a_failed_entry_can_take_the_whole_batch_with_it() {
    let knobs = [("BATCH_FAIL", "2"), ("BATCH_LOSES", "1"), ("DELAY_US", "0,0,50000")];
    under("a_failed_entry_can_take_the_whole_batch_with_it", &knobs, || {
        let stage = Stage::new();
        let batch = stage.cufile.batch_set_up(8).unwrap();
        // SAFETY: device memory, of which the library checks the ranges, here and below.
        unsafe { batch.submit(&mut stage.entries(3)) }.unwrap();
        assert_eq!(batch.status(3, 8, 5000).err(), Some(Status { err: 5044, driver: 0 }));
        assert_eq!(batch.status(1, 8, 100).unwrap().len(), 0);
        // SAFETY: as above.
        unsafe { batch.submit(&mut stage.entries(8)) }.unwrap();
        assert_eq!(batch.status(8, 8, 5000).unwrap().len(), 8);
        drop(batch);
        stage.close();
    });
}

#[test]
fn what_the_librarys_threads_do_is_told_only_after_a_submission_with_more_of_it() {
    let knobs = [("POOLED", "4096")];
    under("what_the_librarys_threads_do_is_told_only_after_a_submission_with_more_of_it", &knobs, || {
        let stage = Stage::new();
        let batch = stage.cufile.batch_set_up(8).unwrap();
        let mut entries = stage.entries(4);
        entries[0].size = 512;
        entries[2].offset += 512;
        let told = |wait| told(&batch.status(4, 8, wait).unwrap()).into_iter().map(|(cookie, ..)| cookie).collect::<Vec<_>>();
        for entry in &entries[..2] {
            // SAFETY: device memory, of which the library checks the ranges, here and below.
            unsafe { batch.submit(&mut [*entry]) }.unwrap();
        }
        assert_eq!(told(100), [2]);
        // SAFETY: as above.
        unsafe { batch.submit(&mut entries[2..]) }.unwrap();
        assert_eq!(told(100), [1, 3, 4]);
        drop(batch);
        stage.close();
    });
}

#[test]
fn a_slow_entry_does_not_hold_the_fast_ones_up() {
    under("a_slow_entry_does_not_hold_the_fast_ones_up", &[("DELAY_US", "300000,1000,1000,1000")], || {
        let stage = Stage::new();
        let batch = stage.cufile.batch_set_up(8).unwrap();
        let begin = Instant::now();
        // SAFETY: device memory, of which the library checks the ranges.
        unsafe { batch.submit(&mut stage.entries(4)) }.unwrap();
        let fast = told(&batch.status(3, 8, 5000).unwrap());
        assert_eq!(fast.iter().map(|event| event.0).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(begin.elapsed() < Duration::from_millis(250));
        assert_eq!(told(&batch.status(1, 8, 5000).unwrap())[0].0, 1);
        assert!(begin.elapsed() >= Duration::from_millis(300));
        drop(batch);
        stage.close();
    });
}

#[test]
fn stuck_entries_never_end_until_cancelled() {
    under("stuck_entries_never_end_until_cancelled", &[("STUCK", "2!"), ("DELAY_US", "20000")], || {
        let stage = Stage::new();
        let batch = stage.cufile.batch_set_up(8).unwrap();
        // SAFETY: device memory, of which the library checks the ranges, here and below.
        unsafe { batch.submit(&mut stage.entries(4)) }.unwrap();
        let seen = told(&batch.status(4, 8, 300).unwrap());
        assert_eq!(seen.iter().map(|event| event.0).collect::<Vec<_>>(), [1, 3, 4]);
        batch.cancel().unwrap();
        assert_eq!(batch.status(1, 8, 50).unwrap().len(), 0);
        // SAFETY: as above.
        unsafe { batch.submit(&mut stage.entries(8)) }.unwrap();
        assert_eq!(batch.status(8, 8, 5000).unwrap().len(), 8);
        drop(batch);
        stage.close();
    });
}

#[test]
fn a_submission_blocks_while_all_bounce_buffers_wait_for_their_events_to_be_fetched() {
    let name = "a_submission_blocks_while_all_bounce_buffers_wait_for_their_events_to_be_fetched";
    under(name, &[("SLABS", "4")], || {
        let stage = Stage::new();
        let batch = stage.cufile.batch_set_up(8).unwrap();
        thread::scope(|scope| {
            let submission = scope.spawn(|| {
                // The driver is asked about the memory, on this thread too.
                stage.driver.context_set(stage.driver.primary_retain(0).unwrap()).unwrap();
                // SAFETY: device memory, of which the library checks the ranges.
                unsafe { batch.submit(&mut stage.entries(6)) }
            });
            thread::sleep(Duration::from_millis(200));
            assert!(!submission.is_finished());
            assert_eq!(batch.status(4, 4, 5000).unwrap().len(), 4);
            assert_eq!(submission.join().unwrap(), Ok(()));
        });
        assert_eq!(batch.status(2, 8, 5000).unwrap().len(), 2);
        drop(batch);
        stage.close();
    });
}

#[test]
fn a_batch_beyond_what_works_is_accepted_and_fails_every_entry() {
    under("a_batch_beyond_what_works_is_accepted_and_fails_every_entry", &[("BATCH_LIMIT", "256")], || {
        let stage = Stage::new();
        assert_eq!(stage.cufile.properties().unwrap().max_batch_io, 256);
        let batch = stage.cufile.batch_set_up(200).unwrap();
        // SAFETY: device memory, of which the library checks the ranges.
        unsafe { batch.submit(&mut stage.entries(3)) }.unwrap();
        let events = batch.status(3, 8, 5000).unwrap();
        assert!(events.iter().all(|event| (event.status, event.ret) == (FAILED, -5)), "{events:?}");
        drop(batch);
        stage.close();
    });
}

/// Waits until the stream has written the result, which is what a caller may rely on after synchronising.
fn finish(stage: &Stage, stream: usize) {
    stage.driver.stream_sync(stream).unwrap();
}

#[test]
fn a_stream_reads_the_parameters_when_it_comes_to_them() {
    under("a_stream_reads_the_parameters_when_it_comes_to_them", &[("DELAY_US", "50000")], || {
        let stage = Stage::new();
        let stream = stage.driver.stream_create(1).unwrap();
        stage.cufile.stream_register(stream, 0).unwrap();
        let mut first = Parameters { size: BLOCK, file_offset: 0, offset: 0, done: 77 };
        let mut second = Parameters { size: BLOCK, file_offset: 0, offset: BLOCK as i64, done: 77 };
        let (one, two) = (&raw mut first, &raw mut second);
        let begin = Instant::now();
        // SAFETY: the parameters live until the stream was waited for, and are touched only by raw pointer till then.
        unsafe {
            stage.cufile.transfer_async(false, stage.handle, stage.base, one, stream).unwrap();
            stage.cufile.transfer_async(false, stage.handle, stage.base, two, stream).unwrap();
            // The second is read 50 ms from now: this is what it will find.
            (&raw mut (*two).file_offset).write_volatile(8 * BLOCK as i64);
        }
        assert!(begin.elapsed() < Duration::from_millis(40));
        finish(&stage, stream);
        assert!(begin.elapsed() >= Duration::from_millis(100));
        assert_eq!([first.done, second.done], [BLOCK as isize; 2]);
        assert_eq!(stage.memory(0, BLOCK), stage.data[..BLOCK]);
        assert_eq!(stage.memory(BLOCK, BLOCK), stage.data[8 * BLOCK..9 * BLOCK]);
        stage.cufile.stream_deregister(stream).unwrap();
        stage.close();
    });
}

#[test]
fn a_stream_that_blocks_others_does_not_block_itself_and_failures_are_told() {
    let knobs = [("ASYNC_MAX", "2"), ("FAIL_IO", "2!"), ("DELAY_US", "30000")];
    under("a_stream_that_blocks_others_does_not_block_itself_and_failures_are_told", &knobs, || {
        let stage = Stage::new();
        // A blocking stream: the library's own copies must not wait for it.
        let stream = stage.driver.stream_create(0).unwrap();
        let mut all: Vec<_> = (0..3).map(|_| Parameters { size: BLOCK, file_offset: 0, offset: 0, done: 77 }).collect();
        let base = all.as_mut_ptr();
        for index in 0..3 {
            // SAFETY: the vector lives until the stream was waited for and is not touched till then.
            unsafe { stage.cufile.transfer_async(true, stage.handle, stage.base, base.add(index), stream) }.unwrap();
        }
        finish(&stage, stream);
        assert_eq!(all.iter().map(|parameters| parameters.done).collect::<Vec<_>>(), [BLOCK as isize, -1, -5]);
        stage.close();
    });
}

#[test]
fn instant_mode_answers_at_once_and_moves_nothing() {
    under("instant_mode_answers_at_once_and_moves_nothing", &[("INSTANT", "1"), ("DELAY_US", "900000")], || {
        let stage = Stage::new();
        let begin = Instant::now();
        assert_eq!(stage.read(MIB, 0, 0), MIB as isize);
        let batch = stage.cufile.batch_set_up(128).unwrap();
        // SAFETY: nothing is touched.
        unsafe { batch.submit(&mut stage.entries(128)) }.unwrap();
        assert_eq!(batch.status(128, 128, 1000).unwrap().len(), 128);
        assert!(begin.elapsed() < Duration::from_millis(500));
        assert_eq!(stage.memory(0, 8), b"gpupoisn");
        drop(batch);
        stage.close();
    });
}
