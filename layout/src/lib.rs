//! The tables of fio's struct layouts: one row a field, one column a version.
//!
//! `table` reads and writes them, `arch` turns x86_64's into another machine's, `rust` writes them as Rust source for the engine.
//! With the feature `extract`, which needs libclang, `extract` makes a column from a configured fio source tree, and `bindings` finds
//! the numbers in what bindgen wrote.

mod arch;
#[cfg(feature = "extract")]
mod bindings;
#[cfg(feature = "extract")]
mod extract;
mod rust;
mod table;

pub use arch::for_arch;
#[cfg(feature = "extract")]
pub use extract::{ExtractError, extract, tree_version};
pub use rust::rust_source;
pub use table::{Column, ParseError, Row, Table};
