//! Handing the lock to a named successor.

use coordination_core::{NodeId, Owner, Reservation};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use super::{
    Command, Core, Life, LossReason,
    lock::{Goal, Held, Lock, Stage, Transfer},
};
use crate::{AbortReason, DrainEnd, TransferOutcome, TransferRefused};

/// The lock was released for a successor; whether it takes it is not yet known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handover {
    id: u64,
    to: NodeId,
    /// The reign that ended.
    epoch: Epoch,
    /// By then it has been seen, or it did not happen.
    until: Moment,
}

impl Handover {
    pub(super) const fn until(&self) -> Moment {
        self.until
    }

    /// See [`Core::make_canonical`].
    pub(super) fn make_canonical(&mut self, now: Moment, to: Moment) {
        self.until = to + now.until(self.until);
    }
}

impl Core {
    pub(super) fn on_transfer(
        &mut self,
        now: Moment,
        id: u64,
        to: &NodeId,
        expected: Option<Epoch>,
        out: &mut Vec<Command>,
    ) {
        match self.may_transfer(now, to, expected) {
            Ok(to) => self.drain(now, Goal::Transfer(Transfer { id, to }), out),
            Err(refused) => out.push(Command::ReplyTransfer {
                id,
                result: Err(refused),
            }),
        }
    }

    fn may_transfer(
        &self,
        now: Moment,
        to: &NodeId,
        expected: Option<Epoch>,
    ) -> Result<Owner, TransferRefused> {
        let held = self.lock.held().ok_or(TransferRefused::NotLeader)?;
        if expected.is_some_and(|expected| expected != held.epoch) {
            return Err(TransferRefused::OtherEpoch(held.epoch));
        }
        match held.stage {
            Stage::Draining { .. } | Stage::Releasing { .. } => {
                return Err(TransferRefused::SteppingDown);
            }
            _ if self.life != Life::Running => return Err(TransferRefused::SteppingDown),
            Stage::Recovering | Stage::Confirming { .. } => {
                return Err(TransferRefused::NotServing);
            }
            Stage::Serving => {}
        }
        if *to == self.me.node {
            return Err(TransferRefused::ToSelf);
        }
        self.peers
            .successor(now, to)
            .map_err(TransferRefused::Successor)
    }

    pub(super) fn on_cancel_transfer(&mut self, out: &mut Vec<Command>) {
        self.abort_transfer(AbortReason::Cancelled, out);
    }

    /// Before the lock is released all can be taken back: the gate opens again when the drain has
    /// stopped.
    fn abort_transfer(&mut self, why: AbortReason, out: &mut Vec<Command>) {
        if let Lock::Held(held) = &mut self.lock
            && let Stage::Draining { goal, .. } = &mut held.stage
            && let Goal::Transfer(Transfer { id, .. }) = goal
        {
            let id = *id;
            *goal = Goal::Abort { id, why };
            let epoch = held.epoch;
            out.push(Command::StopDrain { epoch });
        }
    }

    /// Looks whether the successor can still take over.
    pub(super) fn check_successor(&mut self, now: Moment, out: &mut Vec<Command>) {
        if let Some(Stage::Draining {
            goal: Goal::Transfer(transfer),
            ..
        }) = self.lock.held().map(|held| &held.stage)
            && let Err(unfit) = self.peers.still_fit(now, &transfer.to)
        {
            self.abort_transfer(AbortReason::Successor(unfit), out);
        }
    }

    /// The drain of a transfer has ended, or has not answered in time.
    pub(super) fn transfer_drained(
        &mut self,
        now: Moment,
        goal: Goal,
        end: DrainEnd,
        out: &mut Vec<Command>,
    ) {
        match (goal, end) {
            (Goal::Release(reason), _) => self.release(now, reason, out),
            (Goal::Abort { id, why }, DrainEnd::Empty | DrainEnd::InFlight(_)) => {
                self.reopen(now, id, why, out);
            }
            (Goal::Transfer(Transfer { id, .. }), DrainEnd::InFlight(count)) => {
                self.reopen(now, id, AbortReason::InFlight(count), out);
            }
            (Goal::Transfer(transfer), end) => match self.peers.still_fit(now, &transfer.to) {
                Ok(()) => self.release_for(now, transfer, out),
                Err(unfit) if end == DrainEnd::Empty => {
                    let why = AbortReason::Successor(unfit);
                    self.reopen(now, transfer.id, why, out);
                }
                Err(_) => self.release(now, LossReason::Requested, out),
            },
            // What was stopped cannot be taken up again while the callback that stops it hangs.
            (Goal::Abort { .. }, DrainEnd::Stuck) => self.release(now, LossReason::Requested, out),
        }
    }

    /// The same epoch goes on.
    fn reopen(&mut self, now: Moment, id: u64, why: AbortReason, out: &mut Vec<Command>) {
        let Lock::Held(held) = &mut self.lock else {
            return;
        };
        held.stage = Stage::Serving;
        held.times.drained_since = None;
        // Others are told that it serves.
        held.next_renew = now;
        self.totals.transfers_aborted += 1;
        out.push(Command::ReopenGate { epoch: held.epoch });
        out.push(Command::ReplyTransfer {
            id,
            result: Ok(TransferOutcome::Aborted(why)),
        });
    }

    /// The reign ends in another way than the transfer wanted.
    pub(super) fn end_transfer(&self, held: &Held, reason: &LossReason, out: &mut Vec<Command>) {
        if let Stage::Draining { goal, .. } = &held.stage
            && let Goal::Transfer(Transfer { id, .. }) | Goal::Abort { id, .. } = goal
        {
            out.push(Command::ReplyTransfer {
                id: *id,
                result: Ok(TransferOutcome::Ended(reason.clone())),
            });
        }
    }

    /// A release that keeps the lock for the successor.
    pub(super) fn reservation(&self, to: &Owner) -> Reservation {
        Reservation {
            node: to.node.clone(),
            duration: self.settings.reservation,
        }
    }

    /// The lock was released: waits until the successor is seen to have it.
    pub(super) fn handed_over(&mut self, now: Moment, transfer: Transfer, epoch: Epoch) {
        self.handover = Some(Handover {
            id: transfer.id,
            to: transfer.to.node,
            epoch,
            // One look after the reservation has run out.
            until: now + self.settings.reservation + self.settings.loop_interval,
        });
    }

    /// Somebody holds the lock.
    pub(super) fn settle_handover(&mut self, owner: &Owner, epoch: Epoch, out: &mut Vec<Command>) {
        let Some(handover) = self.handover.take_if(|handover| epoch > handover.epoch) else {
            return;
        };
        let outcome = if owner.node == handover.to {
            self.totals.transferred += 1;
            TransferOutcome::Transferred { epoch }
        } else {
            let by = Some(owner.clone());
            TransferOutcome::NotTaken { by }
        };
        out.push(Command::ReplyTransfer {
            id: handover.id,
            result: Ok(outcome),
        });
    }

    /// Nobody was seen to take it in time, or nobody looks any more.
    pub(super) fn expire_handover(&mut self, now: Moment, out: &mut Vec<Command>) {
        let stops = self.life != Life::Running;
        let over = self
            .handover
            .take_if(|handover| stops || now >= handover.until);
        if let Some(Handover { id, .. }) = over {
            let by = None;
            out.push(Command::ReplyTransfer {
                id,
                result: Ok(TransferOutcome::NotTaken { by }),
            });
        }
    }
}
