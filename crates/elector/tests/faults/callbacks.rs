//! Callbacks that are slow, fail, panic or hang.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use elector::Role;
use kvcm_clock::Clock as _;
use tokio::time::sleep;

use crate::{
    nodes::{Cluster, Recovery, Way, settings},
    stage::{LEASE, MS},
};

/// Fault 4 of the predecessor, case E5.
#[tokio::test(start_paused = true)]
async fn whoever_cannot_recover_makes_way_for_another_and_says_why() {
    for (recovery, why) in [
        (Recovery::Fails, "a bad entry"),
        (Recovery::Panics, "the callback panicked"),
        (Recovery::Hangs, "no progress"),
    ] {
        let cluster = Cluster::new();
        let mut hasty = settings();
        hasty.promote_stall = 3 * LEASE;
        let a = cluster.node_with("a", hasty, recovery);
        let began = cluster.clock.now();
        let b = cluster.node("b");
        b.reaches(Role::Leader).await;
        assert!(cluster.clock.now().since(began) < 4 * LEASE + MS(200));
        let reason = format!("demote: the promotion failed: {why}");
        assert_eq!(a.log.lines().last(), Some(&reason));
        assert!(!a.serves());
    }
}

/// Case E5: a node that alone exists and cannot recover does not try faster than its cool-down.
#[tokio::test(start_paused = true)]
async fn failed_recoveries_keep_the_cool_down() {
    let cluster = Cluster::new();
    let a = cluster.node_with("a", settings(), Recovery::Fails);
    sleep(20 * LEASE).await;
    let tries = a.log.count("promote");
    assert!((10..=21).contains(&tries), "{tries} tries in 20 cool-downs");
    assert_eq!(a.log.count("demote"), tries);
}

/// Fault 27 of the predecessor, case E19.
#[tokio::test(start_paused = true)]
async fn renewal_goes_on_during_a_recovery_of_five_leases() {
    let cluster = Cluster::new();
    let a = cluster.node_with("a", settings(), Recovery::Takes(5 * LEASE));
    let b = cluster.node("b");
    a.reaches(Role::Promoting).await;
    sleep(5 * LEASE - MS(10)).await;
    assert!(!a.serves(), "it serves before it has recovered");
    let renewals = a.link.renewals.load(SeqCst);
    assert!(renewals >= 5 * 4, "{renewals} renewals in five leases");
    a.reaches(Role::Leader).await;
    assert!(a.serves());
    assert_eq!(b.log.lines(), [""; 0]);
}

/// Fault 27 of the predecessor: the lock is confirmed between the end of the recovery and the
/// opening of the gate.
#[tokio::test(start_paused = true)]
async fn the_gate_stays_shut_when_the_lock_cannot_be_confirmed_after_a_recovery() {
    let cluster = Cluster::new();
    let a = cluster.node_with("a", settings(), Recovery::Takes(MS(450)));
    a.reaches(Role::Promoting).await;
    sleep(MS(420)).await;
    a.link.set(Way::Hangs);
    sleep(MS(400)).await;
    assert_eq!(a.log.lines(), ["promote"]);
    assert_eq!(a.role(), Role::Promoting);
    assert!(!a.serves(), "the lock was not confirmed");
    a.reaches(Role::Follower).await;
    assert_eq!(a.log.lines(), ["promote", "demote: the lease expired"]);
}

/// Fault 19 of the predecessor: nobody is told that a node leads which does not serve.
#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_does_not_claim_to_lead() {
    let cluster = Cluster::new();
    let a = cluster.node_with("a", settings(), Recovery::Takes(LEASE));
    let b = cluster.node("b");
    sleep(LEASE / 2).await;
    assert_eq!(a.role(), Role::Promoting);
    assert_eq!(a.elector.gate().open_epoch(), None);
    let seen = b.elector.view().leader.clone().unwrap();
    assert!(
        seen.info.contains(r#""phase":"recovering""#),
        "{}",
        seen.info
    );
    a.reaches(Role::Leader).await;
    sleep(MS(200)).await;
    let seen = b.elector.view().leader.clone().unwrap();
    assert!(seen.info.contains(r#""phase":"serving""#), "{}", seen.info);
}

/// Fault 21 of the predecessor: calls that never end hold a step-down up for its bound, no longer.
#[tokio::test(start_paused = true)]
async fn a_step_down_waits_for_hung_calls_no_longer_than_its_bound() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    sleep(MS(50)).await;
    let hung = a.elector.gate().admit().unwrap();
    let began = cluster.clock.now();
    a.elector.demote(None).await;
    let took = cluster.clock.now().since(began);
    assert!((MS(500)..MS(700)).contains(&took), "{took:?}");
    assert!(hung.confirm().is_err());
    b.reaches(Role::Leader).await;
    // When the call has ended the node can lead as before, and drain.
    drop(hung);
    b.kill();
    a.reaches(Role::Leader).await;
    let began = cluster.clock.now();
    a.elector.demote(None).await;
    assert!(cluster.clock.now().since(began) < Duration::from_millis(5));
}
