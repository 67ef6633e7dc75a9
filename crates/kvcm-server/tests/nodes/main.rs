//! Real `kvcm-server` processes, asked over real sockets.
#![expect(clippy::unwrap_used, reason = "tests")]

mod cluster;
mod data;
mod deploy;
mod single;
mod support;
