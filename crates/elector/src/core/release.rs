//! Giving the lock up.

use std::time::Duration;

use coordination_core::UnlockOutcome;
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use super::{
    CallFailed, Command, Core, DemoteOutcome, LossReason,
    lock::{Goal, Lock, Purpose, Stage, Transfer},
};
use crate::DrainEnd;

/// Between two tries to release: each one that fails costs the others a part of the lease.
const RETRY: Duration = Duration::from_millis(20);

/// What the driver may take longer than the bound of a drain before the core goes on without it.
const DRAIN_GRACE: Duration = Duration::from_millis(100);

/// A request to step down.
pub(super) struct Demand {
    pub(super) id: u64,
    pub(super) expected: Option<Epoch>,
    pub(super) pause: bool,
}

impl Core {
    pub(super) fn on_demote(&mut self, now: Moment, demand: Demand, out: &mut Vec<Command>) {
        let Demand {
            id,
            expected,
            pause,
        } = demand;
        let Lock::Held(held) = &mut self.lock else {
            out.push(Command::Reply {
                id,
                outcome: DemoteOutcome::NotLeader,
            });
            return;
        };
        if expected.is_some_and(|expected| expected != held.epoch) {
            out.push(Command::Reply {
                id,
                outcome: DemoteOutcome::OtherEpoch(held.epoch),
            });
            return;
        }
        held.asked.push(id);
        match &held.stage {
            Stage::Serving => self.drain(now, Goal::Release(LossReason::Requested), out),
            Stage::Recovering | Stage::Confirming { .. } => {
                self.release(now, LossReason::Requested, out);
            }
            Stage::Draining {
                goal: Goal::Transfer(_),
                ..
            } => self.firm(LossReason::Requested, out),
            // One that is being given up is followed by another drain.
            Stage::Draining { .. } | Stage::Releasing { .. } => {}
        }
        if pause {
            self.pause();
        }
    }

    /// A step-down that can be taken back becomes one that cannot: the transfer is answered, the
    /// lock will be free for all.
    pub(super) fn firm(&mut self, reason: LossReason, out: &mut Vec<Command>) {
        if let Lock::Held(held) = &self.lock {
            self.end_transfer(held, &reason, out);
        }
        if let Lock::Held(held) = &mut self.lock
            && let Stage::Draining { goal, .. } = &mut held.stage
        {
            *goal = Goal::Release(reason);
        }
    }

    /// A write was refused: another has claimed the store, whatever the backend says.
    pub(super) fn on_store_refused(
        &mut self,
        now: Moment,
        epoch: Epoch,
        by: Epoch,
        out: &mut Vec<Command>,
    ) {
        self.highest = self.highest.max(by);
        let Some(held) = self.lock.held_in(epoch) else {
            return;
        };
        if !matches!(held.stage, Stage::Releasing { .. }) {
            held.evidence = Some(if by.is_zero() {
                "a store has lost its fence".to_owned()
            } else {
                format!("a store was claimed in epoch {by}")
            });
            self.totals.lost += 1;
            self.release(now, LossReason::Fenced, out);
        }
    }

    /// Lets nothing new in, and waits for what is in.
    pub(super) fn drain(&mut self, now: Moment, goal: Goal, out: &mut Vec<Command>) {
        let bound = self.settings.drain;
        let Lock::Held(held) = &mut self.lock else {
            return;
        };
        held.times.drained_since = Some(now);
        held.stage = Stage::Draining {
            until: now + bound + DRAIN_GRACE,
            goal,
        };
        out.push(Command::ShutAdmit { epoch: held.epoch });
        out.push(Command::Drain {
            epoch: held.epoch,
            bound,
        });
    }

    pub(super) fn on_drained(
        &mut self,
        now: Moment,
        epoch: Epoch,
        end: DrainEnd,
        out: &mut Vec<Command>,
    ) {
        let Some(held) = self.lock.held_in(epoch) else {
            return;
        };
        if let Stage::Draining { goal, .. } = &held.stage {
            let goal = goal.clone();
            self.transfer_drained(now, goal, end, out);
        }
    }

    /// Shuts the gate and releases the lock.
    pub(super) fn release(&mut self, now: Moment, reason: LossReason, out: &mut Vec<Command>) {
        if let Lock::Held(held) = &self.lock {
            self.end_transfer(held, &reason, out);
        }
        self.begin_release(now, Purpose::Free(reason), out);
    }

