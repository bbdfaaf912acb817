//! No panic crosses into fio: it ends here as one line on fio's log.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::log;

thread_local! {
    /// Where the last panic of this thread happened and what it said; the hook keeps it off standard error.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps this library's panics quiet until [`catch`] reports them. The hook is the library's own: it has its own copy of std.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|info| LAST.with(|last| *last.borrow_mut() = info.to_string().replace('\n', " "))));
    });
}

/// Runs `body`; a panic in it becomes a line that names the hook, and `None`.
#[inline]
pub(super) fn catch<T>(hook: &str, body: impl FnOnce() -> T) -> Option<T> {
    // A hook that panicked has failed its job for good: what it left half done is only dropped.
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => Some(value),
        Err(payload) => {
            report(hook);
            std::mem::forget(payload); // its drop could panic again
            None
        }
    }
}

#[cold]
fn report(hook: &str) {
    let what = LAST.with(|last| last.take());
    log::line(&format!("internal error in the {hook} hook: {what}; this is a bug in libgpuio, please report it with the job file"));
}

/// Holds back signals in this thread while it lives, and for good in every thread that is started meanwhile: a vendor's library allocates
/// and starts threads of its own, and fio's signal handler, which allocates too, breaks the heap where it interrupts that.
pub(super) struct NoSignals(libc::sigset_t);

impl NoSignals {
    pub(super) fn new() -> Self {
        const FAULTS: [libc::c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP];
        let mut before = std::mem::MaybeUninit::uninit();
        let mut held = std::mem::MaybeUninit::uninit();
        // SAFETY: both sets are places for one; sigfillset and pthread_sigmask fill them before they are read, and neither can fail here.
        unsafe {
            libc::sigfillset(held.as_mut_ptr());
            for fault in FAULTS {
                libc::sigdelset(held.as_mut_ptr(), fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, held.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        // SAFETY: the set that new() found in this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
