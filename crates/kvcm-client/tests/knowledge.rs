//! What a client knows of the cluster, how it learns it, and what it tells.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod common;

use std::time::Duration;

use common::{Data, Fake, connect, dead_address, spec};
use futures_util::StreamExt;
use kvcm_client::{Client, ClusterState, Credentials, Error, ErrorKind};

const MS: Duration = Duration::from_millis(1);

/// The client that does not connect within a short deadline, and its error.
async fn fails_to_connect(endpoints: &[String]) -> (Client, Error) {
    let builder = Client::builder().endpoints(endpoints).deadline(MS * 400);
    let client = builder.clone().lazy().unwrap();
    let error = client.register(spec()).await.unwrap_err();
    let connect = builder.connect().await.unwrap_err();
    assert_eq!(connect.kind(), error.kind(), "{connect}");
    (client, error)
}

#[tokio::test]
async fn an_advertised_address_that_cannot_be_reached_is_named_and_the_followers_are_kept() {
    let gone = dead_address();
    let follower = Fake::follower(Some((5, gone)));
    let (client, error) = fails_to_connect(&[follower.endpoint()]).await;
    assert_eq!(error.kind(), ErrorKind::LeaderUnreachable, "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&format!("advertised address {gone} cannot be reached")),
        "{text}"
    );
    let state = client.cluster_state();
    let leader = gone.to_string();
    assert_eq!(state, ClusterState::FollowersOnly { leader });
    // The follower is asked on, and knows better by now.
    let leader = Fake::leader(6);
    follower.state.lock().says = Some((6, leader.address));
    let client = client.with_deadline(Duration::from_secs(20));
    client.register(spec()).await.unwrap();
}

#[tokio::test]
async fn a_cluster_without_a_leader_and_one_that_does_not_answer_are_told_apart() {
    let follower = Fake::follower(None);
    let (client, error) = fails_to_connect(&[follower.endpoint()]).await;
    assert_eq!(error.kind(), ErrorKind::NoLeader, "{error}");
    assert_eq!(client.cluster_state(), ClusterState::Leaderless);

    let dead = dead_address().to_string();
    let (client, error) = fails_to_connect(&[dead]).await;
    assert_eq!(error.kind(), ErrorKind::Transport, "{error}");
    assert_eq!(client.cluster_state(), ClusterState::Unreachable);
}

#[tokio::test]
async fn one_seed_is_enough_to_survive_the_death_of_the_seed_and_of_the_leader() {
    let mut leader = Fake::leader(5);
    let says = Some((5, leader.address));
    let (mut seed, third) = (Fake::follower(says), Fake::follower(says));
    seed.state.lock().nodes = vec![leader.address, seed.address, third.address];
    let client = connect(&[seed.endpoint()]).await;
    assert_eq!(client.leader().unwrap().epoch, 5);
    leader.kill();
    seed.kill();
    third.lead(6);
    client.register(spec()).await.unwrap();
    assert_eq!(client.leader().unwrap().node.endpoint, third.endpoint());
}

#[tokio::test]
async fn a_push_moves_the_client_without_a_call_and_the_application_hears_of_it() {
    let old = Fake::leader(5);
    let new = Fake::follower(old.state.lock().says);
    new.push(Some((5, old.address)));
    let client = connect(&[old.endpoint(), new.endpoint()]).await;
    let mut changes = client.leader_changes();
    let first = changes.next().await.unwrap();
    assert_eq!((first.epoch, first.node.endpoint), (5, old.endpoint()));
    while client.stats().pushes == 0 {
        tokio::time::sleep(MS).await;
    }
    new.lead(6);
    new.push(Some((6, new.address)));
    let second = changes.next().await.unwrap();
    assert_eq!((second.epoch, second.node.endpoint), (6, new.endpoint()));
    assert_eq!(client.leader().unwrap().epoch, 6);
    assert_eq!(old.data_calls() + new.data_calls(), 0);
}

