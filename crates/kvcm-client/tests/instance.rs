//! Instances and write sessions.

mod common;

use common::{Data, Fake, connect, spec};
use kvcm_client::{Blocks, ErrorKind, Query, StorageKind, WriteOptions, Written};
use kvcm_proto::meta::{BlockMask, BoolMasksType, ErrorCode, block_mask};

fn offset(count: i32) -> BlockMask {
    BlockMask {
        info: Some(block_mask::Info::Offset(count)),
    }
}

#[tokio::test]
async fn a_write_is_begun_and_finished_and_then_found() {
    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    assert_eq!((instance.id(), &*instance.storage_configs()), ("i", "[]"));
    node.state.lock().stored.extend([10, 11]);
    let session = instance.begin_write(&[10, 20, 11, 21]).await.unwrap();
    assert_eq!(session.new_keys().collect::<Vec<_>>(), [1, 3]);
    assert!(!session.is_new(0) && session.is_new(1) && !session.is_new(9));
    assert_eq!((session.new_count(), session.locations().len()), (2, 2));
    let place = session.locations().get(0).unwrap();
    assert_eq!(place.storage(), StorageKind::Nfs);
    assert_eq!(place.uri("tp0"), Some("file://s/0"));
    assert_eq!(session.meta().epoch, Some(1));
    session
        .finish(Written::Each(vec![true, false]))
        .await
        .unwrap();
    let mask = BlockMask {
        info: Some(block_mask::Info::BoolMasks(BoolMasksType {
            values: vec![true, false],
        })),
    };
    assert_eq!(node.state.lock().finished, [mask]);

    let found = instance.locate(&[10, 20, 30]).await.unwrap();
    assert_eq!((found.len(), found.hits()), (2, 2));
    let len = instance
        .locate_len(&[10, 20, 30], &Query::prefix())
        .await
        .unwrap();
    assert_eq!(*len, 2);
    instance.remove(&[20]).await.unwrap();
    assert_eq!(instance.locate(&[10, 20]).await.unwrap().len(), 1);
    instance.trim().await.unwrap();
    assert!(instance.locate(&[10]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_session_without_new_blocks_needs_no_second_call() {
    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    node.state.lock().stored.insert(1);
    let session = instance.begin_write(&[1]).await.unwrap();
    let calls = node.data_calls();
    session.finish(Written::All).await.unwrap();
    drop(instance.begin_write(&[1]).await.unwrap());
    assert_eq!(node.data_calls(), calls + 1);
}

#[tokio::test]
async fn dropping_an_open_session_gives_it_up() {
    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    drop(instance.begin_write(&[1, 2]).await.unwrap());
    let finished = async {
        loop {
            let called = node.called.notified();
            if !node.state.lock().finished.is_empty() {
                break;
            }
            called.await;
        }
    };
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, finished).await.unwrap();
    assert_eq!(node.state.lock().finished, [offset(0)]);
}

#[tokio::test]
async fn a_mask_that_does_not_fit_is_refused_here_and_the_session_given_up() {
    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    for (key, wrong) in [(1, Written::Prefix(2)), (2, Written::Each(Vec::new()))] {
        let session = instance.begin_write(&[key]).await.unwrap();
        let error = session.finish(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("1 new blocks"), "{error}");
    }
    instance
        .begin_write(&[3])
        .await
        .unwrap()
        .abort()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_leader_that_forgot_the_instance_gets_it_again_and_the_session_is_gone() {
    let mut old = Fake::leader(5);
    let new = Fake::follower(old.state.lock().says);
    let client = connect(&[old.endpoint(), new.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    let session = instance.begin_write(&[1]).await.unwrap();
    let forgotten = instance.begin_write(&[2]).await.unwrap();
    old.kill();
    new.lead(6);
    let error = session.finish(Written::All).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionGone, "{error}");
    forgotten.abort().await.unwrap();
    assert!(new.state.lock().instances.contains("i"));
    assert_eq!(client.stats().reregistrations, 1);
    let again = instance.begin_write(&[1]).await.unwrap();
    let reply = again.finish(Written::Prefix(1)).await.unwrap();
    assert_eq!(reply.meta().epoch, Some(6));
    // What follows a new registration is a new request: the server may keep its answer to the
    // old one.
    let ids = new.state.lock().request_ids.clone();
    let unique: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
}

#[tokio::test]
async fn an_instance_that_stays_unknown_is_an_error_after_a_few_registrations() {
    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    // Registers well, forgets at once.
    let state = node.state.clone();
    let forget = tokio::spawn(async move {
        loop {
            state.lock().instances.clear();
            tokio::task::yield_now().await;
        }
    });
    node.state.lock().data = Data::Code(ErrorCode::InstanceNotExist, "i");
    let error = instance.locate(&[1]).await.unwrap_err();
    forget.abort();
    assert_eq!(error.kind(), ErrorKind::InstanceNotExist);
    assert!(node.data_calls() <= 12, "{}", node.data_calls());
}

#[tokio::test]
async fn a_write_around_a_closure_is_begun_again_when_its_session_died_with_the_leader() {
    let mut old = Fake::leader(5);
    let new = Fake::follower(old.state.lock().says);
    let client = connect(&[old.endpoint(), new.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    old.state.lock().stored.insert(7);
    let mut writes = 0;
    let options = WriteOptions::default();
    let report = instance
        .write_blocks(&[7, 8, 9], &options, |places| {
            writes += 1;
            if writes == 1 {
                old.kill();
                new.lead(6);
            }
            async move {
                assert_eq!(places.len(), places.locations().len());
                for (index, place) in places.iter() {
                    assert!(index < 3 && place.uri("tp0").is_some());
                }
                Written::Prefix(1)
            }
        })
        .await
        .unwrap();
    assert_eq!((writes, report.sessions), (2, 2));
    // The new leader knows none of the blocks.
    assert_eq!((report.blocks, report.written, report.known), (3, 1, 0));
    assert_eq!(report.meta.epoch, Some(6));
    assert_eq!(client.stats().errors, 1, "the finish of the first session");
    assert_eq!(new.state.lock().finished, [offset(1)]);
}

#[tokio::test]
async fn a_write_of_known_blocks_calls_no_closure() {
    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    node.state.lock().stored.extend([1, 2]);
    let options = WriteOptions::default();
    let report = instance
        .write_blocks(&[1, 2], &options, |_| async { unreachable!() })
        .await
        .unwrap();
    assert_eq!((report.blocks, report.written, report.known), (2, 0, 2));
}

#[tokio::test]
async fn blocks_may_be_given_as_tokens() {
    let node = Fake::leader(1);
    let client = connect(&[node.endpoint()]).await;
    let instance = client.register(spec()).await.unwrap();
    let tokens: Vec<i64> = (0..40).collect();
    assert!(
        instance
            .locate(Blocks::tokens(&tokens))
            .await
            .unwrap()
            .is_empty()
    );
}
