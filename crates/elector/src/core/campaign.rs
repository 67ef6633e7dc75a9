//! Trying to get the lock, and looking who has it.

use std::time::Duration;

use coordination_core::{Acquired, Hint, Holder, LockOutcome};
use kvcm_clock::Moment;
use kvcm_fence::{Epoch, Incarnation};

use crate::Standby;

use super::{
    CallFailed, Command, Core, Life,
    account::{Before, Times},
    lock::{Held, Lock, Stage, Worker},
};

/// How soon a failed call is tried again: a backend that comes back is used at once.
const RETRY: Duration = Duration::from_millis(100);

/// The end of a lease is told in whole milliseconds.
const RESOLUTION: Duration = Duration::from_millis(1);

/// The state of a node that does not hold the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Campaign {
    look: Look,
    /// Since when nobody has been seen to hold the lock.
    free_since: Option<Moment>,
    /// Out of the race until then, by order of the operator or after a failure.
    forbidden_until: Moment,
    /// When the step-down was that an operator's delay counts from.
    stepped_down_at: Option<Moment>,
    /// Out of the race until then, or until another leads.
    yielding_until: Moment,
    /// When the cool-down ends that began with the latest reign.
    cool_at: Moment,
    /// Before the next try the stores are asked.
    needs_probe: bool,
    presumed_dead: Option<(Incarnation, Epoch)>,
    /// Epochs of locks that came too late or unwanted, being released.
    strays: Vec<Epoch>,
}

/// The next look at the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Look {
    Due(Moment),
    /// The same, while the lock is this node's own and not wanted: hints are of its own doing.
    OwnLock(Moment),
    /// Its answer tells when the next one is due.
    UnderWay {
        /// A hint came meanwhile: the answer may be older than the hint.
        again: bool,
    },
}

impl Campaign {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            look: Look::Due(now),
            free_since: None,
            forbidden_until: Moment::ZERO,
            stepped_down_at: None,
            yielding_until: Moment::ZERO,
            cool_at: Moment::ZERO,
            needs_probe: false,
            presumed_dead: None,
            strays: Vec::new(),
        }
    }

    pub(super) fn not_before(&self) -> Moment {
        self.forbidden_until.max(self.yielding_until)
    }

    pub(super) fn next_wake(&self) -> Moment {
        match self.look {
            Look::Due(at) | Look::OwnLock(at) => at,
            Look::UnderWay { .. } => Moment::NEVER,
        }
    }

    /// Nothing is under way that could still take or hold the lock.
    pub(super) fn is_quiet(&self) -> bool {
        !matches!(self.look, Look::UnderWay { .. }) && self.strays.is_empty()
    }

    /// What a step-down or a failure of this node demands.
    pub(super) fn kept_out(&self, now: Moment) -> Option<Standby> {
        let (forbidden, yielding) = (self.forbidden_until, self.yielding_until);
        if now < forbidden {
            Some(Standby::Forbidden { until: forbidden })
        } else {
            (now < yielding).then_some(Standby::Yielding { until: yielding })
        }
    }

    pub(super) const fn free_since(&self) -> Option<Moment> {
        self.free_since
    }

    pub(super) fn forbid_until(&mut self, until: Moment) {
        self.forbidden_until = self.forbidden_until.max(until);
        self.stepped_down_at = None;
    }

    /// Out of the race for `delay` from this step-down on.
    pub(super) fn stepped_down(&mut self, now: Moment, delay: Duration) {
        self.stepped_down_at = Some(now);
        self.forbidden_until = now + delay;
    }

    /// The operator sets another delay: it counts for a wait that has begun as well.
    pub(super) fn set_delay(&mut self, delay: Duration) {
        if let Some(since) = self.stepped_down_at {
            self.forbidden_until = since + delay;
        }
    }

    /// A backend that takes away what it has just granted would make this node begin reigns at the
    /// rate of round trips: it begins one in each cool-down.
    pub(super) fn cool_down(&mut self) {
        self.forbid_until(self.cool_at);
    }

    pub(super) fn yield_until(&mut self, until: Moment) {
        self.yielding_until = self.yielding_until.max(until);
    }

    pub(super) fn require_probe(&mut self) {
        self.needs_probe = true;
    }

    /// When a call is under way, its answer tells.
    pub(super) fn try_at(&mut self, at: Moment) {
        if !matches!(self.look, Look::UnderWay { .. }) {
            self.look = Look::Due(at);
        }
    }

    /// Looks at the lock at this moment at the latest, or as soon as the call that is under way
    /// has answered.
    pub(super) fn try_now(&mut self, at: Moment) {
        self.look = match self.look {
            Look::Due(due) | Look::OwnLock(due) => Look::Due(due.min(at)),
            Look::UnderWay { .. } => Look::UnderWay { again: true },
        };
    }

    /// Something may have changed.
    fn hinted(&mut self, at: Moment) {
        if !matches!(self.look, Look::OwnLock(_)) {
            self.try_now(at);
        }
    }

    /// A release that nobody waits for was answered. True when it is one of a lock that came too
    /// late or unwanted.
    pub(super) fn stray_answered(&mut self, epoch: Epoch) -> bool {
        let before = self.strays.len();
        self.strays.retain(|stray| *stray != epoch);
        self.strays.len() < before
    }

    /// See [`Core::make_canonical`].
    pub(super) fn make_canonical(
        &mut self,
        now: Moment,
        to: Moment,
        holds: bool,
        longest: Duration,
    ) {
        let bound = |moment: Moment| match now.until(moment) {
            left if left.is_zero() => Moment::ZERO,
            left => to + left,
        };
        self.forbidden_until = bound(self.forbidden_until);
        self.stepped_down_at = self
            .stepped_down_at
            .map(|since| to - now.since(since))
            .filter(|_| self.forbidden_until > Moment::ZERO);
        self.yielding_until = bound(self.yielding_until);
        // Read when a reign ends, set when one begins.
        self.cool_at = if holds {
            bound(self.cool_at)
        } else {
            Moment::ZERO
        };
        let age = |since| now.since(since).min(longest);
        self.free_since = self.free_since.map(|since| to - age(since));
        if let Look::Due(due) | Look::OwnLock(due) = &mut self.look {
            // Set anew when the lock is gone.
            *due = if holds { to } else { to + now.until(*due) };
        }
    }

    fn answered(&mut self, now: Moment, next: Moment) {
        let again = self.look == Look::UnderWay { again: true };
        self.look = Look::Due(if again { now } else { next });
    }
}

