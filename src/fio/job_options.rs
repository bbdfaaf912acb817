//! fio's own job options, read through the table in which the running fio describes them (`fio_options`: name and offset of each).
//!
//! That table is exported by every version and `struct fio_option` never changed, so an option is found by its name in any fio.

use std::ffi::{c_uint, c_void};
use std::time::Duration;

use super::symbols::Symbols;
use super::{options::FIO_OPTION_BYTES, peek};

/// More options than any fio has (FIO_MAX_OPTS is 512).
const MOST: usize = 1024;
/// Offset of the first target of an option in `struct fio_option` (`off1`), unchanged from 3.16 on.
const OFF1: usize = 28;

/// Where the running fio keeps each job option in its `struct thread_options`.
pub(super) struct Directory {
    table: usize,
}

impl Directory {
    pub fn of(fio: &Symbols) -> Self {
        Self { table: fio.fio_options as usize }
    }

    /// The byte offset of option `name` in `struct thread_options`.
    pub fn offset(&self, name: &str) -> Option<usize> {
        peek::int(self.entry(name)? + OFF1).and_then(|n| usize::try_from(n).ok())
    }

    /// Where the description of option `name` is.
    fn entry(&self, name: &str) -> Option<usize> {
        (0..MOST)
            .map(|n| self.table + n * FIO_OPTION_BYTES)
            .map_while(|entry| Some((entry, peek::word(entry).filter(|&at| at != 0)?)))
            .find_map(|(entry, at)| (peek::text(at, 64)? == name).then_some(entry))
    }
}

/// The options of one job, at the `thread_options` that its `thread_data` holds.
pub struct JobOptions {
    directory: Directory,
    fio: &'static Symbols,
    base: usize,
}

impl JobOptions {
    pub(super) fn new(fio: &'static Symbols, base: usize) -> Self {
        Self { directory: Directory::of(fio), fio, base }
    }

    /// The value of an option that fio keeps as an `int`; `None` where this fio has no such option.
    pub fn int(&self, name: &str) -> Option<i32> {
        peek::int(self.base + self.directory.offset(name)?)
    }

    /// Whether the job is, or will be, a thread of fio's process.
    pub fn is_thread(&self) -> bool {
        self.int("thread").is_some_and(|flag| flag != 0)
    }

    /// How long the job is to run, with its ramp time; `None` where it runs as long as it takes.
    pub fn runtime(&self) -> Option<Duration> {
        let microseconds = |name: &str| peek::word(self.base + self.directory.offset(name)?);
        let runtime = microseconds("runtime").filter(|&time| time > 0)?;
        Some(Duration::from_micros((runtime + microseconds("ramp_time").unwrap_or(0)) as u64))
    }

    /// Bytes of the largest I/O that the job can make.
    pub fn largest_block(&self) -> usize {
        [1, 3, 5].into_iter().filter_map(|n| self.block_size(n)).max().unwrap_or(0)
    }

    /// Bytes of the smallest and the largest write that the job can make.
    pub fn writes(&self) -> (usize, usize) {
        (self.block_size(2).unwrap_or(0), self.block_size(3).unwrap_or(0))
    }

    /// Of the six targets of this option the first two are the smallest and largest size of reads, then those of writes, and of trims, in 64
    /// bits each.
    fn block_size(&self, target: usize) -> Option<usize> {
        let offset = peek::int(self.directory.entry("bsrange")? + OFF1 + target * 4)?;
        peek::word(self.base + usize::try_from(offset).ok()?)
    }

    /// The value of an option that fio keeps as bytes in 64 bits; `None` where it is 0, or a share of something.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        peek::word(self.base + self.directory.offset(name)?).map(|bytes| bytes as u64).filter(|&bytes| bytes > 0 && bytes < 1 << 63)
    }

    /// The value of an option that fio keeps as a text; `None` where it has none.
    pub fn text(&self, name: &str) -> Option<String> {
        const LONGEST: usize = 4096;
        let at = peek::word(self.base + self.directory.offset(name)?).filter(|&at| at != 0)?;
        peek::text(at, LONGEST)
    }

    /// Whether the job (or its `[global]`) names the option.
    pub fn is_set(&self, name: &str) -> bool {
        let Some(offset) = self.directory.offset(name) else { return false };
        // SAFETY: `base` is the live thread_options of a job; the offset is one that fio itself gave for an option of it.
        unsafe { (self.fio.option_is_set)(self.base as *const c_void, offset as c_uint) != 0 }
    }
}
