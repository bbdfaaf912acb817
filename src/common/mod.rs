//! What all vendors share. A vendor implements [`transport::Transport`]; nothing in here knows the engine or fio, and a vendor only the files
//! of [`gpu`] that say what is CUDA's and what is HIP's.

pub mod blocking;
pub mod bounce;
pub mod device;
pub mod driver;
pub mod gpu;
pub mod gpufile;
pub mod iobuf_lock;
pub mod library;
pub mod memory;
pub mod pool;
pub mod posix;
pub mod topology;
pub mod transport;
pub mod uring;
pub mod wait;
