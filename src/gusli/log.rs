//! What the library prints: into a file where the user has named one; else only the last line about a failure is kept, to be part of a line for
//! the user. And the one place where a thread of the library can be kept from ending the process.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Log {
    file: Option<File>,
    last: String,
}

static LOG: Mutex<Log> = Mutex::new(Log { file: None, last: String::new() });

/// Whether a thread was stopped for good.
static HAS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether the library has looked for a server in vain: it has nothing of its device any more then, but the lock.
pub fn has_stopped() -> bool {
    HAS_STOPPED.load(Ordering::Acquire)
}

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to `path` (`gusli_log`) from now on.
pub fn write_to(path: &str) -> Result<(), String> {
    let file = File::options().append(true).create(true).open(path).map_err(|error| format!("gusli_log={path}: {error}"))?;
    log().file = Some(file);
    Ok(())
}

/// Takes a piece of the library's log. Returns whether the thread that has said it is to be stopped for good.
pub fn take(text: &str) -> bool {
    let mut log = log();
    if let Some(file) = &mut log.file {
        let _ = file.write_all(text.as_bytes()); // a full disk must not fail an I/O
    }
    let is_bug = text.contains("BUG!!!!");
    if is_bug && reconnects() {
        HAS_STOPPED.store(true, Ordering::Release);
        return true;
    }
    for line in text.lines() {
        if is_bug && line.contains("BUG!!!!") {
            // The library aborts the process next, and nobody else could say why. Where even that cannot be said, nothing is left to do.
            let _ = writeln!(std::io::stderr(), "gpuio: GUSLI's library ends this process: {}", plain(line));
        } else if ["rror", "annot"].iter().any(|sign| line.contains(sign)) {
            log.last = plain(line);
        }
    }
    false
}

/// Whether this is the thread in which the library looks for a server that is gone. It aborts the process where it does not find it, after it has
/// cancelled what was in flight; the device is not used any more then, and other devices and jobs go on.
fn reconnects() -> bool {
    std::fs::read_to_string("/proc/thread-self/comm").is_ok_and(|name| name.trim_end().ends_with("cREC"))
}

/// What the library has said about a failure since the last look.
pub fn reason() -> String {
    let last = std::mem::take(&mut log().last);
    if last.is_empty() { last } else { format!("; the library says: {last}") }
}

/// A line without its colours.
fn plain(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest)).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_is_kept_without_colours_and_handed_out_once() {
        assert!(!take("\x1b[1;32mGUSLIc: Cannot open! errno=13\x1b[0;0m\n") && !take("all is well\n"));
        assert_eq!(reason(), "; the library says: GUSLIc: Cannot open! errno=13");
        assert_eq!(reason(), "");
    }

    #[test]
    fn only_the_thread_that_looks_for_a_lost_server_is_stopped() {
        let say = |name: &str| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(|| take("BUG!!!! at 2026"));
            thread.unwrap().join().unwrap()
        };
        assert!(say("RAM0cREC") && !say("RAM0cIOl"));
    }
}
