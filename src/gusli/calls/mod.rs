//! The functions of libgusli_clnt and of the shim. All unsafe code for GUSLI is in this folder.
//!
//! `request` is the one struct that both sides share, `system` what the library makes necessary of the operating system.

mod request;
mod system;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::{mem, ptr, slice};

use rustix::fs::MemfdFlags;

use super::log;
use crate::common::library::{self, Opened};
pub use request::{LIST_HEAD, ListRange, Manner, Order, Request, Waker, write_list};
pub use system::{hold_sigpipe, in_a_child, is_hung_up, wait_until_hung_up};

/// The object that build.rs has made; empty where it had no C++ compiler.
static SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gusli_shim.so"));

/// The name of a device in the library's configuration, padded with zeros.
pub type DeviceId = [u8; 16];

/// What the library says of a connected device.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Info {
    name: [u8; 32],
    /// What requests name the device by.
    pub descriptor: i32,
    /// What sizes and offsets are to be a multiple of, in bytes.
    pub block_size: u32,
    pub blocks: u64,
    /// Requests in flight at most.
    pub max_in_flight: u16,
    flags: u16,
}

const _: () = assert!(size_of::<Info>() == 56);

/// What the shim calls, in its order.
#[repr(C)]
struct ForShim([*const (); 4]);

// SAFETY: addresses of code, which never moves.
unsafe impl Send for ForShim {}
// SAFETY: as for Send.
unsafe impl Sync for ForShim {}

type OfDevice = unsafe extern "C" fn(*const c_void, *const DeviceId) -> c_int;
type Construct = unsafe extern "C" fn(
    *const ForShim,
    *const c_char,
    *const c_char,
    c_uint,
    unsafe extern "C" fn(*const c_char, usize) -> bool,
    *mut c_char,
    usize,
) -> c_int;
type Buffer = unsafe extern "C" fn(*const ForShim, *const DeviceId, *mut c_void, u64) -> c_int;

/// The library, loaded for as long as the process lives.
pub struct Library {
    /// What was loaded.
    pub name: String,
    for_shim: ForShim,
    construct: Construct,
    destroy: unsafe extern "C" fn(*const ForShim),
    add_buffer: Buffer,
    remove_buffer: Buffer,
    limit_stacks: unsafe extern "C" fn(usize) -> usize,
    restore_stacks: unsafe extern "C" fn(usize),
    connect: OfDevice,
    disconnect: OfDevice,
    force_close: unsafe extern "C" fn(*const c_void, *const DeviceId, bool) -> c_int,
    info: unsafe extern "C" fn(*const c_void, *const DeviceId, *mut Info) -> c_int,
    submit: unsafe extern "C" fn(*const Request),
    error: unsafe extern "C" fn(*const Request) -> c_int,
    done: unsafe extern "C" fn(*const Request),
}

