//! Giving the lock up.

use std::sync::atomic::Ordering::SeqCst;

use coordination_core::{Holder, UnlockOutcome};
use elector::{Command, Core, DemoteOutcome, DrainEnd, Input, Role};
use kvcm_clock::Clock as _;
use tokio::time::sleep;

use crate::{
    nodes::{Cluster, Way},
    stage::{LEASE, MS, Record, Stage, down, epoch, owner},
};

fn unlocks(command: &Command) -> bool {
    matches!(command, Command::Unlock { .. })
}

const DEMAND: Input = Input::Demote {
    id: 1,
    expected: None,
    pause: false,
};

/// Fault 26 of the predecessor, case E26: a leader that is stopped quiesces and flushes while it
/// still has the lock, releases it, and runs its demote callback exactly once.
#[tokio::test(start_paused = true)]
async fn a_stop_demotes_once_and_releases_at_once() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    sleep(MS(50)).await;
    let began = cluster.clock.now();
    a.elector.stop().await;
    b.reaches(Role::Leader).await;
    assert!(cluster.clock.now().since(began) < MS(5));
    assert!(a.log.flushed_under_lock.load(SeqCst));
    let lines = a.log.lines();
    assert_eq!(
        lines,
        [
            "promote",
            "quiesce",
            "flush",
            "demote: the process is stopping"
        ]
    );
}

/// Fault 26 of the predecessor: also when the backend is away, a stop ends within a lease.
#[tokio::test(start_paused = true)]
async fn a_stop_without_a_backend_ends_with_the_lease() {
    for way in [Way::Fails, Way::Hangs, Way::Refuses, Way::LosesAnswers] {
        let cluster = Cluster::new();
        let a = cluster.node("a");
        a.reaches(Role::Leader).await;
        a.link.set(way);
        let began = cluster.clock.now();
        a.elector.stop().await;
        assert!(cluster.clock.now().since(began) < 2 * LEASE, "{way:?}");
        assert_eq!(a.log.count("demote"), 1, "{way:?}");
    }
}

/// Case E37: the gate is shut before the lock is released, and an unlock that fails is repeated
/// until the lease has ended by itself; the demotion goes through in any case.
#[test]
fn a_release_that_fails_cannot_stop_a_demotion() {
    let mut stage = Stage::<Core>::leading();
    stage.log.clear();
    stage.hear(DEMAND).unwrap();
    stage
        .hear(Input::Drained {
            epoch: epoch(7),
            end: DrainEnd::Empty,
        })
        .unwrap();
    let place = |kind: fn(&Command) -> bool| stage.log.iter().position(kind).unwrap();
    assert!(place(|c| matches!(c, Command::ShutGate { .. })) < place(unlocks));
    assert!(stage.gate.is_none());
    let mut tries = 0;
    while stage.election.view().role == Role::Demoting && stage.take(unlocks).is_some() {
        tries += 1;
        let failed = Input::UnlockAnswered {
            epoch: epoch(7),
            result: Err(down()),
        };
        stage.hear(failed).unwrap();
        stage.pass(MS(25)).unwrap();
    }
    assert!(tries > 10, "{tries} tries");
    assert_eq!(stage.election.view().epoch, None);
    let done = Command::Reply {
        id: 1,
        outcome: DemoteOutcome::Done(epoch(7)),
    };
    assert!(stage.log.contains(&done));
}

/// Case E63: whatever a release is answered, the lock is not renewed again, and the election goes
/// on.
#[test]
fn no_answer_to_a_release_starts_anything_again() {
    let holder = |name: &str, value: u64| Holder {
        owner: owner(name),
        epoch: epoch(value),
        info: String::new(),
        remaining: LEASE,
    };
    let answers = [
        Ok(UnlockOutcome::Unlocked),
        Ok(UnlockOutcome::NotHeld),
        Ok(UnlockOutcome::HeldByOther(holder("other", 9))),
        // Records that nobody should have written.
        Ok(UnlockOutcome::HeldByOther(holder("me", 7))),
        Ok(UnlockOutcome::HeldByOther(holder("other", 0))),
        Err(down()),
    ];
    for first in &answers {
        for second in &answers {
            let mut stage = Stage::<Core>::leading();
            stage.hear(DEMAND).unwrap();
            stage
                .hear(Input::Drained {
                    epoch: epoch(7),
                    end: DrainEnd::Empty,
                })
                .unwrap();
            stage.log.clear();
            stage.pending.clear();
            for result in [first, second] {
                let answer = Input::UnlockAnswered {
                    epoch: epoch(7),
                    result: result.clone(),
                };
                stage.hear(answer).unwrap();
            }
            stage.lose();
            stage.play(3 * LEASE).unwrap();
            let old = |c: &Command| matches!(c, Command::Renew { epoch: e, .. } if *e == epoch(7));
            assert!(!stage.log.iter().any(old), "{first:?}, then {second:?}");
            assert!(matches!(stage.record, Record::Mine { .. }));
            assert_eq!(stage.election.view().role, Role::Leader);
        }
    }
}

/// Fault 18 of the predecessor: a node that must stay out still learns who leads, soon.
#[tokio::test(start_paused = true)]
async fn a_node_that_stays_out_names_the_new_leader() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    sleep(MS(50)).await;
    a.elector.set_forbid(10 * LEASE).await;
    a.elector.demote(None).await;
    sleep(MS(200)).await;
    let seen = a.elector.view().leader.clone().unwrap();
    assert_eq!(
        (seen.owner.node.as_str(), Some(seen.epoch)),
        ("b", b.epoch())
    );
    // With the backend away the answer stays, and has an age.
    a.link.set(Way::Fails);
    sleep(3 * LEASE).await;
    let stale = a.elector.view().leader.clone().unwrap();
    assert_eq!(stale.epoch, seen.epoch);
    assert!(cluster.clock.now().since(stale.seen_at) >= 2 * LEASE);
    assert!(a.elector.view().backend_error.is_some());
}
