//! The host program: the only place that knows an offset or a symbol of fio.
//!
//! `lib` hands fio's entry points in here and names the engine; `engine` implements [`Engine`] and sees fio through [`Job`], [`IoUnit`]
//! and [`File`]. Nothing in here knows the engine or a vendor.

mod cell;
mod engine;
mod guard;
mod hooks;
mod io_hooks;
mod job_options;
mod layout;
mod log;
mod ops;
mod options;
mod peek;
mod symbols;
mod thread;
mod times;
mod unit;
mod waiting;

pub use engine::{Done, Engine, Queued, Refusal, Running};
pub use hooks::ZONED;
pub use job_options::JobOptions;
pub use log::line;
pub use ops::{Entry, OpsTable, fill};
pub use options::{OptionSpec, OptionValues};
pub use thread::Job;
pub use unit::{Direction, File, IoUnit, NO_FD, Outcome, UnitId};
pub use waiting::Waiting;
