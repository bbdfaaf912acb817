//! Which devices the jobs of this process will use: gathered in the main thread, before any job starts, since the library must know them all when
//! its one context is made. A job that is forked later has its copy.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::devices::{Device, Kind};

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

/// The wishes of some jobs out of `all`, with one more where a server is among them: for a device that has nothing behind it and that no file
/// names. When the library has lost a server, it unmaps what was registered for that alone, for a moment, under the hands of fio; what is
/// registered for another device, too, stays.
pub fn kept(mut some: Vec<Wish>, all: &[Wish]) -> Vec<Wish> {
    let job = some.iter().find(|wish| wish.device.kind == Kind::Server).map(|wish| (wish.job, wish.is_thread));
    if let Some((job, is_thread)) = job.filter(|_| !all.iter().any(|wish| wish.device.kind.is_dummy())) {
        some.push(Wish { job, is_thread, file: String::new(), device: Device::keeper(), bytes: 0, depth: 0 });
    }
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_a_server_is_kept_by_one_more_device_which_is_given_back_last() {
        let wish = |entry: &str| {
            let device = super::super::devices::parse_list(entry).unwrap().remove(0);
            Wish { job: 7, is_thread: true, file: entry.to_owned(), device, bytes: 4096, depth: 1 }
        };
        let (file, server, stuck) = (wish("f:F:/f"), wish("n:N:/n"), wish("s:s:/s"));
        let kinds = |some: &[&Wish], all: &[&Wish]| {
            let owned = |some: &[&Wish]| some.iter().map(|&wish| wish.clone()).collect::<Vec<_>>();
            kept(owned(some), &owned(all)).iter().map(|wish| wish.device.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&[&server, &file], &[&server, &file]), [Kind::Server, Kind::File, Kind::Failing]);
        assert_eq!(kinds(&[&file], &[&server, &file]), [Kind::File]);
        assert_eq!(kinds(&[&server], &[&server, &stuck]), [Kind::Server], "the library cannot tell two of them apart");
    }
}
