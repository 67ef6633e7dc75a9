//! Random walks: longer than a search can be, with all faults at once.

use crate::{
    events::Event,
    mutants::Mutant,
    scenarios::EVERYTHING,
    state::State,
    world::{Action, World},
};

/// The steps of one walk.
const STEPS: usize = 400;

/// Walks from `seeds`. Returns the number of states seen.
///
/// # Errors
/// The seed and the way of a walk that broke something or did not heal.
pub(crate) fn walk(seeds: std::ops::Range<u64>) -> Result<usize, String> {
    let world = World::new(Mutant::None);
    let mut actions = Vec::new();
    let mut states = 0;
    for seed in seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut state = State::new(2 + usize::from(random.bool()), EVERYTHING);
        let mut way = Vec::new();
        for _ in 0..STEPS {
            actions.clear();
            world.actions(&state, &mut actions);
            // Faults are many and would be spent at once.
            let calm = random.u8(..) < 230;
            let wanted = |action: &&Action| !calm || !action.is_fault();
            let chosen: Vec<_> = actions.iter().filter(wanted).collect();
            let Some(action) = random.choice(chosen) else {
                continue;
            };
            way.push(*action);
            world.apply(&mut state, *action);
            states += 1;
            if let Some(broken) = state.ghost.broken {
                return Err(format!("seed {seed}: {}: {way:#?}", broken.name()));
            }
        }
        if !world.heals(&state) {
            return Err(format!("seed {seed} does not heal: {way:#?}"));
        }
    }
    let missing = world.events.missing();
    let reached = [
        Event::Healed,
        Event::WonAfterDeath,
        Event::AnsweredOk,
        Event::Guarded,
        Event::Transferred,
        Event::TransferAborted,
        Event::TransferNotTaken,
        Event::KeptOut,
        Event::Deferred,
    ];
    if reached.iter().any(|event| missing.contains(event)) {
        return Err(format!("not reached: {missing:?}"));
    }
    Ok(states)
}
