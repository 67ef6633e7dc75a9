//! The registry over a memory journal.

#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

mod accounts;
mod admin;
mod common;
mod config_snapshot;
mod instances;
mod journal_faults;
mod requests;
mod startup;
