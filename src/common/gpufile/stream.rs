//! The libraries' asynchronous call, on streams. Each operation has a place for its parameters, which the library reads when the operation
//! runs, not when it is submitted, and a notice that the stream gives when it gets there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::calls::Parameters;
use super::codes::Failure;
use super::process::Library;
use super::{Device, Direct, Vendor, after_call};
use crate::common::gpu::{GpuStream, Notices};
use crate::common::transport::{Moved, Operation, Submitted, Transport};
use crate::common::wait::{Deadline, Manner};

/// Operations in flight at a time: from some 133 on libcufile fails them with EIO, and more streams at work would gain nothing.
const MOST_IN_FLIGHT: usize = 128;
/// How long a stream may be silent before it is asked whether it has failed.
const SILENCE: Duration = Duration::from_millis(100);
/// How long operations have to come back when the job ends.
const PATIENCE: Duration = Duration::from_millis(500);

/// The streams of one job.
pub struct Streams<V: Vendor> {
    library: &'static Library<V>,
    /// For what the asynchronous call must not see.
    direct: Direct<V>,
    streams: Vec<GpuStream<V::Runtime>>,
    parameters: Parameters,
    notices: Notices,
    /// By the operation's tag, which is its place among the parameters, too.
    slots: Vec<Option<Slot>>,
    /// Operations that wait until fewer are in flight.
    backlog: VecDeque<usize>,
    /// Ended without a notice.
    ended: Vec<(u32, Moved)>,
    running: usize,
    in_flight: usize,
    next: usize,
    manner: Manner,
}

#[derive(Clone, Copy)]
struct Slot {
    operation: Operation,
    /// Bytes that earlier, short calls have moved.
    done: usize,
    stream: usize,
    is_running: bool,
}

impl<V: Vendor> Streams<V> {
    /// `count` streams for `depth` operations, whose tags are below that.
    pub fn new(direct: Direct<V>, device: &Arc<Device<V>>, depth: usize, count: usize, manner: Manner) -> Result<Self, String> {
        let library = direct.library;
        if !library.calls.has_streams() {
            return Err(format!("gpu_mode=stream needs a newer {} than {}: use gpu_mode={}", V::NAME, library.version, V::OTHER_MODES));
        }
        let mut streams = Self {
            library,
            direct,
            streams: Vec::with_capacity(count),
            parameters: Parameters::new(depth),
            notices: Notices::new(depth),
            slots: (0..depth).map(|_| None).collect(),
            backlog: VecDeque::with_capacity(depth),
            ended: Vec::with_capacity(depth),
            running: 0,
            in_flight: 0,
            next: 0,
            manner,
        };
        for _ in 0..count {
            let stream = GpuStream::new(device)?;
            if let Err(failure) = library.calls.register_stream(stream.address()) {
                streams.deregister();
                let why = Library::<V>::explain(failure);
                return Err(format!("{}StreamRegister: {why}; use gpu_mode={}", V::PREFIX, V::OTHER_MODES));
            }
            streams.streams.push(stream);
        }
        Ok(streams)
    }

    fn deregister(&self) {
        self.streams.iter().for_each(|stream| self.library.calls.deregister_stream(stream.address()));
    }

    /// Starts what waits, as far as there is room.
    fn pump(&mut self) {
        while self.running < MOST_IN_FLIGHT {
            let Some(name) = self.backlog.pop_front() else { return };
            let Some(slot) = &mut self.slots[name] else { continue };
            if Direct::<V>::must_go_round(&slot.operation, slot.done) {
                self.go_round(name);
                continue;
            }
            slot.stream = self.next;
            slot.is_running = true;
            self.next = (self.next + 1) % self.streams.len();
            let stream = &self.streams[slot.stream];
            self.running += 1;
            let started = self.library.calls.start(&slot.operation, slot.done, &self.parameters, name, stream.address());
            match started {
                Ok(()) => {
                    // Without a notice the stream is waited for: the result is there afterwards.
                    if self.notices.ask(stream, name).is_err() {
                        let result = stream.finish().map(|()| self.parameters.moved::<V>(name));
                        self.end(name, result.unwrap_or(Err(Failure::Errno(libc::EIO))));
                    }
                }
                Err(failure) => self.end(name, Err(failure)),
            }
        }
    }

