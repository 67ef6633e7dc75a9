//! The backend against real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod access;
mod common;
mod conformance;
mod history;
mod names;
mod outages;
mod records;
mod values;
mod watches;
