//! The simulated driver, loaded as its users load it: contexts, memory, streams and events, and failures by knob.

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

use sim_common::child;
use sim_common::driver::Driver;

const POISON: &[u8; 8] = b"gpupoisn";
const MIB: usize = 1 << 20;

fn load() -> Driver {
    Driver::load(child::library("sim_cuda")).expect("cargo builds the library before its tests")
}

/// A driver with the first device's primary context current.
fn ready() -> Driver {
    let driver = load();
    driver.init(0).unwrap();
    let context = driver.primary_retain(0).unwrap();
    driver.context_set(context).unwrap();
    driver
}

fn read(driver: &Driver, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    driver.to_host(&mut bytes, address).unwrap();
    bytes
}

#[test]
fn a_call_before_init_or_without_a_context_is_refused() {
    child::run("a_call_before_init_or_without_a_context_is_refused", &[("GPUIO_SIM_DEVICES", "2")], || {
        let driver = load();
        assert_eq!(driver.device_count(), Err(3));
        driver.init(0).unwrap();
        assert_eq!(driver.device_count(), Ok(2));
        assert_eq!(driver.mem_alloc(4096), Err(201));
        assert_eq!(driver.device_get(2), Err(101));
        assert_eq!(driver.primary_retain(-1), Err(101));
        let context = driver.primary_retain(1).unwrap();
        driver.context_set(context).unwrap();
        assert_eq!(driver.context_device(), Ok(1));
        // Another thread has no context of its own.
        let elsewhere = thread::scope(|scope| scope.spawn(|| driver.mem_alloc(4096)).join().unwrap());
        assert_eq!(elsewhere, Err(201));
    });
}

#[test]
fn no_device_is_said_by_init() {
    child::run("no_device_is_said_by_init", &[("GPUIO_SIM_DEVICES", "0")], || {
        assert_eq!(load().init(0), Err(100));
    });
}

#[test]
fn a_forked_child_of_an_initialised_process_gets_nothing() {
    child::run("a_forked_child_of_an_initialised_process_gets_nothing", &[], || {
        let driver = ready();
        let status = in_fork(|| i32::from(driver.init(0) != Err(3) || driver.mem_alloc(1) != Err(3)));
        assert_eq!(status.code(), Some(0));
    });
}

#[test]
fn contexts_nest_and_the_last_release_frees_what_is_left() {
    child::run("contexts_nest_and_the_last_release_frees_what_is_left", &[], || {
        let driver = ready();
        let primary = driver.context_current().unwrap();
        assert_eq!(driver.primary_retain(0), Ok(primary));
        let other = driver.context_create(0, 0).unwrap();
        assert_eq!(driver.context_current(), Ok(other));
        assert_eq!(driver.context_pop(), Ok(other));
        assert_eq!(driver.context_current(), Ok(primary));
        // A library may push far more often than it pops.
        for _ in 0..1000 {
            driver.context_push(primary).unwrap();
        }
        driver.context_destroy(other).unwrap();
        let left = driver.mem_alloc(4096).unwrap();
        driver.primary_release(0).unwrap();
        assert!(driver.address_range(left).is_ok());
        driver.primary_release(0).unwrap();
        assert_eq!(driver.mem_alloc(4096), Err(709));
        assert_eq!(driver.primary_retain(0), Ok(primary));
        assert!(driver.address_range(left).is_err());
    });
}

#[test]
fn a_context_that_was_retained_is_there_at_once_whoever_else_retains_and_releases() {
    child::run("a_context_that_was_retained_is_there_at_once_whoever_else_retains_and_releases", &[], || {
        let driver = load();
        driver.init(0).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        driver.context_push(driver.primary_retain(0).unwrap()).unwrap();
                        driver.primary_release(0).unwrap();
                    }
                });
            }
        });
    });
}

