//! Following the leader: moves, deaths, silence, nodes that are wrong.

mod common;

use std::{collections::HashSet, sync::Arc, time::Duration};

use common::{Data, Fake, connect, spec};
use kvcm_client::{Client, ErrorKind, Outcome, Query};
use kvcm_proto::meta::ErrorCode;

const MS: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_hint_of_a_newer_epoch_is_followed_at_once() {
    let old = Fake::leader(5);
    let new = Fake::leader(6);
    let client = connect(&[old.endpoint()]).await;
    old.refuse(Some((6, new.address)));
    let instance = client.register(spec()).await.unwrap();
    assert_eq!(client.leader().unwrap().node.endpoint, new.endpoint());
    let found = instance.locate(&[1]).await.unwrap();
    assert_eq!(found.meta().epoch, Some(6));
    let stats = client.stats();
    assert_eq!((stats.redirects, stats.retries), (1, 0));
    assert_eq!(
        old.info_calls(),
        1,
        "only the first search: the hint spares another"
    );
}

#[tokio::test]
async fn two_nodes_that_name_each_other_at_one_epoch_make_no_hot_loop() {
    for later_epoch in [5, 4] {
        let one = Fake::leader(5);
        let two = Fake::follower(None);
        let client = connect(&[one.endpoint(), two.endpoint()]).await;
        one.refuse(Some((5, two.address)));
        two.refuse(Some((later_epoch, one.address)));
        let error = client
            .with_deadline(MS * 600)
            .register(spec())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoLeader, "{error}");
        let text = error.to_string();
        assert!(text.contains("SERVER_NOT_LEADER"), "{text}");
        assert!(text.contains("epoch 5"), "{text}");
        assert_eq!(client.stats().redirects, 0);
        // Each is believed once.
        let calls = one.data_calls() + two.data_calls();
        assert!((1..=2).contains(&calls), "{calls} calls in 600 ms");
    }
}

