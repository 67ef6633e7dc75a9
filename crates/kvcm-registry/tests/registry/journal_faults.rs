//! What the registry does when its journal fails, is fenced, is damaged or grows long.

use std::{sync::Arc, time::Duration};

use crate::common::{claim, initialised, open, registration};
use kvcm_journal::{Batch, LoadSink, MemoryJournal, Record, Source};
use kvcm_registry::{Applied, Error, ErrorKind, Outcome, Registry, StartupConfig};

#[tokio::test]
async fn a_refused_write_changes_nothing() {
    let (journal, registry) = initialised().await;
    journal.faults().refuse_submits(true);
    let error = registry.register_instance(registration("i1")).await;
    match error.unwrap_err() {
        Error::Unavailable { outcome, .. } => assert_eq!(outcome, Outcome::NotDone),
        other => panic!("{other}"),
    }
    assert!(registry.instance("i1").is_none());
    journal.faults().heal();
    let registered = registry.register_instance(registration("i1")).await;
    assert!(registered.unwrap().is_new);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_write_is_invisible_until_the_journal_has_it() {
    let (journal, registry) = initialised().await;
    journal.faults().hold(true);
    let error = registry.register_instance(registration("i1")).await;
    match error.unwrap_err() {
        Error::Unavailable { outcome, .. } => assert_eq!(outcome, Outcome::Unknown),
        other => panic!("{other}"),
    }
    assert!(registry.instance("i1").is_none());
    // Nothing overtakes it.
    let error = registry.register_instance(registration("i2")).await;
    match error.unwrap_err() {
        Error::Unavailable { outcome, .. } => assert_eq!(outcome, Outcome::NotDone),
        other => panic!("{other}"),
    }
    journal.faults().heal();
    registry.settle().await.unwrap();
    assert!(registry.instance("i1").is_some() && registry.instance("i2").is_none());
    let again = registry.register_instance(registration("i1")).await;
    assert!(!again.unwrap().is_new);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_write_is_settled_by_the_next() {
    let (journal, registry) = initialised().await;
    journal.faults().hold(true);
    let write = registry.register_instance(registration("i1"));
    let gone = tokio::time::timeout(Duration::from_millis(1), write).await;
    assert!(gone.is_err());
    journal.faults().heal();
    let other = registry.register_instance(registration("i2")).await;
    assert!(other.unwrap().is_new);
    assert!(registry.instance("i1").is_some());
    let (next, _) = open(&journal, 2).await;
    assert_eq!(next.instances(), registry.instances());
}

#[tokio::test]
async fn a_superseded_registry_is_fenced() {
    let (journal, old) = initialised().await;
    let (new, _) = open(&journal, 2).await;
    let error = old.register_instance(registration("i1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert!(old.instance("i1").is_none());
    new.register_instance(registration("i1")).await.unwrap();
}

#[tokio::test]
async fn concurrent_writes_are_all_kept() {
    let (journal, registry) = initialised().await;
    let registry = Arc::new(registry);
    let tasks: Vec<_> = (0..20)
        .map(|index| {
            let registry = Arc::clone(&registry);
            let id = format!("i{}", index % 10);
            tokio::spawn(async move { registry.register_instance(registration(&id)).await })
        })
        .collect();
    let mut new = 0;
    for task in tasks {
        new += usize::from(task.await.unwrap().unwrap().is_new);
    }
    assert_eq!(new, 10);
    let (next, _) = open(&journal, 2).await;
    assert_eq!(next.instances(), registry.instances());
}

#[tokio::test]
async fn one_bad_entry_costs_itself_only() {
    let (journal, registry) = initialised().await;
    registry
        .register_instance(registration("i1"))
        .await
        .unwrap();
    let mut writer = claim(&journal, 2).await;
    writer.load(&mut Discard).await.unwrap();
    let timeout = Duration::from_secs(5);
    for operations in [
        "[{\"op\":\"remove_instance\",\"id\":7},{\"op\":\"remove_storage\",\"name\":\"nfs_01\"}]",
        "not json",
        "[{\"op\":\"from_the_future\"}]",
    ] {
        let batch = Batch::new(1, 1, operations.into());
        writer.append(batch, timeout).await.unwrap();
    }
    let (registry, recovery) = open(&journal, 3).await;
    let places: Vec<_> = recovery.skipped.iter().map(|s| s.place.as_str()).collect();
    assert_eq!(
        places,
        [
            "record 3 of epoch 2, operation 0",
            "record 4 of epoch 2",
            "record 5 of epoch 2, operation 0"
        ]
    );
    assert!(registry.instance("i1").is_some() && registry.storage("nfs_01").is_none());
}

#[tokio::test]
async fn data_of_a_newer_program_is_not_taken_for_ones_own() {
    let (journal, _) = initialised().await;
    let mut writer = claim(&journal, 2).await;
    writer.load(&mut Discard).await.unwrap();
    let batch = Batch::new(1, 2, "[]".into());
    writer.append(batch, Duration::from_secs(5)).await.unwrap();
    let error = Registry::open(claim(&journal, 3).await).await.unwrap_err();
    assert!(matches!(error, Error::Load(_)), "{error}");
    assert!(error.to_string().contains("newer program"), "{error}");
}

#[tokio::test]
async fn a_long_log_is_replaced_by_a_snapshot() {
    let (journal, registry) = initialised().await;
    registry
        .register_instance(registration("i1"))
        .await
        .unwrap();
    for step in 0..1100 {
        let available = step % 2 == 1;
        let set = registry.set_storage_available("nfs_01", available);
        set.await.unwrap();
    }
    let (next, recovery) = open(&journal, 2).await;
    assert_eq!(recovery.journal.snapshot_chunks, 1);
    assert!(
        recovery.journal.records < 200,
        "{}",
        recovery.journal.records
    );
    assert_eq!(next.instances(), registry.instances());
    assert_eq!(next.storages(), registry.storages());
    assert_eq!(next.groups(), registry.groups());
    assert!(next.is_initialised());
}

#[tokio::test]
async fn a_log_with_skipped_entries_is_never_replaced() {
    let (journal, _) = initialised().await;
    let mut writer = claim(&journal, 2).await;
    writer.load(&mut Discard).await.unwrap();
    let batch = Batch::new(1, 1, "[{\"op\":\"from_the_future\"}]".into());
    writer.append(batch, Duration::from_secs(5)).await.unwrap();
    let (registry, _) = open(&journal, 3).await;
    for step in 0..1100 {
        let available = step % 2 == 1;
        let set = registry.set_storage_available("nfs_01", available);
        set.await.unwrap();
    }
    let (_, recovery) = open(&journal, 4).await;
    assert_eq!(
        (recovery.journal.snapshot_chunks, recovery.skipped.len()),
        (0, 1)
    );
}

#[tokio::test]
async fn after_a_reign_of_another_node_a_volatile_registry_begins_anew() {
    let (journal, registry) = initialised().await;
    registry
        .register_instance(registration("i1"))
        .await
        .unwrap();
    let (registry, recovery) = open(&journal, 5).await;
    assert!(recovery.journal.dropped && !recovery.initialised);
    assert!(registry.instance("i1").is_none());
    let config = StartupConfig::default();
    let applied = registry.apply_startup_config(&config).await.unwrap();
    assert_eq!(applied, Applied::Now);
}

struct Discard;

impl LoadSink for Discard {
    fn snapshot(&mut self, _: u16, _: bytes::Bytes) -> Result<(), Source> {
        Ok(())
    }

    fn record(&mut self, _: &Record) -> Result<(), Source> {
        Ok(())
    }
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_is_an_error() {
    let journal = MemoryJournal::new("registry");
    let writer = claim(&journal, 1).await;
    journal.faults().refuse_loads(true);
    let error = Registry::open(writer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// As after a fail-over of Redis to a replica that lags.
#[tokio::test(start_paused = true)]
async fn a_journal_that_went_back_in_time_gets_everything_again() {
    let (journal, registry) = initialised().await;
    for id in ["i1", "i2"] {
        registry.register_instance(registration(id)).await.unwrap();
    }
    journal.faults().go_back(2);
    let written = registry.register_instance(registration("i3")).await;
    assert!(written.unwrap().is_new);
    let (next, recovery) = open(&journal, 2).await;
    assert_eq!(next.instances(), registry.instances());
    assert_eq!(
        (next.instances().len(), recovery.journal.snapshot_chunks),
        (3, 1)
    );
}
