//! The demonstration and the benches.
