//! I6: when nothing goes wrong any more, a leader serves, and goes on serving.

use elector::{DrainEnd, Input};

use crate::{
    events::Event,
    state::{Budget, NOW, Node, State, Worker, owner},
    world::World,
};

/// Steps until a leader must serve: a lease that ends, the guard of an unproven end, and the same
/// again when a claim is refused.
const STEPS: usize = 18;

/// How long it must go on serving then.
const CALM: usize = 4;

impl World {
    /// Whether `state` heals under a fair schedule.
    pub(crate) fn heals(&self, state: &State) -> bool {
        let mut state = state.clone();
        state.left = Budget::NOTHING;
        state.strays.clear();
        for n in 0..state.nodes.len() {
            let life = state.nodes[n].owner.incarnation.bits() % 100 + 1;
            if !state.nodes[n].is_up() {
                state.nodes[n] = Node::new(owner(n, life));
            }
            let node = &mut state.nodes[n];
            node.cut = false;
            node.nap = None;
            // The operator lets all campaign again; what is not ready stays so.
            if std::mem::take(&mut node.held_back) {
                self.turn(&mut state, n, Input::Resume);
            }
        }
        let serves = |state: &State| {
            let mut live = state
                .nodes
                .iter()
                .filter(|node| self.lives(&node.gate) && node.gate.admit);
            live.next().map(|node| node.gate.epoch)
        };
        for _ in 0..STEPS {
            self.settle(&mut state);
            state.pass();
        }
        self.settle(&mut state);
        let leader = serves(&state);
        if leader.is_none() {
            return false;
        }
        for _ in 0..CALM {
            state.pass();
            self.settle(&mut state);
            if serves(&state) != leader {
                return false;
            }
        }
        self.events.reach(Event::Healed);
        true
    }

    /// All that can be done without time passing.
    fn settle(&self, state: &mut State) {
        // Each round ends something that was under way; a core that goes on for ever is at fault.
        for _ in 0..50 {
            let mut idle = true;
            for n in 0..state.nodes.len() {
                idle &= !self.work(state, n);
            }
            self.observe(state);
            if idle {
                return;
            }
        }
    }

    fn work(&self, state: &mut State, n: usize) -> bool {
        let node = &mut state.nodes[n];
        if !node.is_up() {
            // It stopped in good order; somebody starts it again.
            let life = node.owner.incarnation.bits() % 100 + 1;
            *node = Node::new(owner(n, life));
        } else if !node.calls.is_empty() {
            self.answer(state, n, 0);
        } else if node.wake <= NOW {
            self.turn(state, n, Input::Tick);
        } else if node.admitted.is_some() {
            self.confirm(state, n);
        } else if let Some((epoch, _)) = node.drain.take() {
            let end = DrainEnd::Empty;
            self.turn(state, n, Input::Drained { epoch, end });
        } else if std::mem::take(&mut node.probing) {
            self.turn(state, n, Input::Probed { result: Ok(()) });
        } else {
            match node.worker {
                Worker::Promoting { claimed: false, .. } => self.claim(state, n),
                Worker::Promoting { claimed: true, .. } => self.promoted(state, n, Ok(())),
                Worker::Demoting { epoch } => {
                    node.worker = Worker::Idle;
                    self.turn(state, n, Input::Demoted { epoch });
                }
                Worker::Idle | Worker::Promoted { .. } => return false,
            }
        }
        true
    }
}