impl Core {
    /// Looks at the lock, or tries to take it.
    pub(super) fn campaign(&mut self, now: Moment, out: &mut Vec<Command>) {
        if now < self.campaign.next_wake() {
            return;
        }
        if self.life != Life::Running && self.worker == Worker::Idle {
            return;
        }
        self.campaign.look = Look::UnderWay { again: false };
        if self.standby(now).is_some() {
            out.push(Command::Observe);
        } else if self.campaign.needs_probe || !self.fitness.is_ready() {
            out.push(Command::Probe);
        } else {
            self.try_lock(out);
        }
    }

    fn try_lock(&self, out: &mut Vec<Command>) {
        out.push(Command::TryLock {
            floor: self.highest,
            presumed_dead: self.campaign.presumed_dead,
        });
    }

    /// How much later than the end of a lease this node tries.
    fn stagger(&self, now: Moment) -> Duration {
        let (me, priority) = (&self.me.node, self.settings.priority);
        let by_rank = self.peers.stagger(now, me, priority);
        by_rank.unwrap_or(self.settings.stagger)
    }

    /// The next look while nobody holds the lock and this node does not try.
    fn next_chance(&self, now: Moment) -> Moment {
        let again = now + self.settings.loop_interval;
        let until = self.standby(now).and_then(|standby| standby.until());
        until.map_or(again, |until| again.min(until))
    }

