//! Streams, events, and host functions in streams.

use std::ffi::{c_float, c_int, c_uint, c_void};

use sim_gpu::abi::{Code, EVENT_DISABLE_TIMING, Handle, HostFn, INVALID_HANDLE, INVALID_VALUE, Out, SUCCESS, StreamCallback};
use sim_gpu::process::{act, ask, run_host_function};
use sim_gpu::queue::{UserData, create, destroy, device_of, find, launch_host, query, synchronize};

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
    destroy("cuStreamDestroy", stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    synchronize("cuStreamSynchronize", stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    query(stream)
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
    device_of(stream, device)
}

/// Nothing is ever captured into a graph.
#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(stream: Handle, status: Out<c_int>) -> Code {
    ask(|process| {
        find(process, stream)?;
        status.set(0)
    })
}

/// # Safety
/// `function` may be called with `data` from another thread until the stream has passed it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchHostFunc(stream: Handle, function: Option<HostFn>, data: *mut c_void) -> Code {
    // SAFETY: this function's own contract.
    unsafe { launch_host("cuLaunchHostFunc", stream, function, data) }
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
