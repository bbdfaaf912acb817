//! The operations that a job's transport has, by the places that they keep until they are back; and when to stop waiting for them.

use std::time::{Duration, Instant};

use super::InFlight;
use crate::common::transport::Place;

/// How long nothing may come back, once fio wants to end the job, before what is still out is given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// All places are made at the start: nothing here allocates afterwards.
pub struct Flying {
    places: Vec<Option<InFlight>>,
    free: Vec<Place>,
    /// Since when nothing has come back although fio wants to end the job.
    still_since: Option<Instant>,
}

impl Flying {
    pub fn new(depth: u32) -> Self {
        Self { places: (0..depth).map(|_| None).collect(), free: (0..depth).rev().collect(), still_since: None }
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether what was out was given up.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.places.is_empty()
    }

    /// The place that the next operation gets.
    #[inline]
    pub fn next(&self) -> Option<Place> {
        self.free.last().copied()
    }

    /// The operation that got the place of [`Flying::next`] is out.
    #[inline]
    pub fn insert(&mut self, flight: InFlight) {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(flight);
        }
    }

    /// The operation that has a place.
    #[inline]
    pub fn get(&self, place: Place) -> Option<&InFlight> {
        self.places.get(place as usize)?.as_ref()
    }

    /// The operation of [`Flying::get`] is back.
    #[inline]
    pub fn remove(&mut self, place: Place) {
        self.places[place as usize] = None;
        self.free.push(place);
        self.still_since = None;
    }

    /// fio wants to end the job, and there was a wait in which nothing came back: whether that has gone on for too long.
    #[cold]
    pub fn is_stuck(&mut self) -> bool {
        self.still_since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
    }

    /// Everything that is out.
    pub fn iter(&self) -> impl Iterator<Item = InFlight> + '_ {
        self.places.iter().copied().flatten()
    }

    /// Everything that is out, which is not waited for any more; no operation gets a place from now on.
    pub fn give_up(&mut self) -> Vec<InFlight> {
        self.free = Vec::new();
        std::mem::take(&mut self.places).into_iter().flatten().collect()
    }
}
