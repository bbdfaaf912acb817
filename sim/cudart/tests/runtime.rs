//! The simulated runtime on the simulated driver: what fio's own engine does with it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libloading::Library;
use sim_common::child;
use sim_common::driver::Driver;

#[test]
fn memory_of_the_chosen_device_is_set_and_copied_both_ways() {
    let name = "memory_of_the_chosen_device_is_set_and_copied_both_ways";
    child::run(name, &[("GPUIO_SIM_DEVICES", "2")], || {
        // Loaded first, the driver is found by its own name.
        let driver = Driver::load(child::library("sim_cuda")).unwrap();
        // SAFETY: the library's constructors have no precondition; the types below are those of cuda_runtime_api.h.
        unsafe {
            let library = Library::new(child::library("sim_cudart")).unwrap();
            let set_device = library.get::<unsafe extern "C" fn(c_int) -> c_int>(b"cudaSetDevice").unwrap();
            let malloc = library.get::<unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int>(b"cudaMalloc").unwrap();
            let free = library.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(b"cudaFree").unwrap();
            let memset = library.get::<unsafe extern "C" fn(*mut c_void, c_int, usize) -> c_int>(b"cudaMemset").unwrap();
            type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> c_int;
            let memcpy = library.get::<Copy>(b"cudaMemcpy").unwrap();
            let name = library.get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"cudaGetErrorName").unwrap();
            let last = library.get::<unsafe extern "C" fn() -> c_int>(b"cudaGetLastError").unwrap();

            assert_eq!(set_device(1), 0);
            let mut memory = ptr::null_mut();
            assert_eq!(malloc(&raw mut memory, 4096), 0);
            assert_eq!(driver.pointer_attribute(9, memory as u64), Ok(1));
            assert_eq!(memset(memory, 0xab, 4096), 0);
            let (sent, mut got) = ([7_u8; 16], [0_u8; 32]);
            assert_eq!(memcpy(memory, sent.as_ptr().cast(), 16, 1), 0);
            assert_eq!(memcpy(got.as_mut_ptr().cast(), memory, 32, 2), 0);
            assert_eq!((got[..16].to_vec(), got[16..].to_vec()), (vec![7; 16], vec![0xab; 16]));
            assert_eq!(free(memory), 0);
            assert_eq!(set_device(2), 101);
            assert_eq!(CStr::from_ptr(name(101)), c"cudaErrorInvalidDevice");
            assert_eq!([last(), last()], [101, 0]);
        }
    });
}
