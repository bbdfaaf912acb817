//! Memory that CUDA knows about: where it lies, whose it is, and how the driver reaches it.
//!
//! Device memory is one memory file mapped twice. The device address maps it without any access right, so a CPU that
//! touches it faults; the driver uses the second mapping. Managed and pinned memory have one mapping for both.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::abi::{Code, HOST_MEMORY_ALREADY_REGISTERED, Handle, INVALID_VALUE};

/// What fresh memory holds: eight letters that show in a dump and are easily looked for.
pub const POISON: &[u8; 8] = b"gpupoisn";

/// Every allocation begins at a multiple of this, the page size of a GPU's BAR.
pub const ALIGNMENT: usize = 64 << 10;

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Out of the CPU's reach.
    Device,
    /// Reached by both.
    Managed,
    /// Host memory that the driver allocated.
    Pinned,
    /// Host memory of the caller's, registered.
    Registered,
}

/// One range that the driver knows. Its mappings live as long as anyone holds it: a copy in flight survives a free.
#[derive(Debug)]
pub struct Range {
    pub base: u64,
    pub size: u64,
    pub kind: Kind,
    pub context: Handle,
    pub device: i32,
    /// A number of its own for each allocation of the process.
    pub id: u64,
    /// Where the driver reaches the byte at `base`.
    alias: NonNull<u8>,
    /// Mappings to undo: address and length.
    mappings: Vec<(NonNull<u8>, usize)>,
}

// SAFETY: the raw pointers are mappings that belong to this value alone until it is dropped; the bytes behind them are
// only ever touched by raw copies, as a device's memory is, and no reference to them is made.
unsafe impl Send for Range {}
// SAFETY: as for Send: nothing is reached through a shared Range but addresses, and `mappings` changes only in drop.
unsafe impl Sync for Range {}

impl Range {
    /// Fresh memory of a device, poisoned.
    pub fn allocate(kind: Kind, size: u64, context: Handle, device: i32, id: u64) -> io::Result<Self> {
        let wanted = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let length = wanted.checked_next_multiple_of(ALIGNMENT).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = memory_file(length)?;
        // Reserved with room to align the start, and one aligned page without access that stays behind the end.
        let reserved = length.checked_add(2 * ALIGNMENT).ok_or(io::ErrorKind::OutOfMemory)?;
        let reservation = map(None, reserved, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        let mut range = Self { base: 0, size, kind, context, device, id, alias: reservation, mappings: vec![(reservation, reserved)] };
        let base = reservation.as_ptr().wrapping_add(reservation.as_ptr().align_offset(ALIGNMENT));
        let rights = if kind == Kind::Device { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
        let at = map(NonNull::new(base), length, rights, libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd())?;
        range.base = at.as_ptr() as u64;
        range.alias = if kind == Kind::Device {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let second = map(None, length, rights, libc::MAP_SHARED, file.as_raw_fd())?;
            range.mappings.push((second, length));
            second
        } else {
            at
        };
        // SAFETY: `alias` maps `length` bytes for reading and writing, and no one else knows of them yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(range.alias.as_ptr(), length) };
        for word in bytes.chunks_exact_mut(POISON.len()) {
            word.copy_from_slice(POISON);
        }
        Ok(range)
    }

    /// Host memory of the caller's.
    pub fn register(base: NonNull<u8>, size: u64, context: Handle, device: i32, id: u64) -> Self {
        let kind = Kind::Registered;
        Self { base: base.as_ptr() as u64, size, kind, context, device, id, alias: base, mappings: Vec::new() }
    }

    pub fn end(&self) -> u64 {
        self.base + self.size
    }

    pub fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Pinned | Kind::Registered)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        for (address, length) in self.mappings.drain(..) {
            // SAFETY: a mapping that this value made, not undone before, and that nothing uses once it is dropped.
            unsafe { libc::munmap(address.as_ptr().cast(), length) };
        }
    }
}

