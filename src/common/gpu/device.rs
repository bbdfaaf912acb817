//! One device of a job, with a stream for the job's copies.

use std::ffi::c_int;
use std::sync::Arc;

use super::calls::StreamHandle;
use super::{Context, Runtime, Vendor};
use crate::common::device::{Device, DeviceError, Kind, Place, SECTOR};
use crate::common::transport::Buffer;

/// Smaller blocks share a page of the device's, at any multiple of 512 bytes; what fills its pages starts at one, as pinning for I/O wants.
const PAGE: usize = 2 << 20;

/// A device that is open; closed when dropped.
pub struct GpuDevice<V: Vendor> {
    pub(super) runtime: &'static Runtime<V>,
    pub(super) place: Place,
    device: c_int,
    context: Context,
    /// None while the device is being opened.
    stream: Option<StreamHandle>,
}

impl<V: Vendor> GpuDevice<V> {
    /// Opens device `ordinal` and makes it current in this thread. No other device gets a context.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, String> {
        let runtime = Runtime::<V>::get()?;
        let count = runtime.count();
        if ordinal >= count {
            let have = if count == 1 { "there is only device 0".to_owned() } else { format!("there are devices 0 to {}", count - 1) };
            return Err(format!("gpu_dev_ids={ordinal}: {have}; name one of them ({} hides devices, too)", V::VISIBLE));
        }
        let failed = |call: &str, error| format!("{call} on device {ordinal}: {}{}", runtime.explain(error), hint::<V>(error));
        let device = runtime.calls.device(ordinal).map_err(|error| failed(super::name_of::<V>("device"), error))?;
        let context = runtime.own.take(device).map_err(|(call, error)| failed(call, error))?;
        let mut opened = Self { runtime, place: runtime.place_of(ordinal, device), device, context, stream: None };
        opened.enter().map_err(|error| failed("making it current", error))?;
        opened.stream = Some(runtime.calls.make_stream().map_err(|error| failed(super::name_of::<V>("make_stream"), error))?);
        Ok(Arc::new(opened))
    }

    /// The stream of the copies. Every runtime takes 0 for its default stream.
    #[inline]
    fn stream(&self) -> StreamHandle {
        self.stream.unwrap_or(StreamHandle(0))
    }
}

/// What to do about the codes that users meet; the vendors number them alike.
fn hint<V: Vendor>(error: DeviceError) -> String {
    match error.0 {
        2 => "; too many processes on the device, or no memory left: use thread=1, fewer jobs, or a lower iodepth or block size".to_owned(),
        101 => format!("; check gpu_dev_ids and {}", V::VISIBLE),
        _ => String::new(),
    }
}

impl<V: Vendor> Device for GpuDevice<V> {
    fn place(&self) -> &Place {
        &self.place
    }

    fn driver(&self) -> String {
        format!("{} {}", V::NAME, V::version(self.runtime.version))
    }

    fn enter(&self) -> Result<(), DeviceError> {
        self.runtime.own.enter(self.device, self.context)
    }

    fn allocate(&self, kind: Kind, bytes: usize) -> Result<usize, DeviceError> {
        let whole = if kind == Kind::Device { bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes) } else { bytes };
        self.runtime.calls.allocate(kind, whole)
    }

    fn free(&self, kind: Kind, address: usize) {
        self.runtime.calls.free(kind, address);
    }

    fn pin(&self, address: usize, bytes: usize) -> Result<(), DeviceError> {
        self.enter()?;
        self.runtime.calls.pin(address, bytes)
    }

    fn unpin(&self, address: usize) {
        if self.enter().is_ok() {
            self.runtime.calls.unpin(address);
        }
    }

    fn clear(&self, address: usize, bytes: usize) -> Result<(), DeviceError> {
        self.runtime.calls.start_clearing(address, bytes, self.stream())?;
        self.finish_copies()
    }

    fn copy_in(&self, to: usize, from: Buffer) -> Result<(), DeviceError> {
        self.start_copy_in(to, from)?;
        self.finish_copies()
    }

    fn copy_out(&self, from: usize, to: Buffer) -> Result<(), DeviceError> {
        self.start_copy_out(from, to)?;
        self.finish_copies()
    }

    fn start_copy_in(&self, to: usize, from: Buffer) -> Result<(), DeviceError> {
        self.runtime.calls.start_copy_in(to, from, self.stream())
    }

    fn start_copy_out(&self, from: usize, to: Buffer) -> Result<(), DeviceError> {
        self.runtime.calls.start_copy_out(from, to, self.stream())
    }

    fn finish_copies(&self) -> Result<(), DeviceError> {
        self.runtime.calls.finish_stream(self.stream())
    }

    fn stamp(&self, address: usize, bytes: usize, value: u32) -> Result<(), DeviceError> {
        // The last sector may be cut short; it is marked where it has room for a mark.
        let sectors = (bytes + SECTOR - 4) / SECTOR;
        if sectors == 0 {
            return Ok(());
        }
        self.runtime.own.start_stamps(address, SECTOR, value, sectors, self.stream())?;
        self.finish_copies()
    }

    fn explain(&self, error: DeviceError) -> String {
        format!("{}{}", self.runtime.explain(error), hint::<V>(error))
    }
}

impl<V: Vendor> Drop for GpuDevice<V> {
    fn drop(&mut self) {
        if let Some(stream) = self.stream {
            self.runtime.calls.destroy_stream(stream);
        }
        self.runtime.own.give_back(self.device);
    }
}