    pub(super) fn on_lock(
        &mut self,
        now: Moment,
        sent: Moment,
        result: Result<LockOutcome, CallFailed>,
        out: &mut Vec<Command>,
    ) {
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(failed) => return self.call_failed(now, failed),
        };
        self.backend_answered(now);
        self.campaign.presumed_dead = None;
        match outcome {
            LockOutcome::Acquired(acquired) => self.acquired(now, sent, acquired, out),
            LockOutcome::Held(holder) => self.held_by_other(now, holder, out),
            LockOutcome::Reserved(reserved) => {
                self.highest = self.highest.max(reserved.epoch);
                self.leader = None;
                self.campaign.free_since = None;
                let free = now + reserved.remaining + RESOLUTION + self.stagger(now);
                self.campaign
                    .answered(now, free.min(now + self.settings.loop_interval));
            }
        }
    }

    fn acquired(&mut self, now: Moment, sent: Moment, acquired: Acquired, out: &mut Vec<Command>) {
        let epoch = acquired.epoch;
        self.highest = self.highest.max(epoch);
        let is_new = acquired.previous.is_none() && !self.known_holder;
        let before = Before::new(acquired.previous.as_ref(), is_new);
        self.judge(now, &acquired);
        let lease_end = self.lease_end(sent);
        if epoch <= self.retired
            || now >= lease_end
            || self.standby(now).is_some_and(|standby| standby.forbids())
        {
            // Too late, no longer wanted, or the remains of an earlier reign: an epoch that was
            // given up is never led in again.
            self.retired = self.retired.max(epoch);
            self.give_back(now, epoch, out);
            return;
        }
        let me = self.me.clone();
        self.settle_handover(&me, epoch, out);
        self.totals.acquired += 1;
        self.campaign.free_since = None;
        self.campaign.stepped_down_at = None;
        self.campaign.cool_at = now + self.settings.cooldown;
        self.campaign.answered(now, now);
        self.lock = Lock::Held(Box::new(Held {
            epoch,
            previous: acquired.previous,
            lease_end,
            next_renew: sent + self.settings.loop_interval,
            renewals: 0,
            stage: Stage::Recovering,
            asked: Vec::new(),
            before,
            times: Times {
                last_sign: self.last_sign,
                asked: Some(sent),
                won: Some(now),
                ..Times::default()
            },
            evidence: None,
        }));
    }

    fn held_by_other(&mut self, now: Moment, holder: Holder, out: &mut Vec<Command>) {
        let free = now + holder.remaining + RESOLUTION + self.stagger(now);
        self.campaign.free_since = None;
        if holder.owner != self.me {
            self.campaign.yielding_until = Moment::ZERO;
        }
        self.see(now, holder, out);
        self.campaign
            .answered(now, free.min(now + self.settings.loop_interval));
    }

    pub(super) fn on_holder(
        &mut self,
        now: Moment,
        result: Result<Option<Holder>, CallFailed>,
        out: &mut Vec<Command>,
    ) {
        let holder = match result {
            Ok(holder) => holder,
            Err(failed) => return self.call_failed(now, failed),
        };
        self.backend_answered(now);
        match holder {
            Some(holder) if holder.owner == self.me => {
                // A try whose answer was lost had taken the lock.
                let epoch = holder.epoch;
                self.highest = self.highest.max(epoch);
                if self.guard.knows(epoch) {
                    self.retired = self.retired.max(epoch);
                    self.give_back(now, epoch, out);
                } else {
                    // Taken once more it tells what came before it.
                    out.push(Command::TryLock {
                        floor: self.highest,
                        presumed_dead: None,
                    });
                }
            }
            Some(holder) => self.held_by_other(now, holder, out),
            None => {
                self.leader = None;
                self.campaign.free_since.get_or_insert(now);
                let next = self.next_chance(now);
                self.campaign.answered(now, next);
            }
        }
    }

    /// Releases a lock that is not wanted, as soon as it may be. Each try before that would extend
    /// it, and cause a hint: the next look is due when it was released.
    fn give_back(&mut self, now: Moment, epoch: Epoch, out: &mut Vec<Command>) {
        let may_release = self.guard.may_release(now);
        // In case that no answer comes.
        let again = now + self.settings.loop_interval;
        self.campaign.look = Look::OwnLock(again.max(self.guard.until));
        if may_release {
            self.campaign.strays.push(epoch);
            let reserve = None;
            out.push(Command::Unlock { epoch, reserve });
        }
    }

    pub(super) fn on_probed(
        &mut self,
        now: Moment,
        result: Result<(), String>,
        out: &mut Vec<Command>,
    ) {
        match result {
            Ok(()) => {
                self.campaign.needs_probe = false;
                if self.standby(now).is_some() {
                    self.campaign.answered(now, now);
                } else {
                    self.try_lock(out);
                }
            }
            Err(_) => {
                self.campaign.forbid_until(now + self.settings.cooldown);
                self.campaign.answered(now, now);
            }
        }
    }

    pub(super) fn on_hint(&mut self, now: Moment, hint: Hint) {
        match &mut self.lock {
            // Somebody may have taken the lock away: look at once, not at the next turn.
            Lock::Held(held) => {
                if held.renewals == 0 {
                    held.next_renew = now;
                }
            }
            Lock::Free => {
                if let Hint::HolderDied { incarnation, epoch } = hint {
                    self.campaign.presumed_dead = Some((incarnation, epoch));
                }
                let ahead = self.peers.precedence(now, self.settings.priority);
                self.campaign.hinted(now + ahead);
            }
        }
    }

    fn call_failed(&mut self, now: Moment, failed: CallFailed) {
        self.totals.call_errors += 1;
        self.backend_error = Some(failed.message);
        let retry = now + RETRY.min(self.settings.loop_interval);
        self.campaign.look = Look::Due(retry);
    }
}
