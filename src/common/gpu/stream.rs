//! Streams for a vendor's asynchronous calls, and notices that they give.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;

use super::calls::StreamHandle;
use super::{GpuDevice, Vendor, name_of};
use crate::common::device::DeviceError;
use crate::common::wait::Bell;

/// A stream of a device, destroyed when dropped.
pub struct GpuStream<V: Vendor> {
    device: Arc<GpuDevice<V>>,
    stream: StreamHandle,
}

impl<V: Vendor> GpuStream<V> {
    /// The device is current in this thread.
    pub fn new(device: &Arc<GpuDevice<V>>) -> Result<Self, String> {
        let runtime = device.runtime;
        if !runtime.calls.can_call_from_streams() {
            return Err(format!(
                "this {} has no function {}: it is too old for gpu_mode=stream",
                V::NAME,
                name_of::<V>("call_from_stream")
            ));
        }
        let made = runtime.calls.make_stream();
        let stream = made.map_err(|error| format!("{} on {}: {}", name_of::<V>("make_stream"), device.place, runtime.explain(error)))?;
        Ok(Self { device: Arc::clone(device), stream })
    }

    /// The handle, as a vendor's library takes it.
    pub fn address(&self) -> usize {
        self.stream.0
    }

    /// Waits until all that is on the stream has run.
    pub fn finish(&self) -> Result<(), DeviceError> {
        self.device.runtime.calls.finish_stream(self.stream)
    }

    /// Whether all that is on the stream has run; the error is the stream's own, and nothing on it will run any more.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        self.device.runtime.calls.is_stream_done(self.stream)
    }
}

impl<V: Vendor> Drop for GpuStream<V> {
    fn drop(&mut self) {
        self.device.runtime.calls.destroy_stream(self.stream);
    }
}

/// Notices that streams give, by number, when they have run what was put on them before.
pub struct Notices {
    board: Arc<Board>,
    /// What the host functions get the address of. Leaked where one never ran.
    cards: Vec<Card>,
}

struct Board {
    given: ArrayQueue<usize>,
    bell: Bell,
    /// Asked for and not given.
    open: AtomicUsize,
}

struct Card {
    board: Arc<Board>,
    number: usize,
}

impl Notices {
    /// Notices with the numbers 0 to `count` - 1, each asked for at most once at a time.
    pub fn new(count: usize) -> Self {
        let board = Arc::new(Board { given: ArrayQueue::new(count.max(1)), bell: Bell::default(), open: AtomicUsize::new(0) });
        let cards = (0..count).map(|number| Card { board: Arc::clone(&board), number }).collect();
        Self { board, cards }
    }

    /// Asks for notice `number` once the stream has run what is on it now.
    pub fn ask<V: Vendor>(&self, stream: &GpuStream<V>, number: usize) -> Result<(), DeviceError> {
        let (calls, card) = (&stream.device.runtime.calls, (&raw const self.cards[number]).cast_mut().cast());
        self.board.open.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the card lives until give() has run, or for ever (see Drop).
        let asked = unsafe { calls.call_from_stream(stream.stream, give, card) };
        if asked.is_err() {
            self.board.open.fetch_sub(1, Ordering::Relaxed);
        }
        asked
    }

    /// The number of a notice that was given.
    pub fn next(&self) -> Option<usize> {
        self.board.given.pop()
    }

    /// Rung at every notice.
    pub fn bell(&self) -> &Bell {
        &self.board.bell
    }
}

/// The host function: runs in a thread of the runtime's, and calls nothing of it.
unsafe extern "C" fn give(card: *mut c_void) {
    // SAFETY: the address of a card that lives (see Notices::ask).
    let card = unsafe { &*card.cast::<Card>() };
    let _ = card.board.given.push(card.number); // there is a place for every number
    card.board.bell.ring(1);
    card.board.open.fetch_sub(1, Ordering::Release);
}

impl Drop for Notices {
    fn drop(&mut self) {
        if self.board.open.load(Ordering::Acquire) > 0 {
            std::mem::forget(std::mem::take(&mut self.cards));
        }
    }
}
