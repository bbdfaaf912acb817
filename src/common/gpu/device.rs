//! NVIDIA devices through the CUDA driver, opened at run time.
//!
//! The declarations are those of cuda.h (CUDA 12 and 13 have the same). Results stay integers: a code that a newer driver adds is no
//! value of any enum here.

mod places;
mod primary;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_queue::ArrayQueue;

use super::device::{Device, DeviceError, Kind, Place, SECTOR, numa_node};
use super::library::{self, call_table};
use super::transport::Buffer;
use super::wait::Bell;

type Status = c_int;
type Address = u64;
type Context = *mut c_void;
type Stream = *mut c_void;

call_table! {
    /// The CUDA driver's functions that are used here.
    pub struct Calls {
        fn cuInit(c_uint) -> Status;
        fn cuDriverGetVersion(*mut c_int) -> Status;
        fn cuDeviceGetCount(*mut c_int) -> Status;
        fn cuDeviceGet(*mut c_int, c_int) -> Status;
        fn cuDeviceGetName(*mut c_char, c_int, c_int) -> Status;
        fn cuDeviceGetPCIBusId(*mut c_char, c_int, c_int) -> Status;
        fn cuDevicePrimaryCtxRetain(*mut Context, c_int) -> Status;
        fn cuDevicePrimaryCtxRelease_v2(c_int) -> Status;
        fn cuDevicePrimaryCtxGetState(c_int, *mut c_uint, *mut c_int) -> Status;
        fn cuCtxSetCurrent(Context) -> Status;
        fn cuMemAlloc_v2(*mut Address, usize) -> Status;
        fn cuMemFree_v2(Address) -> Status;
        fn cuMemAllocManaged(*mut Address, usize, c_uint) -> Status;
        fn cuMemHostAlloc(*mut *mut c_void, usize, c_uint) -> Status;
        fn cuMemFreeHost(*mut c_void) -> Status;
        fn cuMemcpyHtoDAsync_v2(Address, *const c_void, usize, Stream) -> Status;
        fn cuMemcpyDtoHAsync_v2(*mut c_void, Address, usize, Stream) -> Status;
        fn cuMemsetD8Async(Address, u8, usize, Stream) -> Status;
        fn cuMemsetD2D32Async(Address, usize, c_uint, usize, usize, Stream) -> Status;
        fn cuStreamCreate(*mut Stream, c_uint) -> Status;
        fn cuStreamSynchronize(Stream) -> Status;
        fn cuStreamQuery(Stream) -> Status;
        fn cuLaunchHostFunc(Stream, unsafe extern "C" fn(*mut c_void), *mut c_void) -> Status;
        fn cuStreamDestroy_v2(Stream) -> Status;
        fn cuGetErrorName(Status, *mut *const c_char) -> Status;
        fn cuGetErrorString(Status, *mut *const c_char) -> Status;
    }
}

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: Status = 100;
/// `CU_STREAM_NON_BLOCKING`: copies do not wait for work on the default stream.
const NON_BLOCKING: c_uint = 1;
/// Smaller blocks share a page of the device's, at any multiple of 512 bytes; what fills its pages starts at one, as pinning for I/O wants.
const PAGE: usize = 2 << 20;
/// `CU_MEM_ATTACH_GLOBAL`.
const ATTACH_GLOBAL: c_uint = 1;

/// The driver of this process, initialised.
pub struct Cuda {
    calls: Calls,
    /// The CUDA version that the driver supports: 12080 for 12.8.
    version: c_int,
    /// Who initialised it: a child that inherits it can do nothing with it.
    process: u32,
}

