//! Streams, events, and host functions in streams.

use std::ffi::{c_float, c_int, c_uint, c_void};

use sim_common::log::Line;

use crate::abi::{
    Code, EVENT_DISABLE_TIMING, Handle, HostFn, INVALID_HANDLE, INVALID_VALUE, NOT_READY, Out, STREAM_NON_BLOCKING, STREAM_PER_THREAD,
    SUCCESS, StreamCallback,
};
use crate::process::{Process, act, ask, run_host_function};

fn create(process: &Process, line: &mut Line, stream: Out<Handle>, flags: c_uint, priority: i32) -> Result<(), Code> {
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

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: Out<Handle>, flags: c_uint) -> Code {
    act("cuStreamCreate", |process, line| create(process, line, stream, flags, 0))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: c_uint, priority: c_int) -> Code {
    act("cuStreamCreateWithPriority", |process, line| create(process, line, stream, flags, priority.clamp(-5, 0)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    act("cuStreamDestroy", |process, line| {
        line.put_address("stream", stream as u64);
        let context = process.owner(stream)?;
        context.destroy_stream(stream)?;
        process.tables().owners.remove(&stream);
        Ok(())
    })
}

/// A stream by its handle: one created in any context, or a named one of the current context.
fn find(process: &Process, stream: Handle) -> Result<std::sync::Arc<crate::stream::Stream>, Code> {
    if stream <= STREAM_PER_THREAD { process.current()?.stream(stream) } else { process.owner(stream)?.stream(stream) }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    act("cuStreamSynchronize", |process, line| {
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

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    ask(|process| {
        let stream = find(process, stream)?;
        if stream.tail().is_some() { Err(NOT_READY) } else { stream.shared().check() }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) -> Code {
    act("cuStreamWaitEvent", |process, _| {
        let stream = find(process, stream)?;
        match process.event(event)?.point() {
            Some(point) => stream.enqueue(vec![point], || ()).map(|_| ()),
            None => Ok(()),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetFlags(stream: Handle, flags: Out<c_uint>) -> Code {
    ask(|process| flags.set(find(process, stream)?.flags))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetPriority(stream: Handle, priority: Out<c_int>) -> Code {
    ask(|process| priority.set(find(process, stream)?.priority))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) -> Code {
    ask(|process| context.set(find(process, stream)?.context))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetDevice(stream: Handle, device: Out<c_int>) -> Code {
    ask(|process| {
        let context = process.context(find(process, stream)?.context).ok_or(INVALID_HANDLE)?;
        device.set(context.device)
    })
}

/// Nothing is ever captured into a graph.
#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(stream: Handle, status: Out<c_int>) -> Code {
    ask(|process| {
        find(process, stream)?;
        status.set(0)
    })
}

/// A caller's pointer, carried to the stream's thread and there only handed back to the caller's function.
struct UserData(*mut c_void);

// SAFETY: the pointer is never followed here; that it may be used on another thread is what the caller agrees to by
// launching a function into a stream.
unsafe impl Send for UserData {}

impl UserData {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// `function` may be called with `data` from another thread until the stream has passed it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchHostFunc(stream: Handle, function: Option<HostFn>, data: *mut c_void) -> Code {
    act("cuLaunchHostFunc", |process, line| {
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

/// # Safety
/// `callback` may be called with `data` from another thread until the stream has passed it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamAddCallback(stream: Handle, callback: Option<StreamCallback>, data: *mut c_void, _flags: c_uint) -> Code {
    act("cuStreamAddCallback", |process, line| {
        line.put_address("stream", stream as u64);
        let context = process.current()?;
        let (target, callback) = (find(process, stream)?, callback.ok_or(INVALID_VALUE)?);
        let (data, shared) = (UserData(data), std::sync::Arc::clone(context.shared()));
        let work = move || {
            let status = shared.check().err().unwrap_or(SUCCESS);
            // SAFETY: this function's contract, passed on: the caller's function with the caller's data.
            run_host_function(|| unsafe { callback(stream, status, data.get()) });
        };
        target.enqueue_host(context.barrier(&target), work)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: Out<Handle>, flags: c_uint) -> Code {
    act("cuEventCreate", |process, line| {
        let context = process.current()?;
        let handle = process.fresh_handle();
        event.set(handle)?;
        context.create_event(handle, flags & EVENT_DISABLE_TIMING == 0);
        process.tables().owners.insert(handle, context.handle);
        line.put_address("event", handle as u64);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    act("cuEventDestroy", |process, line| {
        line.put_address("event", event as u64);
        process.owner(event)?.destroy_event(event).ok_or(INVALID_HANDLE)?;
        process.tables().owners.remove(&event);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    act("cuEventRecord", |process, _| {
        let (event, stream) = (process.event(event)?, find(process, stream)?);
        if event.context != stream.context {
            return Err(INVALID_HANDLE);
        }
        let context = process.context(stream.context).ok_or(INVALID_HANDLE)?;
        event.record(&stream, context.barrier(&stream))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) -> Code {
    cuEventRecord(event, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: Handle) -> Code {
    ask(|process| process.event(event)?.query())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    act("cuEventSynchronize", |process, _| process.event(event)?.synchronize())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(milliseconds: Out<c_float>, start: Handle, end: Handle) -> Code {
    ask(|process| milliseconds.set(process.event(end)?.elapsed_since(process.event(start)?.as_ref())?))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(milliseconds: Out<c_float>, start: Handle, end: Handle) -> Code {
    cuEventElapsedTime(milliseconds, start, end)
}
