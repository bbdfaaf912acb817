//! The functions that only libcufile has, as cufile.h of CUDA 12 and 13 declares them; not every version has them all.

use std::ffi::{c_int, c_uint};

use crate::common::gpufile::calls::{Status, alone};
use crate::common::library::call_table;

call_table! {
    pub struct Cufile {
        optional fn cuFileDriverGetProperties(*mut Properties) -> Status;
        optional fn cuFileGetParameterPosixPoolSlabArray(*mut usize, *mut usize, c_int) -> Status;
        optional fn cuFileSetParameterSizeT(c_int, usize) -> Status;
        optional fn cuFileGetVersion(*mut c_int) -> Status;
        optional fn cuFileGetBARSizeInKB(c_int, *mut usize) -> Status;
    }
}

/// `CUfileDrvProps_t`, of which only two fields are used.
#[repr(C)]
struct Properties {
    before: [u8; 24],
    /// A bit for each kind of storage with a direct path.
    status_flags: c_uint,
    between: [u8; 20],
    max_batch_io_size: c_uint,
    /// Room for what newer versions append.
    after: [u8; 204],
}

impl Cufile {
    /// The library's version, thousands for the major and tens for the minor number.
    pub fn number(&self) -> Option<i32> {
        let mut number = 0;
        // SAFETY: a place for one int.
        self.cuFileGetVersion.is_some_and(|call| unsafe { call(&mut number) }.own == 0).then_some(number)
    }

    /// KiB of a device's BAR1, where this version tells.
    pub fn bar_size(&self, device: u32) -> Option<usize> {
        let _alone = alone();
        let mut kib = 0;
        // SAFETY: a place for one word.
        self.cuFileGetBARSizeInKB.is_some_and(|call| unsafe { call(device as c_int, &mut kib) }.own == 0).then_some(kib)
    }

    fn properties(&self) -> Option<Properties> {
        let _alone = alone();
        let mut properties = Properties { before: [0; 24], status_flags: 0, between: [0; 20], max_batch_io_size: 0, after: [0; 204] };
        // SAFETY: a place larger than any version's struct.
        self.cuFileDriverGetProperties.is_some_and(|call| unsafe { call(&mut properties) }.own == 0).then_some(properties)
    }

    /// The largest batch that the driver's properties promise.
    pub fn largest_batch(&self) -> Option<u32> {
        self.properties().map(|properties| properties.max_batch_io_size).filter(|&limit| limit > 0)
    }

    /// How many I/O threads the library has for each GPU, to be said before the driver is opened. A version that cannot be told has none.
    pub fn set_io_threads(&self, count: usize) {
        const EXECUTION_MAX_IO_THREADS: c_int = 2;
        if let Some(set) = self.cuFileSetParameterSizeT {
            // SAFETY: two numbers.
            unsafe { set(EXECUTION_MAX_IO_THREADS, count) };
        }
    }

    /// Whether every byte goes through bounce buffers in host memory, since no kind of storage has a direct path here.
    pub fn always_bounces(&self) -> bool {
        self.properties().is_some_and(|properties| properties.status_flags == 0)
    }

    /// Sizes in bytes and counts of the bounce buffers for compat mode, where this version tells.
    pub fn slabs(&self) -> Option<Vec<(usize, usize)>> {
        let _alone = alone();
        // The number of classes is asked for, not told: the library refuses a wrong one.
        (1..=16).rev().find_map(|n| {
            let (mut sizes, mut counts) = (vec![0; n], vec![0; n]);
            let call = self.cuFileGetParameterPosixPoolSlabArray?;
            // SAFETY: both places hold `n` words.
            let status = unsafe { call(sizes.as_mut_ptr(), counts.as_mut_ptr(), n as c_int) };
            (status.own == 0).then(|| sizes.into_iter().map(|kib| kib * 1024).zip(counts).collect()) // told in KiB
        })
    }
}

/// Whether fopen can open /proc/modules, which is how libcufile reads it.
pub fn modules_are_listed() -> bool {
    // SAFETY: both texts end in NUL; the stream is closed once.
    unsafe {
        let file = libc::fopen(c"/proc/modules".as_ptr(), c"r".as_ptr());
        !file.is_null() && libc::fclose(file) == 0
    }
}
