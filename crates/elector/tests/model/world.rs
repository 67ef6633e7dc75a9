//! What can happen next.

use coordination_core::Hint;
use elector::{CallFailed, DrainEnd, Input, Peer, PromoteError};
use kvcm_clock::Moment;
use kvcm_fence::{Claim, ClaimRefused, ClusterId, Epoch, Fence, Fenced};

use crate::{
    backend::Loss,
    events::{Event, Events},
    mutants::Mutant,
    state::{Answer, Ask, Broken, CALL, Gate, NAP, NOW, Node, State, Worker, owner},
};

/// The rules of the world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) mutant: Mutant,
    pub(crate) cluster: ClusterId,
    pub(crate) events: Events,
}

/// Something that happens. The first number is the node, the second one its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Time passes.
    Pass,
    /// The timer of the lock loop.
    Tick(usize),
    /// The backend performs a request, its answer is under way.
    Perform(usize, usize),
    /// An answer arrives.
    Answer(usize, usize),
    /// A call gives no answer.
    Fail(usize, usize),
    /// The network keeps a copy of a request.
    Copy(usize, usize),
    /// Such a copy arrives at the backend.
    Late(usize),
    Hint(usize),
    Died(usize),
    Crash(usize),
    Stop(usize),
    Restart(usize),
    Pause(usize),
    Resume(usize),
    Cut(usize),
    Join(usize),
    Lose(Loss),
    /// Somebody asks for a step-down.
    Demote(usize),
    /// Somebody asks that another node leads next.
    Transfer(usize, usize),
    CancelTransfer(usize),
    /// An operator keeps the node out of the race, and lets it in again.
    HoldBack(usize),
    LetIn(usize),
    /// It is told that all others are fit, or that none is. It may be wrong.
    Peers(usize, bool),
    Unready(usize),
    Ready(usize),
    /// The promote callback claims the store.
    Claim(usize),
    /// The promote callback returns.
    Promoted(usize),
    PromotionFails(usize),
    /// The demote callback returns.
    Demoted(usize),
    Drained(usize),
    DrainHangs(usize),
    Probed(usize),
    /// The thread that looks at the gate's deadline.
    LeaseCheck(usize),
    /// A write is let in, reaches the store, is answered.
    Admit(usize),
    Write(usize),
    Confirm(usize),
}

impl Action {
    /// Whether it takes from the budget.
    pub(crate) fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Perform(..)
                | Self::Fail(..)
                | Self::Copy(..)
                | Self::Hint(_)
                | Self::Died(_)
                | Self::Crash(_)
                | Self::Stop(_)
                | Self::Pause(_)
                | Self::Cut(_)
                | Self::Lose(_)
                | Self::Demote(_)
                | Self::PromotionFails(_)
                | Self::Transfer(..)
                | Self::HoldBack(_)
                | Self::Peers(..)
                | Self::Unready(_)
                | Self::DrainHangs(_)
        )
    }
}

impl World {
    pub(crate) fn new(mutant: Mutant) -> Self {
        Self {
            mutant,
            cluster: "model".parse().unwrap(),
            events: Events::default(),
        }
    }

    /// All that can happen next.
    pub(crate) fn actions(&self, state: &State, out: &mut Vec<Action>) {
        if state.ghost.broken.is_some() {
            return;
        }
        if state.may_pass() {
            out.push(Action::Pass);
        }
        for (n, node) in state.nodes.iter().enumerate() {
            self.actions_of(state, n, node, out);
        }
        let strays = 0..state.strays.len();
        out.extend(strays.map(Action::Late));
        out.extend(state.losses().map(Action::Lose));
    }

