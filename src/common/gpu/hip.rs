//! HIP: its names, and what CUDA has not: devices without contexts, and versions without a strided memset of words. Declarations are those
//! of hip_runtime_api.h (ROCm 5 to 7 have the same).

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::calls::{StreamHandle, check, constant};
use super::{Context, Runtime, Vendor};
use crate::common::device::DeviceError;
use crate::common::library::{Opened, call_table};

call_table! {
    /// The functions that only HIP has.
    pub struct Hip {
        fn hipSetDevice(c_int) -> c_int;
        fn hipMemset2DAsync(usize, usize, c_int, usize, usize, usize) -> c_int;
        fn hipGetErrorName(c_int) -> *const c_char;
        fn hipGetErrorString(c_int) -> *const c_char;
        optional fn hipMemsetD2D32Async(usize, usize, c_uint, usize, usize, usize) -> c_int;
        optional fn hipGetProcAddress(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;
    }
}

impl Vendor for Hip {
    const NAME: &'static str = "HIP";
    const LIBRARY: (&'static str, &'static [&'static str]) =
        ("GPUIO_HIP_LIBRARY", &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"]);
    const FUNCTIONS: &'static [(&'static str, &'static str)] = &[
        ("init", "hipInit"),
        ("version", "hipRuntimeGetVersion"),
        ("count", "hipGetDeviceCount"),
        ("device", "hipDeviceGet"),
        ("device_name", "hipDeviceGetName"),
        ("device_address", "hipDeviceGetPCIBusId"),
        ("allocate", "hipMalloc"),
        ("free", "hipFree"),
        ("allocate_managed", "hipMallocManaged"),
        ("allocate_pinned", "hipHostMalloc"),
        ("free_pinned", "hipHostFree"),
        ("pin", "hipHostRegister"),
        ("unpin", "hipHostUnregister"),
        ("copy_in", "hipMemcpyHtoDAsync"),
        ("copy_out", "hipMemcpyDtoHAsync"),
        ("set_bytes", "hipMemsetD8Async"),
        ("make_stream", "hipStreamCreateWithFlags"),
        ("finish_stream", "hipStreamSynchronize"),
        ("ask_stream", "hipStreamQuery"),
        ("destroy_stream", "hipStreamDestroy"),
        ("call_from_stream", "hipLaunchHostFunc"),
    ];
    const NO_LIBRARY: (&'static str, &'static str) = ("no HIP runtime", "install ROCm's (libamdhip64), or use gpu_backend=host");
    /// ROCm 5.2 says hipErrorInvalidDevice where others say hipErrorNoDevice.
    const NO_DEVICE: (&'static [c_int], &'static str) = (
        &[100, 101],
        "no AMD GPU: the HIP runtime is here, but finds no device; check rocminfo, HIP_VISIBLE_DEVICES, and that you may use /dev/kfd \
         (groups render and video)",
    );
    const TOOL: &'static str = "rocminfo";
    const VISIBLE: &'static str = "HIP_VISIBLE_DEVICES";

    fn cell() -> &'static OnceLock<Result<Runtime<Self>, String>> {
        static CELL: OnceLock<Result<Runtime<Hip>, String>> = OnceLock::new();
        &CELL
    }

    fn load(from: &Opened) -> Result<Self, String> {
        Self::load(from, str::to_owned)
    }

    /// 70253211 is 7.2.53211, and 50221153 is 5.2.21153.
    fn version(number: c_int) -> String {
        format!("{}.{}.{}", number / 10_000_000, number / 100_000 % 100, number % 100_000)
    }

    /// Nothing is counted: a device is there for all threads of the process until it ends.
    fn take(&self, device: c_int) -> Result<Context, (&'static str, DeviceError)> {
        self.enter(device, 0).map(|()| 0).map_err(|error| ("hipSetDevice", error))
    }

    fn give_back(&self, _device: c_int) {}

    fn enter(&self, device: c_int, _context: Context) -> Result<(), DeviceError> {
        // SAFETY: a number.
        check(unsafe { (self.hipSetDevice)(device) })
    }

    /// Before ROCm 7.1 byte by byte of the word.
    fn start_stamps(&self, address: usize, pitch: usize, value: u32, rows: usize, stream: StreamHandle) -> Result<(), DeviceError> {
        if let Some(set_words) = self.hipMemsetD2D32Async {
            // SAFETY: rows of one word within a range of the device's memory, which the runtime checks.
            return check(unsafe { set_words(address, pitch, value, 1, rows, stream.0) });
        }
        value.to_ne_bytes().into_iter().enumerate().try_for_each(|(at, byte)| {
            // SAFETY: as above, for rows of one byte.
            check(unsafe { (self.hipMemset2DAsync)(address + at, pitch, c_int::from(byte), 1, rows, stream.0) })
        })
    }

    fn words(&self, code: c_int) -> (Option<String>, Option<String>) {
        // SAFETY: numbers; both answer constants that end in NUL.
        let (name, meaning) = unsafe { (constant((self.hipGetErrorName)(code)), constant((self.hipGetErrorString)(code))) };
        // A code that the runtime does not know is hipErrorUnknown (999) to it.
        (name.filter(|name| code == 999 || name != "hipErrorUnknown"), meaning)
    }
}

impl Runtime<Hip> {
    /// Whether the runtime has amdgpu's file call, without which hipFile has no direct path.
    pub fn has_file_call(&self) -> bool {
        let mut found = std::ptr::null_mut();
        let mut status = 0;
        // SAFETY: the name ends in NUL; places for a pointer and an int.
        let known = self
            .own
            .hipGetProcAddress
            .is_some_and(|call| unsafe { call(c"hipAmdFileRead".as_ptr(), &mut found, self.version, 0, &mut status) } == 0);
        known && !found.is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::Calls;
    use super::*;
    use std::path::Path;

    /// The header of Debian's libamdhip64-dev, installed or fetched by `cargo xtask hip`.
    fn header() -> Option<String> {
        let fetched = concat!(env!("CARGO_MANIFEST_DIR"), "/target/hip/5.2/root/usr/include/hip/hip_runtime_api.h");
        [fetched, "/usr/include/hip/hip_runtime_api.h"].into_iter().find_map(|path| std::fs::read_to_string(Path::new(path)).ok())
    }

    /// The parameters of a function by how they are passed: `w` for 64 bits, `i` for 32, `b` for 8.
    fn declared(header: &str, name: &str) -> Option<String> {
        let start = ["hipError_t ", "const char* "].iter().find_map(|result| header.find(&format!("\n{result}{name}(")))?;
        let text = &header[start..];
        let text = &text[text.find('(')? + 1..text.find(");")?];
        let kind = |parameter: &str| match parameter.trim() {
            p if p.contains('*')
                || ["hipDeviceptr_t", "hipStream_t", "hipHostFn_t", "size_t", "uint64_t"].iter().any(|word| p.starts_with(word)) =>
            {
                'w'
            }
            p if p.starts_with("unsigned char") => 'b',
            _ => 'i',
        };
        Some(text.split(',').map(kind).collect())
    }

    fn ours(parameters: &str) -> String {
        let kind = |parameter: &str| match parameter.trim() {
            "c_int" | "c_uint" | "Status" => 'i',
            "u8" => 'b',
            _ => 'w',
        };
        parameters.split(", ").filter(|parameter| !parameter.is_empty()).map(kind).collect()
    }

    #[test]
    fn declarations_are_those_of_the_header() {
        let Some(header) = header() else {
            eprintln!("skipped: no header of HIP here: install libamdhip64-dev, or run `cargo xtask hip`");
            return;
        };
        let shared = Calls::DECLARED.iter().map(|(role, parameters)| (super::super::name_of::<Hip>(role), *parameters));
        let mut compared = 0;
        for (name, parameters) in shared.chain(Hip::DECLARED.iter().copied()) {
            // Not every function is as old as the header.
            let Some(theirs) = declared(&header, name) else { continue };
            assert_eq!(ours(parameters), theirs, "{name}({parameters})");
            compared += 1;
        }
        assert!(compared >= 20, "only {compared} functions were found in the header");
    }
}
