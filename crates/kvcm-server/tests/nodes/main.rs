//! Real `kvcm-server` processes, asked over real sockets.
#![expect(clippy::unwrap_used, reason = "tests")]

mod access;
mod both;
mod cases;
mod cluster;
mod daemon;
mod data;
mod deploy;
mod durable;
mod exposition;
mod golden;
mod index;
mod index_faults;
mod limits;
mod metrics;
mod operating;
mod raw;
mod reclaim;
mod redis;
mod registry_torture;
mod single;
mod support;
mod tls;
mod torture;
mod watch;
