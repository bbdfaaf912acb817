//! What a caller does with streams.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use sim_common::log::Line;

use crate::abi::{Code, Handle, HostFn, INVALID_HANDLE, INVALID_VALUE, NOT_READY, Out, STREAM_NON_BLOCKING, STREAM_PER_THREAD};
use crate::process::{Process, act, ask, run_host_function};
use crate::stream::Stream;

/// Makes a stream in the current context.
pub fn create(process: &Process, line: &mut Line, stream: Out<Handle>, flags: c_uint, priority: i32) -> Result<(), Code> {
    let context = process.current()?;
    if flags & !STREAM_NON_BLOCKING != 0 {
        return Err(INVALID_VALUE);
    }
    let handle = process.fresh_handle();
    stream.set(handle)?;
    context.create_stream(handle, flags, priority);
    process.tables().owners.insert(handle, context.handle);
    line.put_address("stream", handle as u64);
    Ok(())
}

/// A stream by its handle: one created in any context, or a named one of the current context.
pub fn find(process: &Process, stream: Handle) -> Result<Arc<Stream>, Code> {
    if stream <= STREAM_PER_THREAD { process.current()?.stream(stream) } else { process.owner(stream)?.stream(stream) }
}

/// The stream stops taking work and ends when its queue is empty.
pub fn destroy(name: &str, stream: Handle) -> Code {
    act(name, |process, line| {
        line.put_address("stream", stream as u64);
        let context = process.owner(stream)?;
        context.destroy_stream(stream)?;
        process.tables().owners.remove(&stream);
        Ok(())
    })
}

/// Waits until all that is in the stream is done.
pub fn synchronize(name: &str, stream: Handle) -> Code {
    act(name, |process, line| {
        line.put_address("stream", stream as u64);
        let found = find(process, stream)?;
        // The legacy stream is done only when what it waits for is.
        if let Some(context) = process.context(found.context).filter(|_| stream < STREAM_PER_THREAD) {
            context.settle();
        }
        if let Some(ticket) = found.tail() {
            found.wait(ticket);
        }
        found.shared().check()
    })
}

/// Not ready until all that is in the stream is done.
pub fn query(stream: Handle) -> Code {
    ask(|process| {
        let stream = find(process, stream)?;
        if stream.tail().is_some() { Err(NOT_READY) } else { stream.shared().check() }
    })
}

pub fn device_of(stream: Handle, device: Out<c_int>) -> Code {
    ask(|process| {
        let context = process.context(find(process, stream)?.context).ok_or(INVALID_HANDLE)?;
        device.set(context.device)
    })
}

/// A caller's pointer, carried to the stream's thread and there only handed back to the caller's function.
pub struct UserData(pub *mut c_void);

// SAFETY: the pointer is never followed here; that it may be used on another thread is what the caller agrees to by
// launching a function into a stream.
unsafe impl Send for UserData {}

impl UserData {
    pub fn get(&self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// `function` may be called with `data` from another thread until the stream has passed it.
pub unsafe fn launch_host(name: &str, stream: Handle, function: Option<HostFn>, data: *mut c_void) -> Code {
    act(name, |process, line| {
        line.put_address("stream", stream as u64);
        let context = process.current()?;
        context.shared().check()?;
        let (stream, function) = (find(process, stream)?, function.ok_or(INVALID_VALUE)?);
        let data = UserData(data);
        let work = move || {
            // SAFETY: this function's contract, passed on: the caller's function with the caller's data.
            run_host_function(|| unsafe { function(data.get()) });
        };
        stream.enqueue_host(context.barrier(&stream), work)
    })
}
