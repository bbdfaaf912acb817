//! Copies, synchronous and on streams.

use std::ffi::c_void;

use sim_gpu::abi::{Code, DevicePtr, Handle};
use sim_gpu::copy::{Copy, End, copy, copy_async};
use sim_gpu::process::act;

fn host(pointer: *const c_void) -> (End, u64) {
    (End::Host, pointer as u64)
}

fn device(address: DevicePtr) -> (End, u64) {
    (End::Device, address)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(to: DevicePtr, from: *const c_void, length: usize) -> Code {
    copy("cuMemcpyHtoD", Copy { to: device(to), from: host(from), length })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: DevicePtr, length: usize) -> Code {
    copy("cuMemcpyDtoH", Copy { to: host(to), from: device(from), length })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: DevicePtr, from: DevicePtr, length: usize) -> Code {
    copy("cuMemcpyDtoD", Copy { to: device(to), from: device(from), length })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpy(to: DevicePtr, from: DevicePtr, length: usize) -> Code {
    copy("cuMemcpy", Copy { to: (End::Any, to), from: (End::Any, from), length })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeer(to: DevicePtr, _: Handle, from: DevicePtr, _: Handle, length: usize) -> Code {
    copy("cuMemcpyPeer", Copy { to: device(to), from: device(from), length })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(to: DevicePtr, from: *const c_void, length: usize, stream: Handle) -> Code {
    copy_async("cuMemcpyHtoDAsync", Copy { to: device(to), from: host(from), length }, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: DevicePtr, length: usize, stream: Handle) -> Code {
    copy_async("cuMemcpyDtoHAsync", Copy { to: host(to), from: device(from), length }, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: DevicePtr, from: DevicePtr, length: usize, stream: Handle) -> Code {
    copy_async("cuMemcpyDtoDAsync", Copy { to: device(to), from: device(from), length }, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyAsync(to: DevicePtr, from: DevicePtr, length: usize, stream: Handle) -> Code {
    copy_async("cuMemcpyAsync", Copy { to: (End::Any, to), from: (End::Any, from), length }, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeerAsync(to: DevicePtr, _: Handle, from: DevicePtr, _: Handle, length: usize, stream: Handle) -> Code {
    copy_async("cuMemcpyPeerAsync", Copy { to: device(to), from: device(from), length }, stream)
}

/// Writes by other devices are seen at once here.
#[unsafe(no_mangle)]
extern "C" fn cuFlushGPUDirectRDMAWrites(_target: i32, _scope: i32) -> Code {
    act("cuFlushGPUDirectRDMAWrites", |process, _| process.current().map(|_| ()))
}
