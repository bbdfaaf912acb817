//! The environment's wishes; the table is in `lib.rs`.

use std::sync::OnceLock;
use std::time::Duration;

use crate::instant;
use sim_common::knobs::{FailAt, bytes, list, number};

use crate::library::{rules, vendor};

pub struct Knobs {
    pub version: i32,
    pub delays: Vec<Duration>,
    pub fail_io: FailAt,
    pub short_every: u64,
    pub short_bytes: usize,
    pub stuck: FailAt,
    pub align: u64,
    pub fail_open: FailAt,
    pub fail_handle: FailAt,
    pub fail_buf: FailAt,
    pub fail_setup: FailAt,
    pub fail_submit: FailAt,
    pub fail_status: FailAt,
    pub fail_async: FailAt,
    pub fail_stream: FailAt,
    pub driver_code: i32,
    pub bar: u64,
    pub compat: bool,
    pub batch_max: u32,
    pub batch_limit: u32,
    pub batch_fail: Vec<u64>,
    pub batch_fail_code: i32,
    pub batch_loses: bool,
    pub pooled: u64,
    pub slabs: Option<u32>,
    pub async_max: u32,
    pub batch_works: bool,
    pub no_fast_path: i32,
    pub threads: usize,
}

/// The knobs of this process.
pub fn knobs() -> &'static Knobs {
    static KNOBS: OnceLock<Knobs> = OnceLock::new();
    KNOBS.get_or_init(|| {
        let name = |suffix: &str| format!("{}{suffix}", vendor().knobs);
        let fail = |suffix: &str| FailAt::from_env(&name(suffix));
        if number(&name("INSTANT"), 0) != 0 {
            instant::switch_on();
        }
        let batch_max = number(&name("BATCH_MAX"), 128);
        Knobs {
            version: number(&name("VERSION"), 1200),
            delays: list(&name("DELAY_US")).into_iter().map(Duration::from_micros).collect(),
            fail_io: fail("FAIL_IO"),
            short_every: number(&name("SHORT_EVERY"), 0),
            short_bytes: number(&name("SHORT_BYTES"), 4096),
            stuck: fail("STUCK"),
            align: number(&name("ALIGN"), 1_u64).max(1),
            fail_open: fail("FAIL_OPEN"),
            fail_handle: fail("FAIL_HANDLE"),
            fail_buf: fail("FAIL_BUF"),
            fail_setup: fail("FAIL_SETUP"),
            fail_submit: fail("FAIL_SUBMIT"),
            fail_status: fail("FAIL_STATUS"),
            fail_async: fail("FAIL_ASYNC"),
            fail_stream: fail("FAIL_STREAM"),
            driver_code: number(&name("DRIVER_CODE"), 0),
            bar: bytes(&name("BAR"), u64::MAX),
            compat: number(&name("COMPAT"), 0) != 0,
            batch_max,
            batch_limit: number(&name("BATCH_LIMIT"), batch_max),
            batch_fail: list(&name("BATCH_FAIL")),
            batch_fail_code: number(&name("BATCH_FAIL_CODE"), libc::EIO),
            batch_loses: number(&name("BATCH_LOSES"), 0) != 0,
            pooled: number(&name("POOLED"), 0),
            slabs: Some(number(&name("SLABS"), u32::MAX)).filter(|&slabs| slabs != u32::MAX),
            async_max: number(&name("ASYNC_MAX"), u32::MAX),
            batch_works: number(&name("BATCH_WORKS"), u8::from(rules().batch_works)) != 0,
            no_fast_path: number(&name("NO_FAST_PATH"), 0),
            threads: number(&name("THREADS"), 4_usize).max(1),
        }
    })
}
