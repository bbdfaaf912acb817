//! What NIXL's library and its plugins print. They know only the process's standard streams, so while a job uses NIXL these lead to a thread here:
//! the library's lines go to the job's log file, or are kept to be part of a line for the user; everything else goes where it was meant to go.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::stdio;

#[derive(Default)]
struct Log {
    /// Jobs that use NIXL.
    users: usize,
    /// `nixl_log`.
    file: Option<File>,
    /// The last failure that the library has told of.
    last: String,
    streams: Vec<Stream>,
}

static LOG: Mutex<Log> = Mutex::new(Log { users: 0, file: None, last: String::new(), streams: Vec::new() });

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A standard stream whose lines are looked at.
struct Stream {
    is_output: bool,
    /// Where it led.
    meant: OwnedFd,
}

/// The streams of one job, let go of when dropped.
pub struct Watch;

impl Watch {
    /// Looks at standard error, and at standard output where a plugin prints there; writes the library's lines to `path` (`nixl_log`).
    pub fn begin(path: Option<&str>, with_output: bool) -> Result<Self, String> {
        let file =
            path.map(|path| File::options().append(true).create(true).open(path).map_err(|error| format!("nixl_log={path}: {error}")));
        let file = file.transpose()?;
        let mut log = log();
        log.file = file.or(log.file.take());
        log.users += 1;
        for is_output in [false, true] {
            if (!is_output || with_output) && !log.streams.iter().any(|stream| stream.is_output == is_output) {
                // Without it the lines go where they always went.
                log.streams.extend(Stream::watch(is_output));
            }
        }
        Ok(Self)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        settle();
        let mut log = log();
        log.users -= 1;
        if log.users == 0 {
            log.streams.drain(..).for_each(|stream| set(stream.is_output, &stream.meant));
            log.file = None;
        }
    }
}

impl Stream {
    fn watch(is_output: bool) -> rustix::io::Result<Self> {
        let meant = if is_output { rustix::io::dup(stdio::stdout()) } else { rustix::io::dup(stdio::stderr()) }?;
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let onward = File::from(meant.try_clone().map_err(|_| rustix::io::Errno::MFILE)?);
        // The thread ends with the last that has the stream: a job that was forked may have it longer than this process.
        std::thread::Builder::new()
            .name("gpuio-nixl-log".to_owned())
            .spawn(move || pass_on(BufReader::new(File::from(from)), onward))
            .map_err(|_| rustix::io::Errno::AGAIN)?;
        set(is_output, &to);
        Ok(Self { is_output, meant })
    }
}

fn set(is_output: bool, to: &OwnedFd) {
    let _ = if is_output { stdio::dup2_stdout(to) } else { stdio::dup2_stderr(to) }; // an open descriptor is never refused
}

/// Lines that [`settle`] has written, and whom to tell.
static MARKS: Mutex<Vec<(String, Sender<()>)>> = Mutex::new(Vec::new());

/// Waits until all that was printed so far has been looked at.
fn settle() {
    for is_output in [false, true] {
        let (tell, told) = channel();
        {
            let log = log();
            if !log.streams.iter().any(|stream| stream.is_output == is_output) {
                continue;
            }
            let mark = format!("gpuio-mark-{:p}", &tell);
            MARKS.lock().unwrap_or_else(PoisonError::into_inner).push((mark.clone(), tell));
            let line = format!("{mark}\n");
            let _ = if is_output {
                rustix::io::write(stdio::stdout(), line.as_bytes())
            } else {
                rustix::io::write(stdio::stderr(), line.as_bytes())
            };
        }
        // Longer than a thread that is alive ever takes.
        let _ = told.recv_timeout(Duration::from_millis(500));
    }
}

fn pass_on(mut from: impl BufRead, mut onward: File) {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let text = String::from_utf8_lossy(&line);
        if !is_mark(text.trim_end()) && !take(&text) {
            let _ = onward.write_all(&line); // whoever printed it is not told either
        }
        line.clear();
    }
}

fn is_mark(line: &str) -> bool {
    let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = marks.iter().position(|(mark, _)| mark == line);
    found.map(|at| marks.swap_remove(at).1.send(())).is_some()
}

/// Takes a line that is the library's; returns whether it was.
fn take(line: &str) -> bool {
    let Some(said) = said(line) else { return false };
    let mut log = log();
    if let Some(file) = &mut log.file {
        let _ = file.write_all(line.as_bytes()); // a full disk must not fail an I/O
    }
    if line.starts_with(['E', 'F']) && log.last.is_empty() {
        log.last = said.to_owned();
    }
    true
}

/// What a line of the library's says: `E1130 18:12:18.123456   12345 file.cpp:123] what`, or GUSLI's `GUSLIc: what`, with colours.
fn said(line: &str) -> Option<&str> {
    if let Some((colours, said)) = line.split_once("GUSLIc: ") {
        return colours.chars().all(|c| "\x1b[;m".contains(c) || c.is_ascii_digit()).then(|| said.trim());
    }
    let mut bytes = line.bytes();
    let is_level = bytes.next().is_some_and(|byte| b"IWEF".contains(&byte));
    let is_date = is_level && bytes.by_ref().take(4).filter(u8::is_ascii_digit).count() == 4 && bytes.next() == Some(b' ');
    line.split_once("] ").filter(|_| is_date).map(|(_, said)| said.trim())
}

/// What the library has said of a failure since the last look: the first of it, which is the nearest to the cause.
pub fn reason() -> String {
    settle();
    let last = std::mem::take(&mut log().last);
    if last.is_empty() { last } else { format!("; the library says: {last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_lines_are_told_from_others() {
        assert_eq!(said("E1130 18:12:18.123456   12345 aio.cpp:123] AIO operation failed: -22\n"), Some("AIO operation failed: -22"));
        assert_eq!(said("\x1b[0;0mGUSLIc: destroyed\n"), Some("destroyed"));
        for others in [
            "gpuio: nixl_plugin=GUSLI takes",
            "  \"nixl_plugin\" : \"GUSLI\",\n",
            "x GUSLIc: y\n",
            "fio: pid=1, err=22\n",
            "Error: no] such\n",
            "E113 18:12 x] y\n",
            "",
        ] {
            assert_eq!(said(others), None, "{others}");
        }
    }

    #[test]
    fn the_first_failure_is_kept_and_handed_out_once() {
        assert!(take("E1130 18:12:18.1 1 a.cpp:1] first\n") && take("E1130 18:12:18.1 1 a.cpp:2] second\n"));
        assert!(take("I1130 18:12:18.1 1 a.cpp:1] no failure\n") && !take("fio's own\n"));
        assert_eq!(reason(), "; the library says: first");
        assert_eq!(reason(), "");
    }
}
