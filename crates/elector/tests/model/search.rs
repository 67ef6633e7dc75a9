//! The search: every order of events within a budget.

use std::hash::{DefaultHasher, Hash, Hasher};

use kvcm_fence::Epoch;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::{
    events::Event,
    mutants::Mutant,
    state::{Broken, Budget, State},
    world::{Action, World},
};

/// One state in so many is healed.
const HEAL_EVERY: u64 = 64;

/// One search: so many nodes, so many reigns, so many faults.
#[derive(Debug)]
pub(crate) struct Election {
    pub(crate) world: World,
    nodes: usize,
    epochs: Epoch,
    budget: Budget,
    /// One state in so many is healed.
    heal_every: Option<u64>,
}

/// What a search has found.
#[derive(Debug)]
pub(crate) struct Found {
    /// States that differ.
    pub(crate) states: usize,
    /// States that were generated, the same ones again included.
    pub(crate) generated: usize,
    /// Whether all states within the budget were seen.
    pub(crate) complete: bool,
    /// Events that were not met.
    pub(crate) missing: Vec<Event>,
    /// The properties that were broken, each with what leads there.
    pub(crate) broken: Vec<(&'static str, Vec<Action>)>,
}

impl Election {
    pub(crate) fn new(mutant: Mutant, nodes: usize, epochs: u64, budget: Budget) -> Self {
        Self {
            world: World::new(mutant),
            nodes,
            epochs: Epoch::new(epochs).unwrap(),
            budget,
            heal_every: Some(HEAL_EVERY),
        }
    }

    /// One that looks for this property of a mutant: healing is dense, or left out.
    pub(crate) fn looking_for(self, broken: Broken) -> Self {
        Self {
            heal_every: (broken == Broken::Stuck).then_some(4),
            ..self
        }
    }

    /// Searches until all is seen, something is broken, or so many states were generated. With one
    /// thread what leads to the first thing broken is as short as can be.
    pub(crate) fn search(self, threads: usize, generated: usize) -> Found {
        let checker = self
            .checker()
            .threads(threads)
            .target_state_count(generated)
            .finish_when(HasDiscoveries::AnyFailures)
            .spawn_bfs()
            .join();
        let broken = checker.discoveries();
        Found {
            states: checker.unique_state_count(),
            generated: checker.state_count(),
            complete: checker.state_count() < generated && broken.is_empty(),
            missing: checker.model().world.events.missing(),
            broken: broken
                .into_iter()
                .map(|(name, path)| (name, path.into_actions()))
                .collect(),
        }
    }

    fn is_to_be_healed(&self, state: &State) -> bool {
        let mut hasher = DefaultHasher::new();
        state.nodes[0].hash(&mut hasher);
        state.lock.hash(&mut hasher);
        let chosen = |every| hasher.finish().is_multiple_of(every);
        state.ghost.broken.is_none() && self.heal_every.is_some_and(chosen)
    }
}

impl Model for Election {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.nodes, self.budget)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.world.actions(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.world.apply(&mut next, action);
        Some(next)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.ghost.minted <= self.epochs
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! never {
            ($broken:ident) => {
                Property::always(Broken::$broken.name(), |_: &Self, state: &State| {
                    state.ghost.broken != Some(Broken::$broken)
                })
            };
        }
        vec![
            never!(ExclusiveEpoch),
            never!(EpochLedTwice),
            never!(ClaimsRise),
            never!(StaleServe),
            never!(GateOutlivesLock),
            never!(WriteOfOther),
            never!(Alternation),
            never!(GateWithoutLock),
            never!(BusyWait),
            never!(KeptLockTaken),
            never!(HeldBackCampaigns),
            Property::always(Broken::Stuck.name(), |model: &Self, state| {
                !model.is_to_be_healed(state) || model.world.heals(state)
            }),
        ]
    }
}
