//! One transfer: what fate it has by the knobs, and how its bytes move.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::knobs::knobs;
use crate::library::{HANDLE_NOT_REGISTERED, INVALID_VALUE, MAPPING_RANGE, NOT_REGISTERED, Registered, context_of, driver, state};

/// The bounce buffer's size, and the most that moves at once.
const CHUNK: usize = 1 << 20;
const BLOCK: usize = 4096;

/// Why a transfer failed: an errno or a cuFile status where positive, what a call returns as it is where negative.
pub type Failure = i32;

/// A transfer that was checked.
pub struct Transfer {
    pub write: bool,
    pub file: Arc<Registered>,
    /// The context of the device memory; None for host memory.
    context: Option<usize>,
    address: u64,
    pub size: usize,
    file_offset: i64,
    pub fate: Fate,
}

/// A transfer as the caller named it.
#[derive(Clone, Copy)]
pub struct Request {
    pub write: bool,
    pub file: usize,
    pub base: u64,
    pub size: usize,
    pub file_offset: i64,
    pub offset: i64,
}

/// What the knobs have in store for a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    pub delay: Duration,
    pub failure: Option<Failure>,
    pub most: Option<usize>,
    pub stuck: bool,
}

impl Fate {
    fn next(size: usize) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let knobs = knobs();
        let number = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        let turn = usize::try_from(number - 1).unwrap_or(0);
        let delay = match knobs.delays.len() {
            0 => Duration::ZERO,
            length => knobs.delays[turn % length],
        };
        let short = knobs.short_every > 0 && number % knobs.short_every == 0;
        Self {
            delay,
            failure: knobs.fail_io.hit(libc::EIO),
            most: short.then(|| knobs.short_bytes.min(size / 2).max(1)),
            stuck: knobs.stuck.hit(0).is_some(),
        }
    }
}

/// The registered file of a handle.
pub fn file(handle: usize) -> Result<Arc<Registered>, Failure> {
    if handle == 0 {
        return Err(libc::EINVAL);
    }
    state().files.get(&handle).cloned().ok_or(HANDLE_NOT_REGISTERED)
}

impl Transfer {
    /// Checks a request and draws its fate.
    pub fn new(request: &Request) -> Result<Self, Failure> {
        let Request { write, file: handle, base, size, file_offset, offset } = *request;
        let file = file(handle)?;
        if base == 0 {
            return Err(libc::EINVAL);
        }
        let (Ok(from), true) = (u64::try_from(offset), file_offset >= 0) else { return Err(INVALID_VALUE) };
        let align = knobs().align;
        if [size as u64, file_offset.unsigned_abs(), from].iter().any(|value| value % align != 0) {
            return Err(libc::EINVAL);
        }
        let context = context_of(base).map_err(|status| -status.err)?;
        let end = from.checked_add(size as u64).ok_or(MAPPING_RANGE)?;
        let registered = state().buffers.get(&base).copied();
        match (registered, context) {
            (Some(buffer), _) if end > buffer.size => return Err(MAPPING_RANGE),
            // Device memory that was not registered: its allocation's own start and size are the bounds.
            (None, Some(_)) => {
                let range = driver().and_then(|driver| driver.address_range(base).map_err(|_| Default::default()));
                match range {
                    Ok((start, bytes)) if start == base && end <= bytes as u64 => {}
                    Ok((start, _)) if start == base => return Err(MAPPING_RANGE),
                    _ => return Err(NOT_REGISTERED),
                }
            }
            _ => {}
        }
        Ok(Self { write, file, context, address: base + from, size, file_offset, fate: Fate::next(size) })
    }

    /// Does it, after its delay; bytes moved.
    pub fn run(&self) -> Result<usize, Failure> {
        if self.fate.stuck {
            loop {
                thread::park();
            }
        }
        thread::sleep(self.fate.delay);
        self.run_now()
    }

    /// Does it without its delay.
    pub fn run_now(&self) -> Result<usize, Failure> {
        if let Some(failure) = self.fate.failure {
            return Err(failure);
        }
        let size = self.fate.most.map_or(self.size, |most| most.min(self.size));
        let mut bounce = Bounce::take();
        let device = self.context.map(Private::take).transpose()?;
        let mut done = 0;
        while done < size {
            let part = CHUNK.min(size - done);
            let moved = self.part(&mut bounce, device.as_ref(), done, part)?;
            done += moved;
            if moved < part {
                break;
            }
        }
        Ok(done)
    }

