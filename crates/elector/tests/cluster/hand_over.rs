//! Transfers, pauses and readiness, through the handle.

use elector::{AbortReason, PauseRefused, Peer, Standby, TransferOutcome, TransferRefused, Unfit};

use super::*;

impl Node {
    fn peer(&self) -> Peer {
        Peer {
            owner: self.owner.clone(),
            alive: true,
            ready: true,
            eligible: true,
            priority: 0,
        }
    }

    fn epoch(&self) -> Epoch {
        self.elector.view().epoch.unwrap()
    }
}

/// As each heartbeat does.
fn introduce(nodes: &[&Node]) {
    let peers: Vec<_> = nodes.iter().map(|node| node.peer()).collect();
    for node in nodes {
        node.elector.set_peers(peers.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn a_transfer_goes_to_the_named_node_although_others_want_it_too() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let (b, c, d) = (cluster.node("b"), cluster.node("c"), cluster.node("d"));
    tokio::time::sleep(MS(50)).await;
    introduce(&[&a, &b, &c, &d]);
    let epoch = a.epoch();
    let name = d.owner.node.clone();
    let asked = cluster.clock.now();
    let outcome = a.elector.transfer(name.clone(), Some(epoch)).await;
    let Ok(TransferOutcome::Transferred { epoch: next }) = outcome else {
        panic!("{outcome:?}");
    };
    // The answer is as late as the next look of the former leader.
    assert!(cluster.clock.now().since(asked) <= MS(110));
    d.reaches(Role::Leader).await;
    assert_eq!(d.epoch(), next);
    assert_eq!(next, epoch.next().unwrap(), "nobody led in between");
    assert_eq!(
        a.log.lines().last().unwrap(),
        "demote: the lock was handed over to d"
    );
    let refused = a.elector.transfer(name, None).await;
    assert_eq!(refused, Err(TransferRefused::NotLeader));
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_has_died_unnoticed_costs_the_reservation_and_no_more() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let (b, c) = (cluster.node("b"), cluster.node("c"));
    tokio::time::sleep(MS(50)).await;
    introduce(&[&a, &b, &c]);
    c.kill();
    let asked = cluster.clock.now();
    let outcome = a.elector.transfer(c.owner.node.clone(), None).await;
    let by = Some(b.owner.clone());
    assert_eq!(outcome, Ok(TransferOutcome::NotTaken { by }));
    b.reaches(Role::Leader).await;
    let took = cluster.clock.now().since(asked);
    assert!((MS(210)..=MS(330)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_is_cancelled_leaves_the_leader_as_it_was() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(50)).await;
    introduce(&[&a, &b]);
    let epoch = a.epoch();
    let admission = a.elector.gate().admit().unwrap();
    let asked = {
        let (elector, to) = (a.elector.clone(), b.owner.node.clone());
        tokio::spawn(async move { elector.transfer(to, None).await })
    };
    a.reaches(Role::Demoting).await;
    assert!(a.elector.gate().admit().is_err());
    a.elector.cancel_transfer().await;
    let aborted = TransferOutcome::Aborted(AbortReason::Cancelled);
    assert_eq!(asked.await.unwrap(), Ok(aborted));
    assert_eq!(a.elector.gate().admit().unwrap().epoch(), epoch);
    admission.confirm().unwrap();
    drop(admission);
    tokio::time::sleep(MS(2000)).await;
    assert_eq!((a.role(), a.epoch()), (Role::Leader, epoch));
    assert_eq!(a.log.lines(), ["promote", "quiesce", "resume"]);
    assert_eq!(b.log.lines(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_outlast_the_drain_abort_a_transfer() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    introduce(&[&a, &b]);
    let admission = a.elector.gate().admit().unwrap();
    let outcome = a.elector.transfer(b.owner.node.clone(), None).await;
    let aborted = TransferOutcome::Aborted(AbortReason::InFlight(1));
    assert_eq!(outcome, Ok(aborted));
    admission.confirm().unwrap();
    // A step-down does not ask.
    let epoch = a.epoch();
    assert_eq!(a.elector.demote(None).await, DemoteOutcome::Done(epoch));
    assert!(admission.confirm().is_err());
    b.reaches(Role::Leader).await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_in_the_middle_of_a_drain_is_followed_by_the_demote_callback() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    introduce(&[&a, &b]);
    let epoch = a.epoch();
    let admission = a.elector.gate().admit().unwrap();
    let asked = {
        let (elector, to) = (a.elector.clone(), b.owner.node.clone());
        tokio::spawn(async move { elector.transfer(to, None).await })
    };
    a.reaches(Role::Demoting).await;
    a.elector.store_refused(epoch, epoch.next().unwrap());
    let ended = TransferOutcome::Ended(LossReason::Fenced);
    assert_eq!(asked.await.unwrap(), Ok(ended));
    assert!(admission.confirm().is_err());
    b.reaches(Role::Leader).await;
    a.reaches(Role::Follower).await;
    assert!(a.log.lines().last().unwrap().starts_with("demote: "));
}

#[tokio::test(start_paused = true)]
async fn a_paused_node_stays_out_until_it_is_resumed() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(50)).await;
    let leads = Err(PauseRefused::Leads(a.epoch()));
    assert_eq!(a.elector.pause().await, leads);
    b.elector.pause().await.unwrap();
    a.kill();
    tokio::time::sleep(MS(5000)).await;
    assert_eq!(b.role(), Role::Follower);
    assert_eq!(b.elector.view().standby, Some(Standby::Paused));
    b.elector.resume().await;
    b.reaches(Role::Leader).await;
    let epoch = b.epoch();
    let outcome = b.elector.demote_and_pause(None).await;
    assert_eq!(outcome, DemoteOutcome::Done(epoch));
    let c = cluster.node("c");
    c.reaches(Role::Leader).await;
    tokio::time::sleep(MS(200)).await;
    let view = b.elector.view().clone();
    assert_eq!(view.leader.unwrap().owner, c.owner, "it still learns");
    assert!(view.paused);
}

#[tokio::test(start_paused = true)]
async fn a_ready_node_is_given_the_first_chance() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let (b, c) = (cluster.node("b"), cluster.node("c"));
    tokio::time::sleep(MS(50)).await;
    introduce(&[&a, &b, &c]);
    b.elector.set_ready(false);
    assert!(matches!(
        a.elector.demote(None).await,
        DemoteOutcome::Done(_)
    ));
    c.reaches(Role::Leader).await;
    assert_eq!(b.log.lines(), [""; 0]);
    // Alone it leads all the same, once its stores answer; the others are thought to live.
    a.kill();
    c.kill();
    b.reaches(Role::Leader).await;
    assert_eq!(b.log.lines(), ["probe", "promote"]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_stores_fail_hands_over_to_one_that_is_ready() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(50)).await;
    introduce(&[&a, &b]);
    a.elector.set_stores_ok(false);
    let failed = cluster.clock.now();
    b.reaches(Role::Leader).await;
    let took = cluster.clock.now().since(failed);
    assert!((MS(1000)..=MS(1110)).contains(&took), "{took:?}");
    let told = a.elector.history();
    assert_eq!(
        told.iter()
            .rev()
            .find(|record| record.change.owner == a.owner)
            .unwrap()
            .change
            .turn
            .to_string(),
        "lost: stores"
    );
}

#[tokio::test(start_paused = true)]
async fn a_transfer_to_nobody_is_refused() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let to = "nobody".parse().unwrap();
    let unknown = Err(TransferRefused::Successor(Unfit::PeersUnknown));
    assert_eq!(a.elector.transfer(to, None).await, unknown);
    assert!(a.elector.gate().admit().is_ok());
}