#[tokio::test]
async fn a_push_ends_the_wait_of_calls_in_a_leaderless_cluster() {
    let old = Fake::leader(5);
    let new = Fake::follower(old.state.lock().says);
    new.push(Some((5, old.address)));
    let client = Client::builder()
        .endpoints([old.endpoint(), new.endpoint()])
        .deadline(Duration::from_secs(60))
        .connect()
        .await
        .unwrap();
    while client.stats().pushes == 0 {
        tokio::time::sleep(MS).await;
    }
    new.push(None);
    new.state.lock().says = None;
    old.refuse(None);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.register(spec()).await }
    });
    while old.data_calls() == 0 {
        tokio::time::sleep(MS).await;
    }
    // Only the push tells: whoever asks hears nothing.
    new.state.lock().data = Data::Lead { epoch: 6 };
    new.push(Some((6, new.address)));
    call.await.unwrap().unwrap();
    assert_eq!(client.leader().unwrap().epoch, 6);
    assert_eq!(old.data_calls(), 1, "a refusal is believed once");
}

#[tokio::test]
async fn the_connection_to_a_leader_that_refuses_is_closed() {
    let old = Fake::leader(5);
    let new = Fake::leader(6);
    let client = connect(&[old.endpoint()]).await;
    old.refuse(Some((6, new.address)));
    let instance = client.register(spec()).await.unwrap();
    let stats = client.stats();
    assert_eq!((stats.evictions, stats.redirects), (1, 1), "{stats:?}");
    let found = instance.locate(&[1]).await.unwrap();
    assert!(found.meta().history.is_empty());
}

#[tokio::test]
async fn a_success_tells_what_failed_before() {
    let old = Fake::leader(5);
    let new = Fake::leader(6);
    let client = connect(&[old.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    new.state.lock().instances.insert(instance.id().to_owned());
    old.refuse(Some((6, new.address)));
    let found = instance.locate(&[1]).await.unwrap();
    let [refused] = &*found.meta().history else {
        panic!("{:?}", found.meta());
    };
    assert_eq!(refused.node.as_deref(), Some(old.endpoint().as_str()));
    assert_eq!((refused.epoch, refused.code), (5, Some(9)));
    let text = client.stats().to_prometheus();
    assert!(text.contains("\nkvcm_client_redirects_total 1\n"), "{text}");
}

#[tokio::test]
async fn a_closed_client_ends_its_calls_and_its_streams() {
    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    let mut changes = client.leader_changes();
    assert!(changes.next().await.is_some());
    node.state.lock().data = Data::Silent;
    let calls = node.data_calls();
    let call = tokio::spawn(async move { instance.locate(&[1]).await });
    while node.data_calls() == calls {
        tokio::time::sleep(MS).await;
    }
    assert!(
        !client.with_deadline(MS * 50).close().await,
        "a call is under way"
    );
    assert!(changes.next().await.is_none());
    let error = client.register(spec()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(call.await.unwrap().is_err());

    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    client.register(spec()).await.unwrap();
    assert!(client.close().await, "nothing is under way");
    assert_eq!(client.stats().connections, 0);
}

#[tokio::test]
async fn calls_over_the_limit_wait_and_then_say_so() {
    let node = Fake::leader(1);
    let client = Client::builder()
        .endpoints([node.endpoint()])
        .in_flight_max(1)
        .connect()
        .await
        .unwrap();
    let instance = client.register(spec()).await.unwrap();
    node.state.lock().data = Data::Silent;
    let calls = node.data_calls();
    let first = tokio::spawn({
        let instance = instance.clone();
        async move { instance.locate(&[1]).await }
    });
    while node.data_calls() == calls {
        tokio::time::sleep(MS).await;
    }
    assert_eq!(client.stats().in_flight, 1);
    let second = instance.with_deadline(MS * 50).locate(&[1]).await;
    let error = second.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Capacity);
    assert!(
        error.to_string().contains("1 calls were under way"),
        "{error}"
    );
    first.abort();
}

#[tokio::test]
async fn credentials_go_with_every_call() {
    let node = Fake::leader(1);
    let client = Client::builder()
        .endpoints([node.endpoint()])
        .credentials(Credentials::basic("ann", "secret").unwrap())
        .connect()
        .await
        .unwrap();
    let shown = format!("{client:?}");
    assert!(
        !shown.contains("secret") && !shown.contains("YW5u"),
        "{shown}"
    );
    client.register(spec()).await.unwrap();
    let seen = node.state.lock().authorizations.clone();
    assert_eq!(seen, ["Basic YW5uOnNlY3JldA=="]);
}
