//! Allocation, pinning and registration of memory.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;

use sim_gpu::abi::{Code, Device, DevicePtr, HOST_MEMORY_NOT_REGISTERED, Handle, INVALID_VALUE, NOT_FOUND, OUT_OF_MEMORY, Out};
use sim_gpu::allocation::{allocate, free, range_of};
use sim_gpu::memory::{Kind, Range};
use sim_gpu::process::{act, ask};

fn as_pointer(address: u64) -> *mut c_void {
    address as *mut c_void
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(pointer: Out<DevicePtr>, size: usize) -> Code {
    act("cuMemAlloc", |process, line| pointer.set(allocate(process, line, Kind::Device, size)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocPitch_v2(pointer: Out<DevicePtr>, pitch: Out<usize>, width: usize, height: usize, _element: c_uint) -> Code {
    act("cuMemAllocPitch", |process, line| {
        let row = width.checked_next_multiple_of(512).ok_or(INVALID_VALUE)?;
        let size = row.checked_mul(height).ok_or(INVALID_VALUE)?;
        pitch.set(row)?;
        pointer.set(allocate(process, line, Kind::Device, size)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocManaged(pointer: Out<DevicePtr>, size: usize, _flags: c_uint) -> Code {
    act("cuMemAllocManaged", |process, line| pointer.set(allocate(process, line, Kind::Managed, size)?))
}

/// Allocation in stream order: here at once, which is early and so never wrong.
#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(pointer: Out<DevicePtr>, size: usize, stream: Handle) -> Code {
    act("cuMemAllocAsync", |process, line| {
        process.current()?.stream(stream)?;
        pointer.set(allocate(process, line, Kind::Device, size)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: DevicePtr) -> Code {
    act("cuMemFree", |process, line| free(process, line, address, &[Kind::Device, Kind::Managed]))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: DevicePtr, stream: Handle) -> Code {
    act("cuMemFreeAsync", |process, line| {
        line.put_address("ptr", address);
        let context = process.current()?;
        let stream = context.stream(stream)?;
        let range = process.ranges().remove(address, &[Kind::Device]).ok_or(INVALID_VALUE)?;
        stream.enqueue(context.barrier(&stream), move || drop(range)).map(|_| ())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> Code {
    ask(|process| {
        let context = process.current()?;
        let left = process.knobs.memory.saturating_sub(process.ranges().used(context.device));
        free.set(usize::try_from(left).map_err(|_| INVALID_VALUE)?)?;
        total.set(usize::try_from(process.knobs.memory).map_err(|_| INVALID_VALUE)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(pointer: Out<*mut c_void>, size: usize, _flags: c_uint) -> Code {
    act("cuMemHostAlloc", |process, line| pointer.set(as_pointer(allocate(process, line, Kind::Pinned, size)?)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocHost_v2(pointer: Out<*mut c_void>, size: usize) -> Code {
    act("cuMemAllocHost", |process, line| pointer.set(as_pointer(allocate(process, line, Kind::Pinned, size)?)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> Code {
    act("cuMemFreeHost", |process, line| free(process, line, pointer as u64, &[Kind::Pinned]))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostRegister_v2(pointer: *mut c_void, size: usize, _flags: c_uint) -> Code {
    act("cuMemHostRegister", |process, line| {
        line.put_address("ptr", pointer as u64);
        line.put("size", size);
        let context = process.current()?;
        let base = NonNull::new(pointer.cast::<u8>()).filter(|_| size > 0).ok_or(INVALID_VALUE)?;
        if (pointer as u64).checked_add(size as u64).is_none() {
            return Err(INVALID_VALUE);
        }
        if let Some(code) = process.knobs.fail_register.hit(OUT_OF_MEMORY) {
            return Err(code);
        }
        let range = Range::register(base, size as u64, context.handle, context.device, process.fresh());
        process.ranges().insert(range).map(|_| ())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostUnregister(pointer: *mut c_void) -> Code {
    act("cuMemHostUnregister", |process, line| {
        line.put_address("ptr", pointer as u64);
        process.current()?.settle();
        let range = process.ranges().remove(pointer as u64, &[Kind::Registered]);
        range.map(|_| ()).ok_or(HOST_MEMORY_NOT_REGISTERED)
    })
}

/// Host memory has one address for both sides.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetDevicePointer_v2(address: Out<DevicePtr>, pointer: *mut c_void, _flags: c_uint) -> Code {
    ask(|process| {
        process.current()?;
        let known = process.ranges().find(pointer as u64).is_some_and(|range| range.is_host());
        if known { address.set(pointer as u64) } else { Err(INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetFlags(flags: Out<c_uint>, pointer: *mut c_void) -> Code {
    ask(|process| {
        let known = process.ranges().find(pointer as u64).is_some_and(|range| range.is_host());
        // Portable and mapped, whatever was asked for: that is what one address space gives.
        if known { flags.set(3) } else { Err(INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetAddressRange_v2(base: Out<DevicePtr>, size: Out<usize>, address: DevicePtr) -> Code {
    ask(|process| {
        let (start, length) = range_of(process, address).ok_or(NOT_FOUND)?;
        process.current()?;
        base.set_if_wanted(start);
        size.set_if_wanted(usize::try_from(length).map_err(|_| INVALID_VALUE)?);
        Ok(())
    })
}

/// Advice about managed memory, which lies where it lies.
#[unsafe(no_mangle)]
extern "C" fn cuMemAdvise(_address: DevicePtr, _size: usize, _advice: c_int, _device: Device) -> Code {
    ask(|process| process.current().map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPrefetchAsync(_address: DevicePtr, _size: usize, _device: Device, stream: Handle) -> Code {
    ask(|process| process.current()?.stream(stream).map(|_| ()))
}
