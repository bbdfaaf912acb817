//! Initialisation, versions and devices.

use std::ffi::{CStr, c_char, c_int, c_uint};

use sim_gpu::abi::{Code, Device, INVALID_DEVICE, INVALID_VALUE, Out, PEER_ACCESS_ALREADY_ENABLED, Uuid, copy_string};
use sim_gpu::devices::{NAME, initialise, pci_address, pci_text};
use sim_gpu::process::{Knobs, ask, before_init};

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> Code {
    before_init("cuInit", |process| initialise(process, flags))
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: Out<c_int>) -> Code {
    before_init("cuDriverGetVersion", |process| version.set(process.knobs.version.unwrap_or(12_080)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: Out<c_int>) -> Code {
    ask(|process| count.set(process.knobs.devices))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: Out<Device>, ordinal: c_int) -> Code {
    ask(|process| {
        process.check_device(ordinal)?;
        device.set(ordinal)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: Out<c_char>, room: c_int, device: Device) -> Code {
    ask(|process| {
        process.check_device(device)?;
        copy_string(name, room, NAME)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(uuid: Out<Uuid>, device: Device) -> Code {
    cuDeviceGetUuid_v2(uuid, device)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: Out<Uuid>, device: Device) -> Code {
    ask(|process| {
        process.check_device(device)?;
        let mut bytes = *b"gpuio simulated\0";
        bytes[15] = u8::try_from(device).map_err(|_| INVALID_DEVICE)?;
        uuid.set(bytes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: Device) -> Code {
    ask(|process| {
        process.check_device(device)?;
        bytes.set(usize::try_from(process.knobs.memory).map_err(|_| INVALID_VALUE)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetPCIBusId(text: Out<c_char>, room: c_int, device: Device) -> Code {
    ask(|process| {
        process.check_device(device)?;
        copy_string(text, room, &pci_text(&process.knobs, device))
    })
}

/// # Safety
/// `text` is a C string, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetByPCIBusId(device: Out<Device>, text: *const c_char) -> Code {
    ask(|process| {
        if text.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and a C string by this function's contract.
        let wanted = unsafe { CStr::from_ptr(text) }.to_string_lossy().to_lowercase();
        let name = |(domain, bus, slot)| format!("{domain:04x}:{bus:02x}:{slot:02x}.0");
        let found = (0..process.knobs.devices).find(|&device| name(pci_address(&process.knobs, device)) == wanted);
        device.set(found.ok_or(INVALID_DEVICE)?)
    })
}

/// Attributes as a data-centre GPU of compute capability 8.0 has them, without the ways around the CPU (no RDMA, no
/// DMA buffers): nothing here could serve those.
fn attribute(knobs: &Knobs, attribute: c_int, device: Device) -> c_int {
    let (domain, bus, slot) = pci_address(knobs, device);
    match attribute {
        1..=3 => 1024,    // threads a block, block dimensions x and y
        4 => 64,          // block dimension z
        5 => c_int::MAX,  // grid dimension x
        6 | 7 => 65_535,  // grid dimensions y and z
        8 => 48 << 10,    // shared memory a block, bytes
        10 => 32,         // warp size
        11 => c_int::MAX, // pitch
        13 => 1_410_000,  // clock, kHz
        16 => 108,        // multiprocessors
        31 => 1,          // concurrent kernels
        33 => bus,
        34 => slot,
        36 => 1_593_000,                  // memory clock, kHz
        37 => 5120,                       // memory bus, bits
        38 => 40 << 20,                   // L2 cache, bytes
        39 => 2048,                       // threads a multiprocessor
        40 => 3,                          // copy engines
        15 | 19 | 41 | 78 | 83 | 99 => 1, // overlap, mapped host memory, unified addresses, priorities, managed, register
        50 => domain,
        75 => 8,
        76 => 0,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: Out<c_int>, which: c_int, device: Device) -> Code {
    ask(|process| {
        process.check_device(device)?;
        value.set(attribute(&process.knobs, which, device))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceCanAccessPeer(can: Out<c_int>, device: Device, peer: Device) -> Code {
    ask(|process| {
        process.check_device(device)?;
        process.check_device(peer)?;
        can.set(c_int::from(device != peer))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetP2PAttribute(value: Out<c_int>, _which: c_int, device: Device, peer: Device) -> Code {
    ask(|process| {
        process.check_device(device)?;
        process.check_device(peer)?;
        value.set(0)
    })
}

/// Peers reach each other always, as one address space does; the first of two calls is not told from the second.
#[unsafe(no_mangle)]
extern "C" fn cuCtxEnablePeerAccess(peer: usize, _flags: c_uint) -> Code {
    ask(|process| {
        let context = process.current()?;
        if context.handle == peer { Err(PEER_ACCESS_ALREADY_ENABLED) } else { Ok(()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxDisablePeerAccess(_peer: usize) -> Code {
    ask(|process| process.current().map(|_| ()))
}
