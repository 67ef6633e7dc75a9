//! What an election wants done.

use std::time::Duration;

use coordination_core::{Previous, Reservation};
use kvcm_clock::Moment;
use kvcm_fence::{Epoch, Incarnation};

use crate::{Change, LossReason, PauseRefused, Phase, TransferOutcome, TransferRefused};

/// Something to be done by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Try to take the lock. One at a time.
    TryLock {
        /// The new epoch is higher.
        floor: Epoch,
        /// The holder's life and epoch that are proven to have ended.
        presumed_dead: Option<(Incarnation, Epoch)>,
    },
    /// Ask who holds the lock, without trying to take it.
    Observe,
    /// Renew the lock. The next one does not wait for this one's answer.
    Renew {
        /// In this epoch.
        epoch: Epoch,
        /// What followers are told.
        phase: Phase,
    },
    /// Release the lock of this epoch.
    Unlock {
        /// The epoch.
        epoch: Epoch,
        /// The lock is kept for this node for a while.
        reserve: Option<Reservation>,
    },
    /// Start the promote callback. The one before it has been followed by its demote callback.
    Promote {
        /// The epoch of the reign.
        epoch: Epoch,
        /// The reign before it.
        previous: Option<Previous>,
    },
    /// Tell the running promote callback that its lock is lost.
    CancelPromote {
        /// Its epoch.
        epoch: Epoch,
    },
    /// Start the demote callback; the promote callback of the same epoch has returned.
    Demote {
        /// The epoch.
        epoch: Epoch,
        /// Why.
        reason: LossReason,
    },
    /// Quiesce, wait for requests in flight, flush; answer [`Input::Drained`](crate::Input) at
    /// the latest after `bound`.
    Drain {
        /// The epoch.
        epoch: Epoch,
        /// The longest wait.
        bound: Duration,
    },
    /// End the drain as soon as the callback that it is in has returned, and answer it.
    StopDrain {
        /// The epoch.
        epoch: Epoch,
    },
    /// Let in again under the same epoch, and take up what was quiesced.
    ReopenGate {
        /// The epoch.
        epoch: Epoch,
    },
    /// Open the gate.
    OpenGate {
        /// For this epoch.
        epoch: Epoch,
        /// Until its lease ends.
        until: Moment,
    },
    /// The lease of the open gate has been renewed.
    ExtendGate {
        /// The epoch.
        epoch: Epoch,
        /// The new end.
        until: Moment,
    },
    /// Let nothing new in.
    ShutAdmit {
        /// Under this epoch.
        epoch: Epoch,
    },
    /// Let nothing in or out.
    ShutGate {
        /// Under this epoch.
        epoch: Epoch,
    },
    /// Ask whether a promotion would have a chance.
    Probe,
    /// Answer a request to step down.
    Reply {
        /// Whose.
        id: u64,
        /// The answer.
        outcome: DemoteOutcome,
    },
    /// Answer a request to hand the lock over.
    ReplyTransfer {
        /// Whose.
        id: u64,
        /// The answer.
        result: Result<TransferOutcome, TransferRefused>,
    },
    /// Answer a request to stay out of the race.
    ReplyPause {
        /// Whose.
        id: u64,
        /// The answer.
        result: Result<(), PauseRefused>,
    },
    /// Keep this for those who ask later why somebody leads or not.
    Record(Change),
    /// Send a tick at this moment; replaces the one before.
    Wake(Moment),
    /// The election has ended; nothing is held and no callback runs.
    Stopped,
}

/// The answer to a request to step down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoteOutcome {
    /// The reign of this epoch is over and the lock released (or its lease has ended).
    Done(Epoch),
    /// This node does not hold the lock.
    NotLeader,
    /// Another epoch than the expected one is held.
    OtherEpoch(Epoch),
}
