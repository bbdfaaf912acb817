//! Copies, synchronous and on streams.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sim_common::log::Line;

use crate::abi::{Code, Handle, ILLEGAL_ADDRESS, INVALID_VALUE, LAUNCH_FAILED};
use crate::memory::Place;
use crate::process::{Process, act};
use crate::stream::Stream;

/// Which end a call says lies where: the host end of a copy must not be device memory, and the device end not plain
/// host memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Host,
    Device,
    Any,
}

fn place(process: &Process, end: End, address: u64, length: usize) -> Result<Place, Code> {
    let place = process.ranges().resolve(address, length as u64)?;
    match end {
        End::Host if place.is_device() => Err(INVALID_VALUE),
        End::Device if place.range.is_none() => Err(INVALID_VALUE),
        _ => Ok(place),
    }
}

fn pause(delay: Duration) {
    if !delay.is_zero() {
        thread::sleep(delay);
    }
}

/// What is copied, as the caller named it.
pub struct Copy {
    pub to: (End, u64),
    pub from: (End, u64),
    pub length: usize,
}

impl Copy {
    fn note(&self, line: &mut Line) {
        line.put_address("dst", self.to.1);
        line.put_address("src", self.from.1);
        line.put("size", self.length);
    }

    fn places(&self, process: &Process) -> Result<(Place, Place), Code> {
        let to = place(process, self.to.0, self.to.1, self.length)?;
        let from = place(process, self.from.0, self.from.1, self.length)?;
        Ok((to, from))
    }
}

pub fn copy(name: &str, copy: Copy) -> Code {
    act(name, |process, line| {
        copy.note(line);
        let context = process.current()?;
        context.shared().check()?;
        if copy.length == 0 {
            return Ok(());
        }
        let (to, from) = copy.places(process)?;
        if let Some(code) = process.knobs.fail_copy.hit(LAUNCH_FAILED) {
            return Err(code);
        }
        context.settle();
        pause(process.knobs.copy_delay);
        to.copy_from(&from, copy.length);
        context.shared().check()
    })
}

/// Bytes that are copied sooner than a thread is woken.
const BRIEF: usize = 128 << 10;

pub fn copy_async(name: &str, copy: Copy, stream: Handle) -> Code {
    act(name, |process, line| {
        copy.note(line);
        line.put_address("stream", stream as u64);
        let context = process.current()?;
        context.shared().check()?;
        let stream = context.stream(stream)?;
        if copy.length == 0 {
            return Ok(());
        }
        let (to, from) = copy.places(process)?;
        if let Some(code) = process.knobs.fail_copy.hit(LAUNCH_FAILED) {
            return Err(code);
        }
        let (delay, length) = (process.knobs.copy_delay, copy.length);
        let is_brief = delay.is_zero() && length <= BRIEF;
        on_stream(process, &stream, context.barrier(&stream), is_brief, move || {
            pause(delay);
            to.copy_from(&from, length);
        })
    })
}

/// Puts work that moves bytes into a stream; it may be told to fail when it runs.
pub fn on_stream(
    process: &Process,
    stream: &Arc<Stream>,
    after: Vec<crate::stream::Point>,
    is_brief: bool,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), Code> {
    let failure = process.knobs.fail_async.hit(ILLEGAL_ADDRESS);
    let shared = Arc::clone(stream.shared());
    let guarded = move || match failure {
        Some(code) => shared.fail(code),
        None => work(),
    };
    if is_brief { stream.enqueue_brief(after, guarded) } else { stream.enqueue(after, guarded) }.map(|_| ())
}
