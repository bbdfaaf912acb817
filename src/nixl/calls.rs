//! The functions of libnixl_capi that are used, an agent, and its requests. The only unsafe code of this folder.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::{env, mem};

use super::codes::{DONE, Failure};
use crate::common::library::{self, Opened, call_table};
use crate::common::transport::Transfer;

/// An object of the library's, which only the library looks into.
type Object = *mut c_void;

call_table! {
    /// What is called of `libnixl_capi.so`. Every function returns a status.
    pub struct Calls {
        fn nixl_capi_create_agent(*const c_char, *mut Object) -> c_int;
        fn nixl_capi_destroy_agent(Object) -> c_int;
        fn nixl_capi_get_plugin_params(Object, *const c_char, *mut Object, *mut Object) -> c_int;
        fn nixl_capi_mem_list_size(Object, *mut usize) -> c_int;
        fn nixl_capi_mem_list_get(Object, usize, *mut c_int) -> c_int;
        fn nixl_capi_destroy_mem_list(Object) -> c_int;
        fn nixl_capi_create_params(*mut Object) -> c_int;
        fn nixl_capi_params_add(Object, *const c_char, *const c_char) -> c_int;
        fn nixl_capi_destroy_params(Object) -> c_int;
        fn nixl_capi_params_create_iterator(Object, *mut Object) -> c_int;
        fn nixl_capi_params_iterator_next(Object, *mut *const c_char, *mut *const c_char, *mut bool) -> c_int;
        fn nixl_capi_params_destroy_iterator(Object) -> c_int;
        fn nixl_capi_params_is_empty(Object, *mut bool) -> c_int;
        fn nixl_capi_create_backend(Object, *const c_char, Object, *mut Object) -> c_int;
        fn nixl_capi_destroy_backend(Object) -> c_int;
        fn nixl_capi_create_reg_dlist(c_int, *mut Object) -> c_int;
        fn nixl_capi_reg_dlist_add_desc(Object, usize, usize, u64, *const c_void, usize) -> c_int;
        fn nixl_capi_destroy_reg_dlist(Object) -> c_int;
        fn nixl_capi_register_mem(Object, Object, Object) -> c_int;
        fn nixl_capi_deregister_mem(Object, Object, Object) -> c_int;
        fn nixl_capi_create_query_resp_list(*mut Object) -> c_int;
        fn nixl_capi_query_mem(Object, Object, Object, Object) -> c_int;
        fn nixl_capi_query_resp_list_has_value(Object, usize, *mut bool) -> c_int;
        fn nixl_capi_destroy_query_resp_list(Object) -> c_int;
        fn nixl_capi_create_xfer_dlist(c_int, *mut Object) -> c_int;
        fn nixl_capi_xfer_dlist_add_desc(Object, usize, usize, u64) -> c_int;
        fn nixl_capi_xfer_dlist_clear(Object) -> c_int;
        fn nixl_capi_destroy_xfer_dlist(Object) -> c_int;
        fn nixl_capi_create_opt_args(*mut Object) -> c_int;
        fn nixl_capi_opt_args_add_backend(Object, Object) -> c_int;
        fn nixl_capi_destroy_opt_args(Object) -> c_int;
        fn nixl_capi_create_xfer_req(Object, c_int, Object, Object, *const c_char, *mut Object, Object) -> c_int;
        fn nixl_capi_post_xfer_req(Object, Object, Object) -> c_int;
        fn nixl_capi_get_xfer_status(Object, Object) -> c_int;
        fn nixl_capi_release_xfer_req(Object, Object) -> c_int;
        fn nixl_capi_destroy_xfer_req(Object) -> c_int;
    }
}

/// What a segment is made of, in the library's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Segment {
    HostMemory = 0,
    DeviceMemory = 1,
    Block = 2,
    Object = 3,
    File = 4,
}

/// The library, loaded for as long as the process lives.
pub struct Library {
    calls: Calls,
    /// What was loaded.
    pub name: String,
}

