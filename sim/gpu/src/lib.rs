//! GPUs simulated in host memory, for the runtimes that are simulated on top: CUDA's driver and HIP. For tests only.
//!
//! Device memory is real memory that the CPU cannot reach at its device address (see `memory`); streams and events run
//! in real order on one thread a stream (see `stream`). Nothing here computes: there are no modules and no kernels. What
//! the runtimes have alike but for names is here as well, one file a subject; a runtime exports it under its own names.
//!
//! Environment, read once a process:
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `GPUIO_SIM_DEVICES` | 1 | number of devices; with 0, initialising returns 100 (no device) |
//! | `GPUIO_SIM_MEMORY` | 8g | bytes a device has; more is refused with 2 (out of memory) |
//! | `GPUIO_SIM_PCI` | none | PCI addresses of the devices, separated by commas (`0000:65:00.0,…`) |
//! | `GPUIO_SIM_VERSION` | the runtime's | what the runtime says of its version |
//! | `GPUIO_SIM_FAIL_ALLOC` | never | device or managed allocation that fails, usually with 2 (out of memory) |
//! | `GPUIO_SIM_FAIL_REGISTER` | never | pinning of host memory (allocate or register) that fails, usually with 2 |
//! | `GPUIO_SIM_FAIL_COPY` | never | copy that fails when called, usually with 719 (launch failed) |
//! | `GPUIO_SIM_FAIL_ASYNC` | never | stream copy or memset that fails when it runs (default 700), seen by whoever waits |
//! | `GPUIO_SIM_COPY_DELAY_US` | 0 | time that every copy takes, in microseconds |
//! | `GPUIO_SIM_LOG` | none | file to which one line a call is appended |
//!
//! The form of the `FAIL` knobs is `N[!][:CODE]`: from the N-th such call on, with `!` the N-th only, with CODE as result.
//!

pub mod abi;
pub mod allocation;
pub mod context;
pub mod copy;
pub mod devices;
pub mod event;
pub mod fill;
pub mod memory;
pub mod primary;
pub mod process;
pub mod queue;
pub mod stream;