impl Cuda {
    /// Loads and initialises the driver, once a process. The error is a line for the user.
    pub fn get() -> Result<&'static Self, String> {
        static CUDA: OnceLock<Result<Cuda, String>> = OnceLock::new();
        let cuda = CUDA.get_or_init(Self::load).as_ref().map_err(Clone::clone)?;
        if cuda.process == std::process::id() {
            return Ok(cuda);
        }
        Err("CUDA was initialised before this job was forked, by a job with thread=1, and is dead in the child: \
             use thread=1 for all jobs of this run, or for none"
            .to_owned())
    }

    fn load() -> Result<Self, String> {
        let opened = library::open("GPUIO_CUDA_LIBRARY", &["libcuda.so.1", "libcuda.so"])
            .map_err(|line| format!("no NVIDIA driver: {line}; install the driver, or use gpu_backend=host"))?;
        let mut cuda = Self { calls: Calls::load(&opened)?, version: 0, process: std::process::id() };
        // SAFETY: cuInit takes a flag word that must be 0.
        cuda.check(unsafe { (cuda.calls.cuInit)(0) }).map_err(|error| match error.0 {
            NO_DEVICE => "no NVIDIA GPU: the driver is here, but finds no device; check nvidia-smi and CUDA_VISIBLE_DEVICES".to_owned(),
            _ => format!("cuInit: {}; check nvidia-smi", cuda.explain(error)),
        })?;
        let mut version = 0;
        // SAFETY: the argument is a place for one int.
        cuda.check(unsafe { (cuda.calls.cuDriverGetVersion)(&mut version) })
            .map_err(|error| format!("cuDriverGetVersion: {}", cuda.explain(error)))?;
        cuda.version = version;
        Ok(cuda)
    }

    /// How many devices there are.
    pub fn count(&self) -> u32 {
        let mut count = 0;
        // SAFETY: the argument is a place for one int.
        let status = unsafe { (self.calls.cuDeviceGetCount)(&mut count) };
        if status == 0 { u32::try_from(count).unwrap_or(0) } else { 0 }
    }

    #[inline]
    fn check(&self, status: Status) -> Result<(), DeviceError> {
        if status == 0 { Ok(()) } else { Err(DeviceError(status)) }
    }

    /// The name of a CUDA code, its meaning, and the number.
    pub fn explain(&self, error: DeviceError) -> String {
        let text = |call: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = std::ptr::null();
            // SAFETY: the second argument is a place for a pointer; the driver leaves null for a code that it does not know.
            let known = unsafe { call(error.0, &mut text) } == 0 && !text.is_null();
            // SAFETY: a constant of the driver, ending in NUL.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        match (text(self.calls.cuGetErrorName), text(self.calls.cuGetErrorString)) {
            (Some(name), Some(meaning)) => format!("{name} ({}: {meaning})", error.0),
            (Some(name), None) => format!("{name} ({})", error.0),
            _ => format!("CUDA error {}", error.0),
        }
    }
}

/// One device with its primary context and a stream for this job's copies.
pub struct CudaDevice {
    cuda: &'static Cuda,
    place: Place,
    device: c_int,
    context: Context,
    stream: Stream,
}

// SAFETY: contexts and streams are handles that the driver lets any thread use; enter() makes the context current in a thread first.
unsafe impl Send for CudaDevice {}
// SAFETY: as for Send; nothing is changed after new().
unsafe impl Sync for CudaDevice {}

impl CudaDevice {
    /// Opens device `ordinal` and makes it current in this thread. No other device gets a context.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, String> {
        let cuda = Cuda::get()?;
        let count = cuda.count();
        if ordinal >= count {
            let have = if count == 1 { "there is only device 0".to_owned() } else { format!("there are devices 0 to {}", count - 1) };
            return Err(format!("gpu_dev_ids={ordinal}: {have}; name one of them (CUDA_VISIBLE_DEVICES hides devices, too)"));
        }
        let failed = |call: &str, error| format!("{call} on device {ordinal}: {}{}", cuda.explain(error), hint(error));
        let mut opened = Self {
            cuda,
            place: Place { ordinal, name: String::new(), pci: None, numa_node: None },
            device: 0,
            context: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
        };
        // SAFETY: a place for an int; the device is one that the driver just counted.
        cuda.check(unsafe { (cuda.calls.cuDeviceGet)(&mut opened.device, ordinal as c_int) }).map_err(|e| failed("cuDeviceGet", e))?;
        opened.context = cuda.retain(opened.device).map_err(|e| failed("cuDevicePrimaryCtxRetain", e))?;
        opened.place = opened.find_place();
        opened.enter().map_err(|e| failed("cuCtxSetCurrent", e))?;
        // SAFETY: a place for a pointer; the context is current.
        cuda.check(unsafe { (cuda.calls.cuStreamCreate)(&mut opened.stream, NON_BLOCKING) }).map_err(|e| failed("cuStreamCreate", e))?;
        Ok(Arc::new(opened))
    }

    /// Waits for what was put on the stream.
    #[inline]
    fn finish(&self, started: Status) -> Result<(), DeviceError> {
        self.cuda.check(started)?;
        self.finish_copies()
    }
}

