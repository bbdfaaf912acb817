//! The functions that the library exports, but for the file call.

use std::ffi::{c_char, c_int, c_uint, c_void};

use sim_gpu::abi::{Code, DevicePtr, Handle, HostFn, INVALID_VALUE, NOT_FOUND, Out, copy_string};
use sim_gpu::allocation::{allocate, free, range_of};
use sim_gpu::copy::{Copy, End, copy, copy_async};
use sim_gpu::devices::{NAME, initialise, pci_text};
use sim_gpu::fill::Fill;
use sim_gpu::memory::Kind;
use sim_gpu::process::{act, ask, before_init};
use sim_gpu::{context, queue};

use crate::device::{choose, ensure, on_device};

/// What the runtimes of ROCm 7.2 and 6.4 say.
const VERSION: c_int = if cfg!(rocm6) { 60_443_484 } else { 70_253_211 };

#[unsafe(no_mangle)]
extern "C" fn hipInit(flags: c_uint) -> Code {
    before_init("hipInit", |process| initialise(process, flags))
}

#[unsafe(no_mangle)]
extern "C" fn hipRuntimeGetVersion(version: Out<c_int>) -> Code {
    before_init("hipRuntimeGetVersion", |process| version.set(process.knobs.version.unwrap_or(VERSION)))
}

#[unsafe(no_mangle)]
extern "C" fn hipGetDeviceCount(count: Out<c_int>) -> Code {
    ask(|process| count.set(process.knobs.devices))
}