#[test]
fn an_allocation_knows_its_base_size_and_kind_and_is_poisoned() {
    let driver = ready();
    let device = driver.mem_alloc(MIB + 1).unwrap();
    assert_eq!(device % 65_536, 0);
    assert_eq!(driver.address_range(device + 777), Ok((device, MIB + 1)));
    let attribute = |which, address| driver.pointer_attribute(which, address);
    assert_eq!([attribute(2, device + 5), attribute(8, device), attribute(9, device)], [Ok(2), Ok(0), Ok(0)]);
    assert_eq!([attribute(11, device + 9), attribute(12, device + 9)], [Ok(device), Ok(MIB as u64 + 1)]);
    assert_eq!(attribute(4, device), Err(1));
    assert!(read(&driver, device, MIB).chunks(8).all(|word| word == POISON));
    let managed = driver.mem_alloc_managed(4096, 1).unwrap();
    assert_eq!([attribute(2, managed), attribute(8, managed)], [Ok(2), Ok(1)]);
    // SAFETY: managed memory is the CPU's too.
    unsafe { (managed as *mut u8).write(42) };
    assert_eq!(read(&driver, managed, 1), [42]);
    let pinned = driver.host_alloc(4096, 0).unwrap();
    assert_eq!(attribute(2, pinned as u64), Ok(1));
    let mut local = 0_u64;
    assert_eq!(attribute(2, (&raw mut local) as u64), Err(1));
    // SAFETY: the memory is not used again.
    unsafe { driver.host_free(pinned) }.unwrap();
    assert_eq!(driver.mem_free(device + 65_536), Err(1));
    driver.mem_free(device).unwrap();
    assert_eq!(driver.mem_free(device), Err(1));
}

#[test]
fn the_cpu_cannot_touch_device_memory() {
    let driver = ready();
    let device = driver.mem_alloc(4096).unwrap();
    let reads = in_fork(|| {
        // SAFETY: none, on purpose: the address is mapped without access and the read must end this process.
        i32::from(unsafe { (device as *const u8).read_volatile() })
    });
    assert_eq!(reads.signal(), Some(libc::SIGSEGV));
    let writes = in_fork(|| {
        // SAFETY: as above, for a write.
        unsafe { (device as *mut u8).write_volatile(1) };
        0
    });
    assert_eq!(writes.signal(), Some(libc::SIGSEGV));
    driver.mem_free(device).unwrap();
}

#[test]
fn copies_move_the_bytes_and_refuse_a_bad_range() {
    let driver = ready();
    let data: Vec<u8> = (0..MIB).map(|index| (index * 31 + index / 251) as u8).collect();
    let (first, second) = (driver.mem_alloc(MIB).unwrap(), driver.mem_alloc(MIB).unwrap());
    driver.to_device(first, &data).unwrap();
    driver.between(second + 4096, first + 512, 65_536).unwrap();
    assert_eq!(read(&driver, second + 4096, 65_536), data[512..512 + 65_536]);
    assert_eq!(read(&driver, second, 8), POISON);
    assert_eq!(driver.to_device(first + 1, &data), Err(1));
    assert_eq!(driver.to_device(0x1000, &data[..8]), Err(1));
    assert_eq!(driver.between(first, second + 1, MIB), Err(1));
    let mut here = [0; 16];
    // SAFETY: the host end is an array of that length.
    unsafe { driver.copy(here.as_mut_ptr() as u64, first, here.len()) }.unwrap();
    assert_eq!(here, data[..16]);
    // Device memory handed over as host memory is a mistake, not a copy.
    // SAFETY: the stream refuses the call.
    assert_eq!(unsafe { driver.to_host_async(second as *mut u8, first, 8, 0) }, Err(1));
}

#[test]
fn a_strided_fill_sets_one_word_a_row_and_nothing_else() {
    let driver = ready();
    let device = driver.mem_alloc(8192).unwrap();
    driver.set_bytes(device, 0x11, 8192).unwrap();
    let stream = driver.stream_create(1).unwrap();
    driver.set_words_pitched_async(device + 16, 512, 0xaabb_ccdd, 1, 8, stream).unwrap();
    driver.stream_sync(stream).unwrap();
    for (index, byte) in read(&driver, device, 8192).into_iter().enumerate() {
        let touched = index < 4096 && (16..20).contains(&(index % 512));
        let expected = if touched { 0xaabb_ccdd_u32.to_ne_bytes()[index % 4] } else { 0x11 };
        assert_eq!(byte, expected, "at {index}");
    }
    assert_eq!(driver.set_words_pitched_async(device + 16, 512, 0, 1, 17, stream), Err(1));
    assert_eq!(driver.set_words_pitched_async(device + 1, 512, 0, 1, 1, stream), Err(1));
    driver.stream_destroy(stream).unwrap();
}

/// Counts up when called, and checks that it came in its turn.
struct Turn {
    counter: &'static AtomicU32,
    expected: u32,
    wrong: &'static AtomicBool,
}

