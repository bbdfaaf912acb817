//! One I/O unit (`struct io_u`) and its file (`struct fio_file`), as the engine sees them.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};

use super::layout::{self, tables::IoU};
use super::symbols::Symbols;
use super::thread;
use super::times::{ISSUE_TIME, Issued, START_TIME, now};

/// What fio asks of an I/O unit (`enum fio_ddir`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    Trim,
    /// fsync, fdatasync, sync_file_range or syncfs; which, fio's own call knows.
    Sync,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// An errno, or 0.
    pub error: i32,
    /// Bytes that were asked for and not moved.
    pub left: usize,
}

impl Outcome {
    pub const DONE: Self = Self { error: 0, left: 0 };

    pub const fn failed(error: i32) -> Self {
        Self { error, left: 0 }
    }
}

/// The name of an I/O unit while the engine holds it: what `queue` got and `event` gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UnitId(NonNull<c_void>);

// SAFETY: the id is only a name; what it points to is reached through an IoUnit, which stays in its hook.
unsafe impl Send for UnitId {}

impl UnitId {
    pub(super) fn pointer(self) -> NonNull<c_void> {
        self.0
    }

    pub(super) fn as_ptr(self) -> *mut c_void {
        self.0.as_ptr()
    }
}

/// What the units of one job have in common.
pub(super) struct Units {
    pub td: *mut c_void,
    pub fio: &'static Symbols,
    /// Confirmed when post_init lets the job pass; fio queues nothing before.
    pub at: IoU,
    pub issued: Issued,
}

/// An I/O unit during a hook.
#[derive(Clone, Copy)]
pub struct IoUnit<'hook> {
    at: NonNull<c_void>,
    units: &'hook Units,
}

impl<'hook> IoUnit<'hook> {
    /// # Safety
    /// `io_u` is the live unit that fio passed to a hook running now, for the job of `units`, which came up.
    #[inline]
    pub(super) unsafe fn new(io_u: NonNull<c_void>, units: &'hook Units) -> Self {
        Self { at: io_u, units }
    }

    #[inline]
    fn read<T: Copy>(self, offset: usize) -> T {
        // SAFETY: the unit is live during the hook and the layout confirmed (see new); fields are aligned as C has them.
        unsafe { self.at.as_ptr().byte_add(offset).cast::<T>().read() }
    }

