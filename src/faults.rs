//! Deliberate faults for the project's own tests. Without the feature `faults`, which no user's library has, every function is empty.
//!
//! `GPUIO_FAULT` holds one of: `panic:POINT` or `panic:POINT:N` (at the N-th time), `oom:iomem_alloc`, `short:N` (a call moves at most N
//! bytes), `errno:N:CODE` (the N-th transfer fails with CODE), `allocations` (no fault: a line at the job's end counts what was allocated on
//! the I/O path).

#[cfg(not(feature = "faults"))]
mod none {
    #[inline(always)]
    pub fn strike(_point: &str) {}

    #[inline(always)]
    pub fn allocation_fails() -> bool {
        false
    }

    #[inline(always)]
    pub fn cap(bytes: usize) -> usize {
        bytes
    }

    #[inline(always)]
    pub fn errno() -> Option<i32> {
        None
    }

    /// Counts nothing.
    pub struct OnIoPath;

    #[inline(always)]
    pub fn on_io_path() -> OnIoPath {
        OnIoPath
    }

    #[inline(always)]
    pub fn account() -> Option<String> {
        None
    }
}

#[cfg(not(feature = "faults"))]
pub use none::*;

#[cfg(feature = "faults")]
mod allocations;

#[cfg(feature = "faults")]
mod planned {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PLAN: LazyLock<Vec<String>> = LazyLock::new(|| {
        let plan = std::env::var("GPUIO_FAULT").unwrap_or_default();
        plan.split(':').map(str::to_owned).collect()
    });
    static COUNT: AtomicU64 = AtomicU64::new(0);

    fn word(n: usize) -> &'static str {
        PLAN.get(n).map_or("", String::as_str)
    }

    /// Counts one more and says whether it is the one that was asked for.
    fn is_due(nth: &str) -> bool {
        COUNT.fetch_add(1, Ordering::Relaxed) + 1 == nth.parse().unwrap_or(1)
    }

    pub fn strike(point: &str) {
        if word(0) == "panic" && word(1) == point && is_due(word(2)) {
            panic!("GPUIO_FAULT asked for it");
        }
    }

    pub fn allocation_fails() -> bool {
        word(0) == "oom" && word(1) == "iomem_alloc"
    }

    pub fn cap(bytes: usize) -> usize {
        if word(0) == "short" { bytes.min(word(1).parse().unwrap_or(usize::MAX)) } else { bytes }
    }

    pub use super::allocations::on_io_path;

    /// The line about allocations, where it was asked for.
    pub fn account() -> Option<String> {
        (word(0) == "allocations").then(super::allocations::account)
    }

    pub fn errno() -> Option<i32> {
        (word(0) == "errno" && is_due(word(1))).then(|| word(2).parse().unwrap_or(5))
    }
}

#[cfg(feature = "faults")]
pub use planned::*;
