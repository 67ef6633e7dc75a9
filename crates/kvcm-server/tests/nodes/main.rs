//! Real `kvcm-server` processes, asked over real sockets.
#![expect(clippy::unwrap_used, reason = "tests")]

mod both;
mod cases;
mod cluster;
mod daemon;
mod data;
mod deploy;
mod durable;
mod exposition;
mod golden;
mod metrics;
mod limits;
mod operating;
mod raw;
mod redis;
mod single;
mod support;
mod watch;
mod tls;
