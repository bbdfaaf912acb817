//! The functions that the library exports, by subject. Each is a thin layer over the modules beside this folder.

mod context;
mod copy;
mod device;
mod fill;
mod lookup;
mod memory;
mod pointer;
mod refused;
mod stream;
