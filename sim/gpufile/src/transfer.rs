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
use crate::library::{INTERNAL, INVALID_VALUE, MEMORY_TYPE_INVALID, NOT_REGISTERED, Registered, gpu, memory, rules, state};
use crate::vendor::Memory;

/// The bounce buffer's size, and the most that moves at once.
const CHUNK: usize = 1 << 20;
const BLOCK: usize = 4096;

/// Transfers that went by the runtime's file call, and those that were bounced.
static DIRECT: AtomicU64 = AtomicU64::new(0);
static BOUNCED: AtomicU64 = AtomicU64::new(0);

/// How many transfers took each of the two ways since this was last asked.
pub fn counted() -> [u64; 2] {
    [&DIRECT, &BOUNCED].map(|count| count.swap(0, Ordering::Relaxed))
}

/// A switch of libhipfile's.
fn is_on(variable: &str, default: bool) -> bool {
    std::env::var(variable).map_or(default, |text| text == "true")
}

/// Why a transfer failed: an errno or a cuFile status where positive, what a call returns as it is where negative.
pub type Failure = i32;

/// A transfer that was checked.
pub struct Transfer {
    pub write: bool,
    pub file: Arc<Registered>,
    /// None for memory that only the host knows.
    memory: Option<Memory>,
    /// It is one of a blocking call.
    blocks: bool,
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
    state().files.get(&handle).cloned().ok_or(rules().unknown_file)
}

impl Transfer {
    /// Checks a request and draws its fate.
    pub fn new(request: &Request, blocks: bool) -> Result<Self, Failure> {
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
        let memory = memory(base).map_err(|status| -status.err)?;
        if !rules().moves_host_memory && !memory.is_some_and(|memory| memory.is_device) {
            return Err(-MEMORY_TYPE_INVALID);
        }
        let end = from.checked_add(size as u64).ok_or(rules().outside)?;
        let registered = state().buffers.get(&base).copied();
        match (registered, memory) {
            (Some(buffer), _) if end > buffer.size => return Err(rules().outside),
            // Device memory that was not registered: its allocation's own start and size are the bounds.
            (None, Some(_)) => {
                let range = gpu().and_then(|gpu| gpu.range(base).map_err(|_| Default::default()));
                match range {
                    Ok((start, bytes)) if start == base && end <= bytes as u64 => {}
                    Ok((start, _)) if start == base => return Err(rules().outside),
                    _ => return Err(NOT_REGISTERED),
                }
            }
            _ => {}
        }
        Ok(Self { write, file, memory, blocks, address: base + from, size, file_offset, fate: Fate::next(size) })
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
        if let Some(moved) = self.straight(size) {
            return moved;
        }
        let mut bounce = Bounce::take();
        let device = self.memory.map(|memory| Private::take(memory.owner)).transpose()?;
        let mut done = 0;
        while done < size {
            let part = CHUNK.min(size - done);
            let moved = self.part(&mut bounce, device.as_ref(), done, part)?;
            done += moved;
            if moved < part {
                break;
            }
        }
        BOUNCED.fetch_add(1, Ordering::Relaxed);
        Ok(done)
    }

    /// Moves the bytes by the runtime's file call, where the library has that path and takes it; None where they are to be bounced.
    ///
    /// As the real library does: what fits the device's blocks is taken, though amdgpu wants whole pages; only ENODEV and EREMOTEIO fall
    /// back, and an asynchronous call always does.
    fn straight(&self, size: usize) -> Option<Result<usize, Failure>> {
        const DEVICE_BLOCK: u64 = 512;
        let Some(Memory { is_device: true, .. }) = self.memory else { return None };
        // A transfer that a knob makes short is not the runtime's to refuse.
        if self.fate.most.is_some() && size % BLOCK != 0 {
            return None;
        }
        let numbers = [size as u64, self.file_offset as u64, self.address];
        let fits = numbers.iter().all(|number| number % DEVICE_BLOCK == 0) && self.blocks && !is_on("HIPFILE_FORCE_COMPAT_MODE", false);
        let gpu = gpu().ok()?;
        let call = || {
            let fd = self.file.unbuffered()?.as_raw_fd();
            match knobs().no_fast_path {
                0 => gpu.file_call(self.write, fd, self.address, size, self.file_offset),
                errno => Some(Err(errno)),
            }
        };
        match if fits { call() } else { None } {
            Some(Err(libc::ENODEV | libc::EREMOTEIO)) | None if is_on("HIPFILE_ALLOW_COMPAT_MODE", true) => None,
            None => Some(Err(-INTERNAL)),
            Some(moved) => {
                DIRECT.fetch_add(1, Ordering::Relaxed);
                Some(moved)
            }
        }
    }

    /// Moves one part; fewer bytes than asked for mean the end of the file.
    fn part(&self, bounce: &mut Bounce, device: Option<&Private>, done: usize, part: usize) -> Result<usize, Failure> {
        let position = self.file_offset + done as i64;
        let address = self.address + done as u64;
        // A descriptor opened with O_DIRECT takes whole blocks only.
        let whole = position % BLOCK as i64 == 0 && part % BLOCK == 0;
        let fd = match self.file.buffered() {
            Some(buffered) if !whole || rules().syncs_bounced_writes => buffered.as_raw_fd(),
            _ => self.file.fd,
        };
        if self.write {
            copy(device, bounce.address(), address, part)?;
        }
        let moved = bounce.transfer(self.write, fd, part, position)?;
        if !self.write {
            copy(device, address, bounce.address(), moved)?;
        }
        // SAFETY: a number of a descriptor that is open.
        if self.write && self.blocks && rules().syncs_bounced_writes && unsafe { libc::fdatasync(fd) } != 0 {
            return Err(libc::EIO);
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

/// An owner of memory made current, and a stream of it that is the library's own; given back when dropped.
struct Private {
    owner: usize,
    stream: usize,
}

/// Streams not in use, by owner.
fn idle() -> MutexGuard<'static, HashMap<usize, Vec<usize>>> {
    static IDLE: OnceLock<Mutex<HashMap<usize, Vec<usize>>>> = OnceLock::new();
    IDLE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Destroys the streams not in use: the driver is being closed.
pub fn destroy_idle_streams() {
    let Ok(gpu) = gpu() else { return };
    for (_, streams) in idle().drain() {
        streams.into_iter().for_each(|stream| gpu.destroy_stream(stream));
    }
}

impl Private {
    fn take(owner: usize) -> Result<Self, Failure> {
        let gpu = gpu().map_err(|status| -status.err)?;
        gpu.push(owner).map_err(|_| libc::EIO)?;
        let known = idle().get_mut(&owner).and_then(Vec::pop);
        let stream = match known {
            Some(stream) => Ok(stream),
            None => gpu.make_stream(),
        };
        match stream {
            Ok(stream) => Ok(Self { owner, stream }),
            Err(_) => {
                gpu.pop();
                Err(libc::EIO)
            }
        }
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Failure> {
        let gpu = gpu().map_err(|status| -status.err)?;
        // SAFETY: one end is a bounce buffer that outlives the call, the other an address that the runtime checks.
        unsafe { gpu.copy(to, from, bytes, self.stream) }.map_err(|_| libc::EIO)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        idle().entry(self.owner).or_default().push(self.stream);
        if let Ok(gpu) = gpu() {
            gpu.pop();
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
