//! A lock between processes for whoever has GUSLI's library, alone or under NIXL, make shared memory. The library names that (`gs_iobuf_…`) by a
//! number that starts at 1 in every process: of two that connect or register at the same time, even for different devices, one can get the
//! other's memory, or none behind its mapping.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// What is locked: the folder of the names itself, so that nothing has to be made and nothing is left.
const PLACE: &str = "/dev/shm";
/// How long others are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Held until dropped.
pub fn alone() -> Result<File, String> {
    let place = File::open(PLACE).map_err(|error| format!("{PLACE}: {error}; GUSLI's library needs it"))?;
    let began = Instant::now();
    loop {
        match flock(&place, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(place),
            Err(Errno::INTR | Errno::WOULDBLOCK) if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => {
                return Err(format!(
                    "another process has held the lock on {PLACE} for {} s ({error}): GUSLI cannot register",
                    PATIENCE.as_secs()
                ));
            }
        }
    }
}
