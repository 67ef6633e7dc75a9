//! Keeping the lock.

use std::time::Duration;

use coordination_core::RenewOutcome;
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use super::{
    CallFailed, Command, Core, Life, LossReason,
    lock::{Goal, Held, Lock, RENEWALS_IN_FLIGHT, Stage},
};
use crate::{DrainEnd, LeaderView};

/// What a failed renewal is tried again after at the soonest.
const SOONEST_RETRY: Duration = Duration::from_millis(10);

impl Core {
    /// Renews, and moves a step-down on.
    pub(super) fn hold(&mut self, now: Moment, out: &mut Vec<Command>) {
        let interval = self.settings.loop_interval;
        let stopping = self.life != Life::Running;
        let hands_over = self.hands_over_for_stores(now);
        let Lock::Held(held) = &mut self.lock else {
            return;
        };
        match &mut held.stage {
            Stage::Releasing {
                next_try,
                in_flight,
                ..
            } => {
                if !*in_flight && now >= *next_try {
                    *in_flight = true;
                    self.unlock(out);
                }
                return;
            }
            Stage::Draining { until, goal } if now >= *until => {
                // The driver's own bound has failed: a callback hangs.
                let goal = goal.clone();
                return self.transfer_drained(now, goal, DrainEnd::Stuck, out);
            }
            Stage::Draining {
                goal: Goal::Transfer(_),
                ..
            } if stopping => return self.firm(LossReason::Stopping, out),
            Stage::Serving if stopping => {
                return self.drain(now, Goal::Release(LossReason::Stopping), out);
            }
            // It was demanded while a transfer was being given up.
            Stage::Serving if !held.asked.is_empty() => {
                return self.drain(now, Goal::Release(LossReason::Requested), out);
            }
            Stage::Serving if hands_over => {
                return self.drain(now, Goal::Release(LossReason::Stores), out);
            }
            Stage::Recovering | Stage::Confirming { .. } if stopping => {
                return self.release(now, LossReason::Stopping, out);
            }
            _ => {}
        }
        if held.renewals < RENEWALS_IN_FLIGHT && now >= held.next_renew {
            held.renewals += 1;
            held.next_renew = now + interval;
            // The guard of an unproven end may fall between two turns.
            if let Stage::Confirming { since } = held.stage
                && since > now
            {
                held.next_renew = held.next_renew.min(since);
            }
            out.push(Command::Renew {
                epoch: held.epoch,
                phase: held.phase(now),
            });
        }
    }

    pub(super) fn on_renew(
        &mut self,
        now: Moment,
        epoch: Epoch,
        sent: Moment,
        result: Result<RenewOutcome, CallFailed>,
        out: &mut Vec<Command>,
    ) {
        let end = self.lease_end(sent);
        let Some(held) = self.lock.held_in(epoch) else {
            return;
        };
        held.renewals = held.renewals.saturating_sub(1);
        match result {
            // An answer that comes after the end never extends it.
            Ok(RenewOutcome::Renewed) if now >= held.lease_end => {
                self.backend_answered(now);
                self.lose(now, LossReason::LeaseExpired, out);
            }
            Ok(RenewOutcome::Renewed) => {
                if held.stage == Stage::Serving {
                    let left = now.until(held.lease_end);
                    let worst = &mut self.totals.worst_left;
                    *worst = Some(worst.map_or(left, |worst| worst.min(left)));
                }
                held.lease_end = held.lease_end.max(end);
                let until = held.lease_end;
                match held.stage {
                    Stage::Confirming { since } if sent >= since => {
                        held.stage = Stage::Serving;
                        out.push(Command::OpenGate { epoch, until });
                        self.record_won(now, out);
                    }
                    Stage::Serving | Stage::Draining { .. } => {
                        out.push(Command::ExtendGate { epoch, until });
                    }
                    _ => {}
                }
                self.backend_answered(now);
                self.see_self(now, epoch, until);
            }
            Ok(RenewOutcome::NotHeld) => {
                self.backend_answered(now);
                self.lose(now, LossReason::NotHeld, out);
            }
            Ok(RenewOutcome::HeldByOther(holder)) => {
                held.evidence = Some(format!("{} holds it in {}", holder.owner, holder.epoch));
                self.backend_answered(now);
                self.lose(now, LossReason::HeldByOther, out);
                self.see(now, holder, out);
            }
            // No answer changes nothing while the lease lives.
            Err(failed) => {
                // The last tries come closer and closer, rather than one after the end.
                let soon = (now.until(held.lease_end) / 2).max(SOONEST_RETRY);
                held.next_renew = held.next_renew.min(now + soon);
                self.totals.renew_errors += 1;
                self.backend_error = Some(failed.message);
            }
        }
    }

    fn see_self(&mut self, now: Moment, epoch: Epoch, lease_end: Moment) {
        self.leader = Some(LeaderView {
            owner: self.me.clone(),
            epoch,
            info: String::new(),
            seen_at: now,
            lease_end,
        });
    }

    /// Whatever this core thinks of the lease, it does not serve any more: holding on would leave
    /// the cluster with a leader that refuses everything.
    pub(super) fn on_gate_shut(&mut self, now: Moment, epoch: Epoch, out: &mut Vec<Command>) {
        let held = self.lock.held_in(epoch);
        let is_open =
            |held: &mut Held| matches!(held.stage, Stage::Serving | Stage::Draining { .. });
        if held.is_some_and(is_open) {
            self.lose(now, LossReason::LeaseExpired, out);
        }
    }

    /// The reign ends without having been asked to. Nothing is unlocked that we do not hold.
    pub(super) fn lose(&mut self, now: Moment, reason: LossReason, out: &mut Vec<Command>) {
        if let Some(held) = self.lock.held() {
            out.push(Command::ShutGate { epoch: held.epoch });
            let asked = !held.stage.may_serve();
            self.totals.lost += u64::from(!asked);
        }
        self.end_reign(now, reason, out);
    }
}
