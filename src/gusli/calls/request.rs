//! A request as the library has it, and the lists of ranges that it can name.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use crate::common::transport::Transfer;
use crate::gusli::requests::Ended;

/// `io_request_base`: in flight it is the library's, which reads and writes it from threads of its own.
#[repr(C, align(8))]
pub struct Request(UnsafeCell<Fields>);

#[repr(C)]
struct Fields {
    buffer: usize,
    bytes: u64,
    /// On the device, in bytes.
    offset: u64,
    descriptor: i32,
    operation: u8,
    /// 7 bits; the highest bit stands for a buffer that may change in flight.
    priority: u8,
    /// See the constants.
    flags: u16,
    callback: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *const Waker,
    executor: usize,
    result: i64,
}

/// The library need not check the range and the buffer again.
const CHECKED: u16 = 1;
const TRY_URING: u16 = 1 << 1;
/// `buffer` is a list of ranges.
const LIST: u16 = 1 << 2;
const POLLED: u16 = 1 << 3;
/// The rest is the library's own; with all bits set there is no id.
const NO_ID: u16 = 0x7ff << 5;

const _: () = assert!(size_of::<Request>() == 64);

/// How all requests of a job are made.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub priority: u8,
    pub try_uring: bool,
}

/// What one request is to do.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub transfer: Transfer,
    pub descriptor: i32,
    pub offset: u64,
    pub buffer: usize,
    pub bytes: u64,
    /// `buffer` holds a list of ranges.
    pub is_list: bool,
    pub is_checked: bool,
}

impl Request {
    pub fn new(manner: Manner, waker: Option<&Waker>) -> Self {
        let uring = if manner.try_uring { TRY_URING } else { 0 };
        let polled = if waker.is_some() { 0 } else { POLLED };
        Self(UnsafeCell::new(Fields {
            buffer: 0,
            bytes: 0,
            offset: 0,
            descriptor: 0,
            operation: 0,
            priority: manner.priority & 0x7f,
            flags: uring | polled,
            callback: waker.map(|_| ended as unsafe extern "C" fn(*mut c_void)),
            context: waker.map_or(ptr::null(), ptr::from_ref),
            executor: 0,
            result: 0,
        }))
    }

    /// Makes it what `order` says.
    ///
    /// # Safety
    /// It is not in flight.
    #[inline]
    pub(super) unsafe fn fill(&self, order: &Order) {
        // SAFETY: as promised by the caller; the library looks at it again when it gets it.
        let fields = unsafe { &mut *self.0.get() };
        fields.buffer = order.buffer;
        fields.bytes = order.bytes;
        fields.offset = order.offset;
        fields.descriptor = order.descriptor;
        fields.operation = if order.transfer == Transfer::Read { b'R' } else { b'W' };
        let kind = if order.is_list { LIST } else { 0 } | if order.is_checked { CHECKED } else { 0 };
        fields.flags = fields.flags & (TRY_URING | POLLED) | kind | NO_ID;
        fields.executor = 0;
        fields.result = 0;
    }
}

/// What a request's callback gets: whom to tell of which request.
pub struct Waker {
    pub ended: Arc<Ended>,
    pub number: u32,
}

unsafe extern "C" fn ended(waker: *mut c_void) {
    // SAFETY: the waker was given with the request, and outlives every request that is in flight (see Requests).
    let waker = unsafe { &*waker.cast::<Waker>() };
    waker.ended.tell(waker.number);
}

/// One range of a list, and the list's head; both lie in registered memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ListRange {
    pub buffer: usize,
    pub bytes: u64,
    pub offset: u64,
}

pub const LIST_HEAD: usize = 8;
const LIST_COOKIE: u32 = 0x6f69_6d6d;

/// Writes a list of ranges to `at`, where the caller has room for the head and all ranges. Returns its length in bytes.
pub fn write_list(at: usize, ranges: impl ExactSizeIterator<Item = ListRange>) -> u64 {
    let count = ranges.len();
    let start: *mut u8 = ptr::with_exposed_provenance_mut(at);
    // SAFETY: the room is the transport's own part of its registered block (see Requests), aligned to 8 bytes, and no request that is in
    // flight has a list there.
    unsafe {
        start.cast::<[u32; 2]>().write([count as u32, LIST_COOKIE]);
        let first = start.add(LIST_HEAD).cast::<ListRange>();
        ranges.enumerate().for_each(|(n, range)| first.add(n).write(range));
    }
    (LIST_HEAD + count * size_of::<ListRange>()) as u64
}
