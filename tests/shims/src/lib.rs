//! Preloaded into fio by the tests: makes it look like a fio that nobody knows.
//!
//! `FIO_SHIM` says how. `version`: fio's version string is `fio-9.99`. `interface`: fio's engines carry the interface number 77, and the
//! engine that fio loads gets the number back that this fio wants. `zeros`: the engine's init hook is called with a job of zeros.
//! fio looks an external engine up with dlsym, which this library answers first.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type EngineList = unsafe extern "C" fn(*mut c_void);
type GetEngine = unsafe extern "C" fn(*mut *mut c_void);
type Init = unsafe extern "C" fn(*mut c_void) -> c_int;

const UNKNOWN_INTERFACE: c_int = 77;
/// `version` in `struct ioengine_ops`, in every fio from 3.16 on.
const OPS_VERSION: usize = 24;
/// More than any `struct thread_data` has.
const TD_BYTES: usize = 1 << 20;

/// The interface number that this fio really has.
static WANTED: AtomicI32 = AtomicI32::new(0);
static GET_ENGINE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static INIT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn asked_for(what: &str) -> bool {
    std::env::var_os("FIO_SHIM").is_some_and(|how| how == what)
}

/// The C library's own look-up.
fn real(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the names end in NUL; dlsym has had this version on x86-64 from the first, and has it still.
    let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) };
    if found.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: this is dlsym.
    let lookup: Lookup = unsafe { std::mem::transmute(found) };
    // SAFETY: the handle is the caller's own, or one of dlsym's special ones.
    unsafe { lookup(handle, name.as_ptr()) }
}

/// Answers before the C library's dlsym.
///
/// # Safety
/// As for dlsym.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: dlsym's name ends in NUL.
    let name = unsafe { CStr::from_ptr(name) };
    let found = real(handle, name);
    if found.is_null() {
        return found;
    }
    match name.to_bytes() {
        b"register_ioengine" if asked_for("interface") && WANTED.load(Ordering::Relaxed) == 0 => disguise(found),
        b"get_ioengine" if asked_for("interface") || asked_for("zeros") => {
            GET_ENGINE.store(found, Ordering::Relaxed);
            return get_engine as *mut c_void;
        }
        _ => {}
    }
    found
}

/// Gives all of fio's own engines the unknown number.
fn disguise(register: *mut c_void) {
    let unregister = real(libc::RTLD_DEFAULT, c"unregister_ioengine");
    if unregister.is_null() {
        return;
    }
    // SAFETY: both are fio's functions of these names and have this form.
    let (register, unregister) =
        unsafe { (std::mem::transmute::<*mut c_void, EngineList>(register), std::mem::transmute::<*mut c_void, EngineList>(unregister)) };
    let mut me = [0_usize; 64];
    let node = me.as_mut_ptr();
    // SAFETY: the node outlives its stay in the list. The list is a ring: what follows the last node is the head, which has no engine
    // around it; every other node is the start of one of fio's writable ops tables.
    unsafe {
        node.add(2).write(c"shim".as_ptr() as usize);
        register(node.cast());
        let head = node.read();
        let mut at = node.add(1).read();
        while at != head && at != node as usize {
            let version = (at + OPS_VERSION) as *mut c_int;
            WANTED.store(version.read(), Ordering::Relaxed);
            version.write(UNKNOWN_INTERFACE);
            at = (at as *const usize).add(1).read();
        }
        unregister(node.cast());
    }
}

/// `init` in `struct ioengine_ops`: a field was put in before it in 3.26.
fn init_offset() -> usize {
    let text = real(libc::RTLD_DEFAULT, c"fio_version_string").cast::<c_char>();
    // SAFETY: a string constant of fio.
    let version = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let minor = version.split(['.', '-']).nth(2).and_then(|minor| minor.parse::<u32>().ok());
    if minor.is_some_and(|minor| minor < 26) { 40 } else { 48 }
}

unsafe extern "C" fn get_engine(ops: *mut *mut c_void) {
    let real = GET_ENGINE.load(Ordering::Relaxed);
    // SAFETY: stored by dlsym above from the engine that fio loads.
    let real: GetEngine = unsafe { std::mem::transmute(real) };
    // SAFETY: fio's own argument, passed on; an engine's table is writable, since fio writes to it.
    unsafe {
        real(ops);
        let table = (*ops).cast::<u8>();
        if asked_for("interface") {
            table.add(OPS_VERSION).cast::<c_int>().write(WANTED.load(Ordering::Relaxed));
        }
        let init = table.add(init_offset()).cast::<*mut c_void>();
        if asked_for("zeros") && init.read() != init_with_zeros as *mut c_void {
            INIT.store(init.read(), Ordering::Relaxed);
            init.write(init_with_zeros as *mut c_void);
        }
    }
}

unsafe extern "C" fn init_with_zeros(_td: *mut c_void) -> c_int {
    let init = INIT.load(Ordering::Relaxed);
    // SAFETY: the engine's own init hook.
    let init: Init = unsafe { std::mem::transmute(init) };
    let td = Box::leak(vec![0_u64; TD_BYTES / 8].into_boxed_slice());
    // SAFETY: memory as large as any job, alive for ever; that it is no job is what the engine has to notice.
    unsafe { init(td.as_mut_ptr().cast()) }
}

/// fio's version string is constant data of the program: it is changed before the program starts.
extern "C" fn rename() {
    if !asked_for("version") {
        return;
    }
    let text = real(libc::RTLD_DEFAULT, c"fio_version_string").cast::<u8>();
    if text.is_null() {
        return; // a shell on the way to fio
    }
    let page = text as usize & !4095;
    // SAFETY: the two pages hold the string, which is at least as long as the new one; they are made writable first.
    unsafe {
        if libc::mprotect(page as *mut c_void, 8192, libc::PROT_READ | libc::PROT_WRITE) == 0 {
            ptr::copy_nonoverlapping(c"fio-9.99".as_ptr().cast(), text, 9);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = rename;
