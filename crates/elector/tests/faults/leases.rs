//! When a lease ends, and what extends it.

use std::sync::atomic::Ordering::SeqCst;

use coordination_core::{Acquired, LockOutcome, Previous, ReignEnd, RenewOutcome};
use elector::{Command, Core, Input, Role};
use kvcm_clock::Clock as _;
use tokio::time::sleep;

use crate::{
    nodes::{Cluster, Way},
    stage::{LEASE, MS, Record, Stage, down, epoch, owner, renews},
};

/// Case E10: a try that took longer than the lease that it asked for is no leadership.
#[test]
fn a_lock_that_comes_after_its_lease_is_given_back_and_campaigned_for_again() {
    let mut stage = Stage::<Core>::new();
    stage.pass(MS(0)).unwrap();
    let sent = stage.now;
    stage.pending.clear();
    stage.pass(LEASE).unwrap();
    stage.log.clear();
    let outcome = LockOutcome::Acquired(Acquired {
        epoch: epoch(7),
        previous: Some(Previous {
            owner: owner("other"),
            epoch: epoch(6),
            end: ReignEnd::Expired,
            lease_left: MS(0),
        }),
        repeated: false,
    });
    let result = Ok(outcome);
    stage.hear(Input::LockAnswered { sent, result }).unwrap();
    assert!(stage.log.contains(&Command::Unlock {
        epoch: epoch(7),
        reserve: None
    }));
    assert!(
        !stage
            .log
            .iter()
            .any(|c| matches!(c, Command::Promote { .. }))
    );
    stage.play(LEASE).unwrap();
    assert_eq!(stage.election.view().role, Role::Leader);
}

/// Fault 5 of the predecessor, case E18: a backend that hangs shuts the gate at the node's own
/// deadline.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_shuts_the_gate_at_the_deadline() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    sleep(MS(350)).await;
    a.link.set(Way::Hangs);
    let end = a.elector.view().lease_end.unwrap();
    sleep(cluster.clock.now().until(end) - MS(1)).await;
    assert!(a.serves(), "it gave up too early");
    sleep(MS(1)).await;
    assert!(!a.serves());
    sleep(MS(10)).await;
    assert_ne!(a.role(), Role::Leader);
    let epoch = a.elector.view().highest;
    sleep(LEASE).await;
    a.link.set(Way::Fine);
    a.reaches(Role::Leader).await;
    assert!(a.epoch().unwrap() > epoch, "the old epoch was led in again");
}

/// Fault 5 of the predecessor: a lease counts from before its renewal was sent, however long the
/// answer takes.
#[test]
fn a_slow_answer_extends_from_when_it_was_asked_for() {
    let mut stage = Stage::<Core>::leading();
    stage.pass(MS(100)).unwrap();
    let (sent, _) = stage.take(renews).unwrap();
    stage.pass(MS(300)).unwrap();
    let answer = Input::RenewAnswered {
        epoch: epoch(7),
        sent,
        result: Ok(RenewOutcome::Renewed),
    };
    stage.hear(answer).unwrap();
    // Less one part in a thousand, and the margin for timers that are late.
    let end = sent + LEASE - MS(1) - MS(5);
    assert_eq!(stage.election.view().lease_end, Some(end));
    assert_eq!(stage.gate, Some((epoch(7), end)));
}

/// Fault 5 of the predecessor: a process that was paused past its lease finds the answer to a
/// renewal before any timer has fired. The reign is over all the same.
#[test]
fn an_answer_found_after_a_pause_does_not_continue_the_reign() {
    let mut stage = Stage::<Core>::leading();
    stage.pass(MS(500)).unwrap();
    let sent = stage.now;
    stage.now = stage.election.view().lease_end.unwrap() + MS(10);
    let answer = Input::RenewAnswered {
        epoch: epoch(7),
        sent,
        result: Ok(RenewOutcome::Renewed),
    };
    stage.hear(answer).unwrap();
    assert_eq!((stage.election.view().epoch, stage.gate), (None, None));
    stage.play(2 * LEASE).unwrap();
    assert!(stage.election.view().epoch > Some(epoch(7)));
}

/// Case E23.
#[test]
fn renewals_that_fail_now_and_then_change_nothing_and_are_counted() {
    let mut stage = Stage::<Core>::leading();
    let mut errors = 0;
    for fails in [true, false, true, true, false, true, true, true, false].repeat(20) {
        while !stage.pending.iter().any(|(_, command)| renews(command)) {
            stage.pass(MS(10)).unwrap();
        }
        if fails {
            errors += 1;
            let (sent, _) = stage.take(renews).unwrap();
            let result = Err(down());
            let epoch = epoch(7);
            let failed = Input::RenewAnswered {
                epoch,
                sent,
                result,
            };
            stage.hear(failed).unwrap();
        } else {
            stage.answer(renews).unwrap();
        }
    }
    assert_eq!(stage.gate.unwrap().0, epoch(7));
    let totals = stage.election.view().totals;
    assert_eq!((totals.renew_errors, totals.lost), (errors, 0));
}

