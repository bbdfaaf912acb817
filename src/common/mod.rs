//! What all vendors share. A vendor implements [`transport::Transport`]; nothing in here knows a vendor, the engine or fio.

pub mod memory;
pub mod pool;
pub mod transport;
pub mod wait;
