//! The memory journal: conformance, the volatile rule, faults.

#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_fence::{Claim, Epoch, Fenced, Incarnation};
use kvcm_journal::{
    AppendError, Batch, ClaimError, Journal, LoadError, Loaded, MemoryJournal, Snapshot, Writer,
    conformance,
};

const TIMEOUT: Duration = Duration::from_secs(5);

fn claim(epoch: u64) -> Claim {
    Claim {
        cluster: "c".parse().unwrap(),
        epoch: Epoch::new(epoch).unwrap(),
        incarnation: Incarnation::from_bits(1),
    }
}

fn batch(text: &'static str) -> Batch {
    Batch::new(1, 1, Bytes::from_static(text.as_bytes()))
}

/// Claims `epoch` and loads; gives the writer and how the load went.
async fn open(journal: &MemoryJournal, epoch: u64) -> (Box<dyn Writer>, Loaded) {
    let mut writer = journal.claim(claim(epoch), TIMEOUT).await.unwrap();
    let loaded = writer.load(&mut Discard).await.unwrap();
    (writer, loaded)
}

struct Discard;

impl kvcm_journal::LoadSink for Discard {
    fn snapshot(&mut self, _: u16, _: Bytes) -> Result<(), kvcm_journal::Source> {
        Ok(())
    }

    fn record(&mut self, _: &kvcm_journal::Record) -> Result<(), kvcm_journal::Source> {
        Ok(())
    }
}

#[tokio::test]
async fn conforms() {
    conformance::all(|| Arc::new(MemoryJournal::new("test"))).await;
}

#[tokio::test]
async fn content_is_dropped_when_somebody_else_may_have_led() {
    let journal = MemoryJournal::new("test");
    let (writer, _) = open(&journal, 1).await;
    writer.append(batch("a"), TIMEOUT).await.unwrap();
    let (_, loaded) = open(&journal, 2).await;
    assert_eq!((loaded.dropped, loaded.records), (false, 1));
    let (writer, loaded) = open(&journal, 4).await;
    assert_eq!(
        (loaded.dropped, loaded.records, loaded.last_seq),
        (true, 0, 1)
    );
    // What is written after the drop is kept again, and so is an empty content.
    assert_eq!(writer.append(batch("b"), TIMEOUT).await.unwrap(), 2);
    let (_, loaded) = open(&journal, 5).await;
    assert_eq!((loaded.dropped, loaded.records), (false, 1));
}

#[tokio::test]
async fn a_snapshot_alone_is_content_that_is_dropped() {
    let journal = MemoryJournal::new("test");
    let (writer, _) = open(&journal, 1).await;
    writer.append(batch("a"), TIMEOUT).await.unwrap();
    let snapshot = Snapshot::new(1, 1, [Bytes::from_static(b"s")]);
    writer.snapshot(snapshot, TIMEOUT).await.unwrap();
    let (_, loaded) = open(&journal, 2).await;
    assert_eq!((loaded.dropped, loaded.snapshot_chunks), (false, 1));
    let (_, loaded) = open(&journal, 9).await;
    assert_eq!((loaded.dropped, loaded.snapshot_chunks), (true, 0));
}

#[tokio::test]
async fn a_journal_without_content_keeps_fence_and_numbers_only() {
    let journal = MemoryJournal::without_content("test");
    let (old, loaded) = open(&journal, 1).await;
    assert!(!loaded.dropped);
    old.append(batch("a"), TIMEOUT).await.unwrap();
    assert_eq!(old.log_size().records, 0);
    let (new, loaded) = open(&journal, 2).await;
    assert_eq!((loaded.dropped, loaded.records), (true, 0));
    assert_eq!(new.append(batch("b"), TIMEOUT).await.unwrap(), 2);
    let refused = old.append(batch("late"), TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::Fenced(_))),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_held_batch_is_unknown_until_it_arrives() {
    let journal = MemoryJournal::new("test");
    let (writer, _) = open(&journal, 1).await;
    journal.faults().hold(true);
    let error = writer.append(batch("a"), TIMEOUT).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert_eq!((writer.last_seq(), writer.committed_seq()), (1, 0));
    let release = async { journal.faults().hold(false) };
    let (result, ()) = tokio::join!(writer.committed(1, TIMEOUT), release);
    result.unwrap();
    let (_, loaded) = open(&journal, 2).await;
    assert_eq!(loaded.records, 1);
}

#[tokio::test(start_paused = true)]
async fn a_held_batch_never_arrives_after_another_claim() {
    let journal = MemoryJournal::new("test");
    let (old, _) = open(&journal, 1).await;
    journal.faults().hold(true);
    let seq = old.submit(batch("a")).unwrap();
    let (waited, (new, loaded)) = tokio::join!(old.committed(seq, TIMEOUT), open(&journal, 2));
    assert!(matches!(waited, Err(AppendError::Fenced(_))), "{waited:?}");
    assert_eq!((loaded.records, loaded.last_seq), (0, 0));
    journal.faults().heal();
    assert_eq!(new.append(batch("b"), TIMEOUT).await.unwrap(), 1);
    let (_, loaded) = open(&journal, 3).await;
    assert_eq!(loaded.records, 1);
}

#[tokio::test]
async fn every_fault_has_its_error_and_heals() {
    let journal = MemoryJournal::with_batch_limit("test", 3);
    let faults = journal.faults();
    faults.refuse_claims(true);
    let refused = journal.claim(claim(1), TIMEOUT).await;
    assert!(
        matches!(refused, Err(ClaimError::Unavailable { .. })),
        "{refused:?}"
    );
    faults.heal();

    let mut writer = journal.claim(claim(1), TIMEOUT).await.unwrap();
    faults.refuse_loads(true);
    let refused = writer.load(&mut Discard).await;
    assert!(
        matches!(refused, Err(LoadError::Unavailable { .. })),
        "{refused:?}"
    );
    faults.heal();
    writer.load(&mut Discard).await.unwrap();

    faults.refuse_submits(true);
    let error = writer.append(batch("a"), TIMEOUT).await.unwrap_err();
    assert!(!error.is_unknown(), "{error}");
    faults.heal();
    let error = writer.append(batch("abcd"), TIMEOUT).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a batch of 4 bytes is over the journal's limit of 3; split it"
    );
    assert_eq!(writer.append(batch("a"), TIMEOUT).await.unwrap(), 1);

    faults.lose_fence();
    let refused = writer.append(batch("a"), TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::Fenced(Fenced::Missing))),
        "{refused:?}"
    );
}
