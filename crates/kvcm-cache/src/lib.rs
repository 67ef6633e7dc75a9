//! The cache manager: write sessions, placement and quota over index, storage and journal.
//!
//! [`CacheManager::open`] recovers from a journal whose writer only a claim can give. Lookups are
//! synchronous and read memory. A change goes to the journal first and shows once that has
//! acknowledged it; the journal also refuses a node that has been superseded
//! ([`Error::is_fenced`]), so the manager knows nothing of elections.
//!
//! Answers go to a [`ReplySink`], one [`View`] per location, from which a server writes its
//! protocol's bytes without an object per key in between.

mod answered;
mod append;
mod census;
mod compaction;
mod config;
mod deletion;
mod error;
mod events;
mod expiry;
mod finish;
mod home;
mod locate;
mod location_id;
mod manager;
mod mask;
mod meta;
mod naming;
mod ops;
mod placement;
mod reclaim;
mod records;
mod recovery;
mod remove;
mod request;
mod run;
mod select;
mod session_id;
mod sessions;
mod sink;
mod snapshot;
mod specs;
mod start;
mod stats;
mod storage_watch;
mod storages;
mod tokens;
mod usage;
mod view;

pub use answered::{RequestOutcome, RequestRecords, StartedBefore};
pub use census::{GroupBytes, InstanceBlocks};
pub use compaction::Snapshots;
pub use config::Config;
pub use deletion::Permit;
pub use error::{Capacity, Error, ErrorKind};
pub use events::EVENTS;
pub use location_id::LocationId;
pub use manager::{CacheManager, Counts};
pub use mask::{Mask, Skipped};
pub use meta::{Meta, MetaState};
pub use recovery::{Content, Recovered, Surroundings};
pub use request::{
    Blocks, FinishRequest, LocateLenRequest, LocateRequest, MetaRequest, QueryType, RemoveRequest,
    StartRequest, TrimRequest, TrimStrategy,
};
pub use run::Run;
pub use session_id::{InvalidSessionId, SessionId};
pub use sink::ReplySink;
pub use start::{Granted, Started};
pub use stats::Activity;
pub use storage_watch::StorageWatch;
pub use tokens::block_keys;
pub use view::{SpecView, View};

pub use kvcm_storage::{Middle, Uri, key_digits, key_length};

/// What is known of data storages.
pub mod storage {
    pub use kvcm_storage::{Level, Problem, Reason, Status};
}

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;