#[tokio::test]
async fn calls_in_flight_when_the_leader_dies_all_succeed_on_the_new_one() {
    const CALLS: usize = 300;
    let mut old = Fake::leader(5);
    let new = Fake::follower(old.state.lock().says);
    let client = connect(&[old.endpoint(), new.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    // Hundreds of calls at once take a slow machine long.
    let instance = instance.with_deadline(Duration::from_secs(60));
    new.state.lock().instances.insert(instance.id().to_owned());
    old.state.lock().data = Data::Silent;
    let burst: Vec<_> = (0..CALLS)
        .map(|key| {
            let instance = instance.clone();
            tokio::spawn(async move { instance.remove(&[key as i64]).await })
        })
        .collect();
    while old.data_calls() <= CALLS / 2 {
        tokio::task::yield_now().await;
    }
    old.kill();
    new.lead(6);
    for call in burst {
        let reply = call.await.unwrap().unwrap();
        assert_eq!(reply.meta().epoch, Some(6));
    }
    // Each call kept its request id.
    let ids: HashSet<_> = new.state.lock().request_ids.iter().cloned().collect();
    assert_eq!(ids.len(), CALLS);
    let sent_to_old = old.state.lock().request_ids.clone();
    let retried = sent_to_old.iter().filter(|id| ids.contains(*id)).count();
    assert!(retried >= CALLS / 2, "{retried}");
    assert_eq!(client.stats().errors, 0);

    // And no call comes back to the dead address.
    let revenant = Fake::start_at(&old.endpoint(), Data::Lead { epoch: 5 }, None);
    for _ in 0..50 {
        instance.locate(&[1]).await.unwrap();
    }
    assert_eq!(revenant.data_calls(), 0);
}

#[tokio::test]
async fn a_silent_leader_is_left_as_soon_as_a_newer_one_is_known() {
    let old = Fake::leader(5);
    let new = Fake::follower(old.state.lock().says);
    let client = Client::builder()
        .endpoints([old.endpoint(), new.endpoint()])
        .deadline(Duration::from_secs(60))
        // So long that only the newer leader can end the try.
        .attempt_timeout(Duration::from_secs(60))
        .connect()
        .await
        .unwrap();
    let instance = client.register(spec()).await.unwrap();
    new.state.lock().instances.insert(instance.id().to_owned());
    old.state.lock().data = Data::Silent;
    let asked = new.info_calls();
    let call = tokio::spawn(async move { instance.locate(&[1]).await });
    while new.info_calls() == asked {
        tokio::time::sleep(MS).await;
    }
    new.lead(6);
    let found = tokio::time::timeout(Duration::from_secs(20), call).await;
    let found = found.unwrap().unwrap().unwrap();
    assert_eq!(found.meta().epoch, Some(6));
    assert_eq!(
        old.data_calls(),
        2,
        "register, and one try that was abandoned"
    );
}

#[tokio::test]
async fn a_reply_of_an_older_epoch_is_discarded_and_the_call_repeated() {
    let node = Fake::leader(6);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    {
        let mut state = node.state.lock();
        state.data = Data::Lead { epoch: 5 };
        state.then = Some((2, Data::Lead { epoch: 6 }, Some((6, node.address))));
    }
    let found = instance.locate(&[1]).await.unwrap();
    assert_eq!(found.meta().epoch, Some(6));
    assert_eq!(found.meta().attempts, 3);
    assert_eq!(client.stats().stale_replies, 2);
    let min_epochs = node.state.lock().min_epochs.clone();
    assert_eq!(min_epochs.last().unwrap().as_deref(), Some("6"));
}

#[tokio::test]
async fn a_node_of_the_past_cannot_win_the_client_back() {
    let old = Fake::leader(5);
    let mut new = Fake::leader(6);
    let client = connect(&[old.endpoint()]).await;
    old.refuse(Some((6, new.address)));
    let instance = client.register(spec()).await.unwrap();
    old.lead(5);
    new.kill();
    let error = instance
        .with_deadline(MS * 400)
        .locate(&[1])
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::NoLeader | ErrorKind::Transport),
        "{error}"
    );
    assert_eq!(old.data_calls(), 1, "the refusal; no call after that");
    old.lead(7);
    old.state.lock().instances.insert(instance.id().to_owned());
    let found = instance.locate(&[1]).await.unwrap();
    assert_eq!(found.meta().epoch, Some(7));
}

#[tokio::test]
async fn refusals_without_a_hint_are_ridden_out_until_a_leader_appears() {
    let node = Fake::leader(5);
    let client = connect(&[node.endpoint()]).await;
    let says = Some((6, node.address));
    {
        let mut state = node.state.lock();
        state.data = Data::Refuse { hint: None };
        state.then = Some((4, Data::Lead { epoch: 6 }, says));
    }
    let instance = client.register(spec()).await.unwrap();
    assert_eq!(
        node.data_calls(),
        5,
        "its own word that it leads is worth another try each time"
    );
    assert_eq!(instance.locate(&[1]).await.unwrap().meta().epoch, Some(6));
    let ids = node.state.lock().request_ids.clone();
    assert_eq!(ids.len(), 5);
    assert!(
        ids.iter().all(|id| *id == ids[0]),
        "one id for all tries: {ids:?}"
    );
}

#[tokio::test]
async fn a_leader_that_is_only_busy_is_doubted_after_two_tries() {
    let wedged = Fake::leader(5);
    let new = Fake::leader(6);
    let client = connect(&[wedged.endpoint(), new.endpoint()]).await;
    wedged.state.lock().data = Data::Code(ErrorCode::ServiceNotReady, "workers are busy");
    client.register(spec()).await.unwrap();
    assert_eq!(client.leader().unwrap().epoch, 6);
    // Two, unless the machine is so slow that the first search missed the new leader's answer.
    assert!(wedged.data_calls() < 5, "{}", wedged.data_calls());
    assert_eq!(client.stats().errors, 0);
}