#[unsafe(no_mangle)]
extern "C" fn hipDeviceGet(device: Out<c_int>, ordinal: c_int) -> Code {
    ask(|process| {
        process.check_device(ordinal)?;
        device.set(ordinal)
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipDeviceGetName(name: Out<c_char>, room: c_int, device: c_int) -> Code {
    ask(|process| {
        process.check_device(device)?;
        copy_string(name, room, NAME)
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipDeviceGetPCIBusId(text: Out<c_char>, room: c_int, device: c_int) -> Code {
    ask(|process| {
        process.check_device(device)?;
        copy_string(text, room, &pci_text(&process.knobs, device))
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipSetDevice(device: c_int) -> Code {
    act("hipSetDevice", |process, line| {
        line.put("on", device);
        choose(process, device, line)
    })
}

/// Zero for a thread that has chosen none.
#[unsafe(no_mangle)]
extern "C" fn hipGetDevice(device: Out<c_int>) -> Code {
    ask(|process| device.set(if context::current() == 0 { 0 } else { process.current()?.device }))
}

#[unsafe(no_mangle)]
extern "C" fn hipDeviceSynchronize() -> Code {
    on_device("hipDeviceSynchronize", |process, _| process.current()?.synchronize())
}

#[unsafe(no_mangle)]
extern "C" fn hipMalloc(pointer: Out<DevicePtr>, size: usize) -> Code {
    on_device("hipMalloc", |process, line| pointer.set(allocate(process, line, Kind::Device, size)?))
}

#[unsafe(no_mangle)]
extern "C" fn hipMallocManaged(pointer: Out<DevicePtr>, size: usize, _flags: c_uint) -> Code {
    on_device("hipMallocManaged", |process, line| pointer.set(allocate(process, line, Kind::Managed, size)?))
}

#[unsafe(no_mangle)]
extern "C" fn hipHostMalloc(pointer: Out<DevicePtr>, size: usize, _flags: c_uint) -> Code {
    on_device("hipHostMalloc", |process, line| pointer.set(allocate(process, line, Kind::Pinned, size)?))
}

#[unsafe(no_mangle)]
extern "C" fn hipFree(pointer: DevicePtr) -> Code {
    on_device("hipFree", |process, line| free(process, line, pointer, &[Kind::Device, Kind::Managed]))
}

#[unsafe(no_mangle)]
extern "C" fn hipHostFree(pointer: DevicePtr) -> Code {
    on_device("hipHostFree", |process, line| free(process, line, pointer, &[Kind::Pinned]))
}

#[unsafe(no_mangle)]
extern "C" fn hipMemGetAddressRange(base: Out<DevicePtr>, size: Out<usize>, address: DevicePtr) -> Code {
    on_device("hipMemGetAddressRange", |process, _| {
        let (start, length) = range_of(process, address).ok_or(NOT_FOUND)?;
        base.set_if_wanted(start);
        size.set_if_wanted(usize::try_from(length).map_err(|_| INVALID_VALUE)?);
        Ok(())
    })
}

/// `hipPointerAttribute_t`.
#[repr(C)]
struct Attributes {
    /// `hipMemoryType`: 1 is the host's, 2 a device's, 3 managed.
    kind: c_int,
    device: c_int,
    device_pointer: DevicePtr,
    host_pointer: DevicePtr,
    is_managed: c_int,
    flags: c_uint,
}

#[unsafe(no_mangle)]
extern "C" fn hipPointerGetAttributes(attributes: Out<Attributes>, address: DevicePtr) -> Code {
    ask(|process| {
        let range = process.ranges().find(address).cloned().ok_or(INVALID_VALUE)?;
        let kind = match range.kind {
            Kind::Device => 2,
            Kind::Managed => 3,
            Kind::Pinned | Kind::Registered => 1,
        };
        let host_pointer = if range.kind == Kind::Device { 0 } else { address };
        let is_managed = c_int::from(range.kind == Kind::Managed);
        attributes.set(Attributes { kind, device: range.device, device_pointer: address, host_pointer, is_managed, flags: 0 })
    })
}

/// A copy on the thread's device.
fn started(name: &str, to: (End, u64), from: (End, u64), length: usize, stream: Handle) -> Code {
    match ask(ensure) {
        0 => copy_async(name, Copy { to, from, length }, stream),
        code => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hipMemcpyHtoDAsync(to: DevicePtr, from: DevicePtr, length: usize, stream: Handle) -> Code {
    started("hipMemcpyHtoDAsync", (End::Device, to), (End::Host, from), length, stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipMemcpyDtoHAsync(to: DevicePtr, from: DevicePtr, length: usize, stream: Handle) -> Code {
    started("hipMemcpyDtoHAsync", (End::Host, to), (End::Device, from), length, stream)
}

/// The direction is not needed: an address says what it is.
#[unsafe(no_mangle)]
extern "C" fn hipMemcpyAsync(to: DevicePtr, from: DevicePtr, length: usize, _direction: c_int, stream: Handle) -> Code {
    started("hipMemcpyAsync", (End::Any, to), (End::Any, from), length, stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipMemcpy(to: DevicePtr, from: DevicePtr, length: usize, _direction: c_int) -> Code {
    match ask(ensure) {
        0 => copy("hipMemcpy", Copy { to: (End::Any, to), from: (End::Any, from), length }),
        code => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hipMemsetD8Async(to: DevicePtr, value: u8, width: usize, stream: Handle) -> Code {
    Fill { to, value: [value], width, pitch: 0, height: 1 }.run("hipMemsetD8Async", Some(stream))
}

#[unsafe(no_mangle)]
extern "C" fn hipMemset2DAsync(to: DevicePtr, pitch: usize, value: c_int, width: usize, height: usize, stream: Handle) -> Code {
    // An int of which the low byte counts.
    Fill { to, value: [value.to_le_bytes()[0]], width, pitch, height }.run("hipMemset2DAsync", Some(stream))
}

#[cfg(not(rocm6))]
#[unsafe(no_mangle)]
extern "C" fn hipMemsetD2D32Async(to: DevicePtr, pitch: usize, value: u32, width: usize, height: usize, stream: Handle) -> Code {
    Fill { to, value: value.to_ne_bytes(), width, pitch, height }.run("hipMemsetD2D32Async", Some(stream))
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamCreateWithFlags(stream: Out<Handle>, flags: c_uint) -> Code {
    on_device("hipStreamCreateWithFlags", |process, line| queue::create(process, line, stream, flags, 0))
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamDestroy(stream: Handle) -> Code {
    queue::destroy("hipStreamDestroy", stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamSynchronize(stream: Handle) -> Code {
    queue::synchronize("hipStreamSynchronize", stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamQuery(stream: Handle) -> Code {
    queue::query(stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamGetDevice(stream: Handle, device: Out<c_int>) -> Code {
    queue::device_of(stream, device)
}

/// # Safety
/// `function` may be called with `data` from another thread until the stream has passed it.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipLaunchHostFunc(stream: Handle, function: Option<HostFn>, data: *mut c_void) -> Code {
    // SAFETY: this function's own contract.
    unsafe { queue::launch_host("hipLaunchHostFunc", stream, function, data) }
}