impl Library {
    /// The library of this process, by the first job's word.
    pub fn get(named: Option<&str>) -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(|| Self::load(named)).as_ref().map_err(Clone::clone)
    }

    /// Loads what `gusli_library=` named, or what the environment or the loader has, and the shim beside it.
    fn load(named: Option<&str>) -> Result<Self, String> {
        if SHIM.is_empty() {
            return Err(
                "gpu_backend=gusli is not in this build of libgpuio, which was made without a C++ compiler: install one (package g++) \
                        and build again"
                    .to_owned(),
            );
        }
        let opened = match named {
            Some(path) => library::open_named(path, "gusli_library"),
            None => library::open("GPUIO_GUSLI_LIBRARY", &["libgusli_clnt.so", "libgusli_clnt.so.1"]),
        };
        let opened = opened.map_err(|line| {
            format!(
                "no GUSLI client library: {line}; gusli_library=/path/to/libgusli_clnt.so names one (the Python package nixl-cu12 has it), and \
                 gpu_backend=host needs none"
            )
        })?;
        let shim = open_shim()?;
        let context = |name: &str| opened.function(&format!("_ZNK5gusli19global_clnt_context{name}"));
        let request = |name: &str| opened.function(&format!("_ZN5gusli15io_request_base{name}"));
        const BUFFERS: &str = "ERKNS_15backend_bdev_idERKSt6vectorINS_11io_buffer_tESaIS5_EE";
        let for_shim = ForShim([
            opened.function("_ZN5gusli19global_clnt_contextC1ERKNS0_11init_paramsE")?,
            opened.function("_ZN5gusli19global_clnt_contextD1Ev")?,
            context(&format!("18bdev_bufs_register{BUFFERS}"))?,
            context(&format!("18bdev_bufs_unregist{BUFFERS}"))?,
        ]);
        // SAFETY: each address is the function of that name, in the shim by its C declaration, in the library by its C++ one, whose first
        // argument is the object and whose references are pointers on every target that this library knows.
        unsafe {
            Ok(Self {
                for_shim,
                construct: mem::transmute::<*const (), Construct>(shim.function("gpuio_gusli_construct")?),
                destroy: mem::transmute::<*const (), unsafe extern "C" fn(*const ForShim)>(shim.function("gpuio_gusli_destroy")?),
                add_buffer: mem::transmute::<*const (), Buffer>(shim.function("gpuio_gusli_add_buffer")?),
                remove_buffer: mem::transmute::<*const (), Buffer>(shim.function("gpuio_gusli_remove_buffer")?),
                limit_stacks: mem::transmute::<*const (), unsafe extern "C" fn(usize) -> usize>(shim.function("gpuio_gusli_limit_stacks")?),
                restore_stacks: mem::transmute::<*const (), unsafe extern "C" fn(usize)>(shim.function("gpuio_gusli_restore_stacks")?),
                connect: mem::transmute::<*const (), OfDevice>(context("12bdev_connectERKNS_15backend_bdev_idE")?),
                disconnect: mem::transmute::<*const (), OfDevice>(context("15bdev_disconnectERKNS_15backend_bdev_idE")?),
                force_close: mem::transmute::<*const (), unsafe extern "C" fn(*const c_void, *const DeviceId, bool) -> c_int>(context(
                    "16bdev_force_closeERKNS_15backend_bdev_idEb",
                )?),
                info: mem::transmute::<*const (), unsafe extern "C" fn(*const c_void, *const DeviceId, *mut Info) -> c_int>(context(
                    "13bdev_get_infoERKNS_15backend_bdev_idERNS_9bdev_infoE",
                )?),
                submit: mem::transmute::<*const (), unsafe extern "C" fn(*const Request)>(request("9submit_ioEv")?),
                error: mem::transmute::<*const (), unsafe extern "C" fn(*const Request) -> c_int>(request("9get_errorEv")?),
                done: mem::transmute::<*const (), unsafe extern "C" fn(*const Request)>(request("4doneEv")?),
                name: opened.name,
            })
        }
    }

    /// Makes the process's one context. What the library prints goes to [`log`].
    pub fn construct(&self, config: &str, client: &str, max_requests: u32) -> Result<(), String> {
        let text = |text: &str| CString::new(text).map_err(|_| format!("{text:?} has a zero byte in it"));
        let (config, client) = (text(config)?, text(client)?);
        let mut why = [0 as c_char; 256];
        // SAFETY: all texts live through the call, the log's function for ever; the library keeps copies.
        let made =
            unsafe { (self.construct)(&self.for_shim, config.as_ptr(), client.as_ptr(), max_requests, said, why.as_mut_ptr(), why.len()) };
        if made == 0 {
            return Ok(());
        }
        // SAFETY: the shim ends the text with a zero within the room it was given.
        Err(unsafe { CStr::from_ptr(why.as_ptr()) }.to_string_lossy().into_owned())
    }

    /// Undoes [`Library::construct`]. No device is connected.
    pub fn destroy(&self) {
        // SAFETY: the context exists (see Context), and nothing uses it any more.
        unsafe { (self.destroy)(&self.for_shim) }
    }

    pub fn connect(&self, id: &DeviceId) -> i32 {
        // SAFETY: the context exists as long as it has users (see Context); the object itself is empty and never looked at.
        unsafe { (self.connect)(object(), id) }
    }

    pub fn disconnect(&self, id: &DeviceId) -> i32 {
        // SAFETY: as in connect.
        unsafe { (self.disconnect)(object(), id) }
    }

    /// Cancels what is in flight, without callbacks, gives up what is registered, and disconnects.
    pub fn force_close(&self, id: &DeviceId) -> i32 {
        // SAFETY: as in connect.
        unsafe { (self.force_close)(object(), id, false) }
    }

    pub fn info(&self, id: &DeviceId) -> Result<Info, i32> {
        let mut info = Info::default();
        // SAFETY: as in connect; the library fills the struct, whose size is the interface's.
        match unsafe { (self.info)(object(), id, &mut info) } {
            0 => Ok(info),
            code => Err(code),
        }
    }

    /// Registers a range for a device; what lies in it is zero afterwards, unless it was registered for another one before.
    pub fn add_buffer(&self, id: &DeviceId, start: usize, bytes: usize) -> i32 {
        // SAFETY: the range is page-aligned anonymous memory of this process that stays until it is removed (see Range).
        unsafe { (self.add_buffer)(&self.for_shim, id, ptr::with_exposed_provenance_mut(start), bytes as u64) }
    }

    pub fn remove_buffer(&self, id: &DeviceId, start: usize, bytes: usize) -> i32 {
        // SAFETY: the range was registered for this device, and no request of it is in flight.
        unsafe { (self.remove_buffer)(&self.for_shim, id, ptr::with_exposed_provenance_mut(start), bytes as u64) }
    }

    /// Starts a request that is not in flight.
    #[inline]
    pub fn submit(&self, request: &Request, order: &Order) {
        // SAFETY: a request that is not in flight is the caller's alone (see Requests); in flight it is the library's until done().
        unsafe {
            request.fill(order);
            (self.submit)(request);
        }
    }

    /// The code that a request has now: −1 while it is in flight.
    #[inline]
    pub fn error(&self, request: &Request) -> i32 {
        // SAFETY: the request was submitted and not done yet.
        unsafe { (self.error)(request) }
    }

    /// Gives back what the library has for a request that is not in flight any more.
    #[inline]
    pub fn done(&self, request: &Request) {
        // SAFETY: error() has said that it is not in flight.
        unsafe { (self.done)(request) }
    }
}

