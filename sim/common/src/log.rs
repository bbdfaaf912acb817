//! The log of calls: one line a call, appended to the file that `GPUIO_SIM_LOG` names.
//!
//! A line is `pid=… tid=… dev=… call=… ret=…` and then the call's own `key=value` pairs. Each line is one write to a
//! descriptor opened for appending, so lines of several threads, libraries and forked processes never mix.

use std::fmt::{Display, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::OnceLock;

fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = crate::knobs::text("GPUIO_SIM_LOG")?;
        match OpenOptions::new().append(true).create(true).open(&path) {
            Ok(file) => Some(file),
            Err(error) => {
                eprintln!("simulated library: GPUIO_SIM_LOG={path}: {error}");
                std::process::abort()
            }
        }
    })
    .as_ref()
}

/// What a call has to say besides its result; costs nothing where no log is kept.
#[derive(Debug)]
pub struct Line {
    pairs: Option<String>,
}

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self { pairs: file().map(|_| String::new()) }
    }

    /// Whether a log is kept at all.
    pub fn is_kept(&self) -> bool {
        self.pairs.is_some()
    }

    /// Adds one pair.
    pub fn put(&mut self, key: &str, value: impl Display) {
        if let Some(pairs) = &mut self.pairs {
            // Writing to a String cannot fail.
            let _ = write!(pairs, " {key}={value}");
        }
    }

    /// Adds one pair whose value is an address.
    pub fn put_address(&mut self, key: &str, address: u64) {
        self.put(key, format_args!("{address:#x}"));
    }

    /// Writes the line; `device` is the ordinal of the calling thread's device, -1 for none.
    pub fn finish(self, device: i32, call: &str, result: i64) {
        let (Some(pairs), Some(mut file)) = (self.pairs, file()) else {
            return;
        };
        let pid = std::process::id();
        // SAFETY: gettid takes no argument and only reads the caller's thread id.
        let tid = unsafe { libc::gettid() };
        let line = format!("pid={pid} tid={tid} dev={device} call={call} ret={result}{pairs}\n");
        // A full disk must not change what the simulated call returns.
        let _ = file.write_all(line.as_bytes());
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}
