//! The backend against real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod access;
mod cluster;
mod cluster_conformance;
mod common;
mod conformance;
mod history;
mod late;
mod loading;
mod names;
mod network;
mod outages;
mod pauses;
mod records;
mod sentinel;
mod start_up;
mod tls;
mod torture;
mod values;
mod watches;
