//! Giving the lock up.

use std::time::Duration;

use coordination_core::UnlockOutcome;
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use super::{
    CallFailed, Command, Core, DemoteOutcome, LossReason,
    lock::{Lock, Stage},
};

/// Between two tries to release: each one that fails costs the others a part of the lease.
const RETRY: Duration = Duration::from_millis(20);

/// What the driver may take longer than the bound of a drain before the core goes on without it.
const DRAIN_GRACE: Duration = Duration::from_millis(100);

impl Core {
    pub(super) fn on_demote(
        &mut self,
        now: Moment,
        id: u64,
        expected: Option<Epoch>,
        out: &mut Vec<Command>,
    ) {
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
        match held.stage {
            Stage::Serving => self.drain(now, LossReason::Requested, out),
            Stage::Recovering | Stage::Confirming { .. } => {
                self.release(now, LossReason::Requested, out);
            }
            Stage::Draining { .. } | Stage::Releasing { .. } => {}
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
    pub(super) fn drain(&mut self, now: Moment, reason: LossReason, out: &mut Vec<Command>) {
        let bound = self.settings.drain;
        let Lock::Held(held) = &mut self.lock else {
            return;
        };
        held.times.drained_since = Some(now);
        held.stage = Stage::Draining {
            until: now + bound + DRAIN_GRACE,
            reason,
        };
        out.push(Command::ShutAdmit { epoch: held.epoch });
        out.push(Command::Drain {
            epoch: held.epoch,
            bound,
        });
    }

    pub(super) fn on_drained(&mut self, now: Moment, epoch: Epoch, out: &mut Vec<Command>) {
        let Some(held) = self.lock.held_in(epoch) else {
            return;
        };
        if let Stage::Draining { reason, .. } = &held.stage {
            let reason = reason.clone();
            self.release(now, reason, out);
        }
    }

    /// Shuts the gate and releases the lock.
    pub(super) fn release(&mut self, now: Moment, reason: LossReason, out: &mut Vec<Command>) {
        // A lock that is released tells the next holder that no former leader is left. While the
        // one before us may still believe that it leads, the lock is kept.
        let may_release = self.guard.may_release(now);
        let Lock::Held(held) = &mut self.lock else {
            return;
        };
        let epoch = held.epoch;
        out.push(Command::ShutGate { epoch });
        if may_release {
            out.push(Command::Unlock { epoch });
        }
        held.times.released_since = Some(now);
        held.stage = Stage::Releasing {
            next_try: self.guard.until.max(now),
            in_flight: may_release,
            reason,
        };
    }

    pub(super) fn on_unlock(
        &mut self,
        now: Moment,
        epoch: Epoch,
        result: Result<UnlockOutcome, CallFailed>,
        out: &mut Vec<Command>,
    ) {
        let Some(held) = self.lock.held_in(epoch) else {
            self.campaign.stray_released(epoch);
            return;
        };
        let Stage::Releasing {
            next_try,
            in_flight,
            reason,
        } = &mut held.stage
        else {
            return;
        };
        match result {
            Ok(outcome) => {
                let reason = reason.clone();
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
            Stage::Draining { reason, .. } | Stage::Releasing { reason, .. } => reason.clone(),
            _ => reason,
        };
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
        match &reason {
            LossReason::Requested if self.settings.forbid.is_zero() => {
                self.campaign
                    .yield_until(now + self.settings.yield_after_demote);
            }
            LossReason::Requested => self.campaign.stepped_down(now, self.settings.forbid),
            LossReason::PromotionFailed(_) => {
                self.campaign.forbid_until(now + self.settings.cooldown);
                self.campaign.require_probe();
            }
            _ => {}
        }
        self.last_sign = Some(now);
        self.last_loss = Some(reason);
    }
}
