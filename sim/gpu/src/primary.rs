//! Contexts in the tables of the process, and the primary one of each device.

use std::ffi::c_uint;

use sim_common::log::Line;

use crate::abi::{Code, Device, Handle, INVALID_CONTEXT};
use crate::context::Context;
use crate::process::Process;

/// Makes a context under a handle and enters it in the tables.
pub fn open(process: &Process, handle: Handle, device: Device, flags: c_uint) {
    let context = Context::new(handle, device, process.fresh(), flags);
    process.tables().contexts.insert(handle, context);
}

/// Ends a context with all that it owns, and says in the log's line what was left.
pub fn close(process: &Process, handle: Handle, line: &mut Line) -> Result<(), Code> {
    let context = process.tables().take_context(handle)?;
    end(process, &context, line);
    Ok(())
}

fn end(process: &Process, context: &Context, line: &mut Line) {
    let (streams, events) = context.close();
    let ranges = process.ranges().remove_context(context.handle);
    line.put("on", context.device);
    line.put("left_ranges", ranges);
    line.put("left_streams", streams);
    line.put("left_events", events);
}

/// Counts one more user of a device's primary context, which the first one makes.
pub fn retain(process: &Process, device: Device, line: &mut Line) -> Result<Handle, Code> {
    line.put("on", device);
    process.check_device(device)?;
    let (fresh, id) = (process.fresh_handle(), process.fresh());
    // The context is there before the tables are free again: libcufile's threads retain it at the same time, and use it at once.
    let tables = &mut *process.tables();
    let primary = tables.primary.entry(device).or_default();
    // The handle stays a device's own for good: a context left current is found again when it is retained anew.
    if primary.handle == 0 {
        primary.handle = fresh;
    }
    primary.retained += 1;
    tables.contexts.entry(primary.handle).or_insert_with(|| Context::new(primary.handle, device, id, primary.flags));
    Ok(primary.handle)
}

/// Counts one user less; the last one ends the context.
pub fn release(process: &Process, device: Device, line: &mut Line) -> Result<(), Code> {
    line.put("on", device);
    process.check_device(device)?;
    let last = {
        let mut tables = process.tables();
        let primary = tables.primary.entry(device).or_default();
        primary.retained = primary.retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        let (handle, last) = (primary.handle, primary.retained == 0);
        last.then(|| tables.take_context(handle)).transpose()?
    };
    if let Some(context) = last {
        end(process, &context, line);
    }
    Ok(())
}
