//! What keeps a node out of the race, although the lock may be free.

use std::time::Duration;

use kvcm_clock::Moment;

use super::{
    Command, Core, Life, LossReason,
    lock::{Goal, Lock, Stage, Worker},
};
use crate::{PauseRefused, Peer, Standby};

/// How long a loss is remembered.
const WINDOW: Duration = Duration::from_secs(300);

/// What this node would be able to do, by its own word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fitness {
    /// It would be able to serve.
    ready: bool,
    /// Since when its stores have refused or failed.
    stores_bad_since: Option<Moment>,
    /// By order of the operator it does not campaign. Such a node never leads.
    paused: bool,
    /// The latest losses that it caused itself, the oldest first.
    losses: Vec<Moment>,
    /// It has lost too often: another one is given the chance until then.
    damped_until: Moment,
}

impl Fitness {
    pub(super) const fn new() -> Self {
        Self {
            ready: true,
            stores_bad_since: None,
            paused: false,
            losses: Vec::new(),
            damped_until: Moment::ZERO,
        }
    }

    /// Whether it need not be asked before it tries.
    pub(super) const fn is_ready(&self) -> bool {
        self.ready && self.stores_bad_since.is_none()
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    /// The end of the lease that began when its stores began to fail.
    pub(super) fn stores_failed_at(&self, lease: Duration) -> Option<Moment> {
        Some(self.stores_bad_since? + lease)
    }

    /// Notes a loss that this node caused itself. True when these have become more than `many`.
    fn lost(&mut self, now: Moment, many: u8, lease: Duration) -> bool {
        self.losses.retain(|at| now.since(*at) < WINDOW);
        self.losses.push(now);
        if self.losses.len() <= usize::from(many) {
            return false;
        }
        self.losses.remove(0);
        self.damped_until = now + lease;
        true
    }

    /// See [`Core::make_canonical`].
    pub(super) fn make_canonical(&mut self, now: Moment, to: Moment) {
        self.damped_until = match now.until(self.damped_until) {
            left if left.is_zero() => Moment::ZERO,
            left => to + left,
        };
        self.losses.retain(|at| now.since(*at) < WINDOW);
        for at in &mut self.losses {
            *at = to - now.since(*at);
        }
        if let Some(since) = &mut self.stores_bad_since {
            *since = to - now.since(*since);
        }
    }
}

impl Core {
    /// What keeps this node out of the race now.
    pub(super) fn standby(&self, now: Moment) -> Option<Standby> {
        let (fitness, campaign) = (&self.fitness, &self.campaign);
        if self.life != Life::Running {
            return Some(Standby::Stopping);
        }
        // It could not begin the next reign: another node is served better by the lock.
        if self.worker != Worker::Idle {
            return Some(Standby::CleaningUp);
        }
        if fitness.paused {
            return Some(Standby::Paused);
        }
        if let Some(standby) = campaign.kept_out(now) {
            return Some(standby);
        }
        // What follows only gives others the first chance: there must be others, and it ends.
        if !self.peers.has_candidate(now) {
            return None;
        }
        let until = fitness.damped_until;
        if now < until {
            return Some(Standby::Damped { until });
        }
        if fitness.is_ready() {
            return None;
        }
        let until = campaign
            .free_since()
            .map(|since| since + self.settings.deference);
        (until.is_none_or(|until| now < until)).then_some(Standby::NotReady { until })
    }

    pub(super) fn on_peers(&mut self, now: Moment, list: Vec<Peer>) {
        let until = now + self.settings.peers_max_age;
        self.peers.told(list, &self.me.node, until);
    }

    pub(super) fn on_stores(&mut self, now: Moment, ok: bool) {
        if ok {
            self.fitness.stores_bad_since = None;
        } else {
            self.fitness.stores_bad_since.get_or_insert(now);
        }
    }

    pub(super) fn on_ready(&mut self, now: Moment, ready: bool) {
        let was = std::mem::replace(&mut self.fitness.ready, ready);
        if ready && !was {
            self.campaign.try_now(now);
        }
    }

    /// Whether the stores have failed for a whole lease and another node could do better.
    pub(super) fn hands_over_for_stores(&self, now: Moment) -> bool {
        let failed = self.fitness.stores_failed_at(self.settings.lease);
        failed.is_some_and(|at| now >= at) && self.peers.has_candidate(now)
    }

    /// A paused node never leads, so one that leads is not paused.
    pub(super) fn on_pause(&mut self, id: u64, out: &mut Vec<Command>) {
        let result = match &self.lock {
            Lock::Held(held) if held.stage.may_serve() => Err(PauseRefused::Leads(held.epoch)),
            Lock::Held(_) | Lock::Free => {
                self.fitness.paused = true;
                Ok(())
            }
        };
        out.push(Command::ReplyPause { id, result });
    }

    /// Together with a step-down that has been accepted.
    pub(super) const fn pause(&mut self) {
        self.fitness.paused = true;
    }

    pub(super) fn on_resume(&mut self, now: Moment) {
        if std::mem::replace(&mut self.fitness.paused, false) {
            self.campaign.try_now(now);
        }
    }

    /// Rule 10.
    pub(super) fn note_loss(&mut self, now: Moment, reason: &LossReason) {
        let by_itself = matches!(
            reason,
            LossReason::LeaseExpired | LossReason::PromotionFailed(_) | LossReason::Stores
        );
        if by_itself
            && let Some(many) = self.settings.damp_after
            && self.fitness.lost(now, many, self.settings.lease)
        {
            self.totals.damped += 1;
        }
    }
}

impl Stage {
    /// Whether the gate is open or may yet open in this reign.
    pub(super) const fn may_serve(&self) -> bool {
        match self {
            Self::Recovering | Self::Confirming { .. } | Self::Serving => true,
            Self::Draining { goal, .. } => !matches!(goal, Goal::Release(_)),
            Self::Releasing { .. } => false,
        }
    }
}
