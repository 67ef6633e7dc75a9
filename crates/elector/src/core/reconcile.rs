//! Making the callbacks follow the lock.

use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use super::{
    Command, Core, Life, LossReason,
    lock::{Lock, Stage, Worker},
};
use crate::PromoteError;

impl Core {
    /// Compares what the worker does with what the lock wants, and moves it one step.
    pub(super) fn reconcile(&mut self, now: Moment, out: &mut Vec<Command>) {
        let held = self.lock.held().map(|held| (held.epoch, &held.stage));
        match (&mut self.worker, held) {
            (Worker::Idle, Some((epoch, Stage::Recovering))) => {
                self.worker = Worker::Promoting {
                    epoch,
                    cancelled: false,
                    ended: None,
                };
                let previous = self.lock.held().and_then(|held| held.previous.clone());
                out.push(Command::Promote { epoch, previous });
            }
            (
                Worker::Promoting {
                    epoch, cancelled, ..
                },
                held,
            ) => {
                let wanted = matches!(held, Some((e, Stage::Recovering)) if e == *epoch);
                if !wanted && !*cancelled {
                    *cancelled = true;
                    out.push(Command::CancelPromote { epoch: *epoch });
                }
            }
            // While the lock is being drained or released the reign goes on.
            (
                Worker::Promoted {
                    epoch,
                    ended: ended @ Some(_),
                },
                _,
            ) => {
                let epoch = *epoch;
                if let Some(reason) = ended.take() {
                    out.push(Command::Demote { epoch, reason });
                }
                self.worker = Worker::Demoting { epoch };
            }
            _ => {}
        }
        // The end of a process is a proof of death: it frees a lock that was kept for the guard.
        let guarded = now < self.guard.until;
        let quiet = self.campaign.is_quiet() && self.lock == Lock::Free && !guarded;
        if self.life == Life::Stopping && quiet && self.worker == Worker::Idle {
            self.life = Life::Stopped;
            self.last_turn = now;
            out.push(Command::Stopped);
        }
    }

    pub(super) fn on_promoted(
        &mut self,
        now: Moment,
        epoch: Epoch,
        result: Result<(), PromoteError>,
        out: &mut Vec<Command>,
    ) {
        let ended = match &mut self.worker {
            Worker::Promoting {
                epoch: running,
                ended,
                ..
            } if *running == epoch => ended.take(),
            _ => return,
        };
        self.worker = Worker::Promoted { epoch, ended };
        if let Err(PromoteError::Fenced { by }) = &result {
            self.highest = self.highest.max(*by);
        }
        let Some(held) = self.lock.held_in(epoch) else {
            return;
        };
        if held.stage != Stage::Recovering {
            return;
        }
        match result {
            Ok(()) => {
                self.guard.stores_claimed();
                let since = now.max(self.guard.until);
                held.times.recovered = Some(now);
                held.times.guarded = (since > now).then_some(since);
                held.next_renew = held.next_renew.min(since).max(now);
                held.stage = Stage::Confirming { since };
            }
            Err(error) => {
                self.totals.promote_failed += 1;
                held.times.recovered = Some(now);
                let reason = match error {
                    // Its owner is not in the backend's record, so nobody can vouch for its end.
                    PromoteError::Fenced { by } => {
                        held.evidence = Some(format!("a store is claimed by epoch {by}"));
                        self.guard.suspect();
                        LossReason::Fenced
                    }
                    PromoteError::Failed(why) => LossReason::PromotionFailed(why),
                };
                self.release(now, reason, out);
            }
        }
    }

    pub(super) fn on_demoted(&mut self, now: Moment, epoch: Epoch) {
        if self.worker == (Worker::Demoting { epoch }) {
            self.worker = Worker::Idle;
            // It was only observing so far.
            self.campaign.try_now(now);
        }
    }
}
