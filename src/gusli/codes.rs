//! The library's codes: what a request ended with, and why a device cannot be connected. Foreign integers stay integers.

use crate::common::transport::Moved;

pub const DONE: i32 = 0;
pub const IN_FLIGHT: i32 = -1;
pub const CANCELLED: i32 = -10;
pub const THROTTLED: i32 = -12;
pub const INVALID: i32 = -14;

pub const NOT_THERE: i32 = -99;

/// How a request that ended with `code` failed.
pub fn failed(code: i32) -> Moved {
    Moved::failed(if code == INVALID { libc::EINVAL } else { libc::EIO }, code)
}

/// What a request's code means, and what to do.
pub fn explain(code: i32) -> String {
    let text = match code {
        CANCELLED => "cancelled: the server is gone, and its device is not used any more in this process",
        -11 => "an internal fault of GUSLI's library",
        -13 => "failed for good",
        INVALID => {
            "invalid: a size or an offset that is no multiple of the device's block size, or a range beyond its end; use bs= and offsets that \
             are multiples of it"
        }
        -15 => "the device has failed the I/O, or moved a part of it only; dmesg may say more",
        _ => return format!("GUSLI error {code}"),
    };
    format!("GUSLI error {code}, {text}")
}

/// Why a device cannot be connected, or memory not be registered for it.
pub fn connecting(code: i32) -> String {
    let text = match code {
        -100 => "GUSLI cannot open the device",
        NOT_THERE => "nothing answers there, or the device cannot be opened; is the server running?",
        -98 => "it is already open",
        -97 => "the arguments are wrong: the I/O buffers are not in whole blocks of the device",
        _ => return format!("GUSLI error {code}"),
    };
    format!("{text} (GUSLI error {code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_errno_and_an_unknown_one_stays_a_number() {
        assert_eq!(failed(-14).errno, libc::EINVAL);
        assert_eq!(failed(-15), Moved::failed(libc::EIO, -15));
        assert!(explain(-15).starts_with("GUSLI error -15, the device"));
        assert_eq!(explain(-77), "GUSLI error -77");
        assert_eq!(connecting(7), "GUSLI error 7");
    }
}