    fn actions_of(&self, state: &State, n: usize, node: &Node, out: &mut Vec<Action>) {
        let left = &state.left;
        if !node.is_up() {
            out.push(Action::Restart(n));
            return;
        }
        for (c, call) in node.calls.iter().enumerate() {
            if call.answer.is_some() {
                continue;
            }
            if left.slow > 0 && !node.cut {
                out.push(Action::Perform(n, c));
            }
            if left.late > 0 {
                out.push(Action::Copy(n, c));
            }
            break;
        }
        if left.crash > 0 {
            out.push(Action::Crash(n));
        }
        if node.nap.is_some() {
            out.push(Action::Resume(n));
            return;
        }
        for (c, call) in node.calls.iter().enumerate() {
            if !node.cut {
                out.push(Action::Answer(n, c));
            }
            if node.cut || left.lost > 0 || call.sent + CALL < NOW {
                out.push(Action::Fail(n, c));
            }
            // A connection keeps the order, but for an answer that is slow.
            if call.answer.is_none() {
                break;
            }
        }
        let mut may = |possible: bool, action: fn(usize) -> Action| {
            if possible {
                out.push(action(n));
            }
        };
        may(node.wake <= NOW, Action::Tick);
        may(left.pause > 0, Action::Pause);
        may(left.crash > 0, Action::Stop);
        may(left.cut > 0 && !node.cut, Action::Cut);
        may(node.cut, Action::Join);
        may(left.hint > 0 && !node.cut, Action::Hint);
        may(
            left.hint > 0 && !node.cut && state.dead_holder().is_some(),
            Action::Died,
        );
        may(left.demote > 0 && node.held().is_some(), Action::Demote);
        may(node.handing_to.is_some(), Action::CancelTransfer);
        may(left.hold_back > 0 && !node.held_back, Action::HoldBack);
        may(node.held_back, Action::LetIn);
        may(left.unready > 0 && node.ready, Action::Unready);
        may(!node.ready, Action::Ready);
        may(left.peers > 0, |n| Action::Peers(n, true));
        may(left.peers > 0, |n| Action::Peers(n, false));
        match node.worker {
            Worker::Promoting { claimed, .. } => {
                may(!claimed, Action::Claim);
                may(claimed, Action::Promoted);
                may(left.fail > 0, Action::PromotionFails);
            }
            Worker::Demoting { .. } => may(node.drain.is_none(), Action::Demoted),
            Worker::Idle | Worker::Promoted { .. } => {}
        }
        if let Some((_, until)) = node.drain {
            may(node.admitted.is_none() || until <= NOW, Action::Drained);
            may(left.fail > 0, Action::DrainHangs);
        }
        may(node.probing, Action::Probed);
        if left.transfer > 0 && node.gate.admit {
            let others = (0..state.nodes.len()).filter(|to| *to != n);
            out.extend(others.map(|to| Action::Transfer(n, to)));
        }
        let mut may = |possible: bool, action: fn(usize) -> Action| {
            if possible {
                out.push(action(n));
            }
        };
        let live = self.lives(&node.gate);
        may(node.gate.serve && !live, Action::LeaseCheck);
        may(
            left.admit > 0 && live && node.gate.admit && node.admitted.is_none(),
            Action::Admit,
        );
        may(node.admitted.is_some(), Action::Write);
        may(node.admitted.is_some(), Action::Confirm);
    }

