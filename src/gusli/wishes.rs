//! Which devices the jobs of this process will use: gathered in the main thread, before any job starts, since the library must know them all when
//! its one context is made. A job that is forked later has its copy.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::devices::Device;

/// One file of one job.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Which job's; the same number in the main thread and in the job.
    pub job: usize,
    /// Whether the job will be a thread of this process.
    pub is_thread: bool,
    /// What fio calls the file.
    pub file: String,
    pub device: Device,
    /// What the job's I/O buffers will take, in bytes.
    pub bytes: usize,
    /// Operations in flight.
    pub depth: u32,
}

static ALL: Mutex<Vec<Wish>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Wish>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a wish, once.
pub fn add(wish: Wish) {
    let mut all = all();
    if !all.iter().any(|other| other.job == wish.job && other.file == wish.file) {
        all.push(wish);
    }
}

/// The wishes of one job.
pub fn of(job: usize) -> Vec<Wish> {
    all().iter().filter(|wish| wish.job == job).cloned().collect()
}

/// The wishes of all jobs that will share a process with this one.
pub fn beside(job: usize, is_thread: bool) -> Vec<Wish> {
    all().iter().filter(|wish| wish.job == job || (is_thread && wish.is_thread)).cloned().collect()
}
