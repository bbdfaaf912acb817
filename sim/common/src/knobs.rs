//! Knobs by environment variable: numbers, sizes, and calls that fail at their n-th time.
//!
//! A value that cannot be read ends the process with one line: a test that runs under other settings than it asked for
//! is worse than one that does not run.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ends the process for a knob that cannot be read.
fn refuse(name: &str, text: &str, allowed: &str) -> ! {
    eprintln!("simulated library: {name}={text}: expected {allowed}");
    std::process::abort()
}

/// The text of a knob; unset and empty are the same.
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A decimal number of any integer type, or the default.
pub fn number<T: FromStr>(name: &str, default: T) -> T {
    match text(name) {
        None => default,
        Some(given) => given.parse().unwrap_or_else(|_| refuse(name, &given, "a number")),
    }
}

/// A number of bytes, with the suffix k, m or g (powers of 1024) or none.
pub fn bytes(name: &str, default: u64) -> u64 {
    match text(name) {
        None => default,
        Some(given) => parse_bytes(&given).unwrap_or_else(|| refuse(name, &given, "bytes, with k, m, g or no suffix")),
    }
}

fn parse_bytes(given: &str) -> Option<u64> {
    let (digits, shift) = match given.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&given[..given.len() - 1], 10),
        b'm' => (&given[..given.len() - 1], 20),
        b'g' => (&given[..given.len() - 1], 30),
        _ => (given, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A list of numbers separated by commas; unset is the empty list.
pub fn list<T: FromStr>(name: &str) -> Vec<T> {
    let Some(given) = text(name) else {
        return Vec::new();
    };
    given.split(',').map(|part| part.trim().parse().unwrap_or_else(|_| refuse(name, &given, "numbers separated by commas"))).collect()
}

/// A call that fails from its n-th time on: `N[!][:CODE]`, counted from 1 in each process.
///
/// `3` fails the third call and every later one, `3!` the third only, and `:CODE` is what the call returns instead of
/// its usual code.
#[derive(Debug, Default)]
pub struct FailAt {
    first: u64,
    once: bool,
    code: Option<i32>,
    calls: AtomicU64,
}

impl FailAt {
    /// Reads the knob; unset never fails.
    pub fn from_env(name: &str) -> Self {
        match text(name) {
            None => Self::default(),
            Some(given) => Self::parse(&given).unwrap_or_else(|| refuse(name, &given, "N, N!, N:CODE or N!:CODE, N from 1")),
        }
    }

    fn parse(given: &str) -> Option<Self> {
        let (count, code) = match given.split_once(':') {
            Some((count, code)) => (count, Some(code.parse().ok()?)),
            None => (given, None),
        };
        let (digits, once) = match count.strip_suffix('!') {
            Some(digits) => (digits, true),
            None => (count, false),
        };
        let first = digits.parse().ok().filter(|&n| n > 0)?;
        Some(Self { first, once, code, calls: AtomicU64::new(0) })
    }

    /// Counts one call; `Some(code)` if it is one that fails.
    pub fn hit(&self, usual: i32) -> Option<i32> {
        if self.first == 0 {
            return None;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = if self.once { call == self.first } else { call >= self.first };
        fails.then(|| self.code.unwrap_or(usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_suffixes() {
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes("64k"), Some(65536));
        assert_eq!(parse_bytes("2G"), Some(2 << 30));
        assert_eq!(parse_bytes("k"), None);
        assert_eq!(parse_bytes("-1"), None);
    }

    #[test]
    fn a_failure_starts_at_the_named_call_and_stays() {
        let knob = FailAt::parse("2").unwrap();
        assert_eq!([knob.hit(7), knob.hit(7), knob.hit(7)], [None, Some(7), Some(7)]);
    }

    #[test]
    fn a_mark_makes_it_fail_once_and_a_code_replaces_the_usual_one() {
        let knob = FailAt::parse("2!:700").unwrap();
        assert_eq!([knob.hit(7), knob.hit(7), knob.hit(7)], [None, Some(700), None]);
        assert!(FailAt::parse("0").is_none());
        assert!(FailAt::parse("x").is_none());
    }
}
