//! What all vendors share. A vendor implements [`transport::Transport`]; nothing in here knows a vendor, the engine or fio.

pub mod blocking;
pub mod bounce;
pub mod device;
pub mod driver;
pub mod gpu;
pub mod gpufile;
pub mod library;
pub mod memory;
pub mod pool;
pub mod posix;
pub mod topology;
pub mod transport;
pub mod uring;
pub mod wait;
