//! amdgpu's file call, which moves bytes between a file and device memory with nothing in between. It is in no header: who wants it asks
//! `hipGetProcAddress`.

use std::ffi::{CStr, c_char, c_int, c_void};

use sim_gpu::abi::{Code, DevicePtr, INVALID_VALUE, NOT_FOUND, Out};
use sim_gpu::process::act;

/// What sizes and offsets are a multiple of, or the kernel answers EINVAL.
const PAGE: u64 = 4096;
/// `hipErrorUnknown`: the kernel has refused, and `status` says how.
const UNKNOWN: Code = 999;

fn transfer(write: bool, fd: c_int, address: DevicePtr, size: u64, offset: i64, moved: Out<u64>, status: Out<c_int>) -> Code {
    act(if write { "hipAmdFileWrite" } else { "hipAmdFileRead" }, |process, line| {
        line.put("fd", fd);
        line.put_address("ptr", address);
        line.put("size", size);
        line.put("file_offset", offset);
        let refused = |errno: c_int| status.set(-errno).and(Err(UNKNOWN));
        if size % PAGE != 0 || offset < 0 || offset as u64 % PAGE != 0 {
            return refused(libc::EINVAL);
        }
        let place = process.ranges().resolve(address, size)?;
        if !place.is_device() {
            return refused(libc::EINVAL);
        }
        match place.transfer(write, fd, usize::try_from(size).map_err(|_| INVALID_VALUE)?, offset) {
            Ok(bytes) => moved.set(bytes as u64),
            Err(errno) => refused(errno),
        }
    })
}

extern "C" fn read(fd: c_int, address: DevicePtr, size: u64, offset: i64, moved: Out<u64>, status: Out<c_int>) -> Code {
    transfer(false, fd, address, size, offset, moved, status)
}

extern "C" fn write(fd: c_int, address: DevicePtr, size: u64, offset: i64, moved: Out<u64>, status: Out<c_int>) -> Code {
    transfer(true, fd, address, size, offset, moved, status)
}

/// # Safety
/// `symbol` is a C string, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetProcAddress(
    symbol: *const c_char,
    function: Out<*const c_void>,
    _version: c_int,
    _flags: u64,
    status: Out<c_int>,
) -> Code {
    if symbol.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, and a C string by this function's contract.
    let found: *const c_void = match unsafe { CStr::from_ptr(symbol) }.to_bytes() {
        b"hipAmdFileRead" => read as *const c_void,
        b"hipAmdFileWrite" => write as *const c_void,
        _ => std::ptr::null(),
    };
    status.set_if_wanted(c_int::from(found.is_null()));
    function.set_if_wanted(found);
    if found.is_null() { NOT_FOUND } else { 0 }
}
