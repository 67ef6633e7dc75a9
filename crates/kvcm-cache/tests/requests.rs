//! A repeat of a request gets the same answer, on the next leader too.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{Fixture, finish, granted, start};
use kvcm_cache::{
    Blocks, Config, Error, FinishRequest, Mask, RemoveRequest, RequestOutcome, Skipped,
    StartRequest, TrimRequest, TrimStrategy,
};
use kvcm_clock::{ManualClock, VirtualClock};
use kvcm_journal::RequestKey;

const fn key(id: u128) -> Option<RequestKey> {
    Some(RequestKey { id, body: 70 })
}

fn outcome(f: &Fixture, id: u128) -> RequestOutcome {
    let (body, outcome) = f.cache.answered(id).unwrap();
    assert_eq!(body, 70);
    outcome.unwrap()
}

/// After fail-overs, with and without a snapshot in between.
async fn all_leaders(f: &mut Fixture, check: impl Fn(&Fixture)) {
    check(f);
    f.fail_over().await;
    check(f);
    assert!(f.cache.snapshot().await.unwrap());
    f.fail_over().await;
    check(f);
}

#[tokio::test]
async fn a_start_is_told_again_with_the_same_session_and_locations_in_the_same_order() {
    let mut f = Fixture::new().await;
    f.write(&[2]).await;
    let keys = [3, 2, 1];
    let request = StartRequest {
        request: key(1),
        ..start(&keys)
    };
    let first = f.cache.start_write(&request).await.unwrap();
    assert_eq!(first.skipped, Skipped::Bools(vec![false, true, false]));
    // Whatever becomes of its blocks.
    f.finish(first.session_id.as_str(), Mask::Offset(2))
        .await
        .unwrap();
    f.remove(&[1]).await.unwrap();
    all_leaders(&mut f, |f| {
        let again = f.cache.started_again(&request, &outcome(f, 1)).unwrap();
        assert_eq!(again.session_id, first.session_id);
        assert_eq!(again.skipped, first.skipped);
        assert_eq!(granted(&again), granted(&first));
        assert_eq!(again.granted.keys(), [3, 1]);
    })
    .await;
}

#[tokio::test]
async fn a_start_without_new_keys_is_told_again_too() {
    let mut f = Fixture::new().await;
    f.write(&[1, 2]).await;
    let request = StartRequest {
        request: key(1),
        ..start(&[1, 2])
    };
    let first = f.cache.start_write(&request).await.unwrap();
    all_leaders(&mut f, |f| {
        let again = f.cache.started_again(&request, &outcome(f, 1)).unwrap();
        assert_eq!(again.session_id, first.session_id);
        assert_eq!(again.skipped, Skipped::Offset(2));
        assert!(again.granted.is_empty());
    })
    .await;
}

#[tokio::test]
async fn the_outcomes_of_other_requests_are_remembered() {
    let mut f = Fixture::new().await;
    let good = f.start(&[1, 2]).await.unwrap();
    let bad = f.start(&[3]).await.unwrap();
    let request = FinishRequest {
        request: key(1),
        ..finish(good.session_id.as_str(), Mask::Offset(2))
    };
    f.cache.finish_write(&request).await.unwrap();
    let request = FinishRequest {
        request: key(2),
        ..finish(bad.session_id.as_str(), Mask::Offset(5))
    };
    let why = f.cache.finish_write(&request).await.unwrap_err();
    let request = RemoveRequest {
        instance_id: "i1",
        blocks: Blocks::keys(&[1, 9]),
        request: key(3),
    };
    assert_eq!(f.cache.remove(&request).await.unwrap(), 1);
    let nothing = RemoveRequest {
        blocks: Blocks::keys(&[9]),
        request: key(4),
        ..request
    };
    assert_eq!(f.cache.remove(&nothing).await.unwrap(), 0);
    let trim = TrimRequest {
        instance_id: "i1",
        strategy: TrimStrategy::RemoveAllCache,
        request: key(5),
    };
    assert_eq!(f.cache.trim(&trim).await.unwrap(), 1);
    all_leaders(&mut f, |f| {
        for id in [1, 3, 4, 5] {
            assert_eq!(outcome(f, id), RequestOutcome::Done, "{id}");
        }
        assert_eq!(
            outcome(f, 2),
            RequestOutcome::BadMask(why.to_string().into())
        );
        assert_eq!(f.cache.answered(6), None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_batch_is_on_its_way_is_neither_done_nor_new() {
    let f = Fixture::empty(Arc::new(VirtualClock::new()), Config::default()).await;
    f.simple_objects().await;
    f.journal.faults().hold(true);
    let request = StartRequest {
        request: key(1),
        ..start(&[1])
    };
    let error = f.cache.start_write(&request).await.unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error}");
    assert_eq!(f.cache.answered(1), Some((70, None)));
    f.journal.faults().heal();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let again = f.cache.started_again(&request, &outcome(&f, 1)).unwrap();
    assert_eq!(again.granted.keys(), [1]);
}

#[tokio::test]
async fn a_request_that_is_not_stored_is_new_again() {
    let f = Fixture::new().await;
    f.journal.faults().refuse_submits(true);
    let request = StartRequest {
        request: key(1),
        ..start(&[1])
    };
    f.cache.start_write(&request).await.unwrap_err();
    assert_eq!(f.cache.answered(1), None);
}

#[tokio::test]
async fn requests_are_forgotten_after_ten_minutes_and_hardly_later() {
    let clock = ManualClock::default();
    let mut f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
    f.simple().await;
    let note = async |f: &Fixture, id| {
        let keys = [id as i64];
        let request = StartRequest {
            request: key(id),
            ..start(&keys)
        };
        f.cache.start_write(&request).await.unwrap();
    };
    note(&f, 1).await;
    clock.advance(Duration::from_secs(599));
    note(&f, 2).await;
    outcome(&f, 1);
    // The next leader remembers them for as long again.
    f.fail_over().await;
    clock.advance(Duration::from_secs(599));
    note(&f, 3).await;
    outcome(&f, 1);
    clock.advance(Duration::from_secs(600));
    note(&f, 9).await;
    assert_eq!(f.cache.answered(1), None);
    outcome(&f, 9);
    assert_eq!(f.cache.request_records().forgotten_early, 0);
}

#[tokio::test]
async fn too_many_requests_cost_the_oldest_which_is_counted() {
    let config = Config {
        requests_bytes_max: 1 << 18,
        ..Config::default()
    };
    let f = Fixture::empty(Arc::new(ManualClock::default()), config).await;
    f.simple().await;
    let mut noted = 0;
    while f.cache.request_records().forgotten_early == 0 {
        noted += 1;
        let keys = [noted as i64];
        let request = RemoveRequest {
            instance_id: "i1",
            blocks: Blocks::keys(&keys),
            request: key(noted),
        };
        f.cache.remove(&request).await.unwrap();
        assert!(noted < 100_000, "nothing is forgotten");
    }
    let early = u128::from(f.cache.request_records().forgotten_early);
    assert_eq!(f.cache.answered(early), None);
    assert!(f.cache.answered(early + 1).is_some());
    assert!(f.cache.request_records().bytes < 1 << 19);
}
