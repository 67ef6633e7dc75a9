//! What the next leader finds, and what a journal in trouble does to callers.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{Fixture, finish, granted, start};
use kvcm_cache::{Config, ErrorKind, Mask};
use kvcm_clock::{Clock, ManualClock, VirtualClock};
use tokio::time::sleep;

#[tokio::test]
async fn the_next_leader_has_the_same_locations_counts_and_sessions() {
    let clock = ManualClock::default();
    let mut f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
    f.simple().await;
    let written = f.write(&[1, 2, 3]).await;
    f.remove(&[2]).await.unwrap();
    let open = f.start(&[4, 5]).await.unwrap();
    let closed = f.start(&[6, 7]).await.unwrap();
    let mask = Mask::Bools(&[false, true]);
    f.finish(closed.session_id.as_str(), mask).await.unwrap();
    let before = f.cache.counts();
    clock.advance(Duration::from_secs(50));

    let recovered = f.fail_over().await;
    assert_eq!(recovered.counts, before);
    assert_eq!(recovered.skipped, []);
    assert_eq!(f.prefix(&[1]), written[..1]);
    assert_eq!(f.prefix(&[3]), written[2..]);
    assert_eq!(
        f.states(&[2, 4, 5, 6, 7]),
        ["DELETING", "WRITING", "WRITING", "DELETING", "SERVING"]
    );
    // A repeat of a finish whose answer was lost with the old leader.
    f.finish(closed.session_id.as_str(), mask).await.unwrap();
    // The session begins its life again: 50 s of its 60 s had passed.
    clock.advance(Duration::from_secs(50));
    f.finish(open.session_id.as_str(), Mask::Offset(2))
        .await
        .unwrap();
    assert_eq!(f.prefix(&[4, 5]), granted(&open));
}

#[tokio::test]
async fn a_session_that_expired_is_gone_for_the_next_leader_too() {
    let clock = ManualClock::default();
    let mut f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
    f.simple().await;
    let started = f.start(&[1]).await.unwrap();
    clock.advance(Duration::from_secs(60));
    assert_eq!(f.cache.expire(clock.now()).await.unwrap(), 1);
    f.fail_over().await;
    assert_eq!(f.states(&[1]), ["DELETING"]);
    let late = f.finish(started.session_id.as_str(), Mask::Offset(1)).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::SessionGone);
}

#[tokio::test]
async fn a_snapshot_and_what_came_after_it_give_the_same_state() {
    let mut f = Fixture::new().await;
    f.write(&(0..10_000).collect::<Vec<_>>()).await;
    f.remove(&[17]).await.unwrap();
    let open = f.start(&[-1, -2]).await.unwrap();
    let closed = f.start(&[-3]).await.unwrap();
    f.finish(closed.session_id.as_str(), Mask::Offset(0))
        .await
        .unwrap();
    assert!(f.cache.snapshot().await.unwrap());
    assert_eq!(f.cache.log_size().records, 0);
    let later = f.start(&[-4]).await.unwrap();
    f.finish(open.session_id.as_str(), Mask::Offset(1))
        .await
        .unwrap();
    f.finish(later.session_id.as_str(), Mask::Offset(1))
        .await
        .unwrap();
    let keys: Vec<i64> = (-5..10_000).collect();
    let (states, counts) = (f.states(&keys), f.cache.counts());
    let found = f.prefix(&keys[10..17]);
    for _ in 0..2 {
        let recovered = f.fail_over().await;
        assert!(recovered.journal.snapshot_chunks > 0);
        assert_eq!(recovered.counts, counts);
        assert_eq!(f.states(&keys), states);
        assert_eq!(f.prefix(&keys[10..17]), found);
        f.finish(closed.session_id.as_str(), Mask::Offset(0))
            .await
            .unwrap();
        assert!(f.cache.snapshot().await.unwrap());
    }
}

#[tokio::test]
async fn blocks_of_registrations_that_are_gone_are_deleted_by_the_next_leader() {
    let clock = ManualClock::default();
    let mut f = Fixture::objects(Arc::new(clock.clone())).await;
    f.write(&[1]).await;
    f.start(&[2]).await.unwrap();
    f.registry.remove_instance("i1").await.unwrap();
    let recovered = f.fail_over().await;
    assert_eq!(recovered.skipped, []);
    assert_eq!(f.cache.counts().bytes, 2048);
    // Registered anew, with other specs; the blocks of before are another registration's.
    f.register("i1", &["tp0", "tp1"], &[]).await;
    f.write(&[1]).await;
    let recovered = f.fail_over().await;
    assert_eq!(recovered.skipped, []);
    assert_eq!(f.states(&[1, 2]), ["SERVING", "NOT_FOUND"]);
    assert_eq!(f.cache.counts().bytes, 2048 + 2048);
    f.delete_due().await;
    f.cache.snapshot().await.unwrap();
    f.fail_over().await;
    f.delete_due().await;
    clock.advance(Duration::from_secs(120));
    f.cache.expire(clock.now()).await.unwrap();
    f.delete_due().await;
    f.delete_all(&clock).await;
    assert_eq!(f.states(&[1]), ["SERVING"]);
    assert_eq!(f.cache.counts().bytes, 2048);
    // Nothing of it is left for those who come after.
    f.fail_over().await;
    assert_eq!(f.cache.counts().bytes, 2048);
}

