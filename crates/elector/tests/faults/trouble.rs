//! Backends that err, and crowds.

use std::sync::atomic::Ordering::SeqCst;

use coordination_core::{Holder, LEADER_KEY, LockOutcome};
use elector::{CallFailed, Command, Core, Input, Role};
use kvcm_clock::{Clock as _, Moment};
use tokio::time::sleep;

use crate::{
    nodes::{Cluster, Recovery, Way, settings},
    stage::{LEASE, MS, Stage, down, epoch, owner, renews, tries},
};

/// Case E66: no error of a call is a loss, whatever its class: only the backend's own word that the
/// lock is not held is.
#[test]
fn an_error_is_never_a_loss() {
    for fatal in [false, true] {
        let failed = || CallFailed { fatal, ..down() };
        let mut stage = Stage::<Core>::leading();
        let end = stage.election.view().lease_end.unwrap();
        while stage.now + MS(10) < end {
            stage.pass(MS(5)).unwrap();
            if let Some((sent, _)) = stage.take(renews) {
                let epoch = epoch(7);
                let result = Err(failed());
                let answer = Input::RenewAnswered {
                    epoch,
                    sent,
                    result,
                };
                stage.hear(answer).unwrap();
            }
            assert_eq!(stage.election.view().role, Role::Leader);
        }
        stage.lose();
        stage.pass(LEASE).unwrap();
        stage.pending.clear();
        // A candidate goes on trying.
        let mut stage = Stage::<Core>::new();
        for _ in 0..50 {
            stage.pass(MS(100)).unwrap();
            let (sent, call) = stage.take(tries).unwrap();
            assert!(matches!(call, Command::TryLock { .. }));
            let result = Err(failed());
            stage.hear(Input::LockAnswered { sent, result }).unwrap();
        }
        stage.play(LEASE).unwrap();
        assert_eq!(stage.election.view().role, Role::Leader);
    }
}

/// Case E43: a backend that denies what it has just granted, each time, is asked for the lock once
/// in a cool-down, also when no other node is there.
#[test]
fn a_backend_that_grants_and_denies_makes_one_reign_in_a_cool_down() {
    let mut stage = Stage::<Core>::new();
    let began = stage.now;
    while stage.now < began + 10 * LEASE {
        stage.play(MS(10)).unwrap();
        if let Some((epoch, _)) = stage.gate {
            stage.lose();
            stage.renewal_finds_nothing(epoch).unwrap();
        }
    }
    // The cool-down is a lease here.
    assert_eq!(settings().cooldown, LEASE);
    assert!(
        (9..=11).contains(&stage.acquisitions),
        "{} reigns in ten cool-downs",
        stage.acquisitions
    );
}

/// Fault 25 of the predecessor: a follower tries its own time after the lease ends, by its rank.
#[test]
fn the_wait_for_the_end_of_a_lease_is_longer_by_the_rank() {
    let at = Moment::ZERO + LEASE;
    for rank in 0..3 {
        let mut settings = settings();
        settings.stagger = MS(5 * rank);
        let mut core = Core::new(settings, owner("me"), at);
        core.step(at, Input::Tick);
        let result = Ok(LockOutcome::Held(Holder {
            owner: owner("other"),
            epoch: epoch(7),
            info: String::new(),
            remaining: MS(40),
        }));
        let commands = core.step(at, Input::LockAnswered { sent: at, result });
        // A lease's end is told in whole milliseconds.
        let wake = Command::Wake(at + MS(40 + 1 + 5 * rank));
        assert_eq!(commands.last(), Some(&wake));
    }
}

/// Fault 25 of the predecessor: followers whose rank differs try one after the other.
#[tokio::test(start_paused = true)]
async fn followers_do_not_all_try_at_the_end_of_the_lease() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let followers: Vec<_> = (0..3)
        .map(|rank| {
            let mut settings = settings();
            settings.stagger = MS(5 * rank);
            cluster.node_with(
                ["b", "c", "d"][usize::try_from(rank).unwrap()],
                settings,
                Recovery::Takes(MS(0)),
            )
        })
        .collect();
    for _ in 0..3 {
        sleep(3 * LEASE).await;
        assert!(followers.iter().all(|node| node.role() == Role::Follower));
    }
    a.kill();
    followers[0].reaches(Role::Leader).await;
    sleep(2 * LEASE).await;
    assert_eq!(followers[0].role(), Role::Leader);
    assert_eq!(
        followers[1].log.lines().len() + followers[2].log.lines().len(),
        0
    );
}

/// Case E19 and fault 16 of the predecessor, as far as the elector goes: a leader that renews needs
/// one call each loop interval, and no reader of its view needs any.
#[tokio::test(start_paused = true)]
async fn readers_of_the_view_cost_the_backend_nothing() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let before = a.link.renewals.load(SeqCst);
    for _ in 0..10 {
        for _ in 0..1000 {
            assert_eq!(a.elector.view().role, Role::Leader);
        }
        sleep(LEASE / 10).await;
    }
    let renewals = a.link.renewals.load(SeqCst) - before;
    assert!(
        (9..=11).contains(&renewals),
        "{renewals} renewals in a lease"
    );
}

/// Case E42 on drivers: answers are lost and calls fail at random; nobody ever serves beside another,
/// and when the trouble ends there is a leader.
#[tokio::test(start_paused = true)]
async fn trouble_never_makes_two_leaders_and_ends_in_one() {
    let mut random = fastrand::Rng::with_seed(1);
    let ways = [
        Way::Fine,
        Way::Fine,
        Way::Hangs,
        Way::Fails,
        Way::LosesAnswers,
    ];
    for _ in 0..20 {
        let cluster = Cluster::new();
        let nodes = ["a", "b", "c"].map(|name| cluster.node(name));
        for _ in 0..100 {
            for node in &nodes {
                node.link.set(ways[random.usize(..ways.len())]);
            }
            sleep(MS(random.u64(5..150))).await;
            let serving = nodes.iter().filter(|node| node.serves()).count();
            assert!(serving <= 1, "{serving} nodes serve");
        }
        for node in &nodes {
            node.link.set(Way::Fine);
        }
        sleep(LEASE + MS(200)).await;
        let serving = nodes.iter().filter(|node| node.serves()).count();
        assert_eq!(serving, 1);
    }
}

/// Case E38 on one node: a lock that somebody deletes under its leader is noticed at the next hint
/// or renewal, and the leader stops.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_away_stops_its_leader_at_the_next_renewal() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let epoch = a.epoch().unwrap();
    assert!(cluster.store.forget_holder(LEADER_KEY));
    sleep(MS(110)).await;
    assert!(a.epoch() != Some(epoch), "it did not notice");
}

/// Fault 17 of the predecessor: a lock that has lost its time to live gets one from the first
/// contender, and is then waited for like any other.
#[tokio::test(start_paused = true)]
async fn a_lock_without_an_end_gets_one() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    a.kill();
    assert!(cluster.store.remove_ttl(LEADER_KEY));
    let began = cluster.clock.now();
    let b = cluster.node("b");
    b.reaches(Role::Leader).await;
    assert!(cluster.clock.now().since(began) < 2 * LEASE);
}
