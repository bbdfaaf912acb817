//! A pool of threads, each in a blocking call: queue depth for whatever can only block.
//!
//! Operations go in and results come out through two bounded lock-free queues that never grow: `depth` operations at most are taken.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::blocking::Blocking;
use super::transport::{Moved, Operation, Place, Submitted, Transport};
use super::wait::{Bell, Deadline, Manner};
use crate::faults;

/// How long calls that have begun get to return when the job ends.
const PATIENCE: Duration = Duration::from_millis(300);

struct Shared {
    work: ArrayQueue<Operation>,
    results: ArrayQueue<(Place, Moved)>,
    /// Rung where there is work.
    work_bell: Bell,
    /// Rung where there is a result.
    result_bell: Bell,
    stop: AtomicBool,
}

/// The threads of one job.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    path: &'static str,
    manner: Manner,
    depth: usize,
    in_flight: usize,
    /// Taken since the last commit.
    collected: usize,
    /// Once cancelled: whether no thread is in a call any more.
    quiet: Option<bool>,
}

impl Pool {
    /// Starts a thread for each of `workers`; `depth` operations can be in flight.
    pub fn start<B: Blocking>(workers: Vec<B>, depth: usize, manner: Manner) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            work: ArrayQueue::new(depth.max(1)),
            results: ArrayQueue::new(depth.max(1)),
            work_bell: Bell::default(),
            result_bell: Bell::default(),
            stop: AtomicBool::new(false),
        });
        let mut pool = Self { shared, threads: Vec::new(), path: B::PATH, manner, depth, in_flight: 0, collected: 0, quiet: None };
        for (n, mut worker) in workers.into_iter().enumerate() {
            let shared = pool.shared.clone();
            // A thread that cannot start ends the others: dropping `pool` joins them.
            pool.threads.push(Builder::new().name(format!("gpuio-{n}")).spawn(move || work(&shared, &mut worker))?);
        }
        Ok(pool)
    }
}

fn work<B: Blocking>(shared: &Shared, worker: &mut B) {
    let failed = worker.enter().err();
    loop {
        let ticket = shared.work_bell.ticket();
        if let Some(operation) = shared.work.pop() {
            let _path = faults::on_io_path();
            // An operation always comes back: fio would wait for a lost one for ever.
            let ran = panic::catch_unwind(AssertUnwindSafe(|| match failed {
                None => worker.run(&operation),
                Some(code) => Moved::failed(libc::EIO, code),
            }));
            let moved = ran.unwrap_or(Moved::failed(libc::EIO, 0));
            // There is room: no more than `depth` operations are ever out.
            let _ = shared.results.push((operation.tag, moved));
            shared.result_bell.ring(1);
        } else if shared.stop.load(Ordering::Acquire) {
            return;
        } else {
            shared.work_bell.sleep(ticket, None);
        }
    }
}

impl Transport for Pool {
    fn path(&self) -> &'static str {
        self.path
    }

    fn submit(&mut self, operation: &Operation) -> Submitted {
        if self.in_flight == self.depth || self.shared.work.push(*operation).is_err() {
            return Submitted::Busy;
        }
        self.in_flight += 1;
        self.collected += 1;
        Submitted::InFlight
    }

    fn commit(&mut self) -> Result<(), i32> {
        self.shared.work_bell.ring(std::mem::take(&mut self.collected));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, done: &mut dyn FnMut(Place, Moved)) -> Result<(), i32> {
        self.commit()?;
        let deadline = Deadline::after(timeout);
        let (min, mut found, mut turns) = (min.min(self.in_flight), 0, 0);
        while found < max {
            let ticket = self.shared.result_bell.ticket();
            if let Some((tag, moved)) = self.shared.results.pop() {
                self.in_flight -= 1;
                found += 1;
                done(tag, moved);
            } else if found >= min || deadline.is_past() {
                break;
            } else {
                self.manner.pause(&mut turns, &self.shared.result_bell, ticket, &deadline);
            }
        }
        Ok(())
    }

    fn cancel(&mut self) -> bool {
        if let Some(quiet) = self.quiet {
            return quiet;
        }
        while self.shared.work.pop().is_some() {
            self.in_flight -= 1; // it never began
        }
        let deadline = Deadline::after(Some(PATIENCE));
        loop {
            let ticket = self.shared.result_bell.ticket();
            if self.shared.results.len() == self.in_flight || deadline.is_past() {
                break;
            }
            self.shared.result_bell.sleep(ticket, Some(Duration::from_millis(1)));
        }
        let quiet = self.shared.results.len() == self.in_flight;
        if quiet {
            self.join();
        } else {
            self.stop();
            self.threads.clear(); // not joined: one that is stuck ends with the process
        }
        self.in_flight = 0;
        *self.quiet.insert(quiet)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.join();
    }
}

