//! One form for all elections that will act alike.

use kvcm_clock::Moment;

use super::{
    Core, LossReason, Stage, Totals,
    account::{Before, Times},
    lock::{Lock, Worker},
};

impl Core {
    /// For model checkers: moves every moment so that `now` becomes `to`, and forgets what is only
    /// told to others. Elections that will act alike become equal, so that a search ends.
    #[doc(hidden)]
    pub fn make_canonical(&mut self, now: Moment, to: Moment) {
        let moved = |moment: Moment| moment + now.until(to) - to.until(now);
        // Of what is only ever compared with the present, all that has passed is the same.
        let pending = |moment: Moment| moved(moment.max(now));
        self.leader = None;
        self.last_loss = None;
        self.backend_seen_at = None;
        self.backend_error = None;
        self.last_turn = to;
        self.last_sign = None;
        self.recorded = kvcm_fence::Epoch::ZERO;
        self.totals = Totals::default();
        self.peers.make_canonical(now, to);
        self.fitness.make_canonical(now, to);
        if let Some(handover) = &mut self.handover {
            handover.make_canonical(now, to);
        }
        if let Worker::Promoting { ended, .. } | Worker::Promoted { ended, .. } = &mut self.worker {
            *ended = ended.take().map(|_| LossReason::LeaseExpired);
        }
        match &mut self.lock {
            Lock::Free => {}
            Lock::Held(held) => {
                held.before = Before::default();
                held.times = Times::default();
                held.evidence = None;
                held.lease_end = pending(held.lease_end);
                held.next_renew = pending(held.next_renew);
                match &mut held.stage {
                    Stage::Recovering | Stage::Serving => {}
                    // Compared with when a renewal was sent.
                    Stage::Confirming { since } => *since = moved(*since),
                    Stage::Draining { until, .. } => *until = pending(*until),
                    Stage::Releasing { next_try, .. } => *next_try = pending(*next_try),
                }
                if self.worker != Worker::Idle {
                    held.previous = None;
                }
            }
        }
        let held = self.lock.held();
        let is_recovering = held.is_some_and(|held| held.stage == Stage::Recovering);
        self.guard.make_canonical(now, to, is_recovering);
        let holds = self.lock != Lock::Free;
        let longest = self.settings.deference;
        self.campaign.make_canonical(now, to, holds, longest);
    }
}
