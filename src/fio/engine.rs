//! What fio asks of an I/O engine, in this library's words.

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::time::Duration;

use super::ops::Entry;
use super::options::OptionSpec;
use super::thread::Job;
use super::unit::{File, IoUnit, Outcome, UnitId};
use super::waiting::Waiting;

/// Why a job cannot run.
#[derive(Debug)]
pub struct Refusal {
    /// What fio reports as the job's error.
    pub errno: i32,
    /// The line for the user: what was given, what is allowed, what to do.
    pub line: String,
}

/// What became of an I/O unit in queue().
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// It has ended, as the engine has noted in the unit where not all is well.
    Done,
    /// The same, with an error.
    Failed,
    /// The unit is the engine's until reap() hands it back.
    InFlight,
    /// What was queued before has to be started first; then it is asked for again, at once.
    CommitFirst,
    /// No room: fio reaps and tries again.
    Busy,
}

/// An operation that ended after its queue() had returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub unit: UnitId,
    pub outcome: Outcome,
}

/// An I/O engine.
pub trait Engine: 'static {
    const OPTIONS: &'static [OptionSpec];

    /// The names under which the library can be loaded.
    fn entries() -> &'static [Entry];

    /// Makes a job ready, or says why it cannot run. Whatever was made is gone again on an error.
    fn start(job: &Job) -> Result<Box<dyn Running>, Refusal>;

    /// How large a file is, asked in fio's main thread before any job starts; `None` where fio is to find out itself.
    fn size(job: &Job, file: &File) -> Result<Option<u64>, Refusal>;
}

/// One job of an I/O engine. A value lives from fio's init hook to its cleanup hook, in the job's own thread or process.
pub trait Running {
    /// Host memory of `bytes` bytes for the buffers of all I/O units, zeroed, valid until [`Running::free`].
    fn allocate(&mut self, bytes: usize) -> Result<NonNull<u8>, Refusal>;
    fn free(&mut self);

    /// The buffers are there and filled; I/O starts next. Says whether queue() does the I/O itself, in the calling thread.
    fn ready(&mut self) -> Result<bool, Refusal>;

    /// Opens a file that fio cannot open under its name, and says its descriptor; `None` where fio is to open it.
    fn open_own(&mut self, file: &File) -> Option<Result<RawFd, Refusal>>;

    /// A file of the job is open now; an error closes it again and fails the job.
    fn opened(&mut self, file: &File) -> Result<(), Refusal>;

    /// The file is about to be closed.
    fn closing(&mut self, file: &File);

    fn queue(&mut self, unit: IoUnit) -> Queued;

    /// Starts what queue() only collected. The error is an errno.
    fn commit(&mut self) -> Result<(), i32>;

    /// Waits until `min` operations have ended, or `timeout` has passed, and appends at most `max` of them to `done`.
    /// Where fio wants to end the job and they do not end, it does not wait for ever.
    fn reap(&mut self, min: usize, max: usize, timeout: Option<Duration>, waiting: &Waiting, done: &mut Vec<Done>) -> Result<(), i32>;

    /// reap() has failed: every unit that is out ends with `errno`. Appends at most `max` of them to `done`; reap() hands out the rest.
    fn fail_all(&mut self, errno: i32, max: usize, done: &mut Vec<Done>);

    /// fio has stamped the completion of a reaped unit and looks at its bytes next; what is done here is in no latency. Returns how the unit
    /// is to end.
    fn finish(&mut self, unit: IoUnit, outcome: Outcome) -> Outcome;
}
