//! The two things that change on their own.

use coordination_core::{Owner, Previous};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use super::{
    LossReason,
    account::{Before, Times},
};
use crate::AbortReason;

/// Renewals whose answers are awaited at the same time: one that hangs does not delay the next.
pub(super) const RENEWALS_IN_FLIGHT: u8 = 4;

/// Whether this process holds the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lock {
    Free,
    Held(Box<Held>),
}

/// A lock that this process holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) epoch: Epoch,
    pub(super) previous: Option<Previous>,
    /// By our own count, from before the request was sent.
    pub(super) lease_end: Moment,
    pub(super) next_renew: Moment,
    pub(super) renewals: u8,
    pub(super) stage: Stage,
    /// Requests to step down that wait for the end.
    pub(super) asked: Vec<u64>,
    pub(super) before: Before,
    pub(super) times: Times,
    /// What shows why the reign ends, when more is known than the reason.
    pub(super) evidence: Option<String>,
}

/// How far a reign has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// The promote callback has not returned.
    Recovering,
    /// A renewal sent at or after `since` opens the gate.
    Confirming { since: Moment },
    /// The gate is open.
    Serving,
    /// Nothing new is let in; what is in finishes, renewal goes on.
    Draining { until: Moment, goal: Goal },
    /// The gate is shut; the lock is being released. There is no way back.
    Releasing {
        next_try: Moment,
        in_flight: bool,
        purpose: Purpose,
    },
}

/// What a drain leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    /// The lock is released.
    Release(LossReason),
    /// The lock is released for a successor, if it can still take over.
    Transfer(Transfer),
    /// The gate opens again as soon as the drain has stopped.
    Abort { id: u64, why: AbortReason },
}

/// A request that a certain node leads next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Transfer {
    /// For the answer.
    pub(super) id: u64,
    pub(super) to: Owner,
}

/// What a lock is released for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// Anybody may take it.
    Free(LossReason),
    /// It is kept for the successor for a while.
    Handover(Transfer),
}

impl Purpose {
    pub(super) fn reason(&self) -> LossReason {
        match self {
            Self::Free(reason) => reason.clone(),
            Self::Handover(transfer) => LossReason::Transferred(transfer.to.node.clone()),
        }
    }
}

/// What the callbacks are doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    Idle,
    Promoting {
        epoch: Epoch,
        cancelled: bool,
        /// Why its reign has ended, if it has.
        ended: Option<LossReason>,
    },
    /// The promote callback of this epoch has returned, well or not; its demote callback is due
    /// as soon as the reign has ended.
    Promoted {
        epoch: Epoch,
        ended: Option<LossReason>,
    },
    Demoting {
        epoch: Epoch,
    },
}

impl Worker {
    /// The reign whose callbacks these are is over.
    pub(super) fn reign_ended(&mut self, epoch: Epoch, reason: LossReason) {
        match self {
            Self::Promoting {
                epoch: of, ended, ..
            }
            | Self::Promoted { epoch: of, ended }
                if *of == epoch =>
            {
                *ended = Some(reason);
            }
            _ => {}
        }
    }
}

impl Lock {
    pub(super) fn held(&self) -> Option<&Held> {
        match self {
            Self::Held(held) => Some(held),
            Self::Free => None,
        }
    }

    /// The lock, when it is held in this epoch.
    pub(super) fn held_in(&mut self, epoch: Epoch) -> Option<&mut Held> {
        match self {
            Self::Held(held) if held.epoch == epoch => Some(held),
            _ => None,
        }
    }
}

impl Held {
    pub(super) fn next_wake(&self) -> Moment {
        let mut wake = self.lease_end;
        match &self.stage {
            Stage::Releasing {
                next_try,
                in_flight,
                ..
            } => {
                if !in_flight {
                    wake = wake.min(*next_try);
                }
                return wake;
            }
            Stage::Draining { until, .. } => wake = wake.min(*until),
            Stage::Recovering | Stage::Confirming { .. } | Stage::Serving => {}
        }
        if self.renewals < RENEWALS_IN_FLIGHT {
            wake = wake.min(self.next_renew);
        }
        wake
    }
}
