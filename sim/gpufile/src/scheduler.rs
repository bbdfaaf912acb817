//! Threads that serve batches: each transfer begins when its delay is over, so delays overlap as they do on a device.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::thread;
use std::time::Instant;

use crate::knobs::knobs;

/// Work that becomes due.
struct Job {
    due: Instant,
    order: u64,
    work: Box<dyn FnOnce() + Send>,
}

// The heap gives the greatest first: the earliest due, and of those the first submitted.
impl Ord for Job {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Job {}

struct Queue {
    jobs: BinaryHeap<Job>,
    order: u64,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: BinaryHeap::new(), order: 0 });
static CHANGED: Condvar = Condvar::new();

/// Does the work on a thread of the library's when it is due.
pub fn schedule(due: Instant, work: impl FnOnce() + Send + 'static) {
    static START: Once = Once::new();
    START.call_once(|| {
        for _ in 0..knobs().threads {
            thread::spawn(serve);
        }
    });
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    queue.order += 1;
    let order = queue.order;
    queue.jobs.push(Job { due, order, work: Box::new(work) });
    CHANGED.notify_one();
}

fn serve() {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        queue = match queue.jobs.peek().map(|job| job.due) {
            None => CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(due) if due > now => CHANGED.wait_timeout(queue, due - now).unwrap_or_else(PoisonError::into_inner).0,
            Some(_) => {
                let job = queue.jobs.pop();
                drop(queue);
                if let Some(job) = job {
                    (job.work)();
                }
                QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
    }
}
