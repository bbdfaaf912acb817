//! The functions and data that the running fio exports, looked up once by name.
//!
//! Nothing here is linked: the library loads into any process, and in one that is not fio [`fio`] is `None`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// `log_err` and `log_info`: printf's form, so every message goes through one `%s`.
type Log = unsafe extern "C" fn(*const c_char, ...) -> isize;
type EngineList = unsafe extern "C" fn(*mut c_void);
type FileHook = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type UnitHook = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type EngineUnit = unsafe extern "C" fn(*mut c_void, *mut c_void);
type Count = unsafe extern "C" fn(*mut c_void, c_uint);
type Clock = unsafe extern "C" fn(*mut libc::timespec, *mut c_void);
type IsSet = unsafe extern "C" fn(*const c_void, c_uint) -> c_int;

/// What every fio from 3.16 on exports.
pub(super) struct Symbols {
    pub log_err: Log,
    pub register_ioengine: EngineList,
    pub unregister_ioengine: EngineList,
    pub generic_open_file: FileHook,
    pub generic_close_file: FileHook,
    pub generic_get_file_size: FileHook,
    /// fsync, fdatasync, sync_file_range, and syncfs where this fio has it.
    pub do_io_u_sync: UnitHook,
    /// BLKDISCARD on a block device.
    pub do_io_u_trim: UnitHook,
    /// Counts the submission latency of a unit whose issue time is set; its result is void.
    pub io_u_queued: EngineUnit,
    pub io_u_mark_submit: Count,
    pub io_u_mark_complete: Count,
    /// Says which I/O failed.
    pub io_u_log_error: Option<EngineUnit>,
    /// The clock that fio stamps I/O units with.
    pub fio_gettime: Clock,
    pub option_is_set: IsSet,
    /// fio's own table of job options: `fio_option` structs, ended by one without a name.
    pub fio_options: *const c_void,
    version_string: *const c_char,
}

// SAFETY: every member is the address of code or of data that fio never moves and that is only read here.
unsafe impl Send for Symbols {}
// SAFETY: as for Send.
unsafe impl Sync for Symbols {}

impl Symbols {
    /// What `fio --version` prints, `fio-3.33` for instance.
    pub fn version(&self) -> &str {
        // SAFETY: fio_version_string is a NUL-terminated constant of the program.
        unsafe { CStr::from_ptr(self.version_string) }.to_str().unwrap_or("(not UTF-8)")
    }
}

/// The symbols of the fio that this process is, or `None` where it is another program.
pub(super) fn fio() -> Option<&'static Symbols> {
    static SYMBOLS: OnceLock<Option<Symbols>> = OnceLock::new();
    SYMBOLS.get_or_init(look_up).as_ref()
}

fn look_up() -> Option<Symbols> {
    // The names that no other program exports come first, so that elsewhere the look-up ends at once.
    let register = address(c"register_ioengine")?;
    let version_string = address(c"fio_version_string")?.cast();
    // SAFETY: each name is a function of fio with the signature given, unchanged from 3.16 to head
    // (ioengines.h, io_u.h, file.h, log.h, options.h); the pointer is not null.
    unsafe {
        Some(Symbols {
            log_err: std::mem::transmute::<*mut c_void, Log>(address(c"log_err")?),
            register_ioengine: std::mem::transmute::<*mut c_void, EngineList>(register),
            unregister_ioengine: std::mem::transmute::<*mut c_void, EngineList>(address(c"unregister_ioengine")?),
            generic_open_file: std::mem::transmute::<*mut c_void, FileHook>(address(c"generic_open_file")?),
            generic_close_file: std::mem::transmute::<*mut c_void, FileHook>(address(c"generic_close_file")?),
            generic_get_file_size: std::mem::transmute::<*mut c_void, FileHook>(address(c"generic_get_file_size")?),
            do_io_u_sync: std::mem::transmute::<*mut c_void, UnitHook>(address(c"do_io_u_sync")?),
            do_io_u_trim: std::mem::transmute::<*mut c_void, UnitHook>(address(c"do_io_u_trim")?),
            io_u_queued: std::mem::transmute::<*mut c_void, EngineUnit>(address(c"io_u_queued")?),
            io_u_mark_submit: std::mem::transmute::<*mut c_void, Count>(address(c"io_u_mark_submit")?),
            io_u_mark_complete: std::mem::transmute::<*mut c_void, Count>(address(c"io_u_mark_complete")?),
            io_u_log_error: address(c"io_u_log_error").map(|at| std::mem::transmute::<*mut c_void, EngineUnit>(at)),
            fio_gettime: std::mem::transmute::<*mut c_void, Clock>(address(c"fio_gettime")?),
            option_is_set: std::mem::transmute::<*mut c_void, IsSet>(address(c"__fio_option_is_set")?),
            fio_options: address(c"fio_options")?.cast_const(),
            version_string,
        })
    }
}

fn address(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: dlsym takes a NUL-terminated name and has no other requirement.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