impl Library {
    /// The library of this process, by the first job's word.
    pub fn get(named: Option<&str>) -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(|| Self::load(named)).as_ref().map_err(Clone::clone)
    }

    fn load(named: Option<&str>) -> Result<Self, String> {
        let opened = match named {
            Some(path) => library::open_named(path, "nixl_library"),
            None => library::open("GPUIO_NIXL_LIBRARY", &["libnixl_capi.so"]),
        };
        let opened: Opened = opened.map_err(|line| {
            format!(
                "no NIXL library: {line}; nixl_library=/path/to/libnixl_capi.so names one (the Python package nixl-cu12 has it), and \
                 gpu_backend=host needs none"
            )
        })?;
        Ok(Self { calls: Calls::load(&opened, str::to_owned)?, name: opened.name })
    }

    /// The file that the library's code was loaded from, by the loader's word.
    pub fn path(&self) -> Option<String> {
        let address = self.calls.nixl_capi_create_agent as *const c_void;
        let mut found = mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: an address of code, and room for one struct, of which zeros are a value.
        let found = unsafe { (libc::dladdr(address, found.as_mut_ptr()) != 0).then(|| found.assume_init()) }?;
        // SAFETY: the loader's own text, which stays as long as the library is loaded.
        (!found.dli_fname.is_null()).then(|| unsafe { CStr::from_ptr(found.dli_fname) }.to_string_lossy().into_owned())
    }
}

/// A transfer that was made and may be in flight; handed back through [`Agent::release`].
pub struct Request(NonNull<c_void>);

/// One piece of a transfer: `bytes` bytes of memory, and where they are in storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub memory: usize,
    pub memory_device: u64,
    pub bytes: usize,
    pub offset: u64,
    pub storage_device: u64,
}

/// What is registered: memory by its address, storage by its device alone.
#[derive(Debug, Clone)]
pub struct Registration {
    pub segment: Segment,
    pub address: usize,
    pub bytes: usize,
    pub device: u64,
    /// A name, where the plugin wants one.
    pub name: String,
}

/// What a plugin says of itself.
pub struct About {
    /// The segments that it moves bytes between, in the library's numbers.
    pub segments: Vec<c_int>,
    /// The parameters that it has; empty where it says nothing of them.
    pub params: Vec<String>,
}

/// One job's agent with its one backend. Used by the job's thread alone: the library does not lock.
pub struct Agent {
    calls: &'static Calls,
    agent: Object,
    backend: Object,
    /// Names the backend, so that the library does not look for one.
    options: Object,
    /// A transfer's two lists, filled anew for each.
    memory: Object,
    storage: Object,
    name: CString,
    /// Something in it never ended: it stays as it is.
    is_abandoned: Cell<bool>,
}

fn text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure { call: "a text with a zero byte", status: -1 })
}

/// Calls one function and keeps its name for the user, should it fail.
macro_rules! call {
    ($calls:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: every object is one that the library made and that is not destroyed yet; texts and places for results live through the call.
        let status = unsafe { ($calls.$name)($($argument),*) };
        if status == DONE { Ok(()) } else { Err(Failure { call: stringify!($name), status }) }
    }};
}

impl Agent {
    pub fn new(library: &'static Library, name: &str) -> Result<Self, Failure> {
        let null = ptr::null_mut();
        let calls = &library.calls;
        let mut own = Self {
            calls,
            agent: null,
            backend: null,
            options: null,
            memory: null,
            storage: null,
            name: text(name)?,
            is_abandoned: Cell::new(false),
        };
        call!(calls, nixl_capi_create_agent(own.name.as_ptr(), &mut own.agent))?;
        Ok(own)
    }

