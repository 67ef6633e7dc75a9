//! The predecessor's logic, told once more: a queue of transitions beside a flag for the lock.
//!
//! Faithful in what its first five faults come from: which requests its queue ignores in which
//! role, that a transition waits for the next turn of its thread, that the target role is set
//! however the callback ended, and that an answer counts whenever it comes.

use std::collections::VecDeque;

use coordination_core::{LockOutcome, Owner, RenewOutcome};
use elector::{Command, Input, LossReason, Phase, Settings};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use crate::stage::Election;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Follower,
    Promoting,
    Leader,
    Demoting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transition {
    Promote,
    Demote,
}

/// An election as the predecessor's.
pub(crate) struct Predecessor {
    settings: Settings,
    acquired: bool,
    expiration: Moment,
    role: Role,
    queue: VecDeque<Transition>,
    /// The one call that its loop waits for.
    calling: bool,
    next_turn: Moment,
    /// Of the lock that was acquired last, and of the transition that runs: it has no epochs, but
    /// the stage wants to know.
    epoch: Epoch,
    running: Epoch,
}

impl Predecessor {
    fn set_acquired(&mut self, acquired: bool) {
        if self.acquired == acquired {
            return;
        }
        self.acquired = acquired;
        match (acquired, self.role) {
            // Ignored, whatever is in the queue.
            (true, Role::Leader | Role::Promoting) | (false, Role::Follower | Role::Demoting) => {}
            (true, _) => self.queue.push_back(Transition::Promote),
            (false, _) => {
                self.queue.clear();
                self.queue.push_back(Transition::Demote);
            }
        }
    }

    /// The thread of the transitions comes round.
    fn transit(&mut self, out: &mut Vec<Command>) {
        if matches!(self.role, Role::Promoting | Role::Demoting) {
            return;
        }
        match self.queue.pop_front() {
            Some(Transition::Promote) => {
                self.role = Role::Promoting;
                self.running = self.epoch;
                out.push(Command::Promote {
                    epoch: self.running,
                    previous: None,
                });
            }
            Some(Transition::Demote) => {
                self.role = Role::Demoting;
                out.push(Command::ShutGate { epoch: self.epoch });
                let epoch = self.running;
                let reason = LossReason::LeaseExpired;
                out.push(Command::Demote { epoch, reason });
            }
            None => {}
        }
    }
}

impl Election for Predecessor {
    fn new(settings: Settings, _: Owner, now: Moment) -> Self {
        Self {
            settings,
            acquired: false,
            expiration: now,
            role: Role::Follower,
            queue: VecDeque::new(),
            calling: false,
            next_turn: now,
            epoch: Epoch::ZERO,
            running: Epoch::ZERO,
        }
    }

    fn step(&mut self, now: Moment, input: Input) -> Vec<Command> {
        let mut out = Vec::new();
        let is_tick = input == Input::Tick;
        match input {
            Input::LockAnswered { sent, result } => {
                self.calling = false;
                if let Ok(LockOutcome::Acquired(acquired)) = result {
                    self.epoch = acquired.epoch;
                    self.expiration = sent + self.settings.lease;
                    self.set_acquired(true);
                }
            }
            Input::RenewAnswered { sent, result, .. } => {
                self.calling = false;
                match result {
                    Ok(RenewOutcome::Renewed) => {
                        self.expiration = sent + self.settings.lease;
                        self.set_acquired(true);
                    }
                    Ok(_) => self.set_acquired(false),
                    Err(_) => {}
                }
            }
            Input::Promoted { result, .. } => {
                self.role = Role::Leader;
                // It looks at the lock no more: whoever leads has no end.
                let epoch = self.epoch;
                if result.is_ok() {
                    let until = Moment::NEVER;
                    out.push(Command::OpenGate { epoch, until });
                }
            }
            Input::Demoted { .. } => self.role = Role::Follower,
            _ => {}
        }
        // The lease check.
        if self.acquired && now + self.settings.loop_interval > self.expiration {
            self.set_acquired(false);
        }
        if is_tick {
            self.transit(&mut out);
        }
        if is_tick && !self.calling && now >= self.next_turn {
            self.calling = true;
            out.push(if self.acquired {
                let epoch = self.epoch;
                let phase = Phase::Serving;
                Command::Renew { epoch, phase }
            } else {
                Command::TryLock {
                    floor: Epoch::ZERO,
                    presumed_dead: None,
                }
            });
        }
        if is_tick {
            self.next_turn = now + self.settings.loop_interval;
        }
        out.push(Command::Wake(self.next_turn));
        out
    }
}