/// What to do about the codes that users meet.
fn hint(error: DeviceError) -> &'static str {
    match error.0 {
        2 => "; too many processes on the device, or no memory left: use thread=1, fewer jobs, or a lower iodepth or block size",
        101 => "; check gpu_dev_ids and CUDA_VISIBLE_DEVICES",
        _ => "",
    }
}

impl Device for CudaDevice {
    fn place(&self) -> &Place {
        &self.place
    }

    fn driver(&self) -> String {
        format!("CUDA {}.{}", self.cuda.version / 1000, self.cuda.version % 1000 / 10)
    }

    fn enter(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is retained until the device is dropped.
        self.cuda.check(unsafe { (self.cuda.calls.cuCtxSetCurrent)(self.context) })
    }

    fn allocate(&self, kind: Kind, bytes: usize) -> Result<usize, DeviceError> {
        let (calls, mut address) = (&self.cuda.calls, 0);
        // SAFETY: a place for the address; the context is current in a thread that has entered.
        let status = unsafe {
            match kind {
                Kind::Device => (calls.cuMemAlloc_v2)(&mut address, bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes)),
                Kind::Managed => (calls.cuMemAllocManaged)(&mut address, bytes, ATTACH_GLOBAL),
                Kind::Pinned => {
                    let mut host = std::ptr::null_mut();
                    let status = (calls.cuMemHostAlloc)(&mut host, bytes, 0);
                    address = host as Address;
                    status
                }
            }
        };
        self.cuda.check(status).map(|()| address as usize)
    }

    fn free(&self, kind: Kind, address: usize) {
        // SAFETY: an address that allocate() gave for the same kind, freed once by its owner.
        unsafe {
            match kind {
                Kind::Device | Kind::Managed => (self.cuda.calls.cuMemFree_v2)(address as Address),
                Kind::Pinned => (self.cuda.calls.cuMemFreeHost)(address as *mut c_void),
            }
        };
    }

    fn clear(&self, address: usize, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: a range of this device's memory, checked by the driver.
        self.finish(unsafe { (self.cuda.calls.cuMemsetD8Async)(address as Address, 0, bytes, self.stream) })
    }

    fn copy_in(&self, to: usize, from: Buffer) -> Result<(), DeviceError> {
        self.start_copy_in(to, from)?;
        self.finish_copies()
    }

    fn copy_out(&self, from: usize, to: Buffer) -> Result<(), DeviceError> {
        self.start_copy_out(from, to)?;
        self.finish_copies()
    }

    fn start_copy_in(&self, to: usize, from: Buffer) -> Result<(), DeviceError> {
        let calls = &self.cuda.calls;
        // SAFETY: `from` is host memory that lives until the copy is finished (see Buffer); the driver checks the device's range.
        self.cuda.check(unsafe { (calls.cuMemcpyHtoDAsync_v2)(to as Address, from.start().cast(), from.len(), self.stream) })
    }

    fn start_copy_out(&self, from: usize, to: Buffer) -> Result<(), DeviceError> {
        let calls = &self.cuda.calls;
        // SAFETY: as in start_copy_in.
        self.cuda.check(unsafe { (calls.cuMemcpyDtoHAsync_v2)(to.start().cast(), from as Address, to.len(), self.stream) })
    }

    fn finish_copies(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream lives as long as the device.
        self.cuda.check(unsafe { (self.cuda.calls.cuStreamSynchronize)(self.stream) })
    }

    fn stamp(&self, address: usize, bytes: usize, value: u32) -> Result<(), DeviceError> {
        // The last sector may be cut short; it is marked where it has room for a mark.
        let sectors = (bytes + SECTOR - 4) / SECTOR;
        if sectors == 0 {
            return Ok(());
        }
        // SAFETY: `sectors` rows of one word, each within the range; the driver checks the device's range.
        self.finish(unsafe { (self.cuda.calls.cuMemsetD2D32Async)(address as Address, SECTOR, value, 1, sectors, self.stream) })
    }

    fn explain(&self, error: DeviceError) -> String {
        format!("{}{}", self.cuda.explain(error), hint(error))
    }
}

