//! What a store does for the writer of one claim.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use kvcm_fence::Fenced;

use crate::{AppendError, LoadError, LoadSink, Loaded, LogSize, Snapshot, group::Group};

/// A store under one claim.
#[async_trait]
pub(crate) trait Store: fmt::Debug + Send + Sync + 'static {
    /// See [`Writer::load`](crate::Writer::load). Also gives the size of what follows the
    /// snapshot.
    async fn load(&self, sink: &mut (dyn LoadSink + Send)) -> Result<(Loaded, LogSize), LoadError>;

    /// Makes the group durable. The same group again is not written twice.
    async fn append(&self, group: &Group) -> Result<(), StoreError>;

    /// Makes the snapshot durable, which holds nothing that is not committed, and drops what it
    /// covers.
    async fn snapshot(&self, snapshot: Snapshot, timeout: Duration) -> Result<(), AppendError>;
}

/// Why a group is not durable.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// Another claim stands.
    Fenced(Fenced),
    /// The store has lost what it had acknowledged; it has the batches up to this one.
    WentBack(u64),
    /// Not now: what is wrong, and what to do about it.
    Unavailable(String),
}
