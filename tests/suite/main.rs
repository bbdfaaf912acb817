//! The real fio against the real library: every behaviour on each of four fios. `make test` builds what this needs, and runs it.

mod harness;

mod blocks;
mod devices;
mod ends;
mod errors;
mod life;
mod modes;
mod verify;
