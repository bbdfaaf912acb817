//! A CUDA driver simulated in host memory: `libcuda.so.1` for machines with no GPU. For tests only.
//!
//! Device memory is real memory that the CPU cannot reach at its device address (see `memory`); streams and events run
//! in real order on one thread a stream (see `stream`). Nothing here computes: there are no modules and no kernels.
//! A function that is not simulated is absent, and `cuGetProcAddress` answers «not found» for it.
//!
//! Environment, read once a process:
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `GPUIO_SIM_DEVICES` | 1 | number of devices; with 0, `cuInit` returns 100 (no device) |
//! | `GPUIO_SIM_MEMORY` | 8g | bytes a device has; more is refused with 2 (out of memory) |
//! | `GPUIO_SIM_PCI` | none | PCI addresses of the devices, separated by commas (`0000:65:00.0,…`) |
//! | `GPUIO_SIM_VERSION` | 12080 | what `cuDriverGetVersion` answers |
//! | `GPUIO_SIM_FAIL_ALLOC` | never | device or managed allocation that fails, usually with 2 (out of memory) |
//! | `GPUIO_SIM_FAIL_REGISTER` | never | pinning of host memory (allocate or register) that fails, usually with 2 |
//! | `GPUIO_SIM_FAIL_COPY` | never | copy that fails when called, usually with 719 (launch failed) |
//! | `GPUIO_SIM_FAIL_ASYNC` | never | stream copy or memset that fails when it runs (default 700), seen by whoever waits |
//! | `GPUIO_SIM_COPY_DELAY_US` | 0 | time that every copy takes, in microseconds |
//! | `GPUIO_SIM_LOG` | none | file to which one line a call is appended |
//!
//! The form of the `FAIL` knobs is `N[!][:CODE]`: from the N-th such call on, with `!` the N-th only, with CODE as result.
//!
//! As with the real driver: a process forked after `cuInit` gets 3 (not initialised) from every call; a thread without
//! a current context gets 201, or 709 if that context is gone; a call from inside a stream's host function gets 800.

mod abi;
mod api;
mod context;
mod event;
mod memory;
mod process;
mod stream;
