//! fio's hooks: what it calls, turned into calls of an [`Engine`]. Every hook is a door that no panic passes.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::job_options::JobOptions;
use super::layout::{
    self,
    tables::{IoU, ThreadData},
};
use super::ops::Entry;
use super::options::OptionSpec;
use super::symbols::{self, Symbols};
use super::thread::{self, Job};
use super::unit::{self, Direction, File, IoUnit, Outcome, UnitId};
use super::waiting::Waiting;
use super::{guard, log};
use crate::faults;

const COMPLETED: c_int = 0;
const QUEUED: c_int = 1;
const BUSY: c_int = 2;

/// `FIO_MEMALIGN`: changes nothing that matters here, but makes the engine's flags something to recognise in a job's (see post_init).
const FLAG_MEMALIGN: usize = 1 << 9;
/// `FIO_ASYNCIO_SYNC_TRIM`: a trim completes in queue(), so its issue time is taken before the call.
const FLAG_SYNC_TRIM: usize = 1 << 14;
/// Up to 3.29 fio shifts an engine's flags by 17 as an int, and from bit 14 on they spill over.
const SHIFT_THAT_SPILLS: usize = 17;

/// The engine's flags. Whether queue() completes what it is given depends on the job, not on the engine: see post_init.
pub(super) fn flags(fio: &Symbols) -> c_int {
    let known = layout::constants(fio);
    let trim = if known.is_some_and(|k| k.td_eng_flag_shift != SHIFT_THAT_SPILLS) { FLAG_SYNC_TRIM } else { 0 };
    (FLAG_MEMALIGN | trim | known.and_then(|k| k.fio_syncfs).unwrap_or(0)) as c_int
}

/// Why a job cannot run.
#[derive(Debug)]
pub struct Refusal {
    /// What fio reports as the job's error.
    pub errno: i32,
    /// The line for the user: what was given, what is allowed, what to do.
    pub line: String,
}

/// What became of an I/O unit in queue().
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    Done(Outcome),
    /// The unit is the engine's until reap() hands it back.
    InFlight,
    /// No room: fio reaps and tries again.
    Busy,
}

/// An operation that ended after its queue() had returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub unit: UnitId,
    pub outcome: Outcome,
}

/// One job of an I/O engine. A value lives from fio's init hook to its cleanup hook, in the job's own thread or process.
pub trait Engine: Sized + 'static {
    const OPTIONS: &'static [OptionSpec];

    /// The names under which the library can be loaded.
    fn entries() -> &'static [Entry];

    /// Makes the job ready, or says why it cannot run. Whatever was made is gone again on an error.
    fn start(job: &Job) -> Result<Self, Refusal>;

    /// How large a file is, asked in fio's main thread before any job starts; `None` where fio is to find out itself.
    fn size(job: &Job, file: &File) -> Result<Option<u64>, Refusal>;

    /// Host memory of `bytes` bytes for the buffers of all I/O units, zeroed, valid until [`Engine::free`].
    fn allocate(&mut self, bytes: usize) -> Result<NonNull<u8>, Refusal>;
    fn free(&mut self);

    /// The buffers are there and filled; I/O starts next. Says whether queue() does the I/O itself, in the calling thread.
    fn ready(&mut self) -> Result<bool, Refusal>;

    /// Opens a file that fio cannot open under its name, and says its descriptor; `None` where fio is to open it.
    fn open_own(&mut self, file: &File) -> Option<Result<RawFd, Refusal>>;

    /// A file of the job is open now; an error closes it again and fails the job.
    fn opened(&mut self, file: &File) -> Result<(), Refusal>;

    /// The file is about to be closed.
    fn closing(&mut self, file: &File);

    fn queue(&mut self, unit: &IoUnit) -> Queued;

    /// Starts what queue() only collected. The error is an errno.
    fn commit(&mut self) -> Result<(), i32>;

    /// Waits until `min` operations have ended, or `timeout` has passed, and appends at most `max` of them to `done`.
    /// Where fio wants to end the job and they do not end, it does not wait for ever.
    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, waiting: &Waiting, done: &mut Vec<Done>) -> Result<(), i32>;

    /// reap() has failed: every unit that is out ends with `errno`. Appends at most `max` of them to `done`; reap() hands out the rest.
    fn fail_all(&mut self, errno: i32, max: usize, done: &mut Vec<Done>);

    /// fio has stamped the completion of a reaped unit and looks at its bytes next; what is done here is in no latency. Returns how the unit
    /// is to end.
    fn finish(&mut self, unit: &IoUnit, outcome: Outcome) -> Outcome;
}

