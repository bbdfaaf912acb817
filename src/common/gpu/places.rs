//! What the driver says of its devices, for people and for the search in sysfs.

use std::ffi::{CStr, c_char, c_int};

use super::{Cuda, CudaDevice, Place, Status, numa_node};

impl Cuda {
    /// All devices with their PCI addresses; none of them gets a context.
    pub fn addresses(&self) -> Vec<(u32, Option<String>)> {
        let address = |ordinal| {
            let mut device = 0;
            // SAFETY: a place for an int.
            let known = unsafe { (self.calls.cuDeviceGet)(&mut device, ordinal as c_int) } == 0;
            (ordinal, said_of(self.calls.cuDeviceGetPCIBusId, device).filter(|_| known))
        };
        (0..self.count()).map(address).collect()
    }
}

impl CudaDevice {
    pub(super) fn find_place(&self) -> Place {
        let pci = said_of(self.cuda.calls.cuDeviceGetPCIBusId, self.device);
        Place {
            ordinal: self.place.ordinal,
            name: said_of(self.cuda.calls.cuDeviceGetName, self.device).unwrap_or_else(|| "unnamed".to_owned()),
            numa_node: pci.as_deref().and_then(numa_node),
            pci,
        }
    }
}

/// A text that the driver has about a device.
fn said_of(call: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Status, device: c_int) -> Option<String> {
    let mut raw = [0u8; 256];
    // SAFETY: the buffer is as long as said; the driver ends the text in NUL.
    let status = unsafe { call(raw.as_mut_ptr().cast(), raw.len() as c_int - 1, device) };
    let text = CStr::from_bytes_until_nul(&raw).ok().and_then(|text| text.to_str().ok());
    text.filter(|text| status == 0 && !text.is_empty()).map(str::to_owned)
}
