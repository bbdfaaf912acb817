//! The ops tables that fio sees, and the version of `struct ioengine_ops` that they must have.
//!
//! `struct ioengine_ops` is a pure function of fio's IOOPS number for every release. The running fio's number is read from its own list
//! of engines; the slots are then checked against one of fio's engines before anything is filled in.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use super::engine::Engine;
use super::layout::{
    self,
    tables::{IoengineOps, TABLES},
};
use super::symbols::Symbols;
use super::{hooks, io_hooks, log, options, peek, symbols};

/// Larger than any fio's `struct ioengine_ops` (296 bytes at most up to 2026).
const OPS_BYTES: usize = 512;

/// Room for one `struct ioengine_ops`: fio keeps the address, and writes to it (dlhandle, flags), so it is static and writable.
#[repr(C, align(64))]
pub struct OpsTable(UnsafeCell<[u8; OPS_BYTES]>);

// SAFETY: the bytes are written once, in fill(), before fio has the address; afterwards they are fio's, which guards them itself.
unsafe impl Sync for OpsTable {}

impl OpsTable {
    /// An empty table, which fio refuses for its version number 0.
    pub const fn new() -> Self {
        Self(UnsafeCell::new([0; OPS_BYTES]))
    }

    /// The address that fio knows the engine by.
    pub fn address(&self) -> *mut c_void {
        self.0.get().cast()
    }

    fn set<T: Copy>(&self, offset: usize, value: T) {
        assert!(offset + size_of::<T>() <= OPS_BYTES, "an ops table of {OPS_BYTES} bytes has no offset {offset}");
        // SAFETY: in bounds by the line above; the write needs no alignment; nobody else has the address yet (see Sync).
        unsafe { self.address().cast::<u8>().add(offset).cast::<T>().write_unaligned(value) }
    }
}

/// One name under which the library can be loaded, with its table.
pub struct Entry {
    /// What fio prints as `ioengine=` and writes to JSON.
    pub name: &'static CStr,
    pub table: &'static OpsTable,
}

/// What the probing of the running fio found.
struct Probe {
    version: c_int,
    /// `None` where no known layout agrees with fio's own engines.
    layout: Option<IoengineOps>,
}

static INTERFACE: OnceLock<usize> = OnceLock::new();

/// The IOOPS number of the running fio, once known.
pub(super) fn interface() -> Option<usize> {
    INTERFACE.get().copied()
}

/// Fills the tables of all `entries` for the running fio. Does nothing in a process that is not fio.
///
/// A library that is preloaded into fio starts before fio's own engines are there to ask: it goes by fio's version then, and asks again
/// when fio asks for the engine.
pub fn fill<E: Engine>(entries: &'static [Entry]) {
    static OPTIONS: OnceLock<usize> = OnceLock::new();
    static FILLED: OnceLock<()> = OnceLock::new();
    if FILLED.get().is_some() {
        return;
    }
    let Some(fio) = symbols::fio() else { return };
    let probed = probe(fio);
    let found = match &probed {
        Some(Probe { version, layout: Some(layout) }) => Some((*version, *layout)),
        Some(Probe { version, layout: None }) => {
            log::line(&unknown(fio, *version));
            None
        }
        None => layout::of_version(fio).map(|table| (table.consts.fio_ioops_version as c_int, table.ops)),
    };
    if let Some((version, layout)) = found {
        let options = *OPTIONS.get_or_init(|| options::build::<E>() as usize);
        for entry in entries {
            write_table::<E>(entry, &layout, version, fio, options as *mut c_void);
        }
    }
    if let Some(probe) = probed {
        let _ = INTERFACE.set(probe.version as usize);
        let _ = FILLED.set(());
    }
}

fn unknown(fio: &Symbols, version: c_int) -> String {
    if TABLES.is_empty() {
        return format!("fio's structs are not known on {}: this library serves x86_64 and aarch64", std::env::consts::ARCH);
    }
    format!(
        "{} (engine interface {version}) is not known to this library, and none of the known interfaces ({} to {}) fits it; update libgpuio, \
         or build it with FIO_SRC=/path/to/that/fio and --features fio-src",
        fio.version(),
        TABLES.first().map_or(0, |t| t.consts.fio_ioops_version),
        TABLES.last().map_or(0, |t| t.consts.fio_ioops_version),
    )
}