    /// What a plugin, once it is loaded, says of itself.
    pub fn about(&self, plugin: &str) -> Result<About, Failure> {
        let calls = self.calls;
        let (mut segments, mut params) = (ptr::null_mut(), ptr::null_mut());
        let plugin = text(plugin)?;
        call!(calls, nixl_capi_get_plugin_params(self.agent, plugin.as_ptr(), &mut segments, &mut params))?;
        let (mut names, mut is_empty) = (Vec::new(), true);
        if call!(calls, nixl_capi_params_is_empty(params, &mut is_empty)).is_ok() && !is_empty {
            let mut iterator = ptr::null_mut();
            call!(calls, nixl_capi_params_create_iterator(params, &mut iterator))?;
            let (mut key, mut value, mut has_more) = (ptr::null(), ptr::null(), true);
            while has_more && call!(calls, nixl_capi_params_iterator_next(iterator, &mut key, &mut value, &mut has_more)).is_ok() {
                // SAFETY: the library's own text, which stays until the next step of the iterator.
                names.push(unsafe { CStr::from_ptr(key) }.to_string_lossy().into_owned());
            }
            let _ = call!(calls, nixl_capi_params_destroy_iterator(iterator));
            names.sort(); // the library's order changes from call to call
        }
        let mut count = 0;
        call!(calls, nixl_capi_mem_list_size(segments, &mut count))?;
        let segment = |index| {
            let mut segment = -1;
            call!(calls, nixl_capi_mem_list_get(segments, index, &mut segment)).map(|()| segment)
        };
        let about = (0..count).map(segment).collect::<Result<_, _>>().map(|segments| About { segments, params: names });
        // Each of them can only refuse null.
        let _ = call!(calls, nixl_capi_destroy_mem_list(segments));
        let _ = call!(calls, nixl_capi_destroy_params(params));
        about
    }

    /// Makes the plugin's backend, which all that follows is done by, between two kinds of segments.
    pub fn start(&mut self, plugin: &str, params: &[(String, String)], memory: Segment, storage: Segment) -> Result<(), Failure> {
        let calls = self.calls;
        call!(calls, nixl_capi_create_xfer_dlist(memory as c_int, &mut self.memory))?;
        call!(calls, nixl_capi_create_xfer_dlist(storage as c_int, &mut self.storage))?;
        let plugin = text(plugin)?;
        let mut list = ptr::null_mut();
        call!(calls, nixl_capi_create_params(&mut list))?;
        let add = |(key, value): &(String, String)| {
            let (key, value) = (text(key)?, text(value)?);
            call!(calls, nixl_capi_params_add(list, key.as_ptr(), value.as_ptr()))
        };
        let made = params
            .iter()
            .try_for_each(add)
            .and_then(|()| call!(calls, nixl_capi_create_backend(self.agent, plugin.as_ptr(), list, &mut self.backend)));
        let _ = call!(calls, nixl_capi_destroy_params(list)); // it can only refuse null
        made?;
        call!(calls, nixl_capi_create_opt_args(&mut self.options))?;
        call!(calls, nixl_capi_opt_args_add_backend(self.options, self.backend))
    }

    /// Registers memory or storage; the caller keeps it as it is until [`Agent::deregister`].
    pub fn register(&self, what: &Registration) -> Result<(), Failure> {
        self.with_list(what, |list| call!(self.calls, nixl_capi_register_mem(self.agent, list, self.options)))
    }

    /// Undoes [`Agent::register`]. No transfer of it is in flight.
    pub fn deregister(&self, what: &Registration) {
        // What cannot be taken back is taken back with the agent.
        let _ = self.with_list(what, |list| call!(self.calls, nixl_capi_deregister_mem(self.agent, list, self.options)));
    }

    /// Whether storage of that name is there.
    pub fn is_there(&self, what: &Registration) -> Result<bool, Failure> {
        self.with_list(what, |list| {
            let mut answers = ptr::null_mut();
            call!(self.calls, nixl_capi_create_query_resp_list(&mut answers))?;
            let mut is_there = false;
            let asked = call!(self.calls, nixl_capi_query_mem(self.agent, list, answers, self.options))
                .and_then(|()| call!(self.calls, nixl_capi_query_resp_list_has_value(answers, 0, &mut is_there)));
            let _ = call!(self.calls, nixl_capi_destroy_query_resp_list(answers));
            asked.map(|()| is_there)
        })
    }

    fn with_list<R>(&self, what: &Registration, body: impl FnOnce(Object) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut list = ptr::null_mut();
        call!(self.calls, nixl_capi_create_reg_dlist(what.segment as c_int, &mut list))?;
        let name = what.name.as_bytes();
        let result =
            call!(self.calls, nixl_capi_reg_dlist_add_desc(list, what.address, what.bytes, what.device, name.as_ptr().cast(), name.len()))
                .and_then(|()| body(list));
        let _ = call!(self.calls, nixl_capi_destroy_reg_dlist(list));
        result
    }

