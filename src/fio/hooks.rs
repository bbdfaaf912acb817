//! fio's hooks, apart from those on the I/O path: what it calls, turned into calls of an [`Engine`]. Every hook is a door that no panic passes.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::cell::{Cell, cell};
use super::engine::{Engine, Refusal};
use super::layout::{self, tables::ThreadData};
use super::symbols::{self, Symbols};
use super::thread::{self, Job};
use super::times::{Issued, commit_stamps};
use super::unit::{self, File, Units};
use super::{guard, log};

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
    let running = E::start(&job)?;
    // As many units as iodepth at most are out: neither list ever grows.
    let depth = job.fio.int("iodepth").and_then(|depth| usize::try_from(depth).ok()).unwrap_or(1);
    let (done, queued) = (Vec::with_capacity(depth), Vec::with_capacity(depth));
    let units = Units { td, fio, at: layout::unit().copied().unwrap_or_default(), issued: Issued::of(&job.fio, fio) };
    let cell = Box::new(Cell { running, units, done, queued, without_memory: false });
    // SAFETY: the field is inside the job and the engine's to write.
    unsafe { td.byte_add(at.io_ops_data).cast::<*mut Cell>().write(Box::into_raw(cell)) };
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

pub(super) unsafe extern "C" fn io_u_init(td: *mut c_void, io_u: *mut c_void) -> c_int {
    let confirmed = guard::catch("io_u_init", || {
        symbols::fio().map_or(Ok(()), |fio| layout::confirm_unit(io_u as usize, fio)).inspect_err(|line| log::line(line))
    });
    // SAFETY: fio passes the job, after its init.
    unsafe { failing(td, if matches!(confirmed, Some(Ok(()))) { 0 } else { libc::ENOTSUP }) }
}

pub(super) unsafe extern "C" fn iomem_alloc(td: *mut c_void, bytes: usize) -> c_int {
    let _held = guard::NoSignals::new();
    let allocated = guard::catch("iomem_alloc", || {
        // SAFETY: fio passes the job, in its own thread, after init.
        let (Some(cell), Some(at)) = (unsafe { cell(td) }, layout::thread()) else { return libc::EIO };
        cell.without_memory = true; // until there is some: a panic ends here too
        match cell.running.allocate(bytes) {
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

pub(super) unsafe extern "C" fn iomem_free(td: *mut c_void) {
    let _held = guard::NoSignals::new();
    guard::catch("iomem_free", || {
        // SAFETY: as in iomem_alloc; a job that never came up has no cell.
        if let Some(cell) = unsafe { cell(td) } {
            cell.running.free();
        }
    });
}

pub(super) unsafe extern "C" fn post_init(td: *mut c_void) -> c_int {
    let _held = guard::NoSignals::new();
    let ready = guard::catch("post_init", || {
        // SAFETY: fio passes the job, in its own thread, after init.
        let (Some(cell), Some(at)) = (unsafe { cell(td) }, layout::thread()) else { return libc::EIO };
        let Some(units) = layout::unit() else { return libc::EIO };
        cell.units.at = *units;
        if cell.without_memory {
            return libc::ENOMEM; // up to 3.33 fio goes on where iomem_alloc() failed, and would crash
        }
        match cell.running.ready() {
            Ok(is_synchronous) => {
                // SAFETY: as above; the job's layout was confirmed.
                let tell = |flag| unsafe { thread::add_engine_flag(td, at, flag) };
                if is_synchronous {
                    tell(thread::SYNCIO);
                    cell.units.issued = Issued::BeforeQueue;
                } else if cell.units.issued == Issued::InCommit && !commit_stamps(cell.units.fio).is_some_and(tell) {
                    cell.units.issued = Issued::AfterQueue;
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

pub(super) unsafe extern "C" fn open_file(td: *mut c_void, file: *mut c_void) -> c_int {
    let Some(fio) = symbols::fio() else { return 1 };
    let own = guard::catch("open_file", || {
        // SAFETY: fio passes the job and one of its files.
        unsafe { cell(td).and_then(|cell| cell.running.open_own(&File::new(file))) }
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
        unsafe { cell(td).map_or(Ok(()), |cell| cell.running.opened(&File::new(file))) }.inspect_err(|refusal| log::line(&refusal.line))
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

pub(super) unsafe extern "C" fn close_file(td: *mut c_void, file: *mut c_void) -> c_int {
    let _held = guard::NoSignals::new();
    guard::catch("close_file", || {
        // SAFETY: fio passes the job and one of its open files.
        unsafe { cell(td).map(|cell| cell.running.closing(&File::new(file))) }
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

pub(super) unsafe extern "C" fn cleanup(td: *mut c_void) {
    let _held = guard::NoSignals::new();
    guard::catch("cleanup", || {
        let Some(ThreadData { io_ops_data, .. }) = layout::thread() else { return };
        // SAFETY: the field is inside the job; it holds null or the box that init() has put there, which nothing uses any more.
        unsafe {
            let data = td.byte_add(*io_ops_data).cast::<*mut Cell>();
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
