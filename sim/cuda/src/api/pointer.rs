//! What the driver says about an address.

use std::ffi::{c_int, c_uint, c_void};

use sim_gpu::abi::{Code, DevicePtr, INVALID_VALUE, MEMORY_DEVICE, MEMORY_HOST, NOT_SUPPORTED, pointer};
use sim_gpu::memory::{Kind, Range};
use sim_gpu::process::ask;

/// Stores one attribute of an address; for an unknown address the value that stands for «none».
///
/// # Safety
/// `to` has room for the attribute's type, as its documentation says.
unsafe fn store(to: *mut c_void, attribute: c_int, address: u64, range: Option<&Range>) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let kind = range.map(|range| range.kind);
    // SAFETY: not null, and of each attribute's own type by this function's contract.
    unsafe {
        match attribute {
            pointer::CONTEXT => to.cast::<usize>().write(range.map_or(0, |range| range.context)),
            pointer::MEMORY_TYPE => to.cast::<c_uint>().write(match kind {
                Some(Kind::Device | Kind::Managed) => MEMORY_DEVICE,
                Some(Kind::Pinned | Kind::Registered) => MEMORY_HOST,
                None => 0,
            }),
            pointer::DEVICE_POINTER => to.cast::<u64>().write(range.map_or(0, |_| address)),
            pointer::HOST_POINTER => {
                let reached = kind.is_some_and(|kind| kind != Kind::Device);
                if range.is_some() && !reached {
                    return Err(INVALID_VALUE);
                }
                to.cast::<u64>().write(if reached { address } else { 0 });
            }
            pointer::BUFFER_ID => to.cast::<u64>().write(range.map_or(0, |range| range.id)),
            pointer::IS_MANAGED => to.cast::<u8>().write(u8::from(kind == Some(Kind::Managed))),
            pointer::DEVICE_ORDINAL => to.cast::<c_int>().write(range.map_or(-2, |range| range.device)),
            pointer::RANGE_START => to.cast::<u64>().write(range.map_or(0, |range| range.base)),
            pointer::RANGE_SIZE => to.cast::<u64>().write(range.map_or(0, |range| range.size)),
            pointer::MAPPED => to.cast::<u8>().write(u8::from(range.is_some())),
            pointer::SYNC_MEMOPS | pointer::IS_LEGACY_IPC_CAPABLE | pointer::IS_GPU_DIRECT_RDMA_CAPABLE => {
                to.cast::<u8>().write(0);
            }
            pointer::ALLOWED_HANDLE_TYPES | pointer::MEMPOOL_HANDLE => to.cast::<u64>().write(0),
            pointer::ACCESS_FLAGS => to.cast::<c_uint>().write(3),
            _ => return Err(NOT_SUPPORTED),
        }
    }
    Ok(())
}

/// # Safety
/// `value` has room for the attribute's type.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttribute(value: *mut c_void, attribute: c_int, address: DevicePtr) -> Code {
    ask(|process| {
        process.current()?;
        let range = process.ranges().find(address).cloned().ok_or(INVALID_VALUE)?;
        // SAFETY: this function's own contract.
        unsafe { store(value, attribute, address, Some(&range)) }
    })
}

/// Several attributes at once; here an unknown address is no error.
///
/// # Safety
/// `attributes` and `values` have `count` entries, each value with room for its attribute's type.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    attributes: *const c_int,
    values: *const *mut c_void,
    address: DevicePtr,
) -> Code {
    ask(|process| {
        process.current()?;
        if attributes.is_null() || values.is_null() {
            return Err(INVALID_VALUE);
        }
        let range = process.ranges().find(address).cloned();
        for index in 0..count as usize {
            // SAFETY: `index` is below `count`, the number of entries that both arrays have by the contract.
            let (attribute, to) = unsafe { (attributes.add(index).read(), values.add(index).read()) };
            // SAFETY: by the contract the entry has room for its attribute's type.
            match unsafe { store(to, attribute, address, range.as_deref()) } {
                // A host pointer to device memory is null when asked for in a list.
                Err(_) if attribute == pointer::HOST_POINTER && !to.is_null() => {
                    // SAFETY: not null, and room for a pointer by the contract.
                    unsafe { to.cast::<u64>().write(0) };
                }
                other => other?,
            }
        }
        Ok(())
    })
}

/// `SYNC_MEMOPS` is all that can be set, and is how this driver behaves anyway.
#[unsafe(no_mangle)]
extern "C" fn cuPointerSetAttribute(value: *const c_void, attribute: c_int, address: DevicePtr) -> Code {
    ask(|process| {
        process.current()?;
        if value.is_null() || process.ranges().find(address).is_none() {
            return Err(INVALID_VALUE);
        }
        if attribute == pointer::SYNC_MEMOPS { Ok(()) } else { Err(NOT_SUPPORTED) }
    })
}
