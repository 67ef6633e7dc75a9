//! A fenced, append-only record store: the truth behind registry and cache.
//!
//! A new leader claims a [`Journal`] and gets its [`Writer`], the only way to write. The writer
//! loads what there is, then takes batches: [`Writer::submit`] gives a batch its place,
//! [`Writer::committed`] tells when the store has it. What a batch means is the business of the
//! state machine above; this crate knows nothing of elections either, it receives a claim.

#[cfg(all(feature = "unsafe-no-fencing", not(debug_assertions)))]
compile_error!("unsafe-no-fencing is for tests of the tests and is never released");

mod batch;
mod claim_record;
pub mod conformance;
mod error;
mod faults;
mod frame;
mod group;
mod journal;
mod load;
mod local;
mod memory;
mod memory_state;
mod memory_writer;
mod pace;
mod progress;
mod queue;
mod record;
mod redis;
mod replay;
mod requests;
mod snapshot;
mod store;
mod store_writer;
mod writer;

pub use self::redis::RedisJournal;
pub use batch::Batch;
pub use error::{AppendError, ClaimError, LoadError, Outcome, Source};
pub use faults::Faults;
pub use journal::Journal;
pub use load::{LoadSink, Loaded, Skipped};
pub use local::LocalJournal;
pub use memory::MemoryJournal;
pub use record::{Record, RecordError};
pub use requests::{RequestKey, Requests};
pub use snapshot::Snapshot;
pub use writer::{LogSize, Writer};
