//! Callbacks that never return: each is bounded, or harms its own node only.

use super::*;

fn hangs(node: &Node, name: &'static str) {
    *node.log.hangs.lock().unwrap() = name;
}

#[tokio::test(start_paused = true)]
async fn quiesce_and_flush_that_hang_hold_a_step_down_up_for_its_bound() {
    for name in ["quiesce", "flush"] {
        let cluster = Cluster::new();
        let a = cluster.node("a");
        a.reaches(Role::Leader).await;
        let b = cluster.node("b");
        hangs(&a, name);
        let asked = cluster.clock.now();
        let outcome = a.elector.demote(None).await;
        assert!(matches!(outcome, DemoteOutcome::Done(_)), "{outcome:?}");
        let took = cluster.clock.now().since(asked);
        assert!((MS(500)..MS(700)).contains(&took), "{name}: {took:?}");
        b.reaches(Role::Leader).await;
        a.reaches(Role::Follower).await;
        assert!(a.log.lines().last().unwrap().starts_with("demote: "));
    }
}

#[tokio::test(start_paused = true)]
async fn a_demote_callback_that_hangs_keeps_its_node_out_and_nobody_else() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(50)).await;
    hangs(&a, "demote");
    a.elector.demote(None).await;
    b.reaches(Role::Leader).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((a.role(), b.role()), (Role::Demoting, Role::Leader));
    // It still learns who leads.
    let leader = a.elector.view().leader.clone().unwrap();
    assert_eq!(leader.owner, b.owner);
    b.kill();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        a.log
            .lines()
            .iter()
            .filter(|line| *line == "promote")
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_is_given_up_after_a_lease_and_tried_again() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    hangs(&a, "probe");
    a.log.fail.store(true, SeqCst);
    tokio::time::sleep(MS(10_000)).await;
    let probes = || a.log.lines().iter().filter(|line| *line == "probe").count();
    assert!((3..=6).contains(&probes()), "{:?}", a.log.lines());
    // Meanwhile it learns who leads.
    let b = cluster.node("b");
    b.reaches(Role::Leader).await;
    tokio::time::sleep(MS(2_500)).await;
    assert!(a.elector.view().leader.is_some());
    b.kill();
    a.log.fail.store(false, SeqCst);
    hangs(&a, "");
    a.reaches(Role::Leader).await;
}
