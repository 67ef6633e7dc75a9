//! Changes are recorded as those of their requests, with their effect.

use crate::common::{initialised, open, registration};
use kvcm_registry::{Error, RequestKey};

const KEY: RequestKey = RequestKey { id: 1, body: 7 };

#[tokio::test]
async fn the_next_leader_knows_which_requests_have_changed_something() {
    let (journal, registry) = initialised().await;
    let own = registry.for_request(Some(KEY));
    own.register_instance(registration("i1")).await.unwrap();
    assert_eq!(registry.answered(1), Some(7));
    assert_eq!(registry.answered(2), None);
    let (next, _) = open(&journal, 2).await;
    assert_eq!(next.answered(1), Some(7));
    // Whatever becomes of the log.
    for number in 0..1_100 {
        next.set_storage_available("nfs_01", number % 2 == 1)
            .await
            .unwrap();
    }
    let (next, recovery) = open(&journal, 3).await;
    assert_eq!(recovery.journal.snapshot_chunks, 1);
    assert_eq!(next.answered(1), Some(7));
}

#[tokio::test]
async fn a_request_that_changes_nothing_is_recorded_too() {
    let (journal, registry) = initialised().await;
    let own = registry.for_request(Some(KEY));
    own.set_storage_available("nfs_01", true).await.unwrap();
    let (next, _) = open(&journal, 2).await;
    assert_eq!(next.answered(1), Some(7));
}

#[tokio::test]
async fn a_request_that_is_refused_is_not_recorded() {
    let (journal, registry) = initialised().await;
    let own = registry.for_request(Some(KEY));
    let error = own.remove_instance("none").await.unwrap_err();
    assert!(matches!(error, Error::NoSuchInstance(_)));
    journal.faults().refuse_submits(true);
    own.register_instance(registration("i1")).await.unwrap_err();
    assert_eq!(registry.answered(1), None);
}
