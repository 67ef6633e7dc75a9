//! What the owner of an election does when it begins or ceases to lead.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use coordination_core::Previous;
use kvcm_fence::Epoch;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::LossReason;

/// What the owner of an election does when it begins or ceases to lead.
///
/// To ensure correctness: `on_become_leader` and `on_no_longer_leader` strictly alternate, with
/// the same epoch, and never overlap; each of the former is followed by exactly one of the latter,
/// also when it failed. The gate is shut during both.
#[async_trait]
pub trait Leadership: Send + Sync + 'static {
    /// Prepares to serve in `promotion.epoch`: claims stores, recovers state. The gate opens after
    /// it returned well and the lock was confirmed once more.
    ///
    /// # Errors
    /// The lock is released and another node gets its chance.
    async fn on_become_leader(&self, promotion: Promotion) -> Result<(), PromoteError>;

    /// Stops work that no request waits for (timers, reclaim), before requests in flight are
    /// waited for.
    async fn quiesce(&self, epoch: Epoch) {
        let _ = epoch;
    }

    /// Takes up again what [`quiesce`](Self::quiesce) has stopped: a hand-over was taken back, and
    /// the reign goes on.
    async fn resume(&self, epoch: Epoch) {
        let _ = epoch;
    }

    /// Brings out what is buffered, after the last request in flight, while the lock is still held.
    async fn flush(&self, epoch: Epoch) {
        let _ = epoch;
    }

    /// Forgets what belongs to the reign. The lock is gone: nothing durable may be written.
    async fn on_no_longer_leader(&self, epoch: Epoch, reason: LossReason);

    /// Whether a promotion would have a chance: asked after one has failed, before the next try.
    ///
    /// # Errors
    /// What is still wrong.
    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The start of a reign.
#[derive(Clone, Debug)]
pub struct Promotion {
    /// The epoch of the reign.
    pub epoch: Epoch,
    /// The reign before it.
    pub previous: Option<Previous>,
    /// Fires when the lock is lost: the callback returns soon.
    pub cancel: CancellationToken,
    /// The callback reports progress here; one that reports none for long is cancelled.
    pub progress: Progress,
}

/// A counter of progress.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Something has moved on.
    pub fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a promotion failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
pub enum PromoteError {
    /// A store has seen a higher epoch: the node campaigns again above it.
    #[error("a store is claimed by epoch {by}")]
    Fenced {
        /// That epoch.
        by: Epoch,
    },
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}
