//! The driver: one turn of a core, and its commands.

use elector::{Command, Input, LossReason, Phase, Standby, TransferOutcome};

use crate::{
    events::Event,
    state::{Ask, Broken, Call, Gate, NOW, State, Worker},
    world::World,
};

impl World {
    /// One turn.
    pub(crate) fn turn(&self, state: &mut State, n: usize, input: Input) {
        let node = &mut state.nodes[n];
        let Some(input) = self.mutant.input(node, input) else {
            return;
        };
        let Some(core) = &mut node.core else { return };
        let seen = self.mutant.is_broken().then(|| input.clone());
        let mut commands = core.step(NOW, input);
        if let Some(seen) = seen {
            commands = self.mutant.commands(node, &seen, commands);
        }
        for command in commands {
            self.command(state, n, command);
        }
        if let Some(core) = &mut state.nodes[n].core {
            core.make_canonical(NOW, NOW);
        }
    }

    fn command(&self, state: &mut State, n: usize, command: Command) {
        let node = &mut state.nodes[n];
        let mut ask = |ask| {
            node.calls.push(Call {
                ask,
                sent: NOW,
                answer: None,
            });
        };
        match command {
            Command::TryLock {
                floor,
                presumed_dead,
            } => {
                ask(Ask::TryLock {
                    floor,
                    presumed_dead,
                });
                if node.held_back {
                    state.broken(Broken::HeldBackCampaigns);
                }
            }
            Command::Observe => {
                ask(Ask::Observe);
                let standby = node.core.as_ref().and_then(|core| core.view().standby);
                if matches!(standby, Some(Standby::NotReady { .. })) {
                    self.events.reach(Event::Deferred);
                }
            }
            Command::Renew { epoch, phase } => {
                ask(Ask::Renew(epoch));
                if phase == Phase::Recovering && node.worker == (Worker::Promoted { epoch }) {
                    self.events.reach(Event::Guarded);
                }
            }
            Command::Unlock { epoch, reserve } => {
                ask(Ask::Unlock(epoch, reserve));
                if node.held() != Some(epoch) {
                    self.events.reach(Event::GivenBack);
                }
            }
            Command::OpenGate { epoch, until } => {
                let promoted = node.worker == (Worker::Promoted { epoch });
                let held = node.held() == Some(epoch);
                node.gate = Gate {
                    epoch,
                    admit: true,
                    serve: true,
                    deadline: until,
                };
                self.events.reach(Event::Opened);
                if node.held_back {
                    state.broken(Broken::HeldBackCampaigns);
                } else if !promoted || !held {
                    state.broken(Broken::GateWithoutLock);
                }
            }
            Command::ExtendGate { epoch, until } => {
                if node.gate.epoch == epoch {
                    node.gate.deadline = node.gate.deadline.max(until);
                } else {
                    // The lease check was faster.
                    self.turn(state, n, Input::GateShut { epoch });
                }
            }
            Command::ShutAdmit { epoch } => {
                if node.gate.epoch == epoch {
                    node.gate.admit = false;
                }
            }
            Command::ReopenGate { epoch } => {
                if node.gate.epoch == epoch && node.gate.serve {
                    node.gate.admit = true;
                } else {
                    self.turn(state, n, Input::GateShut { epoch });
                }
            }
            Command::StopDrain { .. } => {
                node.drain = node.drain.map(|(epoch, _)| (epoch, NOW));
            }
            Command::ShutGate { epoch } => {
                if node.gate.epoch == epoch {
                    node.gate = Gate::SHUT;
                }
            }
            Command::Promote { epoch, .. } => {
                if node.worker != Worker::Idle {
                    state.broken(Broken::Alternation);
                    return;
                }
                node.worker = Worker::Promoting {
                    epoch,
                    claimed: false,
                };
                if epoch <= node.led {
                    state.broken(Broken::EpochLedTwice);
                    return;
                }
                node.led = epoch;
            }
            Command::CancelPromote { .. } => self.events.reach(Event::CancelledPromotion),
            Command::Demote { epoch, reason } => {
                if node.worker != (Worker::Promoted { epoch }) || node.gate.serve {
                    state.broken(Broken::Alternation);
                    return;
                }
                if matches!(reason, LossReason::NotHeld | LossReason::HeldByOther) {
                    self.events.reach(Event::LostLock);
                }
                node.worker = Worker::Demoting { epoch };
            }
            Command::Drain { epoch, bound } => node.drain = Some((epoch, NOW + bound)),
            Command::Probe => node.probing = true,
            Command::ReplyTransfer { result, .. } => {
                node.handing_to = None;
                self.events.reach(match result {
                    Err(_) => Event::TransferRefused,
                    Ok(TransferOutcome::Aborted(_)) => Event::TransferAborted,
                    Ok(TransferOutcome::Transferred { .. }) => Event::Transferred,
                    Ok(TransferOutcome::NotTaken { .. }) => Event::TransferNotTaken,
                    Ok(TransferOutcome::Ended(_)) => Event::TransferEnded,
                });
            }
            Command::ReplyPause { result, .. } => {
                node.held_back = result.is_ok();
                self.events.reach(Event::HeldBack);
            }
            Command::Reply { .. } | Command::Record(_) => {}
            Command::Wake(at) => node.wake = at,
            Command::Stopped => {
                self.events.reach(Event::Stopped);
                node.die();
            }
        }
    }

    /// What must be true in every state.
    pub(crate) fn observe(&self, state: &mut State) {
        let mut broken = None;
        let mut believers = 0;
        let live = |n: usize| self.lives(&state.nodes[n].gate);
        let mut served = state.ghost.served;
        let mut server = state.ghost.server;
        for (n, node) in state.nodes.iter().enumerate() {
            if !node.gate.serve {
                continue;
            }
            believers += 1;
            if !live(n) {
                let slept = node.nap.is_some();
                self.events.reach(if slept {
                    Event::PausedPastLease
                } else {
                    Event::GateShutByItself
                });
                continue;
            }
            let epoch = node.gate.epoch;
            if node.held() != Some(epoch) {
                broken = Some(Broken::GateWithoutLock);
            }
            // The lemma behind I2: the leader's lease ends before the backend's.
            if !state.ghost.lost && state.holder() != Some((&node.owner, epoch)) {
                broken = Some(Broken::GateOutlivesLock);
            }
            if node.nap.is_none() && node.gate.admit && epoch > served {
                served = epoch;
                server = Some(node.owner.incarnation);
            }
        }
        // I2: as if clients asked all the time, whoever could answer OK answers.
        let stale = |n: usize| {
            let node = &state.nodes[n];
            live(n) && node.nap.is_none() && node.gate.epoch < served
        };
        if !state.ghost.excused && (0..state.nodes.len()).any(stale) {
            broken = Some(Broken::StaleServe);
        }
        if believers > 1 {
            self.events.reach(Event::TwoLeadersBelieved);
        }
        state.ghost.served = served;
        state.ghost.server = server;
        if let Some(broken) = broken {
            state.broken(broken);
        }
    }
}