/// What hangs at the job's `io_ops_data`.
struct Cell<E> {
    engine: E,
    /// What the last getevents() found, for event() to fetch one by one.
    done: Vec<Done>,
    /// Taken by queue() and not started by commit() yet.
    queued: Vec<UnitId>,
    issued: Issued,
    fio: &'static Symbols,
    /// Known once fio has made the job's units.
    units: Option<&'static IoU>,
    /// iomem_alloc() was called and gave none.
    without_memory: bool,
}

/// Who stamps a unit with the time at which it was issued. Latencies are counted from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Issued {
    /// fio, before queue(), which does the I/O itself.
    BeforeQueue,
    /// fio, after queue() and with that after the commit() of a full batch; commit() does what it can, and stamps before it starts anything.
    AfterQueue,
    /// commit(), and fio not at all; what ends in queue() is stamped there.
    InCommit,
    /// Nobody: the job wants no latencies.
    Never,
}

impl Issued {
    /// For a job whose queue() does not do the I/O itself.
    fn of(job: &JobOptions, fio: &Symbols) -> Self {
        let is_off = |name| job.int(name).is_some_and(|value| value != 0);
        if job.text("read_iolog").is_some() {
            Self::AfterQueue // what fio itself has stamped last times the replay
        } else if ["disable_clat", "disable_slat", "disable_bw_measurement"].into_iter().all(is_off) {
            Self::Never // as fio_fill_issue_time() of fio
        } else if commit_stamps(fio).is_some() {
            Self::InCommit
        } else {
            Self::AfterQueue
        }
    }
}

/// `FIO_ASYNCIO_SETS_ISSUE_TIME`, for the versions that have it (from 3.31).
fn commit_stamps(fio: &Symbols) -> Option<u64> {
    layout::of_version(fio)?.consts.fio_asyncio_sets_issue_time.map(|flag| flag as u64)
}

/// The cell of a job, or `None` for one that never came up.
///
/// # Safety
/// `td` is a live job, and no other reference to its cell exists: fio calls the hooks of a job from one thread at a time.
#[inline]
unsafe fn cell<'a, E>(td: *mut c_void) -> Option<&'a mut Cell<E>> {
    let at = layout::thread()?;
    // SAFETY: the field is inside the job; it holds null or what init() has put there.
    unsafe { td.byte_add(at.io_ops_data).cast::<*mut Cell<E>>().read().as_mut() }
}

pub(super) unsafe extern "C" fn init<E: Engine>(td: *mut c_void) -> c_int {
    guard::install();
    let _held = guard::NoSignals::new();
    let started = guard::catch("init", || {
        // SAFETY: fio passes the job that starts, in its own thread.
        unsafe { start::<E>(td) }
    });
    match started {
        Some(Ok(())) => 0,
        Some(Err(refusal)) => {
            log::line(&refusal.line);
            refusal.errno
        }
        None => libc::EIO,
    }
}

/// # Safety
/// `td` is the live job whose init hook is running.
unsafe fn start<E: Engine>(td: *mut c_void) -> Result<(), Refusal> {
    let no = |line| Refusal { errno: libc::ENOTSUP, line };
    let fio = symbols::fio().ok_or_else(|| no("this process is not fio".to_owned()))?;
    let (at, note) = layout::confirm_thread(td as usize, fio, E::entries()).map_err(no)?;
    let entry = layout::loaded_as(td as usize + at.io_ops, E::entries());
    let loaded_as = entry.and_then(|e| e.name.to_str().ok()).unwrap_or_default();
    // SAFETY: the layout was confirmed for this job just now, which includes the mark in its options struct.
    let job = unsafe { Job::new::<E>(td, at, loaded_as, fio) };
    if let Some(note) = note.filter(|_| job.subjob == 0) {
        log::line(&note);
    }
    let engine = E::start(&job)?;
    // As many units as iodepth at most are out: neither list ever grows.
    let depth = job.fio.int("iodepth").and_then(|depth| usize::try_from(depth).ok()).unwrap_or(1);
    let (done, queued) = (Vec::with_capacity(depth), Vec::with_capacity(depth));
    let issued = Issued::of(&job.fio, fio);
    let cell = Box::new(Cell { engine, done, queued, issued, fio, units: None, without_memory: false });
    // SAFETY: the field is inside the job and the engine's to write.
    unsafe { td.byte_add(at.io_ops_data).cast::<*mut Cell<E>>().write(Box::into_raw(cell)) };
    Ok(())
}

