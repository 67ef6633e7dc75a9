//! The pure core of an election.
//!
//! Two things change on their own: whether this process holds the *lock*, and what its *worker*
//! (the callbacks) is doing. They are compared after every input until they agree, so that no
//! order of events can leave a leader without a lock or a lock without a leader.

mod account;
mod campaign;
mod canonical;
mod command;
mod guard;
mod hold;
mod input;
mod lock;
mod peers;
mod reconcile;
mod release;
mod standby;
#[cfg(test)]
mod tests;
mod transfer;

use std::time::Duration;

use coordination_core::{Holder, Owner};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

pub use command::{Command, DemoteOutcome};
pub use input::{CallFailed, DrainEnd, Input, LossReason};

use self::{
    campaign::Campaign,
    guard::Guard,
    lock::{Held, Lock, Stage, Worker},
    peers::Peers,
    release::Demand,
    standby::Fitness,
    transfer::Handover,
};
use crate::{LeaderView, Phase, Role, Settings, Totals, View, settings::MIN_MARGIN};

/// Whether the process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    Running,
    /// It gives up what it holds and takes nothing more.
    Stopping,
    Stopped,
}

/// Decides. Takes an input and the present moment, changes its state and returns commands for
/// the driver to perform in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Core {
    settings: Settings,
    me: Owner,
    /// The highest epoch seen anywhere: the floor of the next one.
    highest: Epoch,
    /// The highest epoch that this process has led in or given up: it never leads in it again.
    retired: Epoch,
    lock: Lock,
    worker: Worker,
    campaign: Campaign,
    guard: Guard,
    /// Whether this process has ever known a holder: if not, and the backend has no record
    /// either, the cluster is new.
    known_holder: bool,
    leader: Option<LeaderView>,
    margin: Duration,
    peers: Peers,
    fitness: Fitness,
    handover: Option<Handover>,
    life: Life,
    last_loss: Option<LossReason>,
    backend_seen_at: Option<Moment>,
    backend_error: Option<String>,
    last_turn: Moment,
    /// When the leader before was last known to live.
    last_sign: Option<Moment>,
    /// The highest epoch of which a record was made.
    recorded: Epoch,
    totals: Totals,
}

impl Core {
    /// An election that has not begun; the first [`Input::Tick`] starts it.
    pub fn new(settings: Settings, me: Owner, now: Moment) -> Self {
        Self {
            settings,
            me,
            highest: Epoch::ZERO,
            retired: Epoch::ZERO,
            lock: Lock::Free,
            worker: Worker::Idle,
            campaign: Campaign::new(now),
            guard: Guard::new(),
            known_holder: false,
            leader: None,
            margin: MIN_MARGIN,
            peers: Peers::new(),
            fitness: Fitness::new(),
            handover: None,
            life: Life::Running,
            last_loss: None,
            backend_seen_at: None,
            backend_error: None,
            last_turn: now,
            last_sign: None,
            recorded: Epoch::ZERO,
            totals: Totals::default(),
        }
    }

