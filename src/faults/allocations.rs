//! Counts what this library allocates between fio's asking for an I/O and its getting it back. The vendors' libraries have allocators of
//! their own and are not counted, nor is fio.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many times the I/O path is entered before it counts: lists may grow to their size first.
const WARM_UP: u64 = 500;

static ENTERED: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread is on the I/O path.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The thread is on the I/O path for as long as this lives.
pub struct OnIoPath;

/// From here on what the thread allocates counts.
#[must_use]
pub fn on_io_path() -> OnIoPath {
    ENTERED.fetch_add(1, Ordering::Relaxed);
    INSIDE.set(true);
    OnIoPath
}

impl Drop for OnIoPath {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// What the process has allocated on the I/O path so far, for people and for a test.
pub fn account() -> String {
    let (entered, allocated) = (ENTERED.load(Ordering::Relaxed), ALLOCATED.load(Ordering::Relaxed));
    format!("allocations on the I/O path: {allocated}, entered {entered} times, the first {WARM_UP} not counted")
}

fn count() {
    // A thread that ends may allocate when its locals are gone.
    let is_inside = INSIDE.try_with(Cell::get).unwrap_or(false);
    if is_inside && ENTERED.load(Ordering::Relaxed) > WARM_UP {
        ALLOCATED.fetch_add(1, Ordering::Relaxed);
    }
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is the system's allocator's doing; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: this function's own contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: this function's own contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: this function's own contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: this function's own contract.
        unsafe { System.dealloc(block, layout) }
    }
}