/// Case E35: the backend accepts renewals of a lock that another has long got. The store says so,
/// and is believed at once.
#[test]
fn a_backend_that_accepts_every_renewal_is_overruled_by_the_store() {
    let mut stage = Stage::<Core>::leading();
    for _ in 0..30 {
        stage.play(MS(100)).unwrap();
    }
    stage.log.clear();
    let refused = Input::StoreRefused {
        epoch: epoch(7),
        by: epoch(9),
    };
    stage.hear(refused).unwrap();
    assert_eq!(stage.log[0], Command::ShutGate { epoch: epoch(7) });
    assert!(stage.gate.is_none());
    stage.play(LEASE).unwrap();
    let floor = |c: &Command| matches!(c, Command::TryLock { floor, .. } if *floor >= epoch(9));
    assert!(
        stage.log.iter().any(floor),
        "the next epoch is above the fence"
    );
}

/// Case E57: a renewal that failed shortly before the end of the lease is tried again before it.
#[test]
fn a_backend_that_is_back_in_the_last_moment_keeps_the_leader() {
    for left in [90, 50, 25] {
        let mut stage = Stage::<Core>::leading();
        let end = stage.election.view().lease_end.unwrap();
        while stage.now < end - MS(left) {
            stage.pass(MS(5)).unwrap();
            while let Some((sent, _)) = stage.take(renews) {
                let failed = Input::RenewAnswered {
                    epoch: epoch(7),
                    sent,
                    result: Err(down()),
                };
                stage.hear(failed).unwrap();
            }
        }
        stage.play(2 * LEASE).unwrap();
        assert_eq!(stage.gate.unwrap().0, epoch(7), "{left} ms left");
    }
}

/// Case E57: however renewals have failed, the next one is due within a loop interval, so a backend
/// that is back that long before the end keeps the leader.
#[test]
fn a_backend_that_is_back_before_the_end_of_the_lease_keeps_the_leader() {
    let mut random = fastrand::Rng::with_seed(57);
    for _ in 0..300 {
        let mut stage = Stage::<Core>::leading();
        // Cut off for nearly a lease, then back.
        let end = stage.election.view().lease_end.unwrap();
        let back = end - MS(random.u64(110..600));
        while stage.now < back {
            stage.pass(MS(5)).unwrap();
            if let Some((sent, _)) = stage.take(renews) {
                let failed = Input::RenewAnswered {
                    epoch: epoch(7),
                    sent,
                    result: Err(down()),
                };
                stage.hear(failed).unwrap();
            }
        }
        stage.play(2 * LEASE).unwrap();
        assert_eq!(
            stage.gate.unwrap().0,
            epoch(7),
            "{:?} left",
            back.until(end)
        );
    }
}

/// Case E61: a lease that ended while nobody else wanted it is not continued, but followed by one
/// of a higher epoch.
#[tokio::test(start_paused = true)]
async fn a_lone_node_whose_lease_ended_leads_in_a_new_epoch() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let before = a.epoch().unwrap();
    a.link.set(Way::LosesAnswers);
    sleep(MS(1100)).await;
    assert!(!a.serves());
    a.link.set(Way::Fine);
    a.reaches(Role::Leader).await;
    assert!(a.epoch().unwrap() > before);
    assert_eq!(
        a.log.lines(),
        ["promote", "demote: the lease expired", "promote"]
    );
}

/// Fault 6 of the predecessor: end and epoch of a lease are changed by one loop, and whoever else
/// sees the end says so to it. What the gate reads of both is searched in `tests/interleavings`.
#[test]
fn the_lease_check_and_the_loop_agree_on_which_reign_ended() {
    let mut stage = Stage::<Core>::leading();
    let shut = |value| Input::GateShut {
        epoch: epoch(value),
    };
    stage.hear(shut(6)).unwrap();
    assert_eq!(stage.election.view().role, Role::Leader);
    stage.hear(shut(7)).unwrap();
    assert_eq!(stage.election.view().epoch, None);
    assert!(stage.gate.is_none());
    assert!(
        matches!(stage.record, Record::Mine { .. }),
        "nothing is unlocked"
    );
}

/// A backend that was away is used within a lease and 200 ms, without a restart (case E6 on one
/// node).
#[tokio::test(start_paused = true)]
async fn a_backend_that_comes_back_is_used_at_once() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.link.set(Way::Fails);
    for way in [Way::Fails, Way::Hangs, Way::Refuses].repeat(5) {
        a.link.set(way);
        sleep(3 * LEASE).await;
        assert_ne!(a.role(), Role::Leader, "{way:?}");
        let tries = a.link.tries.load(SeqCst);
        a.link.set(Way::Fine);
        let back = cluster.clock.now();
        a.reaches(Role::Leader).await;
        assert!(cluster.clock.now().since(back) < LEASE + MS(200), "{way:?}");
        assert!(a.link.tries.load(SeqCst) > tries);
    }
}
