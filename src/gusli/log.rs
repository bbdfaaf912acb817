//! What the library prints while nobody has named a file for it: the last line that is about a failure is kept, to be part of a line for the user.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

static LAST: Mutex<String> = Mutex::new(String::new());

/// Takes a piece of the library's log, a line as a rule.
pub fn take(text: &str) {
    for line in text.lines() {
        if line.contains("BUG!!!!") {
            // The library aborts the process next, and nobody else could say why. Where even that cannot be said, nothing is left to do.
            let _ = writeln!(std::io::stderr(), "gpuio: GUSLI's library ends this process: {}", plain(line));
        } else if ["rror", "annot"].iter().any(|sign| line.contains(sign)) {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = plain(line);
        }
    }
}

/// What the library has said about a failure since the last look.
pub fn reason() -> String {
    let last = std::mem::take(&mut *LAST.lock().unwrap_or_else(PoisonError::into_inner));
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
        take("\x1b[1;32mGUSLIc: Cannot open! errno=13\x1b[0;0m\n");
        take("all is well\n");
        assert_eq!(reason(), "; the library says: GUSLIc: Cannot open! errno=13");
        assert_eq!(reason(), "");
    }
}
