//! A watch over the socket of a server. The library notices a lost server in a thread of its own, which takes the device down, and crashes where
//! something is submitted meanwhile. It tells nobody beforehand, so the watch waits for what that thread waits for, and needs less time to act.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::setpriority_process;

use super::calls::wait_until_hung_up;

/// The nice value of a thread that is to run before all others.
const MOST_URGENT: i32 = -20;

/// A thread that sleeps until the server is gone, or until this is dropped.
pub struct Watch {
    stop: File,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Sets `is_hung_up` as soon as nobody is at the other end of `socket` any more.
    pub fn over(socket: i32, is_hung_up: Arc<AtomicBool>) -> io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let stopped: OwnedFd = stop.try_clone()?;
        let watch = move || {
            let _ = setpriority_process(None, MOST_URGENT); // without the right to it, as urgent as all others
            if wait_until_hung_up(socket, stopped.as_raw_fd()) {
                is_hung_up.store(true, Ordering::Release);
            }
        };
        let thread = Builder::new().name("gpuio-watch".to_owned()).spawn(watch)?;
        Ok(Self { stop: File::from(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.stop.write_all(&1u64.to_ne_bytes()); // a counter that is fresh has room
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn who_hangs_up_is_noticed_and_who_talks_is_not() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let is_hung_up = Arc::new(AtomicBool::new(false));
        let watch = Watch::over(here.as_raw_fd(), is_hung_up.clone()).unwrap();
        there.write_all(b"a completion").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(!is_hung_up.load(Ordering::Acquire));
        drop(there);
        let began = Instant::now();
        while !is_hung_up.load(Ordering::Acquire) {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        drop(watch);
    }

    #[test]
    fn a_watch_that_is_not_needed_any_more_ends() {
        let (here, _there) = UnixStream::pair().unwrap();
        let is_hung_up = Arc::new(AtomicBool::new(false));
        drop(Watch::over(here.as_raw_fd(), is_hung_up.clone()).unwrap());
        assert!(!is_hung_up.load(Ordering::Acquire));
    }
}
