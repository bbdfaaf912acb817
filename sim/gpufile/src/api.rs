//! The driver, files, buffers, and transfers that block.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use sim_common::cufile::{Descriptor, Properties, Status};
use sim_common::log::Line;

use crate::knobs::knobs;
use crate::library::{
    ALREADY_REGISTERED, Buffer, DRIVER_NOT_INITIALIZED, HANDLE_ALREADY_REGISTERED, INTERNAL, INVALID_FILE_TYPE, INVALID_VALUE,
    MEMORY_TYPE_INVALID, NOT_REGISTERED, PINNING_FAILED, POINTER_RANGE, Registered, call, driver_status, finish, fresh_handle, gpu, memory,
    rules, state, status,
};
use crate::transfer::{self, Request, Transfer};

/// Stores a result where the caller wants it.
///
/// # Safety
/// `to` may be written, or is null.
pub unsafe fn store<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(status(INVALID_VALUE));
    }
    // SAFETY: not null, and writable by this function's contract.
    unsafe { to.write(value) };
    Ok(())
}

pub fn driver_open() -> Status {
    let open = || {
        gpu()?.init().map_err(driver_status)?;
        if let Some(code) = knobs().fail_open.hit(INTERNAL) {
            return Err(status(code));
        }
        state().opens += 1;
        Ok(())
    };
    let status = open().err().unwrap_or_default();
    finish(Line::new(), "DriverOpen", i64::from(status.err));
    status
}

/// The last close closes the driver, or the first one however often it was opened, and forgets what was registered.
pub fn driver_close() -> Status {
    call("DriverClose", |line| {
        if rules().counts_opens && state().opens > 1 {
            state().opens -= 1;
            return Ok(());
        }
        let left = std::mem::take(&mut *state());
        line.put("left_files", left.files.len());
        line.put("left_buffers", left.buffers.len());
        line.put("left_batches", left.batches.len());
        line.put("left_streams", left.streams.len());
        let [direct, bounced] = transfer::counted();
        line.put("direct", direct);
        line.put("bounced", bounced);
        for batch in left.batches.values() {
            batch.cancel();
        }
        transfer::destroy_idle_streams();
        transfer::free_spare_buffers();
        Ok(())
    })
}

pub fn use_count() -> i64 {
    state().opens
}

/// # Safety
/// `properties` may be written, or is null.
pub unsafe fn properties(properties: *mut Properties) -> Status {
    if !rules().has_properties {
        return status(INTERNAL);
    }
    let answer = Properties {
        poll_threshold: 4,
        max_direct_io: 16_384,
        // NVMe.
        status_flags: if knobs().compat { 0 } else { 1 << 4 },
        // Compatibility mode is allowed.
        control_flags: 1 << 1,
        // Dynamic routing, batches, streams, parallel I/O.
        features: 0xf,
        max_cache: 131_072,
        per_buffer_cache: 1024,
        max_pinned: u32::MAX - 3,
        max_batch_io: knobs().batch_limit,
        max_batch_timeout_ms: 5,
        ..Properties::default()
    };
    // SAFETY: this function's own contract.
    unsafe { store(properties, answer) }.err().unwrap_or_default()
}

/// # Safety
/// `handle` may be written and `descriptor` read, or they are null.
pub unsafe fn handle_register(handle: *mut usize, descriptor: *const Descriptor) -> Status {
    call("HandleRegister", |line| {
        if descriptor.is_null() {
            return Err(status(INVALID_VALUE));
        }
        // SAFETY: not null, and readable by this function's contract.
        let descriptor = unsafe { descriptor.read() };
        // The union's descriptor is the low half of its eight bytes.
        let bytes = descriptor.handle.to_ne_bytes();
        let fd = c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        line.put("fd", fd);
        if descriptor.kind != 1 {
            return Err(status(INVALID_VALUE));
        }
        // SAFETY: zero is a value of this plain struct; the call fills it or fails.
        let mut about: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: a number and a place that lives through the call.
        if unsafe { libc::fstat(fd, &raw mut about) } != 0 {
            return Err(status(rules().bad_file));
        }
        if !matches!(about.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK) {
            return Err(status(INVALID_FILE_TYPE));
        }
        if let Some(code) = knobs().fail_handle.hit(INTERNAL) {
            return Err(status(code));
        }
        let mut state = state();
        if state.files.values().any(|file| file.fd == fd) {
            return Err(status(HANDLE_ALREADY_REGISTERED));
        }
        let fresh = fresh_handle();
        // SAFETY: this function's own contract.
        unsafe { store(handle, fresh) }?;
        state.files.insert(fresh, Arc::new(Registered::new(fd)));
        line.put_address("handle", fresh as u64);
        Ok(())
    })
}

