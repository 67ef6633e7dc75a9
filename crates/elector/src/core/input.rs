//! What happens to an election.

use std::{fmt, time::Duration};

use coordination_core::{Hint, Holder, LockOutcome, NodeId, RenewOutcome, UnlockOutcome};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use crate::{Peer, PromoteError};

/// Something has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The answer to [`Command::TryLock`](crate::Command::TryLock).
    LockAnswered {
        /// When the request was sent, taken before it.
        sent: Moment,
        /// The answer.
        result: Result<LockOutcome, CallFailed>,
    },
    /// The answer to [`Command::Observe`](crate::Command::Observe).
    HolderAnswered {
        /// The answer.
        result: Result<Option<Holder>, CallFailed>,
    },
    /// The answer to [`Command::Renew`](crate::Command::Renew).
    RenewAnswered {
        /// The epoch that was renewed.
        epoch: Epoch,
        /// When the request was sent, taken before it.
        sent: Moment,
        /// The answer.
        result: Result<RenewOutcome, CallFailed>,
    },
    /// The answer to [`Command::Unlock`](crate::Command::Unlock).
    UnlockAnswered {
        /// The epoch that was released.
        epoch: Epoch,
        /// The answer.
        result: Result<UnlockOutcome, CallFailed>,
    },
    /// The backend hints at a change.
    Hint(Hint),
    /// The promote callback has returned.
    Promoted {
        /// Its epoch.
        epoch: Epoch,
        /// How.
        result: Result<(), PromoteError>,
    },
    /// The demote callback has returned.
    Demoted {
        /// Its epoch.
        epoch: Epoch,
    },
    /// The answer to [`Command::Drain`](crate::Command::Drain).
    Drained {
        /// The epoch.
        epoch: Epoch,
        /// How it ended.
        end: DrainEnd,
    },
    /// The gate of this epoch was found shut because its lease had ended.
    GateShut {
        /// The epoch.
        epoch: Epoch,
    },
    /// Somebody asks this node to step down.
    Demote {
        /// For the answer.
        id: u64,
        /// Only if this is still the epoch: a repeated request must not hit the next reign.
        expected: Option<Epoch>,
        /// It then stays out of the race until it is resumed.
        pause: bool,
    },
    /// Somebody asks that a certain node leads next.
    Transfer {
        /// For the answer.
        id: u64,
        /// The node.
        to: NodeId,
        /// Only if this is still the epoch.
        expected: Option<Epoch>,
    },
    /// Somebody thinks better of it.
    CancelTransfer,
    /// Somebody asks this node to stay out of the race.
    Pause {
        /// For the answer.
        id: u64,
    },
    /// It may campaign again.
    Resume,
    /// The other nodes, as their records describe them; the view is used for
    /// [`Settings::peers_max_age`](crate::Settings).
    Peers(Vec<Peer>),
    /// Whether this node would be able to serve, by its own word.
    Ready(bool),
    /// Whether the stores of this node answer and accept.
    StoresOk(bool),
    /// The process ends.
    Stop,
    /// The answer to [`Command::Probe`](crate::Command::Probe).
    Probed {
        /// What is still wrong.
        result: Result<(), String>,
    },
    /// A store has refused a write of this reign.
    StoreRefused {
        /// The epoch of this reign.
        epoch: Epoch,
        /// The epoch that the store is claimed by; zero when it lost its fence.
        by: Epoch,
    },
    /// The operator sets how long a node stays out after a step-down.
    SetForbid(Duration),
    /// The measured lateness of timers asks for this safety margin.
    SetMargin(Duration),
    /// An epoch was seen outside the election (a client's minimum, a store's fence).
    EpochSeen(Epoch),
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DrainEnd {
    /// Nothing is in flight, all is flushed.
    Empty,
    /// It was stopped, or the bound passed, while so many requests were in flight.
    InFlight(u64),
    /// A callback did not return within the bound.
    Stuck,
}

/// A call to the backend that gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallFailed {
    /// What went wrong.
    pub message: String,
    /// Whether only people can repair it.
    pub fatal: bool,
}

/// Why a reign ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The lease ran out without a renewal that counted.
    LeaseExpired,
    /// The backend says that nobody holds the lock.
    NotHeld,
    /// The backend says that another holds it.
    HeldByOther,
    /// It was asked to step down.
    Requested,
    /// The process ends.
    Stopping,
    /// The promotion failed.
    PromotionFailed(String),
    /// A store has accepted a higher epoch.
    Fenced,
    /// It was asked to hand over to this node.
    Transferred(NodeId),
    /// Its stores failed for a whole lease while another node was ready.
    Stores,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseExpired => f.write_str("the lease expired"),
            Self::NotHeld => f.write_str("the lock is no longer held"),
            Self::HeldByOther => f.write_str("the lock is held by another"),
            Self::Requested => f.write_str("step-down was requested"),
            Self::Stopping => f.write_str("the process is stopping"),
            Self::PromotionFailed(why) => write!(f, "the promotion failed: {why}"),
            Self::Fenced => f.write_str("a store was claimed by a higher epoch"),
            Self::Transferred(to) => write!(f, "the lock was handed over to {to}"),
            Self::Stores => f.write_str("the stores failed for a whole lease"),
        }
    }
}

impl LossReason {
    /// Whether somebody wanted it.
    pub const fn was_asked(&self) -> bool {
        matches!(
            self,
            Self::Requested | Self::Stopping | Self::Transferred(_)
        )
    }

    /// A short word for a metric.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::LeaseExpired => "lease_expired",
            Self::NotHeld => "not_held",
            Self::HeldByOther => "held_by_other",
            Self::Requested => "requested",
            Self::Stopping => "stopping",
            Self::PromotionFailed(_) => "promotion_failed",
            Self::Fenced => "fenced",
            Self::Transferred(_) => "transferred",
            Self::Stores => "stores",
        }
    }
}
