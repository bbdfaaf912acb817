//! What a runtime says of its devices, for people and for the search in sysfs.

use std::ffi::c_int;

use super::{Runtime, Vendor};
use crate::common::device::{Place, numa_node};

impl<V: Vendor> Runtime<V> {
    /// All devices with their PCI addresses; none of them gets a context.
    pub fn addresses(&self) -> Vec<(u32, Option<String>)> {
        let address = |ordinal| (ordinal, self.calls.device(ordinal).ok().and_then(|device| self.calls.device_address(device)));
        (0..self.count()).map(address).collect()
    }

    pub(super) fn place_of(&self, ordinal: u32, device: c_int) -> Place {
        let pci = self.calls.device_address(device);
        let name = self.calls.device_name(device).unwrap_or_else(|| "unnamed".to_owned());
        Place { ordinal, name, numa_node: pci.as_deref().and_then(numa_node), pci }
    }
}
