//! Transfers in the caller's streams.
//!
//! The stream calls a function of ours when it comes to the transfer; only then are the parameters read, as in the
//! real library. Since the runtime may not be called from there, the bytes move on a thread of their own for which the
//! stream waits.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use sim_common::cufile::Status;
use sim_common::log::Line;

use crate::api::note;
use crate::instant;
use crate::knobs::knobs;
use crate::library::{INTERNAL, INVALID_VALUE, call, driver_status, finish, gpu, rules, status};
use crate::transfer::{self, Failure, Request, Transfer};

static IN_FLIGHT: AtomicU32 = AtomicU32::new(0);

/// What `*bytes` becomes for an operation over the limit.
const TOO_MANY: isize = -5;

/// The caller's parameters, not looked at before the stream is there.
#[derive(Clone, Copy)]
struct Parameters {
    size: *const usize,
    file_offset: *const i64,
    offset: *const i64,
    done: *mut isize,
}

struct Operation {
    name: &'static str,
    write: bool,
    file: usize,
    base: u64,
    owner: usize,
    over: bool,
    parameters: Parameters,
}

impl Operation {
    /// Reads the parameters.
    ///
    /// # Safety
    /// The caller's contract: the parameters are valid until the stream has passed.
    unsafe fn request(&self) -> Request {
        let Parameters { size, file_offset, offset, .. } = self.parameters;
        // SAFETY: this function's own contract, and none is null (checked when submitted).
        let (size, file_offset, offset) = unsafe { (size.read(), file_offset.read(), offset.read()) };
        Request { write: self.write, file: self.file, base: self.base, size, file_offset, offset }
    }
}

fn perform(request: &Request, owner: usize) -> Result<usize, Failure> {
    let gpu = gpu().map_err(|status| -status.err)?;
    gpu.push(owner).map_err(|_| libc::EIO)?;
    let result = Transfer::new(request, false).and_then(|transfer| transfer.run());
    gpu.pop();
    result
}

/// Called by the stream.
unsafe extern "C" fn reached(operation: *mut c_void) {
    // SAFETY: the box that `submit` gave away, called for once.
    let operation = unsafe { Box::from_raw(operation.cast::<Operation>()) };
    // SAFETY: the stream is here, so by the caller's contract the parameters still are.
    let request = unsafe { operation.request() };
    let owner = operation.owner;
    let result = if operation.over {
        TOO_MANY
    } else {
        let outcome = thread::scope(|scope| scope.spawn(|| perform(&request, owner)).join());
        match outcome {
            Ok(Ok(bytes)) => bytes.try_into().unwrap_or(isize::MAX),
            Ok(Err(failure)) if failure < 0 => failure as isize,
            // Neither an errno nor a code of the runtime's is told by an asynchronous call.
            Ok(Err(_)) | Err(_) => -1,
        }
    };
    let mut line = Line::new();
    note(&mut line, &request);
    finish(line, operation.name, result as i64);
    IN_FLIGHT.fetch_sub(1, Ordering::AcqRel);
    // SAFETY: as for the parameters; written last, since the caller may look at it at any time.
    unsafe { operation.parameters.done.write_volatile(result) };
}

/// # Safety
/// The parameters may be read and written, and `base` where it is host memory, until the stream has passed.
unsafe fn submit(
    (name, done_name): (&'static str, &'static str),
    write: bool,
    file: usize,
    base: u64,
    parameters: Parameters,
    stream: usize,
) -> Status {
    let Parameters { size, file_offset, offset, done } = parameters;
    if instant::is_on() {
        // SAFETY: this function's own contract.
        unsafe { done.write(size.read().try_into().unwrap_or(isize::MAX)) };
        return Status::default();
    }
    call(name, |line| {
        line.put_address("file", file as u64);
        line.put_address("base", base);
        line.put_address("stream", stream as u64);
        if size.is_null() || file_offset.is_null() || offset.is_null() || done.is_null() {
            return Err(status(INVALID_VALUE));
        }
        transfer::file(file).map_err(|failure| status(failure.abs()))?;
        if rules().clears_results {
            // SAFETY: not null, and writable by this function's contract.
            unsafe { done.write(0) };
        }
        if let Some(code) = knobs().fail_async.hit(INTERNAL) {
            return Err(status(code));
        }
        let gpu = gpu()?;
        let owner = gpu.owner().map_err(driver_status)?;
        // Fewer than the limit before this one means room for it.
        let over = IN_FLIGHT.fetch_add(1, Ordering::AcqRel) >= knobs().async_max;
        let operation = Operation { name: done_name, write, file, base, owner, over, parameters };
        let operation = Box::into_raw(Box::new(operation));
        // SAFETY: `reached` takes the box back on the stream's thread, and nothing else touches it meanwhile.
        let launched = unsafe { gpu.launch(stream, reached, operation.cast()) };
        launched.map_err(|code| {
            IN_FLIGHT.fetch_sub(1, Ordering::AcqRel);
            // SAFETY: the stream refused the function, so the box is still ours.
            drop(unsafe { Box::from_raw(operation) });
            driver_status(code)
        })
    })
}

/// # Safety
/// The parameters may be read and written, and `base` where it is host memory, until the stream has passed.
pub unsafe fn read_async(
    file: usize,
    base: *mut c_void,
    size: *const usize,
    file_offset: *const i64,
    offset: *const i64,
    done: *mut isize,
    stream: usize,
) -> Status {
    let parameters = Parameters { size, file_offset, offset, done };
    let names = ("ReadAsync", "AsyncRead");
    // SAFETY: this function's own contract.
    unsafe { submit(names, false, file, base as u64, parameters, stream) }
}

/// # Safety
/// The parameters may be read and written, and `base` where it is host memory, until the stream has passed.
pub unsafe fn write_async(
    file: usize,
    base: *mut c_void,
    size: *const usize,
    file_offset: *const i64,
    offset: *const i64,
    done: *mut isize,
    stream: usize,
) -> Status {
    let parameters = Parameters { size, file_offset, offset, done };
    let names = ("WriteAsync", "AsyncWrite");
    // SAFETY: this function's own contract.
    unsafe { submit(names, true, file, base as u64, parameters, stream) }
}