#[tokio::test]
async fn a_dropped_instance_leaves_nothing_behind() {
    let clock = ManualClock::default();
    let mut f = Fixture::objects(Arc::new(clock.clone())).await;
    f.write(&(0..5000).collect::<Vec<_>>()).await;
    let started = f.start(&[-1]).await.unwrap();
    f.registry.remove_instance("i1").await.unwrap();
    assert_eq!(f.cache.drop_instance("i1").await.unwrap(), 5001);
    assert_eq!(f.cache.drop_instance("i1").await.unwrap(), 0);
    assert_eq!(f.cache.counts().instances, 0);
    let late = f.finish(started.session_id.as_str(), Mask::Offset(1)).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::InstanceNotExist);
    f.register("i1", &["tp0"], &[]).await;
    f.fail_over().await;
    assert_eq!(f.prefix(&[1]), []);
    f.delete_due().await;
    clock.advance(Duration::from_secs(120));
    f.cache.expire(clock.now()).await.unwrap();
    f.delete_all(&clock).await;
    assert_eq!((f.cache.counts().keys, f.cache.counts().bytes), (0, 0));
}

#[tokio::test]
async fn trim_removes_everything() {
    let clock = ManualClock::default();
    let mut f = Fixture::objects(Arc::new(clock.clone())).await;
    f.write(&(0..10_000).collect::<Vec<_>>()).await;
    assert_eq!(f.trim().await.unwrap(), 10_000);
    assert_eq!(f.prefix(&[1]), []);
    assert_eq!(f.trim().await.unwrap(), 0);
    f.delete_all(&clock).await;
    assert_eq!((f.cache.counts().keys, f.cache.counts().bytes), (0, 0));
    f.fail_over().await;
    assert_eq!(f.cache.counts().keys, 0);
}

#[tokio::test]
async fn a_superseded_leader_is_refused_and_has_granted_nothing() {
    let mut f = Fixture::new().await;
    let started = f.start(&[1]).await.unwrap();
    let old = Arc::clone(&f.cache);
    f.fail_over().await;
    let error = old.start_write(&start(&[2])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(error.is_fenced());
    assert_eq!(old.key_count("i1"), 1, "the reservation is undone");
    let request = finish(started.session_id.as_str(), Mask::Offset(1));
    let error = old.finish_write(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert_eq!(f.states(&[1, 2]), ["WRITING", "NOT_FOUND"]);
    f.cache.finish_write(&request).await.unwrap();
}

#[tokio::test]
async fn what_the_journal_refuses_has_not_happened() {
    let f = Fixture::new().await;
    let open = f.start(&[1]).await.unwrap();
    let before = f.cache.counts();
    f.journal.faults().refuse_submits(true);
    let error = f.start(&[2, 3]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotStored);
    let refused = f.finish(open.session_id.as_str(), Mask::Offset(1)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotStored);
    assert_eq!(
        f.remove(&[1]).await.unwrap_err().kind(),
        ErrorKind::NotStored
    );
    assert_eq!(f.cache.counts(), before);
    assert_eq!(f.states(&[1, 2]), ["WRITING", "NOT_FOUND"]);
    f.journal.faults().heal();
    f.finish(open.session_id.as_str(), Mask::Offset(1))
        .await
        .unwrap();
    assert_eq!(f.start(&[2, 3]).await.unwrap().granted.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_shows_before_the_journal_has_it_and_all_of_it_after() {
    let f = Fixture::empty(Arc::new(VirtualClock::new()), Config::default()).await;
    f.simple_objects().await;
    let open = f.start(&[1]).await.unwrap();
    f.journal.faults().hold(true);
    let (start_id, finish_id) = (
        f.start(&[2]),
        f.finish(open.session_id.as_str(), Mask::Offset(1)),
    );
    let (started, finished) = tokio::join!(start_id, finish_id);
    assert_eq!(started.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(finished.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(f.states(&[1, 2]), ["WRITING", "NOT_FOUND"]);
    assert_eq!(f.prefix(&[1]), []);
    // Whoever wants the key that may be granted gets none, and its finish is waited for.
    let other = tokio::spawn({
        let cache = Arc::clone(&f.cache);
        async move {
            cache
                .start_write(&start(&[2]))
                .await
                .map(|s| s.granted.len())
        }
    });
    let again = tokio::spawn({
        let (cache, id) = (Arc::clone(&f.cache), open.session_id);
        async move {
            cache
                .finish_write(&finish(id.as_str(), Mask::Offset(1)))
                .await
        }
    });
    sleep(Duration::from_secs(1)).await;
    f.journal.faults().hold(false);
    assert_eq!(other.await.unwrap().unwrap(), 0);
    again.await.unwrap().unwrap();
    // The callers are long gone; what was under way took effect all the same.
    sleep(Duration::from_millis(1)).await;
    assert_eq!(f.states(&[1, 2]), ["SERVING", "WRITING"]);
    assert_eq!(f.cache.counts().sessions, 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_loses_only_the_answer() {
    let f = Fixture::empty(Arc::new(VirtualClock::new()), Config::default()).await;
    f.simple_objects().await;
    let open = f.start(&[1]).await.unwrap();
    f.journal.faults().hold(true);
    let mask = Mask::Offset(1);
    let gone = tokio::time::timeout(
        Duration::from_millis(10),
        f.finish(open.session_id.as_str(), mask),
    );
    assert!(gone.await.is_err());
    f.journal.faults().hold(false);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(f.states(&[1]), ["SERVING"]);
    f.finish(open.session_id.as_str(), mask).await.unwrap();
    assert_eq!(f.cache.counts().sessions, 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_ends_under_way_is_unknown_and_fenced() {
    let f = Fixture::empty(Arc::new(VirtualClock::new()), Config::default()).await;
    f.simple_objects().await;
    f.journal.faults().hold(true);
    let cache = Arc::clone(&f.cache);
    let pending = tokio::spawn(async move { cache.start_write(&start(&[1])).await.map(drop) });
    sleep(Duration::from_millis(1)).await;
    f.journal.faults().lose_fence();
    let error = pending.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(error.is_fenced());
}
