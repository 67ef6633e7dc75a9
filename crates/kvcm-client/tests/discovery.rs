//! Finding the leader from any list of addresses.

mod common;

use std::time::Duration;

use common::{Data, Fake, connect, dead_address, silent_listener, spec};
use kvcm_client::{Client, Demotion, ErrorKind};

#[tokio::test]
async fn a_follower_leads_the_client_to_the_leader() {
    let leader = Fake::leader(7);
    let follower = Fake::follower(leader.state.lock().says);
    let client = connect(&[follower.endpoint()]).await;
    let known = client.leader().unwrap();
    assert_eq!(known.node.endpoint, leader.endpoint());
    assert_eq!(known.epoch, 7);
    let instance = client.register(spec()).await.unwrap();
    let found = instance.locate(&[1]).await.unwrap();
    assert_eq!(found.meta().epoch, Some(7));
    assert_eq!(found.meta().cluster_id.as_deref(), Some("c"));
    assert_eq!(found.meta().attempts, 1);
    assert_eq!(follower.data_calls(), 0, "no call goes to a follower");
}

#[tokio::test]
async fn the_leader_is_found_whatever_the_order_of_bad_and_good_addresses() {
    let leader = Fake::leader(3);
    let follower = Fake::follower(leader.state.lock().says);
    let (_silent, silent) = silent_listener();
    let four = [dead_address(), silent, follower.address, leader.address];
    let mut orders = 0;
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                let d = 6 - a - b - c;
                let order = [a, b, c, d].map(|index| four[index].to_string());
                // Neither a refused nor a silent address may cost a whole time-out.
                let client = Client::builder()
                    .endpoints(order.clone())
                    .deadline(Duration::from_secs(2))
                    .connect()
                    .await
                    .unwrap_or_else(|error| panic!("{order:?}: {error}"));
                let instance = client.register(spec()).await.unwrap();
                assert_eq!(
                    *instance
                        .locate_len(&[1], &Default::default())
                        .await
                        .unwrap(),
                    0
                );
                orders += 1;
            }
        }
    }
    assert_eq!(orders, 24);
    assert_eq!(follower.data_calls(), 0);
}

#[tokio::test]
async fn without_a_leader_connect_says_what_each_node_said() {
    let follower = Fake::follower(None);
    let dead = dead_address().to_string();
    let error = Client::builder()
        .endpoints([dead.clone(), follower.endpoint()])
        .deadline(Duration::from_millis(300))
        .connect()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoLeader);
    let text = error.to_string();
    assert!(
        text.contains(&format!("{} knows no leader", follower.endpoint())),
        "{text}"
    );
    assert!(text.contains(&dead) && text.contains("refused"), "{text}");
}

#[tokio::test]
async fn a_lazy_client_finds_the_leader_with_its_first_call() {
    let leader = Fake::leader(1);
    let client = Client::builder()
        .endpoints([leader.endpoint()])
        .lazy()
        .unwrap();
    assert_eq!(client.leader(), None);
    client.register(spec()).await.unwrap();
    assert_eq!(client.leader().unwrap().node.endpoint, leader.endpoint());
}

#[tokio::test]
async fn cluster_info_is_the_word_of_the_node_that_knows_best() {
    let leader = Fake::leader(4);
    let follower = Fake::follower(leader.state.lock().says);
    let client = connect(&[follower.endpoint()]).await;
    let info = client.cluster_info().await.unwrap();
    assert_eq!(info.leader_epoch, Some(4));
    assert_eq!(info.leader.unwrap().endpoint, leader.endpoint());
    let info = client.cluster_info_of(&follower.endpoint()).await.unwrap();
    assert_eq!(info.answered_by, follower.endpoint());
    let error = client.cluster_info_of("nonsense").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn many_calls_in_a_leaderless_cluster_share_their_searches() {
    let follower = Fake::follower(None);
    let leader_to_be = Fake::follower(None);
    let endpoints = [follower.endpoint(), leader_to_be.endpoint()];
    let client = Client::builder()
        .endpoints(endpoints)
        .deadline(Duration::from_secs(60))
        .lazy()
        .unwrap();
    let calls: Vec<_> = (0..500)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.register(spec()).await })
        })
        .collect();
    // Enough searches in vain that the calls are all waiting.
    while follower.info_calls() < 4 {
        tokio::task::yield_now().await;
    }
    leader_to_be.lead(9);
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let asked = follower.info_calls() as u64;
    let stats = client.stats();
    // And a warm-up may have asked as well.
    assert!(asked <= stats.discoveries + 2, "a search asks a node once");
    assert!(asked < 250, "{asked} searches for 500 calls");
    assert_eq!(stats.errors, 0);
}

#[tokio::test]
async fn demotion_goes_once_to_the_leaders_admin_port_and_is_never_redirected() {
    let leader = Fake::leader(5);
    let follower = Fake::follower(leader.state.lock().says);
    let client = connect(&[follower.endpoint(), leader.endpoint()]).await;
    client.cluster_info_of(&leader.endpoint()).await.unwrap();
    // The leader itself tells its admin port.
    let client = connect(&[leader.endpoint()]).await;
    assert!(
        client
            .admin(&leader.admin_address.to_string())
            .unwrap()
            .check_health()
            .await
            .unwrap()
            .is_leader
    );
    let error = client.demote_leader(Some(4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotLeader);
    let demoted = client.demote_leader(None).await.unwrap();
    assert_eq!(demoted.epoch, 5);
    assert_eq!(leader.state.lock().demotions, [Some(4), Some(5)]);
    let admin = client.admin(&leader.admin_address.to_string()).unwrap();
    assert_eq!(
        admin
            .demote(&Demotion::default().expecting(5))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotLeader
    );
    assert!(follower.state.lock().demotions.is_empty());
    assert!(matches!(leader.state.lock().data, Data::Refuse { .. }));
}