    /// Takes one input. The commands are to be performed in their order.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Command> {
        let mut out = Vec::new();
        self.last_turn = now;
        if self.life == Life::Stopped {
            return out;
        }
        match input {
            Input::Tick => {}
            Input::LockAnswered { sent, result } => self.on_lock(now, sent, result, &mut out),
            Input::HolderAnswered { result } => self.on_holder(now, result, &mut out),
            Input::RenewAnswered {
                epoch,
                sent,
                result,
            } => {
                self.on_renew(now, epoch, sent, result, &mut out);
            }
            Input::UnlockAnswered { epoch, result } => self.on_unlock(now, epoch, result, &mut out),
            Input::Hint(hint) => self.on_hint(now, hint),
            Input::Promoted { epoch, result } => self.on_promoted(now, epoch, result, &mut out),
            Input::Demoted { epoch } => self.on_demoted(now, epoch),
            Input::Drained { epoch, end } => self.on_drained(now, epoch, end, &mut out),
            Input::GateShut { epoch } => self.on_gate_shut(now, epoch, &mut out),
            Input::Demote {
                id,
                expected,
                pause,
            } => {
                let demand = Demand {
                    id,
                    expected,
                    pause,
                };
                self.on_demote(now, demand, &mut out);
            }
            Input::Transfer { id, to, expected } => {
                self.on_transfer(now, id, &to, expected, &mut out);
            }
            Input::CancelTransfer => self.on_cancel_transfer(&mut out),
            Input::Pause { id } => self.on_pause(id, &mut out),
            Input::Resume => self.on_resume(now),
            Input::Peers(list) => self.on_peers(now, list),
            Input::Ready(ready) => self.on_ready(now, ready),
            Input::StoresOk(ok) => self.on_stores(now, ok),
            Input::Stop => self.life = Life::Stopping,
            Input::Probed { result } => self.on_probed(now, result, &mut out),
            Input::StoreRefused { epoch, by } => self.on_store_refused(now, epoch, by, &mut out),
            Input::SetForbid(forbid) => {
                self.settings.forbid = forbid;
                self.campaign.set_delay(forbid);
            }
            Input::SetMargin(margin) => self.margin = margin.min(self.settings.lease / 4),
            Input::EpochSeen(epoch) => self.on_epoch_seen(epoch),
        }
        // Time passes with every input, not only with ticks.
        self.check_successor(now, &mut out);
        self.expire_handover(now, &mut out);
        self.tick(now, &mut out);
        self.reconcile(now, &mut out);
        out.push(Command::Wake(self.next_wake()));
        out
    }

    /// What the election looks like from outside.
    pub fn view(&self) -> View {
        let held = self.lock.held();
        View {
            role: self.role(),
            epoch: held.map(|held| held.epoch),
            lease_end: held.map(|held| held.lease_end),
            leader: self.leader.clone(),
            highest: self.highest,
            not_before: Some(self.campaign.not_before()).filter(|until| *until > self.last_turn),
            last_loss: self.last_loss.clone(),
            backend_seen_at: self.backend_seen_at,
            backend_error: self.backend_error.clone(),
            last_turn: self.last_turn,
            totals: self.totals,
            standby: match self.lock {
                Lock::Held(_) => None,
                Lock::Free => self.standby(self.last_turn),
            },
            paused: self.fitness.is_paused(),
            ready: self.fitness.is_ready(),
            stopped: self.life == Life::Stopped,
        }
    }

    fn role(&self) -> Role {
        match (&self.lock, &self.worker) {
            (Lock::Held(held), _) => match held.stage {
                Stage::Recovering | Stage::Confirming { .. } => Role::Promoting,
                Stage::Serving => Role::Leader,
                Stage::Draining { .. } | Stage::Releasing { .. } => Role::Demoting,
            },
            (Lock::Free, Worker::Idle) => Role::Follower,
            (Lock::Free, _) => Role::Demoting,
        }
    }

    /// What every answer of the backend tells, whatever was asked.
    fn backend_answered(&mut self, now: Moment) {
        self.backend_seen_at = Some(now);
        self.backend_error = None;
    }

    /// Remembers who leads.
    fn see(&mut self, now: Moment, holder: Holder, out: &mut Vec<Command>) {
        self.known_holder = true;
        self.highest = self.highest.max(holder.epoch);
        self.record_seen(now, &holder, out);
        self.settle_handover(&holder.owner, holder.epoch, out);
        self.last_sign = Some((now + holder.remaining - self.settings.lease).min(now));
        self.leader = Some(LeaderView {
            lease_end: now + holder.remaining,
            owner: holder.owner,
            epoch: holder.epoch,
            info: holder.info,
            seen_at: now,
        });
    }

    /// What moves with time alone.
    fn tick(&mut self, now: Moment, out: &mut Vec<Command>) {
        match &self.lock {
            Lock::Held(held) if now >= held.lease_end => {
                self.lose(now, LossReason::LeaseExpired, out);
            }
            Lock::Held(_) => self.hold(now, out),
            Lock::Free => self.campaign(now, out),
        }
    }

    fn next_wake(&self) -> Moment {
        match &self.lock {
            Lock::Held(held) => {
                // The stores may fail for a whole lease between two turns.
                let failed = self.fitness.stores_failed_at(self.settings.lease);
                let failed = failed.filter(|at| *at > self.last_turn);
                let wake = held.next_wake();
                failed.map_or(wake, |at| wake.min(at))
            }
            // The last answers that are awaited come by themselves.
            Lock::Free if self.life != Life::Running && self.worker == Worker::Idle => {
                if self.guard.until > self.last_turn {
                    self.guard.until
                } else {
                    Moment::NEVER
                }
            }
            Lock::Free => {
                let answer = self.handover.as_ref().map(Handover::until);
                let look = self.campaign.next_wake();
                answer.map_or(look, |answer| answer.min(look))
            }
        }
    }

    /// When a lease ends whose request was sent at `sent`.
    fn lease_end(&self, sent: Moment) -> Moment {
        sent + self.settings.local_lease(self.margin)
    }
}

impl Held {
    /// What a renewal sent now tells others about this reign.
    fn phase(&self, now: Moment) -> Phase {
        match self.stage {
            Stage::Recovering => Phase::Recovering,
            Stage::Confirming { since } if now < since => Phase::Recovering,
            // The gate opens with the answer to this very renewal.
            Stage::Confirming { .. } | Stage::Serving => Phase::Serving,
            Stage::Draining { .. } | Stage::Releasing { .. } => Phase::Draining,
        }
    }
}