    /// Makes a transfer of pieces of what is registered. The error is a status.
    #[inline]
    pub fn request(&self, transfer: Transfer, pieces: impl Iterator<Item = Piece>) -> Result<Request, i32> {
        let operation = if transfer == Transfer::Read { 0 } else { 1 };
        let mut made = ptr::null_mut();
        // SAFETY: the lists and the agent are this object's own and live; the library copies what it keeps of them. That memory stays while a
        // transfer is in flight is the engine's promise for every operation.
        let status = unsafe {
            (self.calls.nixl_capi_xfer_dlist_clear)(self.memory);
            (self.calls.nixl_capi_xfer_dlist_clear)(self.storage);
            for piece in pieces {
                (self.calls.nixl_capi_xfer_dlist_add_desc)(self.memory, piece.memory, piece.bytes, piece.memory_device);
                (self.calls.nixl_capi_xfer_dlist_add_desc)(self.storage, piece.offset as usize, piece.bytes, piece.storage_device);
            }
            (self.calls.nixl_capi_create_xfer_req)(
                self.agent,
                operation,
                self.memory,
                self.storage,
                self.name.as_ptr(),
                &mut made,
                self.options,
            )
        };
        if status == DONE { NonNull::new(made).map(Request).ok_or(status) } else { Err(status) }
    }

    /// Starts a transfer that is not in flight; returns its status.
    #[inline]
    pub fn post(&self, request: &Request) -> i32 {
        // SAFETY: the request is the library's own, made by this agent and not released.
        unsafe { (self.calls.nixl_capi_post_xfer_req)(self.agent, request.0.as_ptr(), self.options) }
    }

    /// The status that a transfer has now.
    #[inline]
    pub fn status(&self, request: &Request) -> i32 {
        // SAFETY: as in post.
        unsafe { (self.calls.nixl_capi_get_xfer_status)(self.agent, request.0.as_ptr()) }
    }

    /// Gives up a transfer that is not in flight.
    #[inline]
    pub fn release(&self, request: Request) {
        // SAFETY: as in post; the request is not used afterwards. Where the first call refuses, so does the second, and the object stays.
        unsafe {
            (self.calls.nixl_capi_release_xfer_req)(self.agent, request.0.as_ptr());
            (self.calls.nixl_capi_destroy_xfer_req)(request.0.as_ptr());
        }
    }

    /// Leaves the agent, and all that it has, as it is for as long as the process lives.
    pub fn abandon(&self) {
        self.is_abandoned.set(true);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.is_abandoned.get() {
            return;
        }
        // Objects that were never made are null, which the library refuses.
        let _ = call!(self.calls, nixl_capi_destroy_opt_args(self.options));
        let _ = call!(self.calls, nixl_capi_destroy_xfer_dlist(self.memory));
        let _ = call!(self.calls, nixl_capi_destroy_xfer_dlist(self.storage));
        let _ = call!(self.calls, nixl_capi_destroy_backend(self.backend));
        let _ = call!(self.calls, nixl_capi_destroy_agent(self.agent));
    }
}

/// How large a regular file is now; `None` for anything else.
#[inline]
pub fn size_of(fd: RawFd) -> Option<u64> {
    let mut about = mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for one struct, read only where the call has filled it; a number that is no descriptor is answered as such.
    let about = unsafe { (libc::fstat(fd, about.as_mut_ptr()) == 0).then(|| about.assume_init()) }?;
    (about.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(about.st_size as u64)
}

/// Tells the library, which is not loaded yet, where plugins are.
pub fn set_plugin_folder(folder: &str) {
    // SAFETY: fio's main thread calls this while it looks for files, before it starts any thread of a job.
    unsafe { env::set_var(PLUGIN_FOLDER, folder) };
}

/// The variable by which the library is told where plugins are.
pub const PLUGIN_FOLDER: &str = "NIXL_PLUGIN_DIR";
