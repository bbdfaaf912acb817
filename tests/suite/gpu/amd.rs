//! AMD's rules.