    /// Moves one part; fewer bytes than asked for mean the end of the file.
    fn part(&self, bounce: &mut Bounce, device: Option<&Private>, done: usize, part: usize) -> Result<usize, Failure> {
        let position = self.file_offset + done as i64;
        let address = self.address + done as u64;
        // A descriptor opened with O_DIRECT takes whole blocks only.
        let whole = position % BLOCK as i64 == 0 && part % BLOCK == 0;
        let fd = match self.file.buffered() {
            Some(buffered) if !whole => buffered.as_raw_fd(),
            _ => self.file.fd,
        };
        if self.write {
            copy(device, bounce.address(), address, part)?;
        }
        let moved = bounce.transfer(self.write, fd, part, position)?;
        if !self.write {
            copy(device, address, bounce.address(), moved)?;
        }
        Ok(moved)
    }
}

/// Copies between the bounce buffer and the transfer's memory.
fn copy(device: Option<&Private>, to: u64, from: u64, bytes: usize) -> Result<(), Failure> {
    match device {
        Some(private) => private.copy(to, from, bytes),
        None => {
            // SAFETY: both ends are host memory: our bounce buffer, and a range that the caller of the C function
            // promised; they do not overlap, since the buffer is our own.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
            Ok(())
        }
    }
}

/// A context made current, and a stream of it that is the library's own; given back when dropped.
struct Private {
    context: usize,
    stream: usize,
}

/// Streams not in use, by context.
fn idle() -> MutexGuard<'static, HashMap<usize, Vec<usize>>> {
    static IDLE: OnceLock<Mutex<HashMap<usize, Vec<usize>>>> = OnceLock::new();
    IDLE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Destroys the streams not in use: the driver is being closed.
pub fn destroy_idle_streams() {
    let Ok(driver) = driver() else { return };
    for (_, streams) in idle().drain() {
        for stream in streams {
            // A context that is gone has taken its streams along.
            let _ = driver.stream_destroy(stream);
        }
    }
}

impl Private {
    fn take(context: usize) -> Result<Self, Failure> {
        let driver = driver().map_err(|status| -status.err)?;
        driver.context_push(context).map_err(|_| libc::EIO)?;
        let known = idle().get_mut(&context).and_then(Vec::pop);
        let stream = match known {
            Some(stream) => Ok(stream),
            None => driver.stream_create(1),
        };
        match stream {
            Ok(stream) => Ok(Self { context, stream }),
            Err(_) => {
                // Nothing is known of a context whose stream cannot be made; the push is undone as far as it goes.
                let _ = driver.context_pop();
                Err(libc::EIO)
            }
        }
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Failure> {
        let driver = driver().map_err(|status| -status.err)?;
        // SAFETY: one end is a bounce buffer that outlives the wait below, the other an address that the driver
        // checks.
        let copied = unsafe { driver.copy_async(to, from, bytes, self.stream) };
        copied.and_then(|()| driver.stream_sync(self.stream)).map_err(|_| libc::EIO)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        idle().entry(self.context).or_default().push(self.stream);
        if let Ok(driver) = driver() {
            // The push succeeded, so there is something to pop.
            let _ = driver.context_pop();
        }
    }
}

/// One aligned buffer of `CHUNK` bytes; given back when dropped.
struct Bounce {
    memory: NonNull<u8>,
}

/// Buffers not in use, as addresses.
fn spare() -> MutexGuard<'static, Vec<usize>> {
    static SPARE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees the buffers not in use.
pub fn free_spare_buffers() {
    for address in spare().drain(..) {
        // SAFETY: allocated by `take` with this layout, and in nobody's use.
        unsafe { dealloc(address as *mut u8, layout()) };
    }
}

fn layout() -> Layout {
    Layout::from_size_align(CHUNK, BLOCK).expect("a power of two and a size that fits")
}

impl Bounce {
    fn take() -> Self {
        let known = spare().pop().and_then(|address| NonNull::new(address as *mut u8));
        let memory = known.unwrap_or_else(|| {
            // SAFETY: the layout has a size.
            let memory = unsafe { alloc(layout()) };
            NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout()))
        });
        Self { memory }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    /// Reads into the buffer or writes from it; fewer bytes only at the end of the file.
    fn transfer(&mut self, write: bool, fd: i32, bytes: usize, position: i64) -> Result<usize, Failure> {
        let mut done = 0;
        while done < bytes {
            let (memory, left, at) = (self.memory.as_ptr().wrapping_add(done), bytes - done, position + done as i64);
            // SAFETY: `done` + `left` is at most CHUNK, the buffer's size.
            let moved = unsafe { if write { libc::pwrite(fd, memory.cast(), left, at) } else { libc::pread(fd, memory.cast(), left, at) } };
            match usize::try_from(moved) {
                Ok(0) => break,
                Ok(moved) => done += moved,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error.raw_os_error().unwrap_or(libc::EIO));
                    }
                }
            }
        }
        Ok(done)
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        spare().push(self.memory.as_ptr() as usize);
    }
}