pub fn handle_deregister(handle: usize) {
    let mut line = Line::new();
    line.put_address("handle", handle as u64);
    let known = state().files.remove(&handle).is_some();
    finish(line, "HandleDeregister", if known { 0 } else { -1 });
}

pub fn buf_register(base: *const c_void, size: usize, _flags: c_int) -> Status {
    call("BufRegister", |line| {
        let (base, size) = (base as u64, size as u64);
        line.put_address("base", base);
        line.put("size", size);
        if base == 0 || size == 0 {
            return Err(status(INVALID_VALUE));
        }
        let device = memory(base)?.is_some_and(|memory| memory.is_device);
        if !device && !rules().moves_host_memory {
            return Err(status(MEMORY_TYPE_INVALID));
        }
        if device {
            let (start, bytes) = gpu()?.range(base).map_err(driver_status)?;
            if base + size > start + bytes as u64 {
                return Err(status(POINTER_RANGE));
            }
        }
        if let Some(code) = knobs().fail_buf.hit(INTERNAL) {
            return Err(status(code));
        }
        let mut state = state();
        if state.buffers.contains_key(&base) {
            return Err(status(ALREADY_REGISTERED));
        }
        let pinned: u64 = state.buffers.values().filter(|buffer| buffer.device).map(|buffer| buffer.size).sum();
        if device && pinned.saturating_add(size) > knobs().bar {
            return Err(status(PINNING_FAILED));
        }
        state.buffers.insert(base, Buffer { size, device });
        Ok(())
    })
}

pub fn buf_deregister(base: *const c_void) -> Status {
    call("BufDeregister", |line| {
        line.put_address("base", base as u64);
        state().buffers.remove(&(base as u64)).map(|_| ()).ok_or(status(NOT_REGISTERED))
    })
}

/// Adds what a transfer is about to a line of the log.
pub fn note(line: &mut Line, request: &Request) {
    line.put_address("file", request.file as u64);
    line.put_address("base", request.base);
    line.put("size", request.size);
    line.put("file_offset", request.file_offset);
    line.put("offset", request.offset);
}

/// A failure as a blocking call tells it: errno and -1, or what is returned as it is.
fn blocking(name: &str, request: &Request) -> isize {
    let mut line = Line::new();
    note(&mut line, request);
    let run = || {
        if state().opens == 0 {
            return Err(DRIVER_NOT_INITIALIZED);
        }
        Transfer::new(request, true)?.run()
    };
    let (result, errno) = match run() {
        Ok(bytes) => (bytes.try_into().unwrap_or(isize::MAX), None),
        Err(failure) if failure < 0 => (failure as isize, None),
        Err(failure) => (-1, Some(failure)),
    };
    line.put("errno", errno.unwrap_or(0));
    finish(line, name, result as i64);
    // A success leaves anything in errno, and a failure that errno does not tell leaves it alone.
    if let Some(left) = errno.or((result >= 0).then_some(libc::ESTALE)) {
        // SAFETY: the calling thread's own errno.
        unsafe { *libc::__errno_location() = left };
    }
    result
}

pub fn read(file: usize, base: *mut c_void, size: usize, file_offset: i64, offset: i64) -> isize {
    blocking("Read", &Request { write: false, file, base: base as u64, size, file_offset, offset })
}

pub fn write(file: usize, base: *const c_void, size: usize, file_offset: i64, offset: i64) -> isize {
    blocking("Write", &Request { write: true, file, base: base as u64, size, file_offset, offset })
}

/// Registration of a stream; needed by nothing, checked for its order.
pub fn stream_register(stream: usize, _flags: c_uint) -> Status {
    call("StreamRegister", |line| {
        line.put_address("stream", stream as u64);
        if let Some(code) = knobs().fail_stream.hit(INTERNAL) {
            return Err(status(code));
        }
        if state().streams.insert(stream) { Ok(()) } else { Err(status(INVALID_VALUE)) }
    })
}

pub fn stream_deregister(stream: usize) -> Status {
    call("StreamDeregister", |line| {
        line.put_address("stream", stream as u64);
        if state().streams.remove(&stream) { Ok(()) } else { Err(status(INVALID_VALUE)) }
    })
}

/// The setters of the driver: accepted where there are properties to set, and without effect: nothing here depends on them.
pub fn set(name: &str) -> Status {
    call(name, |_| if rules().has_properties { Ok(()) } else { Err(status(INTERNAL)) })
}

/// What the version knob says.
pub fn version_number() -> c_int {
    knobs().version
}

/// Device bytes that can be registered, as a GPU has them where no knob says otherwise.
pub fn bar() -> u64 {
    if knobs().bar == u64::MAX { 32 << 30 } else { knobs().bar }
}