    /// Shuts the gate and releases the lock for the successor.
    pub(super) fn release_for(&mut self, now: Moment, to: Transfer, out: &mut Vec<Command>) {
        self.begin_release(now, Purpose::Handover(to), out);
    }

    fn begin_release(&mut self, now: Moment, purpose: Purpose, out: &mut Vec<Command>) {
        // A lock that is released tells the next holder that no former leader is left. While the
        // one before us may still believe that it leads, the lock is kept.
        let may_release = self.guard.may_release(now);
        let Lock::Held(held) = &mut self.lock else {
            return;
        };
        let epoch = held.epoch;
        out.push(Command::ShutGate { epoch });
        held.times.released_since = Some(now);
        held.stage = Stage::Releasing {
            next_try: self.guard.until.max(now),
            in_flight: may_release,
            purpose,
        };
        if may_release {
            self.unlock(out);
        }
    }

    /// Sends the release, for whomever it is meant.
    pub(super) fn unlock(&self, out: &mut Vec<Command>) {
        if let Lock::Held(held) = &self.lock
            && let Stage::Releasing { purpose, .. } = &held.stage
        {
            let reserve = match purpose {
                Purpose::Free(_) => None,
                Purpose::Handover(transfer) => Some(self.reservation(&transfer.to)),
            };
            let epoch = held.epoch;
            out.push(Command::Unlock { epoch, reserve });
        }
    }

    pub(super) fn on_unlock(
        &mut self,
        now: Moment,
        epoch: Epoch,
        result: Result<UnlockOutcome, CallFailed>,
        out: &mut Vec<Command>,
    ) {
        let Some(held) = self.lock.held_in(epoch) else {
            // What was not wanted is gone: another lock may be had.
            if self.campaign.stray_answered(epoch) && result.is_ok() {
                self.campaign.try_now(now);
            }
            return;
        };
        let Stage::Releasing {
            next_try,
            in_flight,
            purpose,
        } = &mut held.stage
        else {
            return;
        };
        match result {
            Ok(outcome) => {
                let reason = purpose.reason();
                self.totals.released += u64::from(reason == LossReason::Requested);
                self.backend_answered(now);
                self.end_reign(now, reason, out);
                if let UnlockOutcome::HeldByOther(holder) = outcome {
                    self.see(now, holder, out);
                }
            }
            // Tried until the lease has ended by itself.
            Err(failed) => {
                *in_flight = false;
                *next_try = now + RETRY;
                self.backend_error = Some(failed.message);
            }
        }
    }

    /// The lock is gone. Decides when this node may try again.
    pub(super) fn end_reign(&mut self, now: Moment, reason: LossReason, out: &mut Vec<Command>) {
        let Lock::Held(held) = std::mem::replace(&mut self.lock, Lock::Free) else {
            return;
        };
        let reason = match &held.stage {
            Stage::Draining {
                goal: Goal::Release(reason),
                ..
            } => reason.clone(),
            Stage::Releasing { purpose, .. } => purpose.reason(),
            _ => reason,
        };
        self.end_transfer(&held, &reason, out);
        self.record_ended(now, &held, &reason, out);
        self.retired = self.retired.max(held.epoch);
        self.leader = None;
        for id in held.asked {
            out.push(Command::Reply {
                id,
                outcome: DemoteOutcome::Done(held.epoch),
            });
        }
        // The worker is busy for a while; when it is not, it says so.
        self.campaign.try_at(now + self.settings.loop_interval);
        self.note_loss(now, &reason);
        match &reason {
            LossReason::Requested | LossReason::Transferred(_)
                if !self.settings.forbid.is_zero() =>
            {
                self.campaign.stepped_down(now, self.settings.forbid);
            }
            LossReason::Requested => {
                self.campaign
                    .yield_until(now + self.settings.yield_after_demote);
            }
            LossReason::Transferred(_) => {
                let kept = now + self.settings.reservation;
                self.campaign
                    .yield_until(kept + self.settings.yield_after_demote);
            }
            LossReason::PromotionFailed(_) | LossReason::Stores => {
                self.campaign.forbid_until(now + self.settings.cooldown);
                self.campaign.require_probe();
            }
            LossReason::NotHeld | LossReason::HeldByOther => self.campaign.cool_down(),
            _ => {}
        }
        self.worker.reign_ended(held.epoch, reason.clone());
        self.last_sign = Some(now);
        self.last_loss = Some(reason);
        if let Stage::Releasing {
            purpose: Purpose::Handover(transfer),
            ..
        } = held.stage
        {
            self.handed_over(now, transfer, held.epoch);
        }
    }
}
