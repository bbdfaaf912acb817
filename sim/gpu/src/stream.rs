//! Streams: queues of work, each run in order by a thread of its own.
//!
//! Who waits for a stream does its work meanwhile, as far as the thread has not begun it: a copy that is waited for at
//! once then costs no switch of threads. Host functions are left to the thread. Brief work for an idle stream is done in the call
//! that brings it, as a GPU would have done it before the thread has woken.
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
    /// Whether it must run on the stream's own thread.
    pinned: bool,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Item>,
    submitted: u64,
    completed: u64,
    closed: bool,
    /// The thread was started.
    started: bool,
    /// Someone is at the front of the queue: the thread or a waiter.
    busy: bool,
}

/// One stream. `handle` and `context` say who it is to the API.
pub struct Stream {
    pub handle: Handle,
    pub context: Handle,
    pub flags: u32,
    pub priority: i32,
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// For the thread: there may be work to begin.
    work: Condvar,
    /// For waiters: work was done.
    done: Condvar,
}

impl Stream {
    pub fn new(handle: Handle, context: Handle, flags: u32, priority: i32, shared: Arc<Shared>) -> Arc<Self> {
        let (state, work, done) = Default::default();
        Arc::new(Self { handle, context, flags, priority, shared, state, work, done })
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
        self.push(Item { after, work: Box::new(work), pinned: false })
    }

    /// As `enqueue`, for work that takes next to no time and no lock that the caller has.
    pub fn enqueue_brief(self: &Arc<Self>, after: Vec<Point>, work: impl FnOnce() + Send + 'static) -> Result<u64, Code> {
        let mut state = self.lock();
        if !after.is_empty() || state.busy || !state.queue.is_empty() {
            drop(state);
            return self.enqueue(after, work);
        }
        self.shared.pending.fetch_add(1, Ordering::AcqRel);
        state.submitted += 1;
        let ticket = state.submitted;
        drop(self.perform(state, Item { after, work: Box::new(work), pinned: false }));
        Ok(ticket)
    }

    /// The ticket of the newest work, if all is done.
    pub fn idle(&self) -> Option<u64> {
        let state = self.lock();
        (state.completed == state.submitted).then_some(state.submitted)
    }

    /// As `enqueue`, for a caller's function: it runs on the stream's own thread.
    pub fn enqueue_host(self: &Arc<Self>, after: Vec<Point>, work: impl FnOnce() + Send + 'static) -> Result<(), Code> {
        self.push(Item { after, work: Box::new(work), pinned: true }).map(|_| ())
    }

    fn push(self: &Arc<Self>, item: Item) -> Result<u64, Code> {
        let mut state = self.lock();
        if !state.started {
            let stream = Arc::clone(self);
            let builder = thread::Builder::new().name("sim-stream".to_owned());
            builder.spawn(move || stream.run()).map_err(|_| OUT_OF_MEMORY)?;
            state.started = true;
        }
        self.shared.pending.fetch_add(1, Ordering::AcqRel);
        state.submitted += 1;
        state.queue.push_back(item);
        let ticket = state.submitted;
        drop(state);
        self.work.notify_one();
        Ok(ticket)
    }

    /// The thread: does what is at the front unless a waiter is at it.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            match if state.busy { None } else { state.queue.pop_front() } {
                Some(item) => state = self.perform(state, item),
                None if state.closed && state.queue.is_empty() => return,
                None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Does one piece of work, which was at the front.
    fn perform<'a>(&'a self, mut state: MutexGuard<'a, State>, item: Item) -> MutexGuard<'a, State> {
        state.busy = true;
        drop(state);
        for (stream, ticket) in item.after {
            stream.wait(ticket);
        }
        (item.work)();
        self.shared.pending.fetch_sub(1, Ordering::AcqRel);
        let mut state = self.lock();
        state.busy = false;
        state.completed += 1;
        self.done.notify_all();
        if !state.queue.is_empty() {
            self.work.notify_one();
        }
        state
    }

    /// Blocks until the work with this ticket is done, and does it if nobody is at it.
    pub fn wait(&self, ticket: u64) {
        let mut state = self.lock();
        while state.completed < ticket {
            let free = !state.busy && state.queue.front().is_some_and(|item| !item.pinned);
            state = match if free { state.queue.pop_front() } else { None } {
                Some(item) => self.perform(state, item),
                None => self.done.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
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
        self.work.notify_one();
    }
}
