//! Answers `/proc/modules` with an empty file where the kernel has none. To be preloaded; for tests only.
//!
//! libcufile reads that file for the nvidia-fs module and never ends where it is missing. An empty file means what the
//! truth is there: no module is loaded.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next library's function of a name, looked up once.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn get(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: a pseudo-handle that dlsym knows and a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            // The C library always has these functions; without them nothing could go on.
            std::process::abort();
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// The path to open instead.
///
/// # Safety
/// `path` is a C string, or null.
unsafe fn redirect(path: *const c_char) -> *const c_char {
    // SAFETY: not null where it is read, and a C string by this function's contract.
    if path.is_null() || unsafe { CStr::from_ptr(path) } != c"/proc/modules" {
        return path;
    }
    // SAFETY: a C string; the call only asks.
    if unsafe { libc::access(path, libc::F_OK) } == 0 { path } else { c"/dev/null".as_ptr() }
}

macro_rules! stream_openers {
    ($($name:ident $text:literal)*) => {$(
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
            static NEXT: Next = Next::new($text);
            type Real = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;
            // SAFETY: the C library's function of this name has this type.
            let real: Real = unsafe { std::mem::transmute(NEXT.get()) };
            // SAFETY: the caller's own arguments, or another C string for the path.
            unsafe { real(redirect(path), mode) }
        }
    )*};
}

stream_openers! { fopen c"fopen" fopen64 c"fopen64" }

macro_rules! descriptor_openers {
    ($($name:ident $text:literal)*) => {$(
        /// Declared with its third argument always there: on the calling conventions of Linux a function called with
        /// one more or fewer of these reads it from the same register, and the real one looks at it only when it creates.
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            static NEXT: Next = Next::new($text);
            type Real = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
            // SAFETY: the C library's function of this name has this type.
            let real: Real = unsafe { std::mem::transmute(NEXT.get()) };
            // SAFETY: the caller's own arguments, or another C string for the path.
            unsafe { real(redirect(path), flags, mode) }
        }
    )*};
}

descriptor_openers! { open c"open" open64 c"open64" }
