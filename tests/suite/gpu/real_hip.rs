//! The real HIP runtime.