impl Pool {
    /// Has the threads end once the queue is empty.
    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.work_bell.ring(self.threads.len());
    }

    fn join(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // it catches every panic of its own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::driver::Handle;
    use crate::common::transport::{Buffer, Transfer};

    struct Slow(u64);

    impl Blocking for Slow {
        const PATH: &'static str = "test";

        fn first(&mut self, operation: &Operation) -> isize {
            std::thread::sleep(Duration::from_millis(self.0));
            operation.tag as isize
        }

        fn go_on(&mut self, _operation: &Operation, returned: isize) -> Moved {
            Moved::bytes(returned as usize)
        }
    }

    fn operation(tag: Place) -> Operation {
        let buffer = Buffer::at(0, 0);
        Operation { tag, transfer: Transfer::Read, fd: -1, handle: Handle::default(), offset: 0, buffer, base: 0, at: 0 }
    }

    fn pool(threads: usize, depth: usize, manner: Manner, ms: u64) -> Pool {
        Pool::start((0..threads).map(|_| Slow(ms)).collect(), depth, manner).unwrap()
    }

    #[test]
    fn every_operation_comes_back_once_in_every_manner_of_waiting() {
        for manner in [Manner::Spin, Manner::Yield, Manner::Block] {
            let mut pool = pool(3, 8, manner, 0);
            let (mut seen, mut next) = (vec![0; 500], 0);
            while seen.iter().sum::<usize>() < 500 {
                while next < 500 && matches!(pool.submit(&operation(next)), Submitted::InFlight) {
                    next += 1;
                }
                pool.reap(1, 8, None, &mut |tag, moved| {
                    assert_eq!(moved.bytes, tag as usize);
                    seen[tag as usize] += 1;
                })
                .unwrap();
            }
            assert!(seen.iter().all(|&n| n == 1));
            assert_eq!(pool.in_flight(), 0);
        }
    }

    #[test]
    fn one_more_than_the_depth_is_busy_and_a_time_out_ends_a_reap() {
        for manner in [Manner::Spin, Manner::Yield, Manner::Block] {
            let mut pool = pool(1, 2, manner, 300);
            assert!(matches!(pool.submit(&operation(1)), Submitted::InFlight));
            assert!(matches!(pool.submit(&operation(2)), Submitted::InFlight));
            assert!(matches!(pool.submit(&operation(3)), Submitted::Busy));
            let mut found = 0;
            pool.reap(1, 2, Some(Duration::from_millis(20)), &mut |_, _| found += 1).unwrap();
            assert_eq!(found, 0);
            pool.reap(2, 2, None, &mut |_, _| found += 1).unwrap();
            assert_eq!(found, 2);
        }
    }

    #[test]
    fn a_cancelled_pool_has_joined_its_threads_and_holds_nothing() {
        let mut pool = pool(2, 16, Manner::Block, 10);
        for n in 0..16 {
            pool.submit(&operation(n));
        }
        pool.commit().unwrap();
        pool.cancel();
        assert_eq!(pool.in_flight(), 0);
        assert_eq!(Arc::strong_count(&pool.shared), 1);
    }

    #[test]
    fn a_thread_that_is_stuck_does_not_hold_up_the_end() {
        let mut pool = Pool::start(vec![Slow(2000), Slow(1)], 4, Manner::Yield).unwrap();
        for n in 0..4 {
            pool.submit(&operation(n));
        }
        pool.commit().unwrap();
        let began = std::time::Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        assert!(!pool.cancel() && !pool.cancel());
        drop(pool);
        assert!(began.elapsed() < Duration::from_millis(1500));
    }
}
