//! A CUDA driver simulated in host memory: `libcuda.so.1` for machines with no GPU. For tests only.
//!
//! What it simulates lies in `sim_gpu`; here are the driver's names, and what only CUDA has. A function that is not simulated is absent, and `cuGetProcAddress` answers «not found» for it.
//!
//! The environment is that of `sim_gpu`.
//!
//! As with the real driver: a process forked after `cuInit` gets 3 (not initialised) from every call; a thread without
//! a current context gets 201, or 709 if that context is gone; a call from inside a stream's host function gets 800.

mod api;
mod names;