fn memory_file(length: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name is a constant C string; the call only makes a descriptor.
    let raw = unsafe { libc::memfd_create(c"gpuio-sim-device".as_ptr(), libc::MFD_CLOEXEC) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(raw) };
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: a descriptor that we own and a length; no memory is involved.
    if unsafe { libc::ftruncate(file.as_raw_fd(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

fn map(at: Option<NonNull<u8>>, length: usize, rights: i32, flags: i32, fd: i32) -> io::Result<NonNull<u8>> {
    let at = at.map_or(std::ptr::null_mut(), |at| at.as_ptr().cast());
    // SAFETY: without MAP_FIXED the kernel picks free addresses; with it, the only caller passes a part of a
    // reservation of its own that nothing uses.
    let address = unsafe { libc::mmap(at, length, rights, flags, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// One end of a copy: bytes that the driver can reach, and what keeps them mapped.
#[derive(Clone, Debug)]
pub struct Place {
    address: *mut u8,
    /// None for plain host memory, which the caller keeps alive.
    pub range: Option<Arc<Range>>,
}

// SAFETY: an address and the owner of its mapping; who uses a Place on another thread (a stream) is bound by the API's
// contract that the bytes stay until the stream has passed.
unsafe impl Send for Place {}

impl Place {
    pub fn is_device(&self) -> bool {
        self.range.as_ref().is_some_and(|range| range.kind == Kind::Device)
    }

    /// Moves `length` bytes here from `from`. Both were resolved for at least that length.
    pub fn copy_from(&self, from: &Self, length: usize) {
        // SAFETY: each end is either inside a range that is still mapped (checked when it was resolved, held since) or
        // plain host memory that the caller promised; `copy` permits the two to overlap.
        unsafe { std::ptr::copy(from.address, self.address, length) };
    }

    /// Moves bytes between a file and here; fewer than asked for at the end of the file. The error is an errno.
    pub fn transfer(&self, write: bool, fd: i32, length: usize, offset: i64) -> Result<usize, i32> {
        // SAFETY: as for copy_from: resolved for at least `length` bytes, which stay mapped.
        let moved = unsafe {
            if write { libc::pwrite(fd, self.address.cast(), length, offset) } else { libc::pread(fd, self.address.cast(), length, offset) }
        };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Sets `count` values of `value`'s size, `rows` times, each row `pitch` bytes behind the one before.
    pub fn fill(&self, value: &[u8], count: usize, pitch: usize, rows: usize) {
        for row in 0..rows {
            if let [byte] = value {
                // SAFETY: as below, for a whole row at once.
                unsafe { std::ptr::write_bytes(self.address.add(row * pitch), *byte, count) };
                continue;
            }
            for column in 0..count {
                let offset = row * pitch + column * value.len();
                // SAFETY: resolved for (rows - 1) * pitch + count * size bytes, of which this is a part.
                unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), self.address.add(offset), value.len()) };
            }
        }
    }
}

/// All ranges of the process, by address.
#[derive(Debug, Default)]
pub struct Ranges {
    by_base: BTreeMap<u64, Arc<Range>>,
}

impl Ranges {
    pub fn insert(&mut self, range: Range) -> Result<Arc<Range>, Code> {
        let (base, end) = (range.base, range.end());
        if self.by_base.range(..end).next_back().is_some_and(|(_, before)| before.end() > base) {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        let range = Arc::new(range);
        self.by_base.insert(base, Arc::clone(&range));
        Ok(range)
    }

    /// The range that holds this address.
    pub fn find(&self, address: u64) -> Option<&Arc<Range>> {
        let (_, range) = self.by_base.range(..=address).next_back()?;
        (address < range.end()).then_some(range)
    }

    /// Takes out the range that begins exactly here.
    pub fn remove(&mut self, base: u64, kinds: &[Kind]) -> Option<Arc<Range>> {
        if !kinds.contains(&self.by_base.get(&base)?.kind) {
            return None;
        }
        self.by_base.remove(&base)
    }

    /// Takes out all that a context owns.
    pub fn remove_context(&mut self, context: Handle) -> usize {
        let before = self.by_base.len();
        self.by_base.retain(|_, range| range.context != context);
        before - self.by_base.len()
    }

    /// Bytes that a device has given out.
    pub fn used(&self, device: i32) -> u64 {
        let of_device = |range: &&Arc<Range>| range.device == device && !range.is_host();
        self.by_base.values().filter(of_device).map(|range| range.size).sum()
    }

    /// The driver's way to `length` bytes at an address. Inside a known range the whole length must be too; an address
    /// that no range holds is taken for plain host memory, up to where the next range begins.
    pub fn resolve(&self, address: u64, length: u64) -> Result<Place, Code> {
        let end = address.checked_add(length).ok_or(INVALID_VALUE)?;
        if let Some(range) = self.find(address) {
            if end > range.end() {
                return Err(INVALID_VALUE);
            }
            let offset = usize::try_from(address - range.base).map_err(|_| INVALID_VALUE)?;
            let address = range.alias.as_ptr().wrapping_add(offset);
            return Ok(Place { address, range: Some(Arc::clone(range)) });
        }
        if address == 0 || self.by_base.range(address..end).next().is_some() {
            return Err(INVALID_VALUE);
        }
        Ok(Place { address: address as *mut u8, range: None })
    }
}
