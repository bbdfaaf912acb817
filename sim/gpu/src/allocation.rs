//! Allocating memory and freeing it.

use sim_common::log::Line;

use crate::abi::{Code, INVALID_VALUE, OUT_OF_MEMORY};
use crate::memory::{Kind, Range};
use crate::process::Process;

/// Allocates in the current context; the address.
pub fn allocate(process: &Process, line: &mut Line, kind: Kind, size: usize) -> Result<u64, Code> {
    line.put("size", size);
    let context = process.current()?;
    context.shared().check()?;
    if size == 0 {
        return Err(INVALID_VALUE);
    }
    let knob = if kind == Kind::Pinned { &process.knobs.fail_register } else { &process.knobs.fail_alloc };
    if let Some(code) = knob.hit(OUT_OF_MEMORY) {
        return Err(code);
    }
    let size = size as u64;
    let mut ranges = process.ranges();
    let on_device = kind != Kind::Pinned;
    if on_device && ranges.used(context.device).saturating_add(size) > process.knobs.memory {
        return Err(OUT_OF_MEMORY);
    }
    let range = Range::allocate(kind, size, context.handle, context.device, process.fresh());
    let range = ranges.insert(range.map_err(|_| OUT_OF_MEMORY)?)?;
    line.put_address("ptr", range.base);
    Ok(range.base)
}

/// Frees what begins exactly here; null is nothing to free.
pub fn free(process: &Process, line: &mut Line, address: u64, kinds: &[Kind]) -> Result<(), Code> {
    line.put_address("ptr", address);
    let context = process.current()?;
    if address == 0 {
        return Ok(());
    }
    context.settle();
    let range = process.ranges().remove(address, kinds).ok_or(INVALID_VALUE)?;
    line.put("size", range.size);
    Ok(())
}

/// Start and size of the allocation that holds an address.
pub fn range_of(process: &Process, address: u64) -> Option<(u64, u64)> {
    process.ranges().find(address).map(|range| (range.base, range.size))
}