    /// Makes it happen.
    pub(crate) fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Pass => state.pass(),
            Action::Tick(n) => {
                self.turn(state, n, Input::Tick);
                // A driver that is to wake at once would spin.
                if state.nodes[n].wake <= NOW {
                    state.broken(Broken::BusyWait);
                }
            }
            Action::Perform(n, c) => {
                state.left.slow -= 1;
                self.perform(state, n, c);
            }
            Action::Answer(n, c) => self.answer(state, n, c),
            Action::Fail(n, c) => {
                let call = state.nodes[n].calls.remove(c);
                let free = state.nodes[n].cut || call.sent + CALL < NOW;
                state.left.lost -= u8::from(!free);
                self.fail(state, n, call.ask, call.sent);
            }
            Action::Copy(n, c) => {
                state.left.late -= 1;
                let node = &state.nodes[n];
                let stray = (node.owner.clone(), node.calls[c].ask.clone());
                state.strays.push(stray);
            }
            Action::Late(s) => {
                let (owner, ask) = state.strays.remove(s);
                self.events.reach(Event::LateRequest);
                let before = state.ghost.minted;
                state.perform(&owner, &ask, &self.events);
                if state.ghost.minted > before {
                    self.events.reach(Event::LateRequestTookLock);
                }
            }
            Action::Lose(loss) => state.lose(loss, &self.events),
            Action::Hint(n) => {
                state.left.hint -= 1;
                self.turn(state, n, Input::Hint(Hint::Changed));
            }
            Action::Died(n) => {
                state.left.hint -= 1;
                if let Some((incarnation, epoch)) = state.dead_holder() {
                    let hint = Hint::HolderDied { incarnation, epoch };
                    self.turn(state, n, Input::Hint(hint));
                }
            }
            Action::Crash(n) => {
                state.left.crash -= 1;
                state.nodes[n].die();
            }
            Action::Stop(n) => {
                state.left.crash -= 1;
                self.turn(state, n, Input::Stop);
            }
            Action::Restart(n) => {
                let life = state.nodes[n].owner.incarnation.bits() % 100 + 1;
                state.nodes[n] = Node::new(owner(n, life));
                self.events.reach(Event::Restarted);
            }
            Action::Pause(n) => {
                state.left.pause -= 1;
                state.nodes[n].nap = Some(NAP);
            }
            Action::Resume(n) => state.nodes[n].nap = None,
            Action::Cut(n) => {
                state.left.cut -= 1;
                state.nodes[n].cut = true;
            }
            Action::Join(n) => state.nodes[n].cut = false,
            Action::Demote(n) => {
                state.left.demote -= 1;
                let (expected, pause) = (None, false);
                let id = 1;
                self.turn(
                    state,
                    n,
                    Input::Demote {
                        id,
                        expected,
                        pause,
                    },
                );
            }
            Action::Transfer(n, to) => {
                state.left.transfer -= 1;
                let to = state.nodes[to].owner.node.clone();
                state.nodes[n].handing_to = Some(to.clone());
                let (id, expected) = (1, None);
                self.turn(state, n, Input::Transfer { id, to, expected });
            }
            Action::CancelTransfer(n) => self.turn(state, n, Input::CancelTransfer),
            Action::HoldBack(n) => {
                state.left.hold_back -= 1;
                self.turn(state, n, Input::Pause { id: 1 });
            }
            Action::LetIn(n) => {
                state.nodes[n].held_back = false;
                self.turn(state, n, Input::Resume);
            }
            Action::Unready(n) => {
                state.left.unready -= 1;
                state.nodes[n].ready = false;
                self.turn(state, n, Input::Ready(false));
            }
            Action::Ready(n) => {
                state.nodes[n].ready = true;
                self.turn(state, n, Input::Ready(true));
            }
            Action::Peers(n, fit) => {
                state.left.peers -= 1;
                let peers = state.nodes.iter().map(|node| Peer {
                    owner: node.owner.clone(),
                    alive: true,
                    ready: fit,
                    eligible: true,
                    priority: 0,
                });
                let peers = peers.collect();
                self.turn(state, n, Input::Peers(peers));
            }
            Action::Claim(n) => self.claim(state, n),
            Action::Promoted(n) => self.promoted(state, n, Ok(())),
            Action::PromotionFails(n) => {
                state.left.fail -= 1;
                self.events.reach(Event::FailedPromotion);
                let failed = PromoteError::Failed("model".to_owned());
                self.promoted(state, n, Err(failed));
            }
            Action::Demoted(n) => {
                if let Worker::Demoting { epoch } = state.nodes[n].worker {
                    state.nodes[n].worker = Worker::Idle;
                    self.turn(state, n, Input::Demoted { epoch });
                }
            }
            Action::Drained(n) => {
                let end = match state.nodes[n].admitted {
                    Some(_) => DrainEnd::InFlight(1),
                    None => DrainEnd::Empty,
                };
                self.drained(state, n, end);
            }
            Action::DrainHangs(n) => {
                state.left.fail -= 1;
                self.drained(state, n, DrainEnd::Stuck);
            }
            Action::Probed(n) => {
                state.nodes[n].probing = false;
                self.turn(state, n, Input::Probed { result: Ok(()) });
            }
            Action::LeaseCheck(n) => {
                let epoch = state.nodes[n].gate.epoch;
                state.nodes[n].gate = Gate::SHUT;
                self.turn(state, n, Input::GateShut { epoch });
            }
            Action::Admit(n) => {
                state.left.admit -= 1;
                state.nodes[n].admitted = Some(state.nodes[n].gate.epoch);
            }
            Action::Write(n) => self.write(state, n),
            Action::Confirm(n) => self.confirm(state, n),
        }
        self.observe(state);
    }

    fn drained(&self, state: &mut State, n: usize, end: DrainEnd) {
        if let Some((epoch, _)) = state.nodes[n].drain.take() {
            self.events.reach(Event::Drained);
            self.turn(state, n, Input::Drained { epoch, end });
        }
    }

    /// The backend performs a request.
    pub(crate) fn perform(&self, state: &mut State, n: usize, c: usize) {
        let owner = state.nodes[n].owner.clone();
        let ask = state.nodes[n].calls[c].ask.clone();
        let answer = state.perform(&owner, &ask, &self.events);
        state.nodes[n].calls[c].answer = Some(answer);
    }

    /// The answer of a call arrives; the backend performs it now if it has not yet.
    pub(crate) fn answer(&self, state: &mut State, n: usize, c: usize) {
        if state.nodes[n].calls[c].answer.is_none() {
            self.perform(state, n, c);
        }
        let call = state.nodes[n].calls.remove(c);
        let sent = call.sent;
        let input = match (call.ask, call.answer) {
            (_, Some(Answer::Lock(outcome))) => Input::LockAnswered {
                sent,
                result: Ok(outcome),
            },
            (_, Some(Answer::Holder(holder))) => Input::HolderAnswered { result: Ok(holder) },
            (Ask::Renew(epoch), Some(Answer::Renew(outcome))) => {
                if state.nodes[n].held() != Some(epoch) {
                    self.events.reach(Event::RenewalAfterLoss);
                }
                Input::RenewAnswered {
                    epoch,
                    sent,
                    result: Ok(outcome),
                }
            }
            (Ask::Unlock(epoch, _), Some(Answer::Unlock(outcome))) => Input::UnlockAnswered {
                epoch,
                result: Ok(outcome),
            },
            other => panic!("{other:?}"),
        };
        self.turn(state, n, input);
    }

    fn fail(&self, state: &mut State, n: usize, ask: Ask, sent: Moment) {
        let failed = CallFailed {
            message: String::new(),
            fatal: false,
        };
        let input = match ask {
            Ask::TryLock { .. } => Input::LockAnswered {
                sent,
                result: Err(failed),
            },
            Ask::Observe => Input::HolderAnswered {
                result: Err(failed),
            },
            Ask::Renew(epoch) => {
                self.events.reach(Event::RenewalLost);
                Input::RenewAnswered {
                    epoch,
                    sent,
                    result: Err(failed),
                }
            }
            Ask::Unlock(epoch, _) => Input::UnlockAnswered {
                epoch,
                result: Err(failed),
            },
        };
        self.turn(state, n, input);
    }

    fn claim_of(&self, node: &Node, epoch: Epoch) -> Claim {
        Claim {
            cluster: self.cluster.clone(),
            epoch,
            incarnation: node.owner.incarnation,
        }
    }

    /// The promote callback claims the store.
    pub(crate) fn claim(&self, state: &mut State, n: usize) {
        let Worker::Promoting { epoch, .. } = state.nodes[n].worker else {
            return;
        };
        let claim = self.claim_of(&state.nodes[n], epoch);
        let former = state.store.holder().map(|claim| claim.epoch);
        let by = match state.store.claim(claim.clone()) {
            Err(ClaimRefused::Superseded { by }) => Some(by.epoch),
            Err(other) => panic!("{other}"),
            Ok(()) => None,
        };
        let forgiven = self.mutant == Mutant::EqualClaimsPass && by == Some(epoch);
        if let (Some(by), false) = (by, forgiven) {
            self.events.reach(Event::RefusedClaim);
            return self.promoted(state, n, Err(PromoteError::Fenced { by }));
        }
        if forgiven {
            state.store = Fence::restored(Some(claim));
        }
        if state.ghost.claimed.is_some_and(|(last, _)| last >= epoch) {
            state.broken(Broken::ClaimsRise);
        }
        state.ghost.claimed = Some((epoch, state.nodes[n].owner.incarnation));
        state.nodes[n].worker = Worker::Promoting {
            epoch,
            claimed: true,
        };
        // A store that was claimed before tells that the cluster is not new.
        if let Some(former) = former.filter(|_| self.mutant != Mutant::ClaimsTellNothing) {
            self.turn(state, n, Input::EpochSeen(former));
        }
    }

    pub(crate) fn promoted(&self, state: &mut State, n: usize, result: Result<(), PromoteError>) {
        if let Worker::Promoting { epoch, .. } = state.nodes[n].worker {
            state.nodes[n].worker = Worker::Promoted { epoch };
            self.turn(state, n, Input::Promoted { epoch, result });
        }
    }

    /// A write that was let in reaches the store, perhaps much later.
    fn write(&self, state: &mut State, n: usize) {
        let node = &mut state.nodes[n];
        let Some(epoch) = node.admitted else { return };
        let claim = self.claim_of(node, epoch);
        let unfenced = self.mutant == Mutant::WritesUnfenced;
        match state.store.check(&claim) {
            Err(fenced) if !unfenced => {
                self.events.reach(Event::RefusedWrite);
                let by = match fenced {
                    Fenced::By { by } => by.epoch,
                    Fenced::Missing => Epoch::ZERO,
                };
                state.nodes[n].admitted = None;
                self.turn(state, n, Input::StoreRefused { epoch, by });
            }
            _ => {
                self.events.reach(Event::AcceptedWrite);
                if state.ghost.claimed != Some((epoch, claim.incarnation)) {
                    state.broken(Broken::WriteOfOther);
                }
            }
        }
    }

    /// A request is answered.
    pub(crate) fn confirm(&self, state: &mut State, n: usize) {
        let node = &mut state.nodes[n];
        let Some(epoch) = node.admitted.take() else {
            return;
        };
        if !self.lives(&node.gate) || node.gate.epoch != epoch {
            self.events.reach(Event::AnsweredUnknown);
            return;
        }
        self.events.reach(Event::AnsweredOk);
        if !node.gate.admit {
            self.events.reach(Event::AnsweredInDrain);
        }
        // I2, besides what `observe` finds in each state.
        if epoch < state.ghost.served && !state.ghost.excused {
            state.broken(Broken::StaleServe);
        }
    }

    /// Whether work may take effect: the gate looks at the deadline itself.
    pub(crate) fn lives(&self, gate: &Gate) -> bool {
        gate.serve && (NOW < gate.deadline || self.mutant == Mutant::GateTrustsTimers)
    }
}

impl State {
    /// Processes that are awake are not late with their timers and the deadlines of their calls.
    pub(crate) fn may_pass(&self) -> bool {
        self.nodes.iter().all(|node| match node.nap {
            Some(left) => left > 0,
            None => node.wake > NOW && node.calls.iter().all(|call| call.sent + CALL > NOW),
        })
    }

    /// The kernel's proof that the holder's process is dead.
    fn dead_holder(&self) -> Option<(kvcm_fence::Incarnation, Epoch)> {
        let (owner, epoch) = self.holder()?;
        let alive = |node: &Node| node.is_up() && node.owner == *owner;
        (!self.nodes.iter().any(alive)).then_some((owner.incarnation, epoch))
    }
}