    #[inline]
    pub(super) fn units(self) -> &'hook Units {
        self.units
    }

    #[inline]
    pub fn id(self) -> UnitId {
        UnitId(self.at)
    }

    #[inline]
    pub fn direction(self) -> Direction {
        match self.read::<u32>(self.units.at.ddir) {
            0 => Direction::Read,
            1 => Direction::Write,
            2 => Direction::Trim,
            _ => Direction::Sync,
        }
    }

    /// Where in the file, in bytes.
    #[inline]
    pub fn offset(self) -> u64 {
        self.read(self.units.at.offset)
    }

    /// How many bytes; for a trim too.
    #[inline]
    pub fn length(self) -> usize {
        self.read(self.units.at.xfer_buflen)
    }

    /// fio's buffer for the transfer: host memory that fio leaves alone until the unit completes.
    #[inline]
    pub fn buffer(self) -> *mut [u8] {
        ptr::slice_from_raw_parts_mut(self.read::<*mut u8>(self.units.at.xfer_buf), self.length())
    }

    #[inline]
    pub fn file(self) -> File<'hook> {
        // SAFETY: fio has set the unit's file before it queues it, and keeps it until the unit is put back.
        unsafe { File::new(self.read(self.units.at.file)) }
    }

    /// Whether fio has told the job to end.
    pub fn must_job_end(self) -> bool {
        // SAFETY: the job is live during its hook, and its layout was confirmed before it came up.
        layout::thread().is_some_and(|at| unsafe { thread::must_end(self.units.td, at) })
    }

    /// Notes that the unit is issued now, where nobody else would: it is about to end in queue(), or has.
    pub fn stamp_if_ours(self) {
        if self.units.issued == Issued::InCommit {
            let now = now(self.units.fio);
            // SAFETY: issue_time is a timespec at 16 of a live unit, in every version.
            unsafe { self.at.as_ptr().byte_add(ISSUE_TIME).cast::<libc::timespec>().write(now) };
        }
    }

    /// Runs `body` outside of the unit's latency: what fio has stamped so far is moved on by the time that it takes.
    ///
    /// Staging cannot be done in fio's prep hook, which would be outside by itself: fio writes verify headers into the buffer, and scrambles
    /// it, after prep and before queue, in every version.
    pub fn untimed<R>(self, body: impl FnOnce() -> R) -> R {
        let began = now(self.units.fio);
        let result = body();
        let ended = now(self.units.fio);
        let field = |offset: usize| {
            // SAFETY: start_time and issue_time are timespecs at 0 and 16 of a live unit, in every version.
            unsafe { &mut *self.at.as_ptr().byte_add(offset).cast::<libc::timespec>() }
        };
        let moved = field(START_TIME);
        let nanoseconds = moved.tv_nsec + (ended.tv_nsec - began.tv_nsec);
        moved.tv_sec += (ended.tv_sec - began.tv_sec) + nanoseconds.div_euclid(1_000_000_000);
        moved.tv_nsec = nanoseconds.rem_euclid(1_000_000_000);
        // fio has just set it for a synchronous job, and sets it after queue() for another.
        *field(ISSUE_TIME) = ended;
        result
    }

    /// Does what fio's own file engines do for a sync of any kind.
    pub fn sync(self) -> Outcome {
        self.call(self.units.fio.do_io_u_sync)
    }

    /// Discards the range: a block device's as fio's own engines do, a file's by punching a hole, which fio's own engines cannot.
    pub fn trim(self) -> Outcome {
        let file = self.file();
        if !file.is_regular() {
            return self.call(self.units.fio.do_io_u_trim);
        }
        let (offset, length) = (self.offset() as libc::off64_t, self.length() as libc::off64_t);
        // SAFETY: a system call on a descriptor, without memory.
        let punched = unsafe { libc::fallocate64(file.fd(), libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, length) };
        match punched {
            0 => Outcome::DONE,
            _ => Outcome::failed(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    fn call(self, function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32) -> Outcome {
        // SAFETY: the job and its unit are live during the hook; the function is fio's, and notes an error in the unit itself.
        unsafe { function(self.units.td, self.at.as_ptr()) };
        Outcome::failed(self.read::<u32>(self.units.at.error) as i32)
    }

    /// Says on fio's log which file, offset and length a unit failed at, as its own engines do for a unit that ends in queue().
    pub(super) fn log_error(self) {
        if let Some(log_error) = self.units.fio.io_u_log_error {
            // SAFETY: the job and its unit are live during the hook, and the unit's error is set.
            unsafe { log_error(self.units.td, self.at.as_ptr()) };
        }
    }

    /// Writes how the unit ended to where fio looks for it, and where it has put «all done» before queue().
    #[inline]
    pub fn complete(self, outcome: Outcome) {
        if outcome == Outcome::DONE {
            return;
        }
        // SAFETY: as for read(); these two fields are the engine's to write.
        unsafe {
            self.at.as_ptr().byte_add(self.units.at.error).cast::<u32>().write(outcome.error as u32);
            self.at.as_ptr().byte_add(self.units.at.resid).cast::<u64>().write(outcome.left as u64);
        }
    }
}

/// What fio has in place of the descriptor of a file that is not open, or that has none.
pub const NO_FD: RawFd = -1;

/// A file during a hook. The fields used here lie at the same place in every version from 3.16 on.
pub struct File<'hook> {
    at: *const c_void,
    hook: PhantomData<&'hook ()>,
}

impl File<'_> {
    const FILETYPE: usize = 16;
    const FD: usize = 20;
    const FILENO: usize = 36;
    const NAME: usize = 40;
    const REAL_FILE_SIZE: usize = 48;
    const TYPE_FILE: i32 = 1;
    const TYPE_CHAR: i32 = 3;

    /// # Safety
    /// `at` is a live `struct fio_file` for as long as the value is used.
    pub(super) unsafe fn new(at: *const c_void) -> Self {
        Self { at, hook: PhantomData }
    }

    #[inline]
    fn read<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: the file is live (see new) and larger than any offset used here.
        unsafe { self.at.byte_add(offset).cast::<T>().read() }
    }

    #[inline]
    pub fn fd(&self) -> RawFd {
        self.read(Self::FD)
    }

    /// Which of the job's files it is, counted from 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.read::<u32>(Self::FILENO) as usize
    }

    pub fn is_regular(&self) -> bool {
        self.read::<i32>(Self::FILETYPE) == Self::TYPE_FILE
    }

    /// Has fio take the file for a device of `bytes` bytes that nobody lays out, extends or looks for under its name: for fio that is a
    /// character device.
    ///
    /// # Safety
    /// `at` is the live file that fio passed to its get_file_size hook.
    pub(super) unsafe fn make_device(at: *mut c_void, bytes: u64) {
        // SAFETY: as promised by the caller; the hook is expected to set both, which are inside every version's file.
        unsafe {
            at.byte_add(Self::FILETYPE).cast::<i32>().write(Self::TYPE_CHAR);
            at.byte_add(Self::REAL_FILE_SIZE).cast::<u64>().write(bytes);
        }
    }

    /// Sets the descriptor of a file.
    ///
    /// # Safety
    /// `at` is the live file that fio passed to its open_file hook.
    pub(super) unsafe fn set_fd(at: *mut c_void, fd: RawFd) {
        // SAFETY: as promised by the caller; fio expects the hook to set it.
        unsafe { at.byte_add(Self::FD).cast::<RawFd>().write(fd) };
    }

    pub fn name(&self) -> String {
        let name = self.read::<*const c_char>(Self::NAME);
        // SAFETY: file_name is a NUL-terminated text that lives as long as the file.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}
