//! Clusters of the real election keep the invariants, and the judge finds what is broken.

use std::time::Duration;

use kvcm_sim::{Campaign, Invariant, Mutant, Plan, Race, fingerprint, judge, replay, run};

const CHAOS: Duration = Duration::from_secs(30);

#[test]
fn two_hundred_clusters_keep_the_invariants_and_heal() {
    let campaign = Campaign {
        first: 1,
        seeds: 200,
        chaos: CHAOS,
        mutant: Mutant::None,
        jobs: 2,
    };
    let report = campaign.run(|_| {});
    println!("{report}");
    if let Some((seed, violation)) = report.violations.first() {
        panic!("seed {seed}: {violation}; {}", replay(*seed, CHAOS));
    }
    assert_eq!(report.lacks(), [""; 0]);
}

#[test]
fn a_seed_goes_the_same_way_each_time() {
    let mut fingerprints = Vec::new();
    for seed in 1..=20 {
        let plan = Plan {
            seed,
            chaos: CHAOS,
            mutant: Mutant::None,
        };
        let first = run(&plan).entries;
        let again = std::thread::spawn(move || run(&plan).entries);
        let again = again.join().unwrap();
        let differs = first.iter().zip(&again).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(fingerprint(&first), fingerprint(&again), "seed {seed}");
        fingerprints.push(fingerprint(&first));
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 20, "seeds differ");
}

/// Each with the invariant that it breaks, and the seeds within which that must show.
const MUTANTS: &[(Mutant, Invariant, u64)] = &[
    (Mutant::StoreWithoutFence, Invariant::AtMostOnce, 40),
    (Mutant::StoreWithoutFence, Invariant::NoLostAck, 200),
    (Mutant::GateWithoutDeadline, Invariant::NoStaleServe, 40),
    (Mutant::NewIdPerTry, Invariant::AtMostOnce, 40),
    (Mutant::RequestsForgotten, Invariant::AtMostOnce, 40),
    (Mutant::AcknowledgedEarly, Invariant::NoLostAck, 40),
    (Mutant::ReadBeforeClaim, Invariant::NoLostAck, 200),
    (Mutant::SameEpochAgain, Invariant::ExclusiveEpoch, 40),
    (Mutant::LeaseCutShort, Invariant::Quiet, 40),
    (Mutant::FalseProof, Invariant::NoStaleServe, 200),
    (Mutant::AbortStaysShut, Invariant::Liveness, 200),
    (Mutant::ReopensAfterUnlock, Invariant::NoStaleServe, 200),
    (Mutant::PauseForgotten, Invariant::OperatorsObeyed, 200),
    (Mutant::OldHintsFollowed, Invariant::BoundedHint, 40),
    (Mutant::RefusesAll, Invariant::Floor, 5),
    (Mutant::DemotesTwice, Invariant::HandlerAlternation, 40),
    (Mutant::Restless, Invariant::Quiet, 40),
    (Mutant::NeverHeals, Invariant::Liveness, 40),
];

#[test]
fn each_mutant_is_caught() {
    for (mutant, invariant, seeds) in MUTANTS {
        let breaks = |seed: &u64| {
            let verdict = judge(&run(&Plan {
                seed: *seed,
                chaos: CHAOS,
                mutant: *mutant,
            }));
            let broken = |violation: &kvcm_sim::Violation| violation.invariant == *invariant;
            verdict.violations.iter().any(broken)
        };
        let seed = (1..=*seeds).find(breaks);
        println!("{mutant:?} breaks {invariant:?} in seed {seed:?}");
        assert!(seed.is_some(), "{mutant:?} does not break {invariant:?}");
    }
}

#[test]
fn what_only_decides_who_is_first_breaks_nothing_when_it_is_wrong() {
    // Each with the race that shows that it was felt.
    let harmless = [
        (Mutant::ReservationIgnored, Race::ReservationUnused),
        (Mutant::PeersAlwaysWrong, Race::ReopenedAfterUnfit),
    ];
    for (mutant, felt) in harmless {
        let campaign = Campaign {
            first: 1,
            seeds: 40,
            chaos: CHAOS,
            mutant,
            jobs: 2,
        };
        let report = campaign.run(|_| {});
        assert_eq!(report.violations, [], "{mutant:?}");
        assert!(report.races.contains_key(&felt), "{mutant:?}");
    }
}
