//! Where the fields of the running fio's structs lie: chosen among the measured tables, confirmed by anchors in the live memory, or found
//! by the anchors alone. Nothing of fio's is written before this has agreed.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ops::Entry;
use super::symbols::Symbols;
use super::{options, peek};

/// The measured layouts, one a fio version, made by `cargo xtask layouts` and turned into Rust by build.rs.
pub(super) mod tables {
    include!(concat!(env!("OUT_DIR"), "/tables.rs"));
}

use tables::{Const, IoU, TABLES, Table, ThreadData};

/// No `struct thread_data` was larger up to 2026 (281,136 bytes in 3.25).
const THREAD_DATA_MOST: usize = 512 * 1024;

const RUNSTATE_RAMP: i32 = 3;
const RUNSTATE_RUNNING: i32 = 5;

static THREAD: OnceLock<ThreadData> = OnceLock::new();
static CELL_AT: AtomicUsize = AtomicUsize::new(0);
static UNIT: OnceLock<IoU> = OnceLock::new();

/// The layout of `struct thread_data`, once an init hook has confirmed it.
#[inline]
pub(super) fn thread() -> Option<&'static ThreadData> {
    THREAD.get()
}

/// Where a job keeps what is its engine's, once an init hook has confirmed the layout: the same as in [`thread`], had at less cost.
#[inline]
pub(super) fn cell_at() -> Option<usize> {
    NonZeroUsize::new(CELL_AT.load(Ordering::Relaxed)).map(usize::from)
}

/// The layout of `struct io_u`, once an io_u_init hook has confirmed it.
#[inline]
pub(super) fn unit() -> Option<&'static IoU> {
    UNIT.get()
}

/// Finds the layout of the `thread_data` at `td`, whose init hook is running in this thread. Returns it with a note for the user where
/// the version was not a known one; the error is the line that the user gets.
pub(super) fn confirm_thread(td: usize, fio: &Symbols, entries: &[Entry]) -> Result<(&'static ThreadData, Option<String>), String> {
    if let Some(known) = THREAD.get() {
        // A later job of this process: only its own pointers are looked at.
        return match loaded_as(td + known.io_ops, entries) {
            Some(_) if has_options_at(td + known.eo) => Ok((known, None)),
            _ => Err(refusal(fio, "a job's struct does not look like the first job's")),
        };
    }
    let snapshot = Snapshot::take(td, entries).ok_or_else(|| refusal(fio, "its job struct does not name this engine"))?;
    let (found, note) = match candidates(fio).find(|t| snapshot.agrees(&t.td)) {
        Some(table) => (table.td, None),
        None => {
            let found = snapshot.search().ok_or_else(|| refusal(fio, "no known layout agrees with it"))?;
            (found, Some(format!("{} is not a version that this library knows; its layout was found by inspection", fio.version())))
        }
    };
    let found = THREAD.get_or_init(|| found);
    CELL_AT.store(found.io_ops_data, Ordering::Relaxed);
    Ok((found, note))
}

/// The layout of the `thread_data` at `td` before its init hook has confirmed it, and whether more of it is known than where the options are.
pub(super) fn before_init(td: usize, fio: &Symbols, entries: &[Entry]) -> Option<(ThreadData, bool)> {
    let fits = |at: &ThreadData| loaded_as(td + at.io_ops, entries).is_some() && has_options_at(td + at.eo);
    let known = THREAD.get().copied().into_iter().chain(candidates(fio).map(|table| table.td)).find(fits);
    known.map(|at| (at, true)).or_else(|| {
        let eo = only((24..8192).step_by(8).filter(|&at| has_options_at(td + at)))?;
        let table = TABLES.last()?;
        Some((ThreadData { eo, thread_number: eo + 16, subjob_number: eo + 20, groupid: eo + 24, ..table.td }, false))
    })
}

/// Finds the layout of the fresh `io_u` at `address`: the only list head in it that points to itself is `verify_list`.
pub(super) fn confirm_unit(address: usize, fio: &Symbols) -> Result<(), String> {
    let is_head = |at: &IoU| [0, 8].iter().all(|n| peek::word(address + at.verify_list + n) == Some(address + at.verify_list));
    if UNIT.get().is_some_and(is_head) {
        return Ok(());
    }
    let found = candidates(fio).chain(TABLES.iter().rev()).map(|t| t.io_u).find(is_head);
    let found = found.ok_or_else(|| refusal(fio, "its I/O unit struct matches no known layout"))?;
    if *UNIT.get_or_init(|| found) == found { Ok(()) } else { Err(refusal(fio, "its I/O units do not all look alike")) }
}

/// The constants of the running fio, as far as its version is known; else those of the newest.
pub(super) fn constants(fio: &Symbols) -> Option<Const> {
    table_of(fio.version()).or(TABLES.last()).map(|table| table.consts)
}

/// The table of the fio version that this process names.
pub(super) fn of_version(fio: &Symbols) -> Option<&'static Table> {
    table_of(fio.version())
}

/// Which of `entries` the word at `io_ops` points to.
pub(super) fn loaded_as(io_ops: usize, entries: &[Entry]) -> Option<&Entry> {
    let ops = peek::word(io_ops)?;
    entries.iter().find(|e| e.table.address() as usize == ops)
}

/// The tables worth trying, best first: the version that the running fio names, then those with its engine interface, newest first.
fn candidates(fio: &Symbols) -> impl Iterator<Item = &'static Table> {
    let (named, interface) = (table_of(fio.version()), super::ops::interface());
    let same = TABLES.iter().rev().filter(move |t| Some(t.consts.fio_ioops_version) == interface);
    named.into_iter().chain(same)
}

