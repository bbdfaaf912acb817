//! What differs between the libraries that stand on this one.

use std::ffi::{c_int, c_void};

/// A GPU runtime's code.
pub type Code = c_int;

/// One library.
pub struct Vendor {
    /// Of its functions, as the log has them.
    pub prefix: &'static str,
    /// Of the variables that it reads.
    pub knobs: &'static str,
    /// The runtime whose memory it moves.
    pub gpu: fn() -> Option<&'static dyn Gpu>,
    pub rules: Rules,
}

/// In which way it behaves where the other behaves otherwise.
pub struct Rules {
    /// The driver is closed by as many calls as have opened it; else by one.
    pub counts_opens: bool,
    /// Host memory is registered and moved like a device's.
    pub moves_host_memory: bool,
    /// The driver tells its properties.
    pub has_properties: bool,
    /// Batches are done, unless a knob says otherwise.
    pub batch_works: bool,
    /// A blocking write that is bounced ends with fdatasync.
    pub syncs_bounced_writes: bool,
    /// What an asynchronous call has moved is 0 from its submission on.
    pub clears_results: bool,
    /// Codes; of transfers an errno or a code to be told by errno where positive, what a call returns where negative.
    pub bad_file: c_int,
    pub unknown_file: c_int,
    pub outside: c_int,
}

/// Where an address lies.
#[derive(Clone, Copy)]
pub struct Memory {
    /// What push() takes.
    pub owner: usize,
    pub is_device: bool,
}

/// The GPU runtime as these libraries use it.
pub trait Gpu: Send + Sync {
    fn init(&self) -> Result<(), Code>;

    /// None for an address that the runtime does not know.
    fn memory(&self, address: u64) -> Result<Option<Memory>, Code>;

    /// Start and size of the allocation that holds an address.
    fn range(&self, address: u64) -> Result<(u64, usize), Code>;

    /// Whose memory the calling thread works on.
    fn owner(&self) -> Result<usize, Code>;

    fn push(&self, owner: usize) -> Result<(), Code>;

    fn pop(&self);

    /// The calling thread's device, for the log.
    fn device(&self) -> Option<c_int>;

    /// On the owner that was pushed.
    fn make_stream(&self) -> Result<usize, Code>;

    fn destroy_stream(&self, stream: usize);

    /// Copies in a stream, and waits for it.
    ///
    /// # Safety
    /// An end that is not memory of the runtime's is host memory valid for `bytes`.
    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, stream: usize) -> Result<(), Code>;

    /// # Safety
    /// `function` may be called with `data` from another thread until the stream has passed it.
    unsafe fn launch(&self, stream: usize, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> Result<(), Code>;

    /// Moves bytes between a file and device memory with nothing in between, where the runtime can. The error is an errno.
    fn file_call(&self, _write: bool, _fd: c_int, _address: u64, _size: usize, _offset: i64) -> Option<Result<usize, c_int>> {
        None
    }
}
