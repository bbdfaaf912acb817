//! Whether the batch call really does I/O: libhipfile 0.2 accepts a batch, never does it, and knows nothing of it when asked.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::Hipfile;
use crate::common::device::{Device, DeviceMemory, Kind};
use crate::common::driver::{Driver, Handle};
use crate::common::gpufile::entries::{Entry, Event};
use crate::common::gpufile::{ALIGNMENT, Failure, Files, Library};
use crate::common::transport::{Buffer, Operation, Transfer};

/// How long the one operation of the probe has.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads one block of a file of its own, beside `job_file`, by a batch of one, and looks at the bytes. The error is the line for the user.
pub fn try_batch(files: &mut Files<Hipfile>, job_file: &Path) -> Result<(), String> {
    let device = files.device().ok_or("no device")?.clone();
    let (file, block) =
        block_of_its_own(job_file).map_err(|error| format!("gpu_mode=batch is tried on a file of its own first: {error}"))?;
    let explain = |error| format!("gpu_mode=batch is tried on device memory of its own first: {}", device.explain(error));
    let memory = DeviceMemory::new(device.clone(), Kind::Device, ALIGNMENT).map_err(explain)?;
    device.clear(memory.address(), ALIGNMENT).map_err(explain)?;
    let handle = files.open_file(file.as_raw_fd(), "the file that gpu_mode=batch is tried on")?;
    match read_by_batch(files, &file, handle, &memory) {
        Ok(bytes) if bytes == ALIGNMENT && holds(device.as_ref(), &memory, &block) => {
            files.close_file(handle);
            Ok(())
        }
        tried => {
            // Who knows what the library still does with them.
            files.abandon();
            std::mem::forget((file, memory));
            let why = match tried {
                Ok(_) => "wrong bytes came".to_owned(),
                Err(None) => "nothing came of it".to_owned(),
                Err(Some(failure)) => Library::<Hipfile>::explain(failure),
            };
            let version = &files.library().version;
            Err(format!("gpu_mode=batch: {version} takes a batch and does not do it ({why}): use gpu_mode=pool, stream or sync"))
        }
    }
}

/// A file without a name, with one block in it: on the file system of `job_file` where that takes one, else (a block device) among the temporary
/// files.
fn block_of_its_own(job_file: &Path) -> std::io::Result<(File, Vec<u8>)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE);
    let beside = job_file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let file = match beside.map(|folder| options.open(folder)) {
        Some(Ok(file)) => file,
        _ => options.open(std::env::temp_dir())?,
    };
    let block: Vec<u8> = (0..ALIGNMENT).map(|index| (index * 7 % 251) as u8).collect();
    file.write_all_at(&block, 0)?;
    Ok((file, block))
}

/// Bytes that a batch of one has read; None where it has not ended in time.
fn read_by_batch(files: &Files<Hipfile>, file: &File, handle: Handle, memory: &DeviceMemory) -> Result<usize, Option<Failure>> {
    let calls = &files.library().calls;
    let (fd, base) = (file.as_raw_fd(), memory.address());
    let buffer = Buffer::at(0, ALIGNMENT); // the library is told the length only
    let operation = Operation { tag: 0, transfer: Transfer::Read, fd, handle, offset: 0, buffer, base, at: 0 };
    let batch = calls.set_up_batch(1)?;
    calls.submit_batch(batch, &mut [Entry::new(&operation, 0, 0)])?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let mut events = [Event::EMPTY];
        let count = calls.batch_status(batch, 1, Duration::from_millis(10), &mut events)?;
        if let Some(result) = events[..count].first().and_then(Event::result) {
            calls.destroy_batch(batch);
            return result.map_err(Some);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(None)
}

fn holds(device: &dyn Device, memory: &DeviceMemory, block: &[u8]) -> bool {
    let mut came = vec![0; block.len()];
    let buffer = Buffer::new(came.as_mut_slice());
    device.copy_out(memory.address(), buffer).is_ok() && came == block
}
