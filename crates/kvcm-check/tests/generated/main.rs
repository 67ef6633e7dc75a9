//! The checker is checked: histories of a correct cluster pass, and each with one thing wrong
//! does not.

mod cluster;
mod mutate;
mod stateright;

use std::collections::BTreeMap;

use kvcm_check::check;

use cluster::{Shape, generate};
use mutate::Mutation;

const HISTORIES: u64 = 1000;

#[test]
fn histories_of_a_correct_cluster_are_accepted_and_mutated_ones_are_caught() {
    let mut caught: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..HISTORIES / 2 {
        let history = generate(seed, Shape::of(seed));
        let violations = check(&history);
        assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);

        let mutation = Mutation::ALL[seed as usize % Mutation::ALL.len()];
        // Not every history offers a place for every mistake.
        let (seed, mutated) = (0..100)
            .map(|more| seed + more * (HISTORIES + 1))
            .find_map(|seed| {
                let mut mutated = generate(seed, Shape::of(seed));
                let mut random = fastrand::Rng::with_seed(seed);
                mutation
                    .apply(&mut mutated, &mut random)
                    .then_some((seed, mutated))
            })
            .unwrap_or_else(|| panic!("no place for {mutation:?}"));
        let violations = check(&mutated);
        let invariants: Vec<_> = violations.iter().map(|v| v.invariant).collect();
        assert!(
            invariants
                .iter()
                .any(|found| mutation.breaks().contains(found)),
            "seed {seed}: {mutation:?} was not caught: {invariants:?}"
        );
        let evidence = violations.iter().all(|v| !v.evidence.is_empty());
        assert!(
            evidence || mutation == Mutation::NothingHappens,
            "{mutation:?}"
        );
        *caught.entry(format!("{mutation:?}")).or_default() += 1;
    }
    assert_eq!(caught.len(), Mutation::ALL.len(), "{caught:?}");
}

#[test]
fn the_generator_reaches_what_it_is_for() {
    let (mut unknown, mut epochs, mut gone, mut denied, mut overlaps) = (0, 0, 0, 0, 0);
    for seed in 0..40 {
        let history = generate(seed, Shape::of(seed));
        epochs += history.gate_intervals().len();
        for (number, call) in history.calls.iter().enumerate() {
            use kvcm_check::{Op, Outcome};
            unknown += usize::from(call.outcome == Outcome::Unknown);
            gone += usize::from(matches!(call.op, Op::Finish { gone: true, .. }));
            let none = |granted: &Vec<Option<String>>| granted.iter().any(Option::is_none);
            denied += usize::from(matches!(&call.op, Op::Start { granted, .. } if none(granted)));
            let later = &history.calls[number + 1..];
            overlaps +=
                usize::from(later.iter().any(|other| {
                    other.client != call.client && Some(other.invoke) < call.returned
                }));
        }
    }
    for count in [unknown, epochs, gone, denied, overlaps] {
        assert!(
            count > 100,
            "{:?}",
            (unknown, epochs, gone, denied, overlaps)
        );
    }
}