unsafe extern "C" fn take_turn(turn: *mut c_void) {
    // SAFETY: the test passes a Turn that it leaked.
    let turn = unsafe { &*turn.cast::<Turn>() };
    thread::sleep(Duration::from_millis(1));
    if turn.counter.fetch_add(1, Ordering::SeqCst) != turn.expected {
        turn.wrong.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_stream_runs_its_work_in_order_and_apart_from_the_caller() {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    static WRONG: AtomicBool = AtomicBool::new(false);
    let driver = ready();
    let stream = driver.stream_create(1).unwrap();
    let event = driver.event_create(0).unwrap();
    assert_eq!(driver.event_query(event), Ok(()));
    for expected in 0..20 {
        let turn = Box::leak(Box::new(Turn { counter: &COUNTER, expected, wrong: &WRONG }));
        // SAFETY: the turn is leaked, so it is there whenever the stream comes to it.
        unsafe { driver.launch_host(stream, take_turn, (&raw mut *turn).cast()) }.unwrap();
    }
    driver.event_record(event, stream).unwrap();
    assert_eq!(driver.event_query(event), Err(600));
    assert_eq!(driver.stream_query(stream), Err(600));
    driver.event_sync(event).unwrap();
    assert_eq!(COUNTER.load(Ordering::SeqCst), 20);
    assert!(!WRONG.load(Ordering::SeqCst));
    assert_eq!(driver.stream_query(stream), Ok(()));
    driver.event_destroy(event).unwrap();
    driver.stream_destroy(stream).unwrap();
    assert_eq!(driver.stream_query(stream), Err(400));
}

unsafe extern "C" fn pause(_: *mut c_void) {
    thread::sleep(Duration::from_millis(50));
}

#[test]
fn a_stream_waits_for_an_event_of_another_and_time_is_told() {
    let driver = ready();
    let (slow, other) = (driver.stream_create(1).unwrap(), driver.stream_create(1).unwrap());
    let (start, end) = (driver.event_create(0).unwrap(), driver.event_create(0).unwrap());
    let untimed = driver.event_create(2).unwrap();
    let device = driver.mem_alloc(4096).unwrap();
    driver.event_record(start, slow).unwrap();
    // SAFETY: the function needs no data.
    unsafe { driver.launch_host(slow, pause, std::ptr::null_mut()) }.unwrap();
    driver.set_words_pitched_async(device, 512, 1, 1, 1, slow).unwrap();
    driver.event_record(end, slow).unwrap();
    driver.event_record(untimed, slow).unwrap();
    driver.stream_wait(other, end, 0).unwrap();
    driver.set_words_pitched_async(device, 512, 2, 1, 1, other).unwrap();
    driver.stream_sync(other).unwrap();
    assert_eq!(read(&driver, device, 4), 2_u32.to_ne_bytes());
    let elapsed = driver.event_elapsed(start, end).unwrap();
    assert!((49.0..5000.0).contains(&elapsed), "{elapsed} ms");
    assert_eq!(driver.event_elapsed(start, untimed), Err(400));
}

#[test]
fn a_synchronous_copy_waits_for_blocking_streams_only() {
    let driver = ready();
    let device = driver.mem_alloc(4096).unwrap();
    let (blocking, free) = (driver.stream_create(0).unwrap(), driver.stream_create(1).unwrap());
    // SAFETY: the function needs no data.
    unsafe { driver.launch_host(free, pause, std::ptr::null_mut()) }.unwrap();
    driver.set_bytes(device, 0, 4096).unwrap();
    assert_eq!(driver.stream_query(free), Err(600));
    // SAFETY: the function needs no data.
    unsafe { driver.launch_host(blocking, pause, std::ptr::null_mut()) }.unwrap();
    driver.set_words_pitched_async(device, 512, 7, 1, 1, blocking).unwrap();
    assert_eq!(read(&driver, device, 4), 7_u32.to_ne_bytes());
    driver.context_sync().unwrap();
    assert_eq!(driver.stream_query(free), Ok(()));
}

static CODE_INSIDE: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" fn call_the_driver(driver: *mut c_void) {
    // SAFETY: the test passes its driver, which outlives the stream's work.
    let driver = unsafe { &*driver.cast::<Driver>() };
    CODE_INSIDE.store(driver.mem_alloc(1).err().unwrap_or(0), Ordering::SeqCst);
}

#[test]
fn a_host_function_may_not_call_the_driver() {
    let driver = ready();
    // SAFETY: the driver outlives the work, which is waited for.
    unsafe { driver.launch_host(0, call_the_driver, (&raw const driver).cast_mut().cast()) }.unwrap();
    driver.stream_sync(0).unwrap();
    assert_eq!(CODE_INSIDE.load(Ordering::SeqCst), 800);
}

#[test]
fn memory_ends_and_failures_come_when_asked_for() {
    let knobs = [
        ("GPUIO_SIM_MEMORY", "4m"),
        ("GPUIO_SIM_FAIL_ALLOC", "3!"),
        ("GPUIO_SIM_FAIL_REGISTER", "1!:801"),
        ("GPUIO_SIM_FAIL_COPY", "2"),
        ("GPUIO_SIM_FAIL_ASYNC", "1!"),
    ];
    child::run("memory_ends_and_failures_come_when_asked_for", &knobs, || {
        let driver = ready();
        let first = driver.mem_alloc(3 * MIB).unwrap();
        assert_eq!(driver.mem_alloc(2 * MIB), Err(2));
        assert_eq!(driver.mem_alloc(4096), Err(2));
        driver.mem_free(first).unwrap();
        let device = driver.mem_alloc(4 * MIB).unwrap();
        let mut bytes = vec![0_u8; 4096];
        // SAFETY: the vector is unregistered before it goes.
        let register = |pointer| unsafe { driver.host_register(pointer, 4096, 0) };
        assert_eq!(register(bytes.as_mut_ptr()), Err(801));
        assert_eq!(register(bytes.as_mut_ptr()), Ok(()));
        assert_eq!(register(bytes.as_mut_ptr()), Err(712));
        assert_eq!(driver.host_unregister(bytes.as_mut_ptr()), Ok(()));
        assert_eq!(driver.host_unregister(bytes.as_mut_ptr()), Err(713));
        assert_eq!(driver.to_device(device, &bytes), Ok(()));
        assert_eq!(driver.to_device(device, &bytes), Err(719));
        assert_eq!(driver.to_device(device, &bytes), Err(719));
        let stream = driver.stream_create(1).unwrap();
        assert_eq!(driver.set_words_pitched_async(device, 512, 1, 1, 1, stream), Ok(()));
        assert_eq!(driver.stream_sync(stream), Err(700));
        assert_eq!(driver.mem_alloc(4096), Err(700));
    });
}

#[test]
fn a_delay_makes_every_copy_slow() {
    child::run("a_delay_makes_every_copy_slow", &[("GPUIO_SIM_COPY_DELAY_US", "20000")], || {
        let driver = ready();
        let device = driver.mem_alloc(4096).unwrap();
        let begin = Instant::now();
        driver.to_device(device, &[0; 8]).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(20));
        let stream = driver.stream_create(1).unwrap();
        let begin = Instant::now();
        // SAFETY: a constant outlives everything.
        unsafe { driver.to_device_async(device, POISON.as_ptr(), 8, stream) }.unwrap();
        assert!(begin.elapsed() < Duration::from_millis(15));
        driver.stream_sync(stream).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(20));
    });
}