/// The table for what `fio --version` says. A build from git (`fio-3.42-17-gabcdef0`) lies between two releases; the nearest measured one
/// is the development head.
fn table_of(version: &str) -> Option<&'static Table> {
    let version = version.strip_prefix("fio-").unwrap_or(version);
    let (release, rest) = version.split_once('-').map_or((version, None), |(a, b)| (a, Some(b)));
    let exact = TABLES.iter().rev().find(|t| t.version == version);
    let nearest = if rest.is_some() { TABLES.iter().find(|t| t.version == "head") } else { None };
    exact.or(nearest).or_else(|| TABLES.iter().find(|t| t.version == release))
}

fn refusal(fio: &Symbols, why: &str) -> String {
    let (first, last) = (TABLES.first().map_or("none", |t| t.version), TABLES.last().map_or("none", |t| t.version));
    format!(
        "cannot run in this fio: it says {}, engine interface {}, on {}, and {why}; expected a fio from {first} to {last} as released; \
         for a patched fio build this library with FIO_SRC=/path/to/its/source cargo build --release --features fio-src",
        fio.version(),
        super::ops::interface().map_or_else(|| "unknown".to_owned(), |n| n.to_string()),
        std::env::consts::ARCH,
    )
}

fn has_options_at(eo: usize) -> bool {
    peek::word(eo).and_then(|options| peek::word(options + options::MARK_OFFSET)) == Some(options::MARK)
}

/// The memory of one `thread_data`, copied so that a search cannot fault.
struct Snapshot {
    bytes: Vec<u8>,
    /// Where the engine's own table is named; the first such word, since the next job's struct may follow.
    io_ops: usize,
}

impl Snapshot {
    fn take(td: usize, entries: &[Entry]) -> Option<Self> {
        let mut bytes = vec![0; THREAD_DATA_MOST];
        let there = peek::bytes(td, &mut bytes);
        bytes.truncate(there);
        let own: Vec<usize> = entries.iter().map(|e| e.table.address() as usize).collect();
        let io_ops = words(&bytes).find(|(_, word)| own.contains(word))?.0;
        Some(Self { bytes, io_ops })
    }

    fn word(&self, at: usize) -> Option<usize> {
        let raw = self.bytes.get(at..at + 8)?;
        Some(usize::from_ne_bytes(raw.try_into().ok()?))
    }

    fn int(&self, at: usize) -> Option<i32> {
        let raw = self.bytes.get(at..at + 4)?;
        Some(i32::from_ne_bytes(raw.try_into().ok()?))
    }

    /// Whether every anchor stands where `at` says.
    fn agrees(&self, at: &ThreadData) -> bool {
        at.io_ops == self.io_ops
            && self.word(at.io_ops_data) == Some(0)
            && self.word(at.eo).is_some_and(|eo| peek::word(eo + options::MARK_OFFSET) == Some(options::MARK))
            && self.is_pid(at.pid)
    }

    /// Whether the job's own id, its still empty buffer and its run state stand at and behind `at`.
    fn is_pid(&self, at: usize) -> bool {
        // SAFETY: neither call takes an argument or can fail.
        let (thread, process) = unsafe { (libc::gettid(), libc::getpid()) };
        self.int(at).is_some_and(|id| id == thread || id == process)
            && self.int(at + 4) == Some(0)
            && self.word(at + 8) == Some(0)
            && self.word(at + 16) == Some(0)
            && self.int(at + 24).is_some_and(|state| state == RUNSTATE_RUNNING || state == RUNSTATE_RAMP)
    }

    /// The layout by anchors alone; each must be found exactly once.
    fn search(&self) -> Option<ThreadData> {
        let is_eo = |&(at, word): &(usize, usize)| {
            (24..8192).contains(&at) && word != 0 && peek::word(word.wrapping_add(options::MARK_OFFSET)) == Some(options::MARK)
        };
        let eo = only(words(&self.bytes[..self.bytes.len().min(8192)]).filter(is_eo).map(|(at, _)| at))?;
        let pid = only((0..self.io_ops).step_by(8).filter(|&at| self.is_pid(at)))?;
        // The distances below are the same in every version from 3.16 to head.
        Some(ThreadData {
            flags: 16,
            o: 24,
            eo,
            thread_number: eo + 16,
            subjob_number: eo + 20,
            groupid: eo + 24,
            error: pid - 16,
            done: pid - 8,
            pid,
            orig_buffer: pid + 8,
            orig_buffer_size: pid + 16,
            runstate: pid + 24,
            terminate: pid + 28,
            io_ops: self.io_ops,
            io_ops_data: self.io_ops + 16,
        })
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    bytes.chunks_exact(8).enumerate().map(|(n, raw)| (n * 8, usize::from_ne_bytes(raw.try_into().unwrap_or_default())))
}

fn only(mut found: impl Iterator<Item = usize>) -> Option<usize> {
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_gets_its_own_table_and_a_build_from_git_the_heads() {
        let version = |text| table_of(text).map(|t| t.version);
        assert_eq!(version("fio-3.33"), Some("3.33"));
        assert_eq!(version("fio-3.42"), Some("3.42"));
        assert_eq!(version("fio-3.42-17-gabcdef0"), Some("head"));
        assert_eq!(version("fio-9.99"), None);
    }
}
