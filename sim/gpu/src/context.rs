//! Contexts and the stack of them that each thread has.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::abi::{Code, Handle, INVALID_CONTEXT, INVALID_HANDLE, STREAM_LEGACY, STREAM_NON_BLOCKING, STREAM_NULL, STREAM_PER_THREAD};
use crate::event::Event;
use crate::stream::{Point, Shared, Stream};

#[derive(Default)]
struct Owned {
    streams: HashMap<Handle, Arc<Stream>>,
    events: HashMap<Handle, Arc<Event>>,
    per_thread: HashMap<ThreadId, Arc<Stream>>,
}

/// A context of one device; primary contexts are the ones that a device counts.
pub struct Context {
    pub handle: Handle,
    pub device: i32,
    pub id: u64,
    pub flags: u32,
    shared: Arc<Shared>,
    legacy: Arc<Stream>,
    owned: Mutex<Owned>,
}

impl Context {
    pub fn new(handle: Handle, device: i32, id: u64, flags: u32) -> Arc<Self> {
        let shared = Arc::<Shared>::default();
        let legacy = Stream::new(STREAM_LEGACY, handle, 0, 0, Arc::clone(&shared));
        Arc::new(Self { handle, device, id, flags, shared, legacy, owned: Mutex::default() })
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        // A panic aborts (every caller is a C function), so a poisoned lock cannot be seen.
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub fn create_stream(&self, handle: Handle, flags: u32, priority: i32) {
        let stream = Stream::new(handle, self.handle, flags, priority, Arc::clone(&self.shared));
        self.owned().streams.insert(handle, stream);
    }

    /// The stream stops taking work and ends when its queue is empty.
    pub fn destroy_stream(&self, handle: Handle) -> Result<(), Code> {
        let stream = self.owned().streams.remove(&handle).ok_or(INVALID_HANDLE)?;
        stream.close();
        Ok(())
    }

    /// The stream that a handle names for the calling thread.
    pub fn stream(&self, handle: Handle) -> Result<Arc<Stream>, Code> {
        match handle {
            STREAM_NULL | STREAM_LEGACY => Ok(Arc::clone(&self.legacy)),
            STREAM_PER_THREAD => {
                let make = || Stream::new(STREAM_PER_THREAD, self.handle, 0, 0, Arc::clone(&self.shared));
                let thread = thread::current().id();
                Ok(Arc::clone(self.owned().per_thread.entry(thread).or_insert_with(make)))
            }
            _ => self.owned().streams.get(&handle).cloned().ok_or(INVALID_HANDLE),
        }
    }

    /// What work put into this stream now has to wait for besides the stream's own: the legacy stream waits for every
    /// blocking stream, and they for it.
    pub fn barrier(&self, stream: &Arc<Stream>) -> Vec<Point> {
        if self.shared.idle() || stream.flags & STREAM_NON_BLOCKING != 0 {
            return Vec::new();
        }
        if stream.handle != STREAM_LEGACY {
            return self.legacy.tail().map(|ticket| (Arc::clone(&self.legacy), ticket)).into_iter().collect();
        }
        let owned = self.owned();
        let blocking = |stream: &&Arc<Stream>| stream.flags & STREAM_NON_BLOCKING == 0;
        let all = owned.streams.values().chain(owned.per_thread.values());
        all.filter(blocking).filter_map(|other| Some((Arc::clone(other), other.tail()?))).collect()
    }

    /// Waits as a synchronous call does: for the legacy stream and every blocking one.
    pub fn settle(&self) {
        if self.shared.idle() {
            return;
        }
        for (stream, ticket) in self.barrier(&self.legacy) {
            stream.wait(ticket);
        }
        if let Some(ticket) = self.legacy.tail() {
            self.legacy.wait(ticket);
        }
    }

    /// Waits for all streams.
    pub fn synchronize(&self) -> Result<(), Code> {
        let all: Vec<_> = {
            let owned = self.owned();
            owned.streams.values().chain(owned.per_thread.values()).chain([&self.legacy]).cloned().collect()
        };
        for stream in all {
            if let Some(ticket) = stream.tail() {
                stream.wait(ticket);
            }
        }
        self.shared.check()
    }

    pub fn create_event(&self, handle: Handle, timed: bool) {
        self.owned().events.insert(handle, Event::new(self.handle, timed));
    }

    pub fn event(&self, handle: Handle) -> Option<Arc<Event>> {
        self.owned().events.get(&handle).cloned()
    }

    pub fn destroy_event(&self, handle: Handle) -> Option<()> {
        self.owned().events.remove(&handle).map(|_| ())
    }

    /// Ends what it owns; how many streams and events were still there.
    pub fn close(&self) -> (usize, usize) {
        // The lasting error, if any, ends with the context: there is no one left to tell.
        let _ = self.synchronize();
        let mut owned = self.owned();
        let left = (owned.streams.len(), owned.events.len());
        for stream in owned.streams.values().chain(owned.per_thread.values()).chain([&self.legacy]) {
            stream.close();
        }
        owned.streams.clear();
        owned.per_thread.clear();
        owned.events.clear();
        left
    }
}

/// A thread's stack. It is leaked: without a destructor, calls made by exit handlers still find it. It has no limit,
/// since libcufile pushes more often than it pops.
type Stack = &'static RefCell<Vec<Handle>>;

thread_local! {
    static STACK: Cell<Option<Stack>> = const { Cell::new(None) };
}

fn stack() -> Stack {
    STACK.get().unwrap_or_else(|| {
        let stack = Box::leak(Box::default());
        STACK.set(Some(stack));
        stack
    })
}

/// The calling thread's current context, 0 for none.
pub fn current() -> Handle {
    stack().borrow().last().copied().unwrap_or(0)
}

/// Replaces the top of the calling thread's stack; 0 takes it off.
pub fn set_current(handle: Handle) {
    let mut stack = stack().borrow_mut();
    stack.pop();
    if handle != 0 {
        stack.push(handle);
    }
}

pub fn push(handle: Handle) {
    stack().borrow_mut().push(handle);
}

pub fn pop() -> Result<Handle, Code> {
    stack().borrow_mut().pop().ok_or(INVALID_CONTEXT)
}
