//! The tables of fio's struct layouts: one row a field, one column a version.
//!
//! `table` reads and writes them, `arch` turns x86_64's into another machine's, `rust` writes them as Rust source for the engine.
//! `extract` makes a column from a configured fio source tree; it alone needs libclang (feature `extract`).

mod arch;
mod rust;
mod table;

pub use arch::for_arch;
pub use rust::rust_source;
pub use table::{Column, ParseError, Row, Table};
