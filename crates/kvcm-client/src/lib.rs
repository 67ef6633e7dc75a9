//! Client of a kvcm cluster: leader discovery, retries, the public Rust API.
