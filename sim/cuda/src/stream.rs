//! Streams: queues of work, each run in order by a thread of its own.
//!
//! A piece of work has a ticket, the number of its place in the stream, and may depend on tickets of other streams,
//! always earlier ones, so that waiting cannot form a circle. The thread starts with the first piece of work.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::abi::{Code, Handle, OUT_OF_MEMORY, SUCCESS};

/// What the streams of one context share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Work enqueued and not yet done, over all streams: zero lets a synchronous call skip every lock.
    pending: AtomicU64,
    /// The first error of work that failed when it ran; the context returns it from then on.
    error: AtomicI32,
}

impl Shared {
    pub fn idle(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }

    /// The lasting error, if there is one.
    pub fn check(&self) -> Result<(), Code> {
        match self.error.load(Ordering::Acquire) {
            SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    pub fn fail(&self, code: Code) {
        // The first error stays: a later one changes nothing.
        let _ = self.error.compare_exchange(SUCCESS, code, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// A place in a stream that other work waits for.
pub type Point = (Arc<Stream>, u64);

type Work = Box<dyn FnOnce() + Send>;

struct Item {
    after: Vec<Point>,
    work: Work,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Item>,
    submitted: u64,
    completed: u64,
    closed: bool,
    running: bool,
}

/// One stream. `handle` and `context` say who it is to the API.
pub struct Stream {
    pub handle: Handle,
    pub context: Handle,
    pub flags: u32,
    pub priority: i32,
    shared: Arc<Shared>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Stream {
    pub fn new(handle: Handle, context: Handle, flags: u32, priority: i32, shared: Arc<Shared>) -> Arc<Self> {
        let (state, changed) = Default::default();
        Arc::new(Self { handle, context, flags, priority, shared, state, changed })
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic aborts (every caller is a C function), so a poisoned lock cannot be seen.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work that begins when all earlier work of this stream and all of `after` is done.
    pub fn enqueue(self: &Arc<Self>, after: Vec<Point>, work: impl FnOnce() + Send + 'static) -> Result<u64, Code> {
        let mut state = self.lock();
        if !state.running {
            let stream = Arc::clone(self);
            let name = "sim-stream".to_owned();
            thread::Builder::new().name(name).spawn(move || stream.run()).map_err(|_| OUT_OF_MEMORY)?;
            state.running = true;
        }
        self.shared.pending.fetch_add(1, Ordering::AcqRel);
        state.submitted += 1;
        state.queue.push_back(Item { after, work: Box::new(work) });
        let ticket = state.submitted;
        drop(state);
        self.changed.notify_all();
        Ok(ticket)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            let Some(item) = state.queue.pop_front() else {
                if state.closed {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            for (stream, ticket) in item.after {
                stream.wait(ticket);
            }
            (item.work)();
            self.shared.pending.fetch_sub(1, Ordering::AcqRel);
            state = self.lock();
            state.completed += 1;
            self.changed.notify_all();
        }
    }

    /// Blocks until the work with this ticket is done.
    pub fn wait(&self, ticket: u64) {
        let mut state = self.lock();
        while state.completed < ticket {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The ticket of the newest work, if it is not done yet.
    pub fn tail(&self) -> Option<u64> {
        let state = self.lock();
        (state.completed < state.submitted).then_some(state.submitted)
    }

    /// Whether the work with this ticket is done.
    pub fn is_done(&self, ticket: u64) -> bool {
        self.lock().completed >= ticket
    }

    /// No more work will come: the thread ends when the queue is empty.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}
