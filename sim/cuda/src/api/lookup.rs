//! Names of errors, and the look-up of functions by name and version.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::names::NAMES;
use sim_gpu::abi::{Code, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED, Out, SUCCESS};

/// What `cuGetProcAddress` says beside its code.
const LOOKUP_FOUND: c_int = 0;
const LOOKUP_NOT_FOUND: c_int = 1;

fn describe(code: Code) -> Option<&'static (Code, &'static CStr, &'static CStr)> {
    NAMES.iter().find(|(known, ..)| *known == code)
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: Code, name: Out<*const c_char>) -> Code {
    let found = describe(code);
    // An unknown code gets a null name and an error; a null `name` can be told no more than that.
    let stored = name.set(found.map_or(std::ptr::null(), |(_, name, _)| name.as_ptr()));
    if found.is_none() { INVALID_VALUE } else { stored.err().unwrap_or(SUCCESS) }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: Code, text: Out<*const c_char>) -> Code {
    let found = describe(code);
    let stored = text.set(found.map_or(std::ptr::null(), |(.., text)| text.as_ptr()));
    if found.is_none() { INVALID_VALUE } else { stored.err().unwrap_or(SUCCESS) }
}

/// Private tables that the vendor's own libraries ask for: there are none.
#[unsafe(no_mangle)]
extern "C" fn cuGetExportTable(table: Out<*const c_void>, _id: *const c_void) -> Code {
    table.set_if_wanted(std::ptr::null());
    NOT_SUPPORTED
}

/// This library itself, to look its own functions up in.
fn own_library() -> usize {
    static HANDLE: OnceLock<usize> = OnceLock::new();
    *HANDLE.get_or_init(|| {
        // SAFETY: zero is a value of this plain struct; dladdr fills it or leaves it.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the address is that of a function in this library and `info` is ours.
        let known = unsafe { libc::dladdr(own_library as *const c_void, &raw mut info) };
        if known == 0 {
            return 0;
        }
        // SAFETY: the name is what dladdr gave; NOLOAD only adds a reference to what is loaded.
        unsafe { libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) as usize }
    })
}

/// The function for a plain name («cuMemAlloc») as a caller of this CUDA version expects it.
fn look_up(name: &str, version: c_int) -> *mut c_void {
    let suffixes: &[&str] = match name {
        "cuCtxCreate" if version >= 12_050 => &["_v4"],
        "cuGetProcAddress" if version < 12_000 => &[""],
        _ => &["_v2", ""],
    };
    let library = own_library();
    for suffix in suffixes {
        let Ok(symbol) = CString::new(format!("{name}{suffix}")) else { continue };
        // SAFETY: a handle from dlopen (or null, which means the whole process) and a C string.
        let found = unsafe { libc::dlsym(library as *mut c_void, symbol.as_ptr()) };
        if !found.is_null() {
            return found;
        }
    }
    std::ptr::null_mut()
}

/// # Safety
/// `symbol` is a C string, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: Out<*mut c_void>,
    version: c_int,
    _flags: u64,
    status: Out<c_int>,
) -> Code {
    if symbol.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, and a C string by this function's contract.
    let name = unsafe { CStr::from_ptr(symbol) }.to_string_lossy();
    let found = look_up(&name, version);
    status.set_if_wanted(if found.is_null() { LOOKUP_NOT_FOUND } else { LOOKUP_FOUND });
    match function.set(found) {
        Err(code) => code,
        Ok(()) if found.is_null() => NOT_FOUND,
        Ok(()) => SUCCESS,
    }
}

/// # Safety
/// `symbol` is a C string, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress(symbol: *const c_char, function: Out<*mut c_void>, version: c_int, flags: u64) -> Code {
    // SAFETY: this function's contract is the other's; null for the status is allowed there.
    unsafe { cuGetProcAddress_v2(symbol, function, version, flags, Out::none()) }
}
