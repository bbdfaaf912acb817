//! Which devices there are, and what they are called.

use std::ffi::{c_int, c_uint};

use crate::abi::{Code, Device, INVALID_VALUE, NO_DEVICE};
use crate::process::{Knobs, Process};

pub const NAME: &str = "Simulated GPU";

/// What a runtime's first call does.
pub fn initialise(process: &Process, flags: c_uint) -> Result<(), Code> {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    if process.knobs.devices <= 0 {
        return Err(NO_DEVICE);
    }
    process.initialise();
    Ok(())
}

/// Domain, bus and device number: from the knob, else a made-up bus for each device.
pub fn pci_address(knobs: &Knobs, device: Device) -> (c_int, c_int, c_int) {
    let made_up = (0, 0x40 + device, 0);
    let index = usize::try_from(device).unwrap_or(usize::MAX);
    let Some(text) = knobs.pci.get(index) else { return made_up };
    let mut parts = text.split([':', '.']).map(|part| c_int::from_str_radix(part, 16));
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Ok(domain)), Some(Ok(bus)), Some(Ok(slot))) => (domain, bus, slot),
        _ => made_up,
    }
}

/// The same as the runtimes write it.
pub fn pci_text(knobs: &Knobs, device: Device) -> String {
    let (domain, bus, slot) = pci_address(knobs, device);
    format!("{domain:04X}:{bus:02X}:{slot:02X}.0")
}