pub(super) unsafe extern "C" fn get_file_size<E: Engine>(td: *mut c_void, file: *mut c_void) -> c_int {
    let Some(fio) = symbols::fio() else { return 1 };
    let at = layout::before_init(td as usize, fio, E::entries());
    let sized = guard::catch("get_file_size", || {
        // SAFETY: fio passes a job that has its options, and one of its files; nothing of the job runs yet.
        at.map_or(Ok(None), |(at, _)| unsafe { E::size(&Job::new::<E>(td, &at, "", fio), &File::new(file)) })
    });
    match sized {
        // SAFETY: as above.
        Some(Ok(None)) => unsafe { (fio.generic_get_file_size)(td, file) },
        Some(Ok(Some(bytes))) => {
            // SAFETY: as above; the file is fio's to hand out.
            unsafe { File::make_device(file, bytes) };
            0
        }
        Some(Err(refusal)) => {
            log::line(&refusal.line);
            if let Some((at, true)) = at {
                // SAFETY: as above; the layout is the running fio's.
                unsafe { thread::set_error(td, &at, refusal.errno) };
            }
            1
        }
        None => 1,
    }
}

pub(super) unsafe extern "C" fn io_u_init<E: Engine>(td: *mut c_void, io_u: *mut c_void) -> c_int {
    let confirmed = guard::catch("io_u_init", || {
        symbols::fio().map_or(Ok(()), |fio| layout::confirm_unit(io_u as usize, fio)).inspect_err(|line| log::line(line))
    });
    // SAFETY: fio passes the job, after its init.
    unsafe { failing(td, if matches!(confirmed, Some(Ok(()))) { 0 } else { libc::ENOTSUP }) }
}

pub(super) unsafe extern "C" fn iomem_alloc<E: Engine>(td: *mut c_void, bytes: usize) -> c_int {
    let _held = guard::NoSignals::new();
    let allocated = guard::catch("iomem_alloc", || {
        // SAFETY: fio passes the job, in its own thread, after init.
        let (Some(cell), Some(at)) = (unsafe { cell::<E>(td) }, layout::thread()) else { return libc::EIO };
        cell.without_memory = true; // until there is some: a panic ends here too
        match cell.engine.allocate(bytes) {
            Ok(memory) => {
                cell.without_memory = false;
                // SAFETY: the field is inside the job; fio expects the hook to set it.
                unsafe { td.byte_add(at.orig_buffer).cast::<*mut u8>().write(memory.as_ptr()) };
                0
            }
            Err(refusal) => {
                log::line(&refusal.line);
                refusal.errno
            }
        }
    });
    allocated.unwrap_or(libc::EIO)
}

pub(super) unsafe extern "C" fn iomem_free<E: Engine>(td: *mut c_void) {
    let _held = guard::NoSignals::new();
    guard::catch("iomem_free", || {
        // SAFETY: as in iomem_alloc; a job that never came up has no cell.
        if let Some(cell) = unsafe { cell::<E>(td) } {
            cell.engine.free();
        }
    });
}

pub(super) unsafe extern "C" fn post_init<E: Engine>(td: *mut c_void) -> c_int {
    let _held = guard::NoSignals::new();
    let ready = guard::catch("post_init", || {
        // SAFETY: fio passes the job, in its own thread, after init.
        let (Some(cell), Some(at)) = (unsafe { cell::<E>(td) }, layout::thread()) else { return libc::EIO };
        cell.units = layout::unit();
        if cell.without_memory {
            return libc::ENOMEM; // up to 3.33 fio goes on where iomem_alloc() failed, and would crash
        }
        match cell.engine.ready() {
            Ok(is_synchronous) => {
                // SAFETY: as above; the job's layout was confirmed.
                let tell = |flag| unsafe { thread::add_engine_flag(td, at, flag) };
                if is_synchronous {
                    tell(thread::SYNCIO);
                    cell.issued = Issued::BeforeQueue;
                } else if cell.issued == Issued::InCommit && !commit_stamps(cell.fio).is_some_and(tell) {
                    cell.issued = Issued::AfterQueue;
                }
                0
            }
            Err(refusal) => {
                log::line(&refusal.line);
                refusal.errno
            }
        }
    });
    // SAFETY: as above.
    unsafe { failing(td, ready.unwrap_or(libc::EIO)) }
}

/// The number that a hook returns, made the job's error where it is one.
///
/// # Safety
/// fio passed `td`, a live job, to a hook that is about to return.
unsafe fn failing(td: *mut c_void, errno: c_int) -> c_int {
    if let Some(at) = layout::thread().filter(|_| errno != 0) {
        // SAFETY: this function's own contract; the layout was confirmed in init.
        unsafe { thread::set_error(td, at, errno) };
    }
    errno
}

