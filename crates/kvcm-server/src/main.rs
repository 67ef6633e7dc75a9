//! The `kvcm-server` binary.
fn main() {}
