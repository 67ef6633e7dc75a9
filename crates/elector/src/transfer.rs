//! What can become of a wish that a certain node leads next, and of one that none does here.

use coordination_core::Owner;
use kvcm_fence::Epoch;
use thiserror::Error;

use crate::{LossReason, Unfit};

/// A transfer was not begun; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransferRefused {
    /// This node does not hold the lock.
    #[error("this node does not lead")]
    NotLeader,
    /// Another epoch than the expected one is held.
    #[error("this node leads in epoch {0}, which is not the expected one")]
    OtherEpoch(Epoch),
    /// It holds the lock and recovers: it has nothing to hand over yet.
    #[error("this node has not begun to serve")]
    NotServing,
    /// It steps down already.
    #[error("this node is stepping down already")]
    SteppingDown,
    /// The successor is this node.
    #[error("this node leads already")]
    ToSelf,
    /// The successor could not take over.
    #[error("the successor cannot take over: {0}")]
    Successor(Unfit),
}

/// What became of a transfer that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferOutcome {
    /// The successor holds the lock.
    Transferred {
        /// In this epoch.
        epoch: Epoch,
    },
    /// This node leads on in the same epoch; its callbacks were not called.
    Aborted(AbortReason),
    /// The lock was released for the successor, which did not take it while it was kept; the
    /// election is free.
    NotTaken {
        /// Who took it then, as far as this node has seen.
        by: Option<Owner>,
    },
    /// The reign ended in another way before the lock was released for the successor: it was
    /// lost, or there was a demand to step down or to stop meanwhile.
    Ended(LossReason),
}

/// Why a transfer was given up before the lock was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum AbortReason {
    /// The operator thought better of it.
    #[error("it was cancelled")]
    Cancelled,
    /// The successor could no longer take over.
    #[error("the successor cannot take over: {0}")]
    Successor(Unfit),
    /// Requests were still in flight when the drain bound had passed.
    #[error("{0} requests were still in flight after the drain bound")]
    InFlight(u64),
}

/// The node was not paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PauseRefused {
    /// A paused node does not lead: it has to step down as well.
    #[error("this node leads in epoch {0}: demote it and pause it in one step")]
    Leads(Epoch),
    /// The election has ended.
    #[error("the election has ended")]
    Stopped,
}
