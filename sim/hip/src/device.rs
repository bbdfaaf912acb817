//! Which device a thread works on.

use sim_common::log::Line;
use sim_gpu::abi::{Code, Device};
use sim_gpu::context;
use sim_gpu::primary::retain;
use sim_gpu::process::{Process, act};

/// Makes a device the calling thread's. Its primary context is made by the first thread that chooses it, and stays.
pub fn choose(process: &Process, device: Device, line: &mut Line) -> Result<(), Code> {
    process.check_device(device)?;
    let known = process.tables().primary.get(&device).map(|primary| primary.handle);
    let handle = match known {
        Some(handle) => handle,
        None => retain(process, device, line)?,
    };
    context::set_current(handle);
    Ok(())
}

/// Device 0 for a thread that has chosen none.
pub fn ensure(process: &Process) -> Result<(), Code> {
    if context::current() == 0 { choose(process, 0, &mut Line::new()) } else { Ok(()) }
}

/// A call that works on the thread's device.
pub fn on_device(name: &str, call: impl FnOnce(&Process, &mut Line) -> Result<(), Code>) -> Code {
    act(name, |process, line| {
        ensure(process)?;
        call(process, line)
    })
}