pub(super) unsafe extern "C" fn open_file<E: Engine>(td: *mut c_void, file: *mut c_void) -> c_int {
    let Some(fio) = symbols::fio() else { return 1 };
    let own = guard::catch("open_file", || {
        // SAFETY: fio passes the job and one of its files.
        unsafe { cell::<E>(td).and_then(|cell| cell.engine.open_own(&File::new(file))) }
    });
    match own {
        // SAFETY: as above.
        Some(None) => match unsafe { (fio.generic_open_file)(td, file) } {
            0 => {}
            failed => return failed,
        },
        // SAFETY: as above.
        Some(Some(Ok(fd))) => unsafe { File::set_fd(file, fd) },
        Some(Some(Err(refusal))) => {
            log::line(&refusal.line);
            // SAFETY: the job is live.
            return unsafe { failing(td, refusal.errno) };
        }
        // SAFETY: the job is live.
        None => return unsafe { failing(td, libc::EIO) },
    }
    let _held = guard::NoSignals::new();
    let opened = guard::catch("open_file", || {
        // SAFETY: as above; the file is open and live.
        unsafe { cell::<E>(td).map_or(Ok(()), |cell| cell.engine.opened(&File::new(file))) }.inspect_err(|refusal| log::line(&refusal.line))
    });
    let errno = match opened {
        Some(Ok(())) => return 0,
        Some(Err(refusal)) => refusal.errno,
        None => libc::EIO,
    };
    // SAFETY: undoes the opening above; the job is live.
    unsafe {
        close(td, file, fio);
        failing(td, errno)
    }
}

pub(super) unsafe extern "C" fn close_file<E: Engine>(td: *mut c_void, file: *mut c_void) -> c_int {
    let _held = guard::NoSignals::new();
    guard::catch("close_file", || {
        // SAFETY: fio passes the job and one of its open files.
        unsafe { cell::<E>(td).map(|cell| cell.engine.closing(&File::new(file))) }
    });
    // SAFETY: as above.
    symbols::fio().map_or(1, |fio| unsafe { close(td, file, fio) })
}

/// Closes a file's descriptor, where it has one.
///
/// # Safety
/// `td` is a live job and `file` one of its open files.
unsafe fn close(td: *mut c_void, file: *mut c_void, fio: &Symbols) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { if File::new(file).fd() == unit::NO_FD { 0 } else { (fio.generic_close_file)(td, file) } }
}

pub(super) unsafe extern "C" fn queue<E: Engine>(td: *mut c_void, io_u: *mut c_void) -> c_int {
    // SAFETY: fio passes a live job that came up and one of its units.
    let Some((cell, mut unit, fio)) = (unsafe { open::<E>(td, io_u) }) else { return -libc::EIO };
    if cell.issued == Issued::InCommit && unit.direction() == Direction::Sync {
        unit.stamp(); // it may end in here, and what it does then takes its time
    }
    let _path = faults::on_io_path();
    match guard::catch("queue", || cell.engine.queue(&unit)).unwrap_or(Queued::Done(Outcome::failed(libc::EIO))) {
        Queued::Done(outcome) => {
            unit.complete(outcome);
            if outcome.error != 0 {
                if cell.issued == Issued::InCommit {
                    unit.stamp();
                }
                unit.log_error();
            }
            // SAFETY: the job is live. With a commit hook defined fio leaves this count to the engine.
            unsafe {
                (fio.io_u_mark_submit)(td, 1);
                (fio.io_u_mark_complete)(td, 1);
            }
            COMPLETED
        }
        Queued::InFlight => {
            if cell.issued != Issued::BeforeQueue && unit.direction() != Direction::Sync {
                cell.queued.push(unit.id());
            }
            QUEUED
        }
        Queued::Busy => BUSY,
    }
}

/// The parts that queue() and event() work with; `None` only where fio would call them for a job that never came up.
///
/// # Safety
/// `td` is a live job and `io_u` one of its live units, during a hook in the job's own thread.
#[inline]
unsafe fn open<'a, E>(td: *mut c_void, io_u: *mut c_void) -> Option<(&'a mut Cell<E>, IoUnit<'a>, &'static Symbols)> {
    // SAFETY: as promised by the caller.
    let cell = unsafe { cell::<E>(td)? };
    let (fio, units) = (cell.fio, cell.units?);
    // SAFETY: as promised by the caller; units are only known once confirmed.
    unsafe { Some((cell, IoUnit::new(td, NonNull::new(io_u)?, fio, units), fio)) }
}

