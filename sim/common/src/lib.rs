//! What the simulated libraries share: knobs read from the environment, and a log of calls.

pub mod knobs;
pub mod log;