#[test]
fn the_log_has_a_whole_line_for_every_call_of_every_thread() {
    let path = std::env::temp_dir().join(format!("gpuio-sim-cuda-{}.log", process::id()));
    let text = path.to_str().unwrap().to_owned();
    let name = "the_log_has_a_whole_line_for_every_call_of_every_thread";
    child::run(name, &[("GPUIO_SIM_LOG", &text), ("GPUIO_SIM_DEVICES", "2")], || {
        let driver = load();
        driver.init(0).unwrap();
        thread::scope(|scope| {
            for device in 0..2 {
                let driver = &driver;
                scope.spawn(move || {
                    driver.context_set(driver.primary_retain(device).unwrap()).unwrap();
                    for _ in 0..100 {
                        driver.mem_free(driver.mem_alloc(4096).unwrap()).unwrap();
                    }
                });
            }
        });
    });
    // Inside the child the file is the parent's to look at.
    let Ok(log) = fs::read_to_string(&path) else { return };
    if std::env::var_os("GPUIO_SIM_LOG").is_some() {
        return;
    }
    fs::remove_file(&path).unwrap();
    for device in 0..2 {
        let wanted = format!(" dev={device} call=cuMemAlloc ret=0 size=4096 ptr=0x");
        assert_eq!(log.lines().filter(|line| line.contains(&wanted)).count(), 100);
    }
    assert!(log.lines().all(|line| line.starts_with("pid=") && line.contains(" tid=") && line.contains(" ret=")));
}

/// Runs `body` in a forked child, whose exit status it sets.
fn in_fork(body: impl FnOnce() -> i32) -> process::ExitStatus {
    // SAFETY: the child only runs `body`, which takes no lock that another thread of this test could hold, and leaves
    // by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = body();
        // SAFETY: ends the child at once, with nothing to run.
        unsafe { libc::_exit(code) };
    }
    assert!(child > 0, "fork failed");
    let mut status = 0;
    // SAFETY: our own child and a place for its status.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    process::ExitStatus::from_raw(status)
}