fn write_table<E: Engine>(entry: &Entry, at: &IoengineOps, version: c_int, fio: &Symbols, options: *mut c_void) {
    let table = entry.table;
    table.set(at.name, entry.name.as_ptr());
    table.set(at.version, version);
    table.set(at.flags, hooks::flags(fio));
    table.set(at.init, hooks::init::<E> as *const c_void);
    table.set(at.post_init, hooks::post_init as *const c_void);
    table.set(at.queue, io_hooks::queue as *const c_void);
    table.set(at.commit, io_hooks::commit as *const c_void);
    table.set(at.getevents, io_hooks::getevents as *const c_void);
    table.set(at.event, io_hooks::event as *const c_void);
    table.set(at.cleanup, hooks::cleanup as *const c_void);
    table.set(at.iomem_alloc, hooks::iomem_alloc as *const c_void);
    table.set(at.iomem_free, hooks::iomem_free as *const c_void);
    table.set(at.io_u_init, hooks::io_u_init as *const c_void);
    table.set(at.open_file, hooks::open_file as *const c_void);
    table.set(at.close_file, hooks::close_file as *const c_void);
    table.set(at.get_file_size, hooks::get_file_size::<E> as *const c_void);
    if let Some(offset) = at.get_zoned_model {
        table.set(offset, hooks::get_zoned_model as *const c_void);
    }
    table.set(at.option_struct_size, options::struct_size::<E>() as c_int);
    table.set(at.options, options);
}

/// Reads the IOOPS number from the last engine in fio's list, by standing in that list for a moment; `None` while the list is empty.
fn probe(fio: &Symbols) -> Option<Probe> {
    let mut me = [0u64; OPS_BYTES / 8];
    me[2] = c"gpuio-probe".as_ptr() as u64; // `name`, at 16 in every version: fio prints it when it debugs
    let address = me.as_mut_ptr().cast::<c_void>();
    // SAFETY: register_ioengine links the table into fio's list through its first two words and reads `name`; both are there, and the
    // entry leaves the list again below, before `me` goes. fio loads engines from one thread at a time.
    unsafe { (fio.register_ioengine)(address) };
    let engines = engines(address as usize);
    // SAFETY: undoes the registration above; the entry is still linked.
    unsafe { (fio.unregister_ioengine)(address) };

    let version = peek::int(engines.first()? + 24)?;
    let known = TABLES.iter().rev().filter(|t| t.consts.fio_ioops_version == version as usize);
    let others = TABLES.iter().rev().filter(|t| t.consts.fio_ioops_version != version as usize);
    let fits = |ops: &IoengineOps| engines.iter().any(|&e| has_file_hooks(e, ops, fio)) && engines.iter().any(|&e| has_options(e, ops));
    let layout = known.chain(others).map(|t| t.ops).find(fits);
    Some(Probe { version, layout })
}

/// The addresses of the engines before `me` in fio's list, nearest first.
fn engines(me: usize) -> Vec<usize> {
    let (next, prev) = (peek::word(me), |at: usize| peek::word(at + 8));
    let mut found = Vec::new();
    let mut at = prev(me);
    // The list is a ring, and the probe was appended: what follows it is the head, which has no engine around it.
    while let Some(engine) = at.filter(|_| at != next && found.len() < 256) {
        found.push(engine);
        at = prev(engine);
    }
    found
}

/// Whether `engine` (one of fio's own) is a plain file engine whose file hooks stand where `ops` says: three words that must be the
/// addresses of three exported functions.
fn has_file_hooks(engine: usize, ops: &IoengineOps, fio: &Symbols) -> bool {
    peek::word(engine + ops.open_file) == Some(fio.generic_open_file as usize)
        && peek::word(engine + ops.close_file) == Some(fio.generic_close_file as usize)
        && peek::word(engine + ops.get_file_size) == Some(fio.generic_get_file_size as usize)
}

/// Whether `engine` has options where `ops` says: a small size, and a table whose first entry starts with a name. These are the last
/// slots of the struct, so a slot that a new fio has put in anywhere before them is noticed.
fn has_options(engine: usize, ops: &IoengineOps) -> bool {
    let size = peek::int(engine + ops.option_struct_size).unwrap_or(0);
    let name = peek::word(engine + ops.options).and_then(peek::word).and_then(|at| peek::text(at, 64));
    (1..65536).contains(&size) && name.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_graphic()))
}
