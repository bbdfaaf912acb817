//! Contexts: primary ones, created ones, and which is current.

use std::ffi::{c_int, c_uint, c_void};

use sim_gpu::abi::{Code, Device, Handle, INVALID_CONTEXT, INVALID_VALUE, Out};
use sim_gpu::context;
use sim_gpu::primary::{close, open, release, retain};
use sim_gpu::process::{act, ask};

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: Device) -> Code {
    act("cuDevicePrimaryCtxRetain", |process, line| context.set(retain(process, device, line)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: Device) -> Code {
    act("cuDevicePrimaryCtxRelease", |process, line| release(process, device, line))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease(device: Device) -> Code {
    cuDevicePrimaryCtxRelease_v2(device)
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxReset_v2(device: Device) -> Code {
    act("cuDevicePrimaryCtxReset", |process, line| {
        process.check_device(device)?;
        let open_handle = process.tables().primary.get(&device).filter(|primary| primary.retained > 0).map(|p| p.handle);
        let Some(handle) = open_handle else { return Ok(()) };
        close(process, handle, line)?;
        open(process, handle, device, 0);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxGetState(device: Device, flags: Out<c_uint>, active: Out<c_int>) -> Code {
    ask(|process| {
        process.check_device(device)?;
        let (set, open) = {
            let tables = process.tables();
            tables.primary.get(&device).map_or((0, false), |primary| (primary.flags, primary.retained > 0))
        };
        flags.set(set)?;
        active.set(c_int::from(open))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: Device, flags: c_uint) -> Code {
    act("cuDevicePrimaryCtxSetFlags", |process, _| {
        process.check_device(device)?;
        process.tables().primary.entry(device).or_default().flags = flags;
        Ok(())
    })
}

fn create(context: Out<Handle>, flags: c_uint, device: Device) -> Code {
    act("cuCtxCreate", |process, line| {
        line.put("on", device);
        process.check_device(device)?;
        let handle = process.fresh_handle();
        context.set(handle)?;
        open(process, handle, device, flags);
        context::push(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v2(context: Out<Handle>, flags: c_uint, device: Device) -> Code {
    create(context, flags, device)
}

/// CUDA 13's form, whose parameters (affinity, client of a server) a simulation has no use for.
#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v4(context: Out<Handle>, _params: *const c_void, flags: c_uint, device: Device) -> Code {
    create(context, flags, device)
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxDestroy_v2(handle: Handle) -> Code {
    act("cuCtxDestroy", |process, line| {
        let primary = process.tables().primary.values().any(|primary| primary.handle == handle);
        if primary {
            return Err(INVALID_CONTEXT);
        }
        close(process, handle, line)?;
        if context::current() == handle {
            context::pop()?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(handle: Out<Handle>) -> Code {
    ask(|_| handle.set(context::current()))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(handle: Handle) -> Code {
    act("cuCtxSetCurrent", |process, _| {
        if handle != 0 && process.context(handle).is_none() {
            return Err(INVALID_CONTEXT);
        }
        context::set_current(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> Code {
    act("cuCtxPushCurrent", |process, _| {
        process.context(handle).ok_or(INVALID_CONTEXT)?;
        context::push(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPopCurrent_v2(handle: Out<Handle>) -> Code {
    act("cuCtxPopCurrent", |_, _| {
        handle.set_if_wanted(context::pop()?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(device: Out<Device>) -> Code {
    ask(|process| device.set(process.current()?.device))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetFlags(flags: Out<c_uint>) -> Code {
    ask(|process| flags.set(process.current()?.flags))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetId(handle: Handle, id: Out<u64>) -> Code {
    ask(|process| {
        let context = if handle == 0 { process.current()? } else { process.context(handle).ok_or(INVALID_CONTEXT)? };
        id.set(context.id)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetApiVersion(handle: Handle, version: Out<c_uint>) -> Code {
    ask(|process| {
        process.context(if handle == 0 { context::current() } else { handle }).ok_or(INVALID_CONTEXT)?;
        version.set(3020)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Code {
    act("cuCtxSynchronize", |process, _| process.current()?.synchronize())
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) -> Code {
    ask(|process| {
        process.current()?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(-5);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetLimit(value: Out<usize>, limit: c_int) -> Code {
    ask(|process| {
        process.current()?;
        if limit < 0 { Err(INVALID_VALUE) } else { value.set(0) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetLimit(_limit: c_int, _value: usize) -> Code {
    ask(|process| process.current().map(|_| ()))
}
