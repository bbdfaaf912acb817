//! Lines on fio's log. Nothing is ever printed elsewhere: standard output may be JSON or a client's protocol.

use std::ffi::CString;

use super::symbols;

/// Prints one line, prefixed with the engine's name, on fio's error stream. fio sends that stream to a client where there is one
/// and keeps it apart from JSON, which its information stream does not.
pub fn line(text: &str) {
    let Some(fio) = symbols::fio() else { return };
    let mut bytes = format!("gpuio: {text}\n").into_bytes();
    bytes.retain(|&b| b != 0);
    let Ok(message) = CString::new(bytes) else { return };
    // SAFETY: log_err is fio's printf-like logger; the format takes exactly the one string given.
    unsafe { (fio.log_err)(c"%s".as_ptr(), message.as_ptr()) };
}
