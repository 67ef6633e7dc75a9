//! Storages, instance groups, instances, accounts: a state machine over a journal.
//!
//! [`Registry::open`] replays a journal whose writer only a claim can give. Reads come from
//! memory; writes go to the journal first and become visible once it has acknowledged them. The
//! types mirror the configuration JSON of the predecessor, which is also how they are stored.

mod account;
mod admin;
mod config_snapshot;
mod error;
mod group;
mod group_read;
mod instance;
mod load;
mod operation;
mod password;
mod reader;
mod registration;
mod registry;
mod startup;
mod state;
mod storage;
mod storage_read;
mod storage_type;

pub use account::{Account, Role};
pub use config_snapshot::SnapshotLoaded;
pub use error::{Error, ErrorKind, FieldError, Fields};
pub use group::{
    CacheConfig, Group, MetaCachePolicyConfig, MetaIndexerConfig, MetaStorageBackendConfig, Quota,
    ReclaimStrategy, TriggerStrategy, TypeQuota,
};
pub use instance::{Instance, LocationSpecGroup, LocationSpecInfo, ModelDeployment};
pub use kvcm_journal::{Outcome, RequestKey};
pub use load::{Recovery, SkippedEntry};
pub use password::{InvalidHash, PasswordHash};
pub use reader::Mistakes;
pub use registration::{Registered, Registration};
pub use registry::Registry;
pub use startup::{Applied, StartupConfig};
pub use storage::{
    FileSpec, Hf3fsSpec, MooncakeSpec, PaceSpec, Storage, StorageSpec, VcnsHf3fsSpec,
};
pub use storage_type::StorageType;
