//! Events: marks in a stream that tell when the stream has passed them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::abi::{Code, Handle, INVALID_HANDLE, NOT_READY};
use crate::stream::{Point, Stream};

#[derive(Default)]
struct State {
    /// The newest record; an older one no longer counts.
    recorded: Option<Point>,
    /// How many times it was recorded, so that a mark passed late does not stamp a newer one.
    generation: u64,
    passed_at: Option<Instant>,
}

/// One event.
pub struct Event {
    pub context: Handle,
    timed: bool,
    state: Mutex<State>,
}

impl Event {
    pub fn new(context: Handle, timed: bool) -> Arc<Self> {
        Arc::new(Self { context, timed, state: Mutex::default() })
    }

    fn with<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts the mark behind all work that the stream has now, and behind `after`.
    pub fn record(self: &Arc<Self>, stream: &Arc<Stream>, after: Vec<Point>) -> Result<(), Code> {
        let event = Arc::clone(self);
        // Held while enqueuing, so that the mark cannot pass before the record is known.
        self.with(|state| {
            let generation = state.generation + 1;
            if let Some(ticket) = stream.idle().filter(|_| after.is_empty()) {
                *state = State { recorded: Some((Arc::clone(stream), ticket)), generation, passed_at: Some(Instant::now()) };
                return Ok(());
            }
            let ticket = stream.enqueue(after, move || event.pass(generation))?;
            *state = State { recorded: Some((Arc::clone(stream), ticket)), generation, passed_at: None };
            Ok(())
        })
    }

    fn pass(&self, generation: u64) {
        self.with(|state| {
            if state.generation == generation {
                state.passed_at = Some(Instant::now());
            }
        });
    }

    /// The newest record; None for an event never recorded, which counts as passed.
    pub fn point(&self) -> Option<Point> {
        self.with(|state| state.recorded.clone())
    }

    /// Not ready until the newest record has passed.
    pub fn query(&self) -> Result<(), Code> {
        match self.point() {
            Some((stream, ticket)) if !stream.is_done(ticket) => Err(NOT_READY),
            Some((stream, _)) => stream.shared().check(),
            None => Ok(()),
        }
    }

    /// Blocks until the newest record has passed.
    pub fn synchronize(&self) -> Result<(), Code> {
        let Some((stream, ticket)) = self.point() else { return Ok(()) };
        stream.wait(ticket);
        stream.shared().check()
    }

    /// Milliseconds from `start` to this event.
    pub fn elapsed_since(&self, start: &Self) -> Result<f32, Code> {
        if !self.timed || !start.timed || self.point().is_none() || start.point().is_none() {
            return Err(INVALID_HANDLE);
        }
        start.query()?;
        self.query()?;
        let at = |event: &Self| event.with(|state| state.passed_at).ok_or(NOT_READY);
        let (from, to) = (at(start)?, at(self)?);
        let forward = to.saturating_duration_since(from).as_secs_f32();
        let backward = from.saturating_duration_since(to).as_secs_f32();
        Ok((forward - backward) * 1e3)
    }
}
