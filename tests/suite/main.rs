//! The real fio against the real library: every behaviour on each of four fios. `make test` builds what this needs, and runs it.

mod harness;

mod allocations;
mod batch;
mod blocks;
mod devices;
mod ends;
mod errors;
mod faults;
mod gpu;
mod gusli;
mod house;
mod latency;
mod life;
mod loading;
mod modes;
mod nixl;
mod options;
mod preload;
mod remote;
mod reports;
mod signals;
mod sync;
mod trim;
mod unknown;
mod uring;
mod verify;
