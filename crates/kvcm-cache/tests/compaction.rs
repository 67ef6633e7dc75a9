//! The journal of a manager does not grow for ever, and one that went back in time is filled again.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{sync::Arc, time::Duration};

use common::Fixture;
use kvcm_cache::{Config, Error, Mask, Snapshots};
use kvcm_clock::{TokioTimer, VirtualClock};
use tokio::{task::JoinHandle, time::sleep};

async fn fixture(log_bytes_min: u64) -> (Fixture, JoinHandle<Error>) {
    let clock = VirtualClock::new();
    let config = Config {
        log_bytes_min,
        ..Config::default()
    };
    let f = Fixture::empty(Arc::new(clock), config).await;
    f.simple_objects().await;
    let task = run(&f, clock);
    (f, task)
}

fn run(f: &Fixture, clock: VirtualClock) -> JoinHandle<Error> {
    let cache = Arc::clone(&f.cache);
    tokio::spawn(async move { cache.run_snapshots(&TokioTimer::new(clock)).await })
}

#[tokio::test(start_paused = true)]
async fn a_log_as_long_as_the_last_snapshot_is_replaced_by_one() {
    let (mut f, task) = fixture(10_000).await;
    f.write(&(0..1_000).collect::<Vec<_>>()).await;
    sleep(Duration::from_secs(2)).await;
    assert!(f.cache.log_size().bytes < 10_000);
    assert_eq!(f.cache.snapshots().written, 0, "written for too little");
    f.write(&(1_000..3_000).collect::<Vec<_>>()).await;
    sleep(Duration::from_secs(2)).await;
    let Snapshots { written, bytes, .. } = f.cache.snapshots();
    assert_eq!((written, f.cache.log_size().records), (1, 0));
    assert!(bytes > 20_000, "{bytes}");
    // The next one is due after as many bytes again, not after the least.
    f.write(&(3_000..4_500).collect::<Vec<_>>()).await;
    sleep(Duration::from_secs(2)).await;
    assert!(f.cache.log_size().bytes > 10_000);
    assert_eq!(f.cache.snapshots().written, 1);
    f.write(&(4_500..8_000).collect::<Vec<_>>()).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(f.cache.snapshots().written, 2);
    task.abort();
    let recovered = f.fail_over().await;
    assert_eq!(recovered.counts.keys, 8_000);
    assert_eq!(f.cache.snapshots().bytes, recovered.journal.bytes);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_fails_is_tried_again_less_and_less_often() {
    let (f, task) = fixture(1).await;
    f.journal.faults().refuse_snapshots(true);
    f.write(&[1]).await;
    sleep(Duration::from_secs(600)).await;
    let failed = f.cache.snapshots().failed;
    assert!((10..25).contains(&failed), "{failed} tries in ten minutes");
    f.journal.faults().heal();
    sleep(Duration::from_secs(120)).await;
    assert_eq!(f.cache.snapshots().written, 1);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_went_back_in_time_gets_everything_again_and_callers_wait_for_it() {
    let (mut f, task) = fixture(1 << 20).await;
    let written = f.write(&[1, 2, 3]).await;
    let open = f.start(&[4]).await.unwrap();
    f.journal.faults().go_back(3);
    // Nobody acknowledges what may be lost again.
    let more = f.write(&[5]).await;
    f.finish(open.session_id.as_str(), Mask::Offset(1))
        .await
        .unwrap();
    assert_eq!(f.cache.snapshots().written, 1);
    task.abort();
    f.fail_over().await;
    assert_eq!(f.prefix(&[1, 2, 3]), written);
    assert_eq!(f.prefix(&[5]), more);
    assert_eq!(f.prefix(&[4]).len(), 1);
}

/// What was of an instance that is gone must not come back with a new registration.
#[tokio::test(start_paused = true)]
async fn blocks_of_an_instance_that_is_gone_are_gone_from_the_journal_too() {
    let (mut f, task) = fixture(1 << 20).await;
    f.write(&[1]).await;
    task.abort();
    // The leader dies between the removal of the registration and that of the blocks.
    f.registry.remove_instance("i1").await.unwrap();
    f.fail_over().await;
    let cache = Arc::clone(&f.cache);
    let task = tokio::spawn(async move {
        let permit: kvcm_cache::Permit = Arc::new(|| false);
        cache
            .run(&TokioTimer::new(VirtualClock::new()), &permit)
            .await
    });
    sleep(Duration::from_secs(3)).await;
    task.abort();
    f.register("i1", &["tp0"], &[]).await;
    f.fail_over().await;
    assert_eq!(f.prefix(&[1]), []);
    // Their bytes are still to be deleted.
    assert_eq!(f.states(&[1]), ["DELETING"]);
}
