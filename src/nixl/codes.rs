//! The library's statuses, which stay integers, and what they mean.

use crate::common::transport::Moved;

pub const DONE: i32 = 0;
pub const IN_FLIGHT: i32 = 1;
const INVALID: i32 = -1;

/// A call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub call: &'static str,
    pub status: i32,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.call, explain(self.status))
    }
}

/// What a status means.
pub fn explain(status: i32) -> String {
    let name = match status {
        INVALID => "an invalid parameter",
        -2 => "the plugin failed",
        -3 => "an invalid state",
        -4 => "an exception",
        -6 => "not found",
        _ => return format!("NIXL status {status}"),
    };
    format!("NIXL status {status}, {name}")
}

/// How an operation that ended with `status` failed.
pub fn failed(status: i32) -> Moved {
    Moved::failed(if status == INVALID { libc::EINVAL } else { libc::EIO }, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_its_errno_and_an_unknown_one_stays_a_number() {
        assert_eq!(failed(-1).errno, libc::EINVAL);
        assert_eq!(failed(-2), Moved::failed(libc::EIO, -2));
        assert_eq!(explain(-2), "NIXL status -2, the plugin failed");
        assert_eq!(explain(-77), "NIXL status -77");
        assert_eq!(explain(5), "NIXL status 5");
    }
}
