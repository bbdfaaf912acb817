//! What the simulated libraries and their tests share: knobs read from the environment, a log of calls, the CUDA
//! driver, the HIP runtime and libcufile as their callers see them, and processes for tests that need one of their own.

pub mod child;
pub mod cufile;
pub mod driver;
pub mod hip;
pub mod knobs;
pub mod log;
