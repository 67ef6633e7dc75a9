//! The registry over a memory journal.

#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

mod admin;
mod common;
mod instances;
mod journal_faults;
mod startup;
