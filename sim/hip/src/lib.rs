//! A HIP runtime simulated in host memory: `libamdhip64.so.7`, and `libamdhip64.so.6` without what came with 7. For tests only.
//!
//! What it simulates lies in `sim_gpu`, with the environment that it reads; here are HIP's names, and what only HIP has: a device in
//! place of a context, device 0 for a thread that has chosen none, and amdgpu's file call (see `file`). A function that is not simulated
//! is absent.
//!
//! As with the real runtime: with no device `hipInit` answers 100; a process forked after it gets 3 (not initialised) from every call.

mod api;
mod device;
#[cfg(not(rocm6))]
mod file;
mod names;
