//! Trying to get the lock, and looking who has it.

use std::time::Duration;

use coordination_core::{Acquired, Hint, Holder, LockOutcome};
use kvcm_clock::Moment;
use kvcm_fence::{Epoch, Incarnation};

use super::{
    CallFailed, Command, Core,
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
    /// The next look at the lock.
    next_try: Moment,
    /// A call is under way; its answer sets `next_try`.
    in_flight: bool,
    /// A hint came while a call was under way: its answer may be older than the hint.
    again: bool,
    /// Out of the race until then, by order of the operator or after a failure.
    forbidden_until: Moment,
    /// When the step-down was that an operator's delay counts from.
    stepped_down_at: Option<Moment>,
    /// Out of the race until then, or until another leads.
    yielding_until: Moment,
    /// Before the next try the stores are asked.
    needs_probe: bool,
    presumed_dead: Option<(Incarnation, Epoch)>,
    /// Epochs of locks that came too late or unwanted, being released.
    strays: Vec<Epoch>,
}

impl Campaign {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            next_try: now,
            in_flight: false,
            again: false,
            forbidden_until: Moment::ZERO,
            stepped_down_at: None,
            yielding_until: Moment::ZERO,
            needs_probe: false,
            presumed_dead: None,
            strays: Vec::new(),
        }
    }

    pub(super) fn not_before(&self) -> Moment {
        self.forbidden_until.max(self.yielding_until)
    }

    pub(super) fn next_wake(&self) -> Moment {
        if self.in_flight {
            Moment::NEVER
        } else {
            self.next_try
        }
    }

    /// Nothing is under way that could still take or hold the lock.
    pub(super) fn is_quiet(&self) -> bool {
        !self.in_flight && self.strays.is_empty()
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

    pub(super) fn yield_until(&mut self, until: Moment) {
        self.yielding_until = self.yielding_until.max(until);
    }

    pub(super) fn require_probe(&mut self) {
        self.needs_probe = true;
    }

    pub(super) fn try_at(&mut self, at: Moment) {
        self.next_try = at;
    }

    /// Looks at the lock now, or as soon as the call that is under way has answered.
    pub(super) fn try_now(&mut self, now: Moment) {
        self.again = self.in_flight;
        self.next_try = now;
    }

    pub(super) fn stray_released(&mut self, epoch: Epoch) {
        self.strays.retain(|stray| *stray != epoch);
    }

    /// See [`Core::make_canonical`].
    pub(super) fn make_canonical(&mut self, now: Moment, to: Moment, holds: bool) {
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
        // Set anew when a call has answered, and when the lock is gone.
        let unused = self.in_flight || holds;
        self.next_try = if unused {
            to
        } else {
            to + now.until(self.next_try)
        };
    }

    fn answered(&mut self, now: Moment, next_try: Moment) {
        self.in_flight = false;
        self.next_try = if self.again { now } else { next_try };
        self.again = false;
    }
}

impl Core {
    /// Looks at the lock, or tries to take it.
    pub(super) fn campaign(&mut self, now: Moment, out: &mut Vec<Command>) {
        if self.campaign.in_flight || now < self.campaign.next_try {
            return;
        }
        if self.stopping && self.worker == Worker::Idle {
            return;
        }
        self.campaign.in_flight = true;
        if !self.may_campaign(now) {
            out.push(Command::Observe);
        } else if self.campaign.needs_probe {
            out.push(Command::Probe);
        } else {
            let presumed_dead = self.campaign.presumed_dead;
            out.push(Command::TryLock {
                floor: self.highest,
                presumed_dead,
            });
        }
    }

    /// A worker that still cleans up the reign before could not begin the next one: another node
    /// is served better by the lock.
    fn may_campaign(&self, now: Moment) -> bool {
        !self.stopping && self.worker == Worker::Idle && now >= self.campaign.not_before()
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
                let free = now + reserved.remaining + self.settings.stagger;
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
        if epoch <= self.retired || now >= lease_end || !self.may_campaign(now) {
            // Too late, no longer wanted, or the remains of an earlier reign: an epoch that was
            // given up is never led in again.
            self.retired = self.retired.max(epoch);
            self.give_back(now, epoch, now, out);
            return;
        }
        self.totals.acquired += 1;
        self.campaign.stepped_down_at = None;
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
        let free = now + holder.remaining + RESOLUTION + self.settings.stagger;
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
                    let again = now + self.settings.loop_interval;
                    self.give_back(now, epoch, again, out);
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
                let again = now + self.settings.loop_interval;
                let end = self.campaign.not_before();
                self.campaign
                    .answered(now, if end > now { again.min(end) } else { again });
            }
        }
    }

    /// Releases a lock that is not wanted and looks `again`, later if it may not be released yet.
    fn give_back(&mut self, now: Moment, epoch: Epoch, again: Moment, out: &mut Vec<Command>) {
        let may_release = self.guard.may_release(now);
        self.campaign.answered(now, again.max(self.guard.until));
        if may_release {
            self.campaign.strays.push(epoch);
            out.push(Command::Unlock { epoch });
        }
    }

    pub(super) fn on_probed(&mut self, now: Moment, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.campaign.needs_probe = false;
                self.campaign.answered(now, now);
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
                self.campaign.try_now(now);
            }
        }
    }

    fn call_failed(&mut self, now: Moment, failed: CallFailed) {
        self.totals.call_errors += 1;
        self.backend_error = Some(failed.message);
        self.campaign.again = false;
        self.campaign
            .answered(now, now + RETRY.min(self.settings.loop_interval));
    }
}