/// A stream of a device for a vendor's asynchronous calls.
pub struct CudaStream {
    device: Arc<CudaDevice>,
    stream: Stream,
}

// SAFETY: as for CudaDevice: a handle that any thread may use.
unsafe impl Send for CudaStream {}

impl CudaStream {
    /// The device is current in this thread.
    pub fn new(device: &Arc<CudaDevice>) -> Result<Self, String> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: a place for a pointer; the context is current.
        let made = device.cuda.check(unsafe { (device.cuda.calls.cuStreamCreate)(&mut stream, NON_BLOCKING) });
        made.map_err(|error| format!("cuStreamCreate on {}: {}", device.place, device.cuda.explain(error)))?;
        Ok(Self { device: Arc::clone(device), stream })
    }

    /// The handle, as a vendor's library takes it.
    pub fn address(&self) -> usize {
        self.stream as usize
    }

    /// Waits until all that is on the stream has run.
    pub fn finish(&self) -> Result<(), DeviceError> {
        // SAFETY: a live stream.
        self.device.cuda.check(unsafe { (self.device.cuda.calls.cuStreamSynchronize)(self.stream) })
    }

    /// Whether all that is on the stream has run; the error is the stream's own, and nothing on it will run any more.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        const NOT_READY: Status = 600;
        // SAFETY: a live stream.
        match unsafe { (self.device.cuda.calls.cuStreamQuery)(self.stream) } {
            0 => Ok(true),
            NOT_READY => Ok(false),
            failed => Err(DeviceError(failed)),
        }
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        // SAFETY: made in new(), destroyed once.
        unsafe { (self.device.cuda.calls.cuStreamDestroy_v2)(self.stream) };
    }
}

/// Notices that streams give, by number, when they have run what was put on them before.
pub struct Notices {
    board: Arc<Board>,
    /// What the host functions get the address of. Leaked where one never ran.
    cards: Vec<Card>,
}

struct Board {
    given: ArrayQueue<usize>,
    bell: Bell,
    /// Asked for and not given.
    open: AtomicUsize,
}

struct Card {
    board: Arc<Board>,
    number: usize,
}

impl Notices {
    /// Notices with the numbers 0 to `count` - 1, each asked for at most once at a time.
    pub fn new(count: usize) -> Self {
        let board = Arc::new(Board { given: ArrayQueue::new(count.max(1)), bell: Bell::default(), open: AtomicUsize::new(0) });
        let cards = (0..count).map(|number| Card { board: Arc::clone(&board), number }).collect();
        Self { board, cards }
    }

    /// Asks for notice `number` once the stream has run what is on it now.
    pub fn ask(&self, stream: &CudaStream, number: usize) -> Result<(), DeviceError> {
        let (cuda, card) = (stream.device.cuda, (&raw const self.cards[number]).cast_mut().cast());
        self.board.open.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the card lives until give() has run, or for ever (see Drop).
        let asked = cuda.check(unsafe { (cuda.calls.cuLaunchHostFunc)(stream.stream, give, card) });
        if asked.is_err() {
            self.board.open.fetch_sub(1, Ordering::Relaxed);
        }
        asked
    }

    /// The number of a notice that was given.
    pub fn next(&self) -> Option<usize> {
        self.board.given.pop()
    }

    /// Rung at every notice.
    pub fn bell(&self) -> &Bell {
        &self.board.bell
    }
}

/// The host function: runs in a thread of the driver's, and calls nothing of it.
unsafe extern "C" fn give(card: *mut c_void) {
    // SAFETY: the address of a card that lives (see Notices::ask).
    let card = unsafe { &*card.cast::<Card>() };
    let _ = card.board.given.push(card.number); // there is a place for every number
    card.board.bell.ring(1);
    card.board.open.fetch_sub(1, Ordering::Release);
}

impl Drop for Notices {
    fn drop(&mut self) {
        if self.board.open.load(Ordering::Acquire) > 0 {
            std::mem::forget(std::mem::take(&mut self.cards));
        }
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        if !self.stream.is_null() {
            // SAFETY: made in open(), and nothing uses it any more.
            unsafe { (self.cuda.calls.cuStreamDestroy_v2)(self.stream) };
        }
        if !self.context.is_null() {
            self.cuda.release(self.device);
        }
    }
}