    #[cold]
    fn go_round(&mut self, name: usize) {
        let Some(slot) = self.slots[name].take() else { return };
        let moved = self.direct.run_rest(&slot.operation, slot.done);
        self.ended.push((slot.operation.tag, moved));
    }

    /// Takes the result of one call: the operation has ended, or its rest goes before everything that waits.
    fn end(&mut self, name: usize, result: Result<usize, Failure>) {
        let Some(mut slot) = self.slots[name].take() else { return };
        self.running -= 1;
        match after_call(result, &mut slot.done, slot.operation.buffer.len()) {
            Some(moved) => self.ended.push((slot.operation.tag, moved)),
            None => {
                self.slots[name] = Some(Slot { is_running: false, ..slot });
                self.backlog.push_front(name);
            }
        }
    }

    fn collect(&mut self) {
        while let Some(name) = self.notices.next() {
            let result = self.parameters.moved::<V>(name);
            self.end(name, result);
        }
    }

    /// Fails what is on a stream that has failed: it gives no notice any more.
    #[cold]
    fn check_streams(&mut self) {
        for index in 0..self.streams.len() {
            let Err(error) = self.streams[index].is_done() else { continue };
            for name in 0..self.slots.len() {
                if self.slots[name].as_ref().is_some_and(|slot| slot.is_running && slot.stream == index) {
                    self.end(name, Err(Failure::Runtime(error.0)));
                }
            }
        }
    }
}

impl<V: Vendor> Transport for Streams<V> {
    fn path(&self) -> &'static str {
        V::STREAM_PATH
    }

    fn submit(&mut self, operation: &Operation) -> Submitted {
        let name = operation.tag as usize;
        self.slots[name] = Some(Slot { operation: *operation, done: 0, stream: 0, is_running: false });
        self.backlog.push_back(name);
        self.in_flight += 1;
        Submitted::InFlight
    }

    fn commit(&mut self) -> Result<(), i32> {
        self.pump();
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(u32, Moved)) -> Result<(), i32> {
        let deadline = Deadline::after(timeout);
        let min = min.min(self.in_flight).min(max);
        let (mut found, mut turns) = (0, 0);
        let mut silence = Deadline::after(Some(SILENCE));
        loop {
            let ticket = self.notices.bell().ticket();
            self.collect();
            self.pump();
            let count = self.ended.len().min(max - found);
            self.ended.drain(..count).for_each(|(tag, moved)| done(tag, moved));
            self.in_flight -= count;
            found += count;
            if found >= min || deadline.is_past() {
                return Ok(());
            }
            if silence.is_past() {
                self.check_streams();
                silence = Deadline::after(Some(SILENCE));
            } else {
                self.manner.pause(&mut turns, self.notices.bell(), ticket, deadline.sooner(&silence));
            }
        }
    }

    fn cancel(&mut self) -> bool {
        // What waits never ran.
        for name in std::mem::take(&mut self.backlog) {
            self.slots[name] = None;
        }
        let deadline = Deadline::after(Some(PATIENCE));
        while self.running > 0 && !deadline.is_past() {
            self.collect();
            for name in std::mem::take(&mut self.backlog) {
                self.slots[name] = None; // the rest of a short one
            }
            self.check_streams();
            std::thread::yield_now();
        }
        let is_quiet = self.running == 0;
        if !is_quiet {
            self.parameters.leak(); // the library may still read them
        }
        self.deregister();
        let streams = std::mem::take(&mut self.streams);
        if !is_quiet {
            std::mem::forget(streams); // destroying one would wait for ever
        }
        self.in_flight = 0;
        is_quiet
    }
}