/// While it lives, threads of this process that ask for no size of their own get stacks of 1 MiB and not of 8, the usual limit.
///
/// On files and kernel devices the library starts a thread for each I/O. The C library keeps 40 MiB of stacks for the next threads: at depth 32
/// five of 8 MiB are too few, and an I/O whose thread needs a stack mapped anew takes half as long again.
pub struct SmallStacks {
    library: &'static Library,
    before: usize,
}

impl SmallStacks {
    const BYTES: usize = 1 << 20;

    pub fn new(library: &'static Library) -> Self {
        // SAFETY: changes what later threads get, by the C library's own function. fio's threads need a small part of it.
        Self { library, before: unsafe { (library.limit_stacks)(Self::BYTES) } }
    }
}

impl Drop for SmallStacks {
    fn drop(&mut self) {
        if self.before != 0 {
            // SAFETY: as above, with what there was before.
            unsafe { (self.library.restore_stacks)(self.before) };
        }
    }
}

/// The context's object, which has no content.
fn object() -> *const c_void {
    static OBJECT: u64 = 0;
    ptr::from_ref(&OBJECT).cast()
}

/// Opens the shim from memory: it is part of this library, and on its own because it needs the C++ library.
fn open_shim() -> Result<Opened, String> {
    let put = || -> std::io::Result<File> {
        let mut file = File::from(rustix::fs::memfd_create(c"gpuio-gusli-shim", MemfdFlags::CLOEXEC)?);
        file.write_all(SHIM)?;
        Ok(file)
    };
    let file = put().map_err(|error| format!("GUSLI's C++ part cannot be put into memory: {error}"))?;
    library::open_named(&format!("/proc/self/fd/{}", file.as_raw_fd()), "libgpuio itself, GUSLI's C++ part")
}

unsafe extern "C" fn said(text: *const c_char, bytes: usize) -> bool {
    // SAFETY: the stream hands over bytes that live through the call.
    let text = String::from_utf8_lossy(unsafe { slice::from_raw_parts(text.cast::<u8>(), bytes) });
    // A panic must not get into the library: there is nothing to say then.
    std::panic::catch_unwind(|| log::take(&text)).unwrap_or(false)
}
