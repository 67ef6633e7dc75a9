//! The election, searched: the real core and the real lock rules, every order of events within a
//! budget of faults.
//!
//! A state holds two or three processes (core, calls and callbacks under way, gate), the backend,
//! a store behind a fence, and what may still go wrong. Time moves in steps of a third of a lease;
//! processes that are awake keep their timers and deadlines, all else may take any time. What is
//! told of the world by `Broken`, in `state.rs`, must not happen in any state, and from sampled
//! states a world without faults must find a leader.
//!
//! `KVCM_MODEL_STATES` asks for more states than a test run should take (`cargo xtask model`).
#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

mod backend;
mod events;
mod heal;
mod mutants;
mod scenarios;
mod search;
mod state;
mod turn;
mod walk;
mod world;

use crate::{
    events::Event,
    mutants::{MUTANTS, Mutant},
    scenarios::{COMPLETE, DEEP, Scenario},
    search::{Election, Found},
};

/// No scenario of a test run comes near.
const MANY: usize = 20_000_000;

/// How many states are asked for.
fn wanted() -> usize {
    std::env::var("KVCM_MODEL_STATES").map_or(0, |text| text.parse().unwrap())
}

fn search(scenario: &Scenario, generated: usize) -> Found {
    let Scenario {
        name,
        nodes,
        epochs,
        budget,
    } = *scenario;
    let found = Election::new(Mutant::None, nodes, epochs, budget).search(2, generated);
    let Found {
        states,
        generated,
        complete,
        ..
    } = found;
    eprintln!("{name}: {states} states, {generated} generated, complete: {complete}");
    assert!(found.broken.is_empty(), "{name}: {:#?}", found.broken);
    found
}

#[test]
fn every_history_within_the_budgets_keeps_the_invariants() {
    let (mut states, mut generated) = (0, 0);
    let mut missing = Event::ALL.to_vec();
    for scenario in COMPLETE {
        let found = search(scenario, MANY);
        assert!(found.complete, "{} is too large", scenario.name);
        states += found.states;
        generated += found.generated;
        missing.retain(|event| found.missing.contains(event));
    }
    eprintln!("{states} states, {generated} generated");
    assert_eq!(missing, []);
    assert!(states >= 1_500_000, "{states} states");
    let wanted = wanted();
    for (done, scenario) in DEEP.iter().enumerate() {
        // About one generated state in four is new.
        let share = usize::saturating_sub(wanted, states) / (DEEP.len() - done) * 4;
        if share > 0 {
            states += search(scenario, share).states;
        }
    }
    eprintln!("{states} states in all, {wanted} were asked for");
}

#[test]
fn each_mutant_is_caught() {
    for (mutant, nodes, budget, broken) in MUTANTS {
        let found = Election::new(*mutant, *nodes, 4, *budget)
            .looking_for(*broken)
            .search(1, MANY);
        let names: Vec<_> = found.broken.iter().map(|(name, _)| *name).collect();
        eprintln!("{mutant:?}: {} states: {names:?}", found.states);
        assert!(names.contains(&broken.name()), "{mutant:?}: {found:#?}");
    }
}

#[test]
fn random_walks_with_all_faults_keep_the_invariants_and_heal() {
    match walk::walk(0..1000 + wanted() as u64 / 1000) {
        Ok(states) => eprintln!("{states} states"),
        Err(error) => panic!("{error}"),
    }
}