#[tokio::test]
async fn a_busy_leader_is_given_up_after_five_tries() {
    let node = Fake::leader(5);
    let client = connect(&[node.endpoint()]).await;
    node.state.lock().data = Data::Code(ErrorCode::IoError, "disk");
    let error = client.register(spec()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Server(ErrorCode::IoError.into()));
    assert_eq!((node.data_calls(), error.attempts().len()), (5, 5));
    assert!(error.to_string().contains("disk"), "{error}");
    assert_eq!(
        error.outcome(),
        Outcome::Unknown,
        "the lease may have ended between doing and answering"
    );
}

#[tokio::test]
async fn definite_answers_are_returned_at_once_with_their_kind() {
    let node = Fake::leader(5);
    let client = connect(&[node.endpoint()]).await;
    for (code, kind) in [
        (ErrorCode::InvalidArgument, ErrorKind::InvalidArgument),
        (ErrorCode::DuplicateEntity, ErrorKind::Duplicate),
        (ErrorCode::ReachMaxEntityCapacity, ErrorKind::Capacity),
        (ErrorCode::Unsupported, ErrorKind::Unsupported),
        (ErrorCode::InternalError, ErrorKind::Server(3)),
    ] {
        let before = node.data_calls();
        node.state.lock().data = Data::Code(code, "block_size is 0");
        let error = client.register(spec()).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(error.outcome(), Outcome::NotDone);
        assert!(error.message().contains("block_size is 0"));
        assert_eq!(error.call(), "RegisterInstance");
        assert_eq!(node.data_calls(), before + 1);
    }
}

#[tokio::test]
async fn a_deadline_error_tells_every_attempt_and_that_the_outcome_is_unknown() {
    let silent = Fake::leader(5);
    let client = Client::builder()
        .endpoints([silent.endpoint()])
        .attempt_timeout(MS * 50)
        .connect()
        .await
        .unwrap();
    let instance = client.register(spec()).await.unwrap();
    silent.state.lock().data = Data::Silent;
    let error = instance
        .with_deadline(MS * 400)
        .remove(&[1])
        .await
        .unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::DeadlineExceeded | ErrorKind::NoLeader
        ),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::Unknown);
    let first = &error.attempts()[0];
    assert_eq!(first.node.as_deref(), Some(silent.endpoint().as_str()));
    assert_eq!(first.epoch, 5);
    assert!(first.elapsed >= MS * 50 && first.result.contains("no answer within"));
    assert!(error.attempts_total() >= 2, "{error}");
    assert_eq!(client.stats().errors, 1);
}

#[tokio::test]
async fn a_move_under_a_thousand_calls_needs_few_searches_and_one_registration() {
    let old = Fake::leader(5);
    let new = Fake::follower(old.state.lock().says);
    let client = connect(&[old.endpoint(), new.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    // A thousand calls at once take a slow machine long.
    let instance = Arc::new(instance.with_deadline(Duration::from_secs(60)));
    let searches = client.stats().discoveries;
    old.refuse(None);
    let calls: Vec<_> = (0..1000)
        .map(|key| {
            let instance = Arc::clone(&instance);
            tokio::spawn(async move { instance.locate_len(&[key], &Query::prefix()).await })
        })
        .collect();
    while old.data_calls() < 100 {
        tokio::task::yield_now().await;
    }
    // Lost its memory as well: everybody finds the instance missing at once.
    new.lead(6);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().meta().epoch, Some(6));
    }
    let stats = client.stats();
    assert_eq!((stats.errors, stats.reregistrations), (0, 1));
    let searches = stats.discoveries - searches;
    assert!(searches < 100, "{searches} searches for 1000 calls");
}

#[tokio::test]
async fn a_crash_failover_of_more_than_a_second_is_invisible_with_the_defaults() {
    let mut old = Fake::leader(5);
    let new = Fake::follower(old.state.lock().says);
    let client = connect(&[old.endpoint(), new.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    old.kill();
    let call = tokio::spawn(async move { instance.locate(&[1]).await });
    tokio::time::sleep(MS * 1200).await;
    new.lead(6);
    let found = call.await.unwrap().unwrap();
    assert_eq!(found.meta().epoch, Some(6));
    assert_eq!(client.stats().errors, 0);
}
