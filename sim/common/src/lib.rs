//! What the simulated libraries and their tests share: knobs read from the environment, a log of calls, the CUDA
//! driver as its callers see it, and processes for tests that need one of their own.

pub mod child;
pub mod driver;
pub mod knobs;
pub mod log;
