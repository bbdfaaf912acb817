//! Closing a device by force, in a thread of its own: it waits for every job that has not collected what has ended, and for ever where the library
//! looks in vain for a server that it has lost, since it keeps the device's lock then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use super::calls::{DeviceId, Library};
use super::codes::DONE;
use super::log;
use crate::common::wait::Deadline;

/// How long it may last.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// The closing of one device.
#[derive(Default)]
pub struct Closing {
    is_done: AtomicBool,
}

impl Closing {
    /// Cancels what is in flight on the device, gives up its memory and disconnects it. Once only.
    pub fn begin(self: &Arc<Self>, library: &'static Library, id: DeviceId) {
        let closing = self.clone();
        let close = move || closing.is_done.store(library.force_close(&id) == DONE, Ordering::Release);
        let _ = Builder::new().name("gpuio-close".to_owned()).spawn(close); // without a thread it stays as it is
    }

    /// Waits until the device is closed, by this or by the library: the process must not end meanwhile. What this job had in flight is collected.
    pub fn wait(&self) {
        let deadline = Deadline::after(Some(PATIENCE));
        while !self.is_done() && !log::has_stopped() && !deadline.is_past() {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }
}
