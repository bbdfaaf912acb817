//! One accelerator and its memory, whatever its vendor.

use std::sync::Arc;

use super::transport::Buffer;

/// What the I/O buffers of a job are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The device's own memory, which the CPU cannot reach.
    Device,
    /// Memory that the vendor's driver migrates; the CPU can reach it.
    Managed,
    /// Host memory locked for the device.
    Pinned,
}

/// Where a device sits.
#[derive(Debug, Clone)]
pub struct Place {
    pub ordinal: u32,
    pub name: String,
    /// `0000:17:00.0`, or nothing where the driver does not say.
    pub pci: Option<String>,
    pub numa_node: Option<u32>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "device {} ({}", self.ordinal, self.name)?;
        if let Some(pci) = &self.pci {
            write!(f, ", PCI {pci}")?;
        }
        match self.numa_node {
            Some(node) => write!(f, ", NUMA node {node})"),
            None => write!(f, ", NUMA node unknown)"),
        }
    }
}

/// The NUMA node of the device at a PCI address, from sysfs.
pub fn numa_node(pci: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/sys/bus/pci/devices/{}/numa_node", pci.to_ascii_lowercase())).ok()?;
    text.trim().parse().ok() // -1 is none
}

/// A vendor's code for a failed call, decoded by [`Device::explain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceError(pub i32);

/// A device that a job has opened. Copies are finished when they return, but for those that are only started. Addresses are the device's, in bytes.
pub trait Device: Send + Sync {
    fn place(&self) -> &Place;

    /// The device's driver and its version, for the report.
    fn driver(&self) -> String;

    /// Makes the device current in the calling thread, as every thread that uses it or its vendor's library must.
    fn enter(&self) -> Result<(), DeviceError>;

    fn allocate(&self, kind: Kind, bytes: usize) -> Result<usize, DeviceError>;

    /// Frees what [`Device::allocate`] gave for the same kind.
    fn free(&self, kind: Kind, address: usize);

    /// Locks host memory that is there already, for all devices of the process. From any thread.
    fn pin(&self, address: usize, bytes: usize) -> Result<(), DeviceError>;

    /// Undoes [`Device::pin`]. From any thread.
    fn unpin(&self, address: usize);

    /// Sets every byte of `bytes` bytes to zero.
    fn clear(&self, address: usize, bytes: usize) -> Result<(), DeviceError>;

    fn copy_in(&self, to: usize, from: Buffer) -> Result<(), DeviceError>;

    fn copy_out(&self, from: usize, to: Buffer) -> Result<(), DeviceError>;

    /// As copy_in(), finished after the next [`Device::finish_copies`]; `from` stays until then.
    fn start_copy_in(&self, to: usize, from: Buffer) -> Result<(), DeviceError> {
        self.copy_in(to, from)
    }

    /// As copy_out(), finished after the next [`Device::finish_copies`]; `to` stays until then.
    fn start_copy_out(&self, from: usize, to: Buffer) -> Result<(), DeviceError> {
        self.copy_out(from, to)
    }

    /// Waits for all copies that were started. The error is of any of them.
    fn finish_copies(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Sets the first four bytes of every 512-byte sector of the range to `value`. `address` is a multiple of 4.
    fn stamp(&self, address: usize, bytes: usize, value: u32) -> Result<(), DeviceError>;

    /// The code's name and meaning, as the vendor has them.
    fn explain(&self, error: DeviceError) -> String;
}

/// Bytes of a sector that [`Device::stamp`] marks once.
pub const SECTOR: usize = 512;

/// Host memory of somebody else's that is locked for a device until this is dropped, which has to be before it is unmapped.
pub struct PinnedRange {
    device: Arc<dyn Device>,
    address: usize,
}

impl PinnedRange {
    pub fn new(device: Arc<dyn Device>, address: usize, bytes: usize) -> Result<Self, DeviceError> {
        device.pin(address, bytes)?;
        Ok(Self { device, address })
    }
}

impl Drop for PinnedRange {
    fn drop(&mut self) {
        self.device.unpin(self.address);
    }
}

/// A block of a device's memory, freed when dropped.
pub struct DeviceMemory {
    device: Arc<dyn Device>,
    kind: Kind,
    address: usize,
}

impl DeviceMemory {
    pub fn new(device: Arc<dyn Device>, kind: Kind, bytes: usize) -> Result<Self, DeviceError> {
        let address = device.allocate(kind, bytes)?;
        Ok(Self { device, kind, address })
    }

    /// Where the block starts, on the device; for managed and pinned memory it is the host's address, too.
    pub fn address(&self) -> usize {
        self.address
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.device.free(self.kind, self.address);
    }
}
