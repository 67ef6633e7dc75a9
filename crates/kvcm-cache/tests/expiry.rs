//! Sessions end on time.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{Fixture, start};
use kvcm_cache::{Config, Error, ErrorKind, Mask, StartRequest};
use kvcm_clock::{Clock, TokioTimer, VirtualClock};
use tokio::time::sleep;

async fn fixture() -> (Fixture, VirtualClock) {
    let clock = VirtualClock::new();
    let f = Fixture::empty(Arc::new(clock), Config::default()).await;
    f.simple_objects().await;
    (f, clock)
}

/// Runs the expiry beside the test.
fn run(f: &Fixture, clock: VirtualClock) -> tokio::task::JoinHandle<Error> {
    let cache = Arc::clone(&f.cache);
    tokio::spawn(async move { cache.run_expiry(&TokioTimer::new(clock)).await })
}

async fn start_for(f: &Fixture, keys: &[i64], seconds: i32) -> String {
    let request = StartRequest {
        write_timeout_seconds: seconds,
        ..start(keys)
    };
    let started = f.cache.start_write(&request).await.unwrap();
    assert_eq!(started.granted.len(), keys.len());
    started.session_id.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_its_time_is_up_and_its_keys_are_free() {
    let (f, clock) = fixture().await;
    let expiry = run(&f, clock);
    let id = start_for(&f, &[1, 2], 5).await;
    sleep(Duration::from_millis(4_990)).await;
    assert_eq!(f.cache.counts().sessions, 1);
    assert_eq!(f.states(&[1]), ["WRITING"]);
    sleep(Duration::from_millis(110)).await;
    assert_eq!(f.cache.counts().sessions, 0);
    assert_eq!(f.states(&[1, 2]), ["DELETING", "DELETING"]);
    let error = f.finish(&id, Mask::Offset(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionGone);
    start_for(&f, &[1, 2], 5).await;
    expiry.abort();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_sessions_that_are_due_at_once_end_at_once() {
    let (f, clock) = fixture().await;
    let expiry = run(&f, clock);
    for key in 0..1000 {
        start_for(&f, &[key], 1).await;
    }
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(f.cache.counts().sessions, 0);
    assert_eq!(f.cache.activity().sessions_expired, 1000);
    assert_eq!(f.states(&[0, 999]), ["DELETING", "DELETING"]);
    expiry.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shorter_session_that_comes_later_wakes_the_expiry_first() {
    let (f, clock) = fixture().await;
    let expiry = run(&f, clock);
    start_for(&f, &[1], 1000).await;
    sleep(Duration::from_millis(100)).await;
    start_for(&f, &[2], 1).await;
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(f.states(&[1, 2]), ["WRITING", "DELETING"]);
    expiry.abort();
}

#[tokio::test(start_paused = true)]
async fn no_timeout_means_the_default_and_a_huge_one_the_most() {
    let (f, clock) = fixture().await;
    let expiry = run(&f, clock);
    let id = start_for(&f, &[1], 0).await;
    f.finish(&id, Mask::Offset(1)).await.unwrap();
    start_for(&f, &[2], -1).await;
    start_for(&f, &[3], 1_000_000_000).await;
    sleep(Duration::from_secs(29)).await;
    assert_eq!(f.states(&[1, 2, 3]), ["SERVING", "WRITING", "WRITING"]);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(f.states(&[2, 3]), ["DELETING", "WRITING"]);
    sleep(Duration::from_secs(1770)).await;
    assert_eq!(f.states(&[1, 3]), ["SERVING", "DELETING"]);
    expiry.abort();
}

#[tokio::test(start_paused = true)]
async fn a_finish_in_time_is_safe_from_the_expiry() {
    let (f, clock) = fixture().await;
    let expiry = run(&f, clock);
    let id = start_for(&f, &[1], 60).await;
    sleep(Duration::from_secs(59)).await;
    f.finish(&id, Mask::Offset(1)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(f.states(&[1]), ["SERVING"]);
    expiry.abort();
}

#[tokio::test(start_paused = true)]
async fn an_expiry_that_the_journal_refuses_is_tried_again() {
    let (f, clock) = fixture().await;
    let expiry = run(&f, clock);
    start_for(&f, &[1], 1).await;
    f.journal.faults().refuse_submits(true);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(f.states(&[1]), ["WRITING"]);
    f.journal.faults().heal();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(f.states(&[1]), ["DELETING"]);
    expiry.abort();
}

#[tokio::test(start_paused = true)]
async fn the_expiry_stops_when_another_leads() {
    let (mut f, clock) = fixture().await;
    let expiry = run(&f, clock);
    start_for(&f, &[1], 1).await;
    f.fail_over().await;
    let error = expiry.await.unwrap();
    assert!(error.is_fenced(), "{error}");
    assert!(clock.now() > kvcm_clock::Moment::ZERO);
}
