//! Waiting out a leader whose end nobody can vouch for.

use coordination_core::{Acquired, ReignEnd};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use super::Core;

/// Somebody may believe that it leads although the backend does not know it. Until that has passed
/// this process opens no gate, releases no lock and does not end when it is told to, in whatever
/// reign: a lock that is released, or freed by a proof of death, would tell the next holder that no
/// leader is left. One that is kept ends by the backend's own
/// record, a whole lease after it was taken, and by then the other one's lease has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Guard {
    pub(super) until: Moment,
    /// The reign whose predecessor was judged last. An acquisition that is repeated tells the same
    /// as the first time, when it was earlier.
    judged: Epoch,
    /// A lease after that reign was acquired: no lease from before it lasts longer.
    worst: Moment,
    /// It was taken for the first reign of a new cluster, and the stores were not yet asked.
    is_first: bool,
}

impl Guard {
    pub(super) const fn new() -> Self {
        Self {
            until: Moment::ZERO,
            judged: Epoch::ZERO,
            worst: Moment::ZERO,
            is_first: false,
        }
    }

    /// Whether it is known how the reign before this one ended.
    pub(super) fn knows(&self, epoch: Epoch) -> bool {
        self.judged == epoch
    }

    /// There is somebody of whom the backend knows nothing.
    pub(super) fn suspect(&mut self) {
        self.is_first = false;
        self.until = self.until.max(self.worst);
    }

    /// The stores were claimed, and did not tell of anybody who led before.
    pub(super) const fn stores_claimed(&mut self) {
        self.is_first = false;
    }

    /// Whether a lock may be released. One that was taken for the first may not before the stores
    /// were asked.
    pub(super) fn may_release(&mut self, now: Moment) -> bool {
        if self.is_first {
            self.suspect();
        }
        now >= self.until
    }

    /// See [`Core::make_canonical`].
    pub(super) fn make_canonical(&mut self, now: Moment, to: Moment, is_recovering: bool) {
        self.until = to + now.until(self.until);
        // Suspicion comes up before the stores were claimed, or never.
        let unused = !self.is_first && !is_recovering;
        self.worst = if unused {
            to
        } else {
            to + now.until(self.worst)
        };
    }
}

impl Core {
    /// Judges the end of the reign before the one that was acquired.
    pub(super) fn judge(&mut self, now: Moment, acquired: &Acquired) {
        let guard = &mut self.guard;
        if guard.knows(acquired.epoch) {
            return;
        }
        guard.judged = acquired.epoch;
        guard.worst = now + self.settings.lease;
        let is_new = acquired.previous.is_none() && !self.known_holder;
        guard.is_first = is_new && self.settings.absence_is_proof;
        self.known_holder = true;
        match &acquired.previous {
            Some(previous) if previous.end != ReignEnd::Unknown => return,
            Some(previous) if !previous.lease_left.is_zero() => {
                guard.until = guard.until.max(now + previous.lease_left);
            }
            None if guard.is_first => return,
            _ => guard.suspect(),
        }
        self.totals.unproven += 1;
    }

    /// Of a new cluster nobody has seen an epoch.
    pub(super) fn on_epoch_seen(&mut self, epoch: Epoch) {
        self.highest = self.highest.max(epoch);
        let held = self.lock.held().map(|held| held.epoch);
        if epoch.is_zero() || held == Some(epoch) {
            return;
        }
        self.known_holder = true;
        if self.guard.is_first {
            self.guard.suspect();
        }
    }
}