pub(super) unsafe extern "C" fn commit<E: Engine>(td: *mut c_void) -> c_int {
    // SAFETY: fio passes the job, in its own thread.
    let Some(cell) = (unsafe { cell::<E>(td) }) else { return -libc::EIO };
    if cell.queued.is_empty() {
        return 0; // fio commits before every look for results
    }
    let (fio, count) = (cell.fio, cell.queued.len() as c_uint);
    if cell.issued != Issued::Never {
        // Stamped before they start, so that no operation ends before it was issued.
        let now = unit::now(fio);
        for &unit in &cell.queued {
            // SAFETY: the units are the engine's since queue() answered QUEUED.
            unsafe { unit::issue(td, unit, now, fio) };
        }
    }
    cell.queued.clear();
    let _path = faults::on_io_path();
    let committed = guard::catch("commit", || cell.engine.commit());
    // SAFETY: the job is live; only statistics are touched.
    unsafe { (fio.io_u_mark_submit)(td, count) };
    match committed {
        Some(Ok(())) => 0,
        Some(Err(errno)) => -errno,
        None => -libc::EIO,
    }
}

pub(super) unsafe extern "C" fn getevents<E: Engine>(td: *mut c_void, min: c_uint, max: c_uint, timeout: *const libc::timespec) -> c_int {
    // SAFETY: fio passes the job, in its own thread.
    let (Some(cell), Some(at)) = (unsafe { cell::<E>(td) }, layout::thread()) else { return -libc::EIO };
    let Some(units) = cell.units else { return -libc::EIO };
    // SAFETY: as above; the job came up, so both layouts were confirmed.
    let waiting = unsafe { Waiting::new(td, at, units, cell.fio) };
    // SAFETY: null, or a timespec that lives through the call.
    let timeout = unsafe { timeout.as_ref() }.map(|t| Duration::new(t.tv_sec as u64, t.tv_nsec as u32));
    cell.done.clear();
    let _path = faults::on_io_path();
    let reaped = guard::catch("getevents", || cell.engine.reap(min as usize, max as usize, timeout, &waiting, &mut cell.done));
    let errno = match reaped {
        Some(Ok(())) => return cell.done.len() as c_int,
        Some(Err(errno)) => errno,
        None => libc::EIO,
    };
    // fio would report the number returned as it is, and wait again for what is out: the units carry the error instead.
    guard::catch("getevents", || cell.engine.fail_all(errno, max as usize, &mut cell.done));
    if cell.done.is_empty() { -errno } else { cell.done.len() as c_int }
}

pub(super) unsafe extern "C" fn event<E: Engine>(td: *mut c_void, index: c_int) -> *mut c_void {
    // SAFETY: fio passes the job, in its own thread, after a getevents() that found more than `index` operations.
    let done = unsafe { cell::<E>(td) }.and_then(|cell| cell.done.get(index as usize).copied());
    let Some(done) = done else { return ptr::null_mut() };
    let io_u = done.unit.as_ptr();
    // SAFETY: the unit was the engine's since queue() answered QUEUED, and fio keeps it alive until it gets it back here.
    if let Some((cell, mut unit, _)) = unsafe { open::<E>(td, io_u) } {
        let _path = faults::on_io_path();
        let outcome = guard::catch("event", || cell.engine.finish(&unit, done.outcome));
        unit.complete(outcome.unwrap_or(Outcome::failed(libc::EIO)));
    }
    io_u
}

pub(super) unsafe extern "C" fn cleanup<E: Engine>(td: *mut c_void) {
    let _held = guard::NoSignals::new();
    guard::catch("cleanup", || {
        let Some(ThreadData { io_ops_data, .. }) = layout::thread() else { return };
        // SAFETY: the field is inside the job; it holds null or the box that init() has put there, which nothing uses any more.
        unsafe {
            let data = td.byte_add(*io_ops_data).cast::<*mut Cell<E>>();
            let cell = data.replace(ptr::null_mut());
            if !cell.is_null() {
                drop(Box::from_raw(cell));
            }
        }
    });
}

/// The line for a job on zones.
pub const ZONED: &str = "zonemode=zbd is not supported: use zonemode=none or strided, or one of fio's own engines for zoned devices";

/// fio asks only a job on zones, before it has done anything.
pub(super) unsafe extern "C" fn get_zoned_model(_td: *mut c_void, _file: *mut c_void, _model: *mut c_void) -> c_int {
    log::line(ZONED);
    -libc::ENOTSUP
}
