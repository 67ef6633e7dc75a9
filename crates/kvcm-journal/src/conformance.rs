//! What every journal has to do, as checks that its own tests run.
//!
//! Each check takes a journal that nobody has used, and panics with what is wrong. [`all`] runs
//! them all. They need a Tokio runtime with time; all loads follow a claim whose epoch is the
//! successor of the former one, so that volatile journals pass too.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kvcm_fence::{Claim, ClaimRefused, Epoch, Incarnation};

use crate::{
    AppendError, Batch, ClaimError, Journal, LoadSink, Loaded, Record, Snapshot, Source, Writer,
};

/// How long a check waits for the store. Long, because it only bounds a failure.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a load gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Chunks of the snapshot, with its version.
    pub chunks: Vec<(u16, Bytes)>,
    /// Epoch, number and batch of each record.
    pub records: Vec<(u64, u64, Batch)>,
}

/// Runs every check, each on a fresh journal.
pub async fn all(mut fresh: impl FnMut() -> Arc<dyn Journal>) {
    what_was_appended_is_loaded_in_order(&*fresh()).await;
    numbers_rise_by_one_across_epochs(&*fresh()).await;
    equal_and_older_epochs_are_refused(&*fresh()).await;
    another_cluster_is_refused(&*fresh()).await;
    the_claim_that_stands_is_told(&*fresh()).await;
    a_superseded_writer_changes_nothing(&*fresh()).await;
    nothing_is_written_before_a_load(&*fresh()).await;
    a_snapshot_takes_the_place_of_its_records(&*fresh()).await;
    a_snapshot_of_the_future_is_refused(&*fresh()).await;
    concurrent_appends_lose_nothing(fresh()).await;
    a_number_never_given_out_is_refused(&*fresh()).await;
    a_load_can_be_stopped_and_repeated(&*fresh()).await;
    a_load_reports_each_step(&*fresh()).await;
}

/// Batches come back as they were, in order, with the epoch that wrote them.
pub async fn what_was_appended_is_loaded_in_order(journal: &dyn Journal) {
    let (writer, loaded, content) = open(journal, 1).await;
    assert_eq!((loaded, content), (Loaded::default(), Content::default()));
    let mut batches = vec![batch("a"), batch(""), batch("b")];
    batches[1].requests = vec!["r-1".into(), "".into()];
    for batch in &batches {
        append(&*writer, batch.clone()).await;
    }
    let (_, loaded, content) = open(journal, 2).await;
    let expected: Vec<_> = (1..).zip(batches).map(|(seq, b)| (1, seq, b)).collect();
    assert_eq!(content.records, expected);
    assert_eq!((loaded.records, loaded.last_seq), (3, 3));
    assert!(!loaded.dropped && loaded.skipped.is_empty(), "{loaded:?}");
}

/// The next reign goes on counting where the last one ended.
pub async fn numbers_rise_by_one_across_epochs(journal: &dyn Journal) {
    let (writer, ..) = open(journal, 1).await;
    assert_eq!(append(&*writer, batch("a")).await, 1);
    assert_eq!(append(&*writer, batch("b")).await, 2);
    let (writer, ..) = open(journal, 2).await;
    assert_eq!((writer.last_seq(), writer.committed_seq()), (2, 2));
    assert_eq!(append(&*writer, batch("c")).await, 3);
    let (_, _, content) = open(journal, 3).await;
    let places: Vec<_> = content.records.iter().map(|(e, s, _)| (*e, *s)).collect();
    assert_eq!(places, [(1, 1), (1, 2), (2, 3)]);
}

/// A claim needs an epoch above the one that stands, whoever makes it.
pub async fn equal_and_older_epochs_are_refused(journal: &dyn Journal) {
    let (writer, ..) = open(journal, 5).await;
    for epoch in [5, 4] {
        match journal.claim(claim(epoch), TIMEOUT).await {
            Err(ClaimError::Refused(ClaimRefused::Superseded { by })) => assert_eq!(by, claim(5)),
            other => panic!("a claim of epoch {epoch} after 5 gave {other:?}"),
        }
    }
    append(&*writer, batch("still leads")).await;
}

/// A store is never taken over by another cluster.
pub async fn another_cluster_is_refused(journal: &dyn Journal) {
    open(journal, 1).await;
    let mut other = claim(9);
    other.cluster = cluster("another");
    match journal.claim(other, TIMEOUT).await {
        Err(ClaimError::Refused(ClaimRefused::OtherCluster { .. })) => {}
        other => panic!("a claim of another cluster gave {other:?}"),
    }
}

/// Anybody may ask whose a store is, which changes nothing.
pub async fn the_claim_that_stands_is_told(journal: &dyn Journal) {
    let standing = async || journal.standing(TIMEOUT).await.expect("tells its claim");
    assert_eq!(standing().await, None);
    let (writer, ..) = open(journal, 4).await;
    assert_eq!(standing().await, Some(claim(4)));
    append(&*writer, batch("still leads")).await;
}

/// After another claim every write is refused, and leaves no trace.
pub async fn a_superseded_writer_changes_nothing(journal: &dyn Journal) {
    let (old, ..) = open(journal, 1).await;
    append(&*old, batch("old")).await;
    let (new, ..) = open(journal, 2).await;
    expect_fenced(old.append(batch("late"), TIMEOUT).await.map(drop));
    let late = Snapshot::new(1, 1, []);
    expect_fenced(old.snapshot(late, TIMEOUT).await);
    append(&*new, batch("new")).await;
    let (_, _, content) = open(journal, 3).await;
    let expected = [(1, 1, batch("old")), (2, 2, batch("new"))];
    assert_eq!(content.records, expected);
}

/// A writer that has not read must not write.
pub async fn nothing_is_written_before_a_load(journal: &dyn Journal) {
    let writer = claimed(journal, 1).await;
    let refused = writer.append(batch("blind"), TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::NotLoaded)),
        "{refused:?}"
    );
    let (_, _, content) = open(journal, 2).await;
    assert_eq!(content, Content::default());
}

/// A load gives the snapshot's chunks as they were cut, then only the records after it.
pub async fn a_snapshot_takes_the_place_of_its_records(journal: &dyn Journal) {
    let (writer, ..) = open(journal, 1).await;
    append(&*writer, batch("a")).await;
    append(&*writer, batch("b")).await;
    append(&*writer, batch("c")).await;
    for through in [1, 2] {
        let chunks = [Bytes::from_static(b"x"), Bytes::from(vec![b'y'; 3])];
        let snapshot = Snapshot::new(through, 7, chunks);
        if let Err(error) = writer.snapshot(snapshot, TIMEOUT).await {
            panic!("a snapshot through {through} gave {error}");
        }
    }
    assert_eq!(writer.log_size().records, 1);
    append(&*writer, batch("d")).await;
    let (_, loaded, content) = open(journal, 2).await;
    let chunks = [
        (7, Bytes::from_static(b"x")),
        (7, Bytes::from_static(b"yyy")),
    ];
    assert_eq!(content.chunks, chunks);
    let expected = [(1, 3, batch("c")), (1, 4, batch("d"))];
    assert_eq!(content.records, expected);
    assert_eq!((loaded.snapshot_chunks, loaded.last_seq), (2, 4));
}

/// A snapshot cannot hold what the store has not acknowledged.
pub async fn a_snapshot_of_the_future_is_refused(journal: &dyn Journal) {
    let (writer, ..) = open(journal, 1).await;
    append(&*writer, batch("a")).await;
    let snapshot = Snapshot::new(2, 1, []);
    let refused = writer.snapshot(snapshot, TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::NoSuchSeq { seq: 2, last: 1 })),
        "{refused:?}"
    );
}

/// Appends from many tasks each get their own number, and all are there.
pub async fn concurrent_appends_lose_nothing(journal: Arc<dyn Journal>) {
    let (writer, ..) = open(&*journal, 1).await;
    let writer: Arc<dyn Writer> = writer.into();
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let writer = Arc::clone(&writer);
            tokio::spawn(async move {
                let mut places = Vec::new();
                for step in 0..16 {
                    let batch = batch(&format!("{task}/{step}"));
                    places.push((append(&*writer, batch.clone()).await, batch));
                }
                places
            })
        })
        .collect();
    let mut places = Vec::new();
    for task in tasks {
        match task.await {
            Ok(own) => places.extend(own),
            Err(error) => panic!("an appending task failed: {error}"),
        }
    }
    places.sort_by_key(|(seq, _)| *seq);
    let (_, _, content) = open(&*journal, 2).await;
    let found: Vec<_> = content
        .records
        .into_iter()
        .map(|(_, s, b)| (s, b))
        .collect();
    assert_eq!(found, places);
    assert_eq!(found.len(), 128);
}

/// Asking for a batch that was never submitted is an error, not a wait.
pub async fn a_number_never_given_out_is_refused(journal: &dyn Journal) {
    let (writer, ..) = open(journal, 1).await;
    let refused = writer.committed(1, TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::NoSuchSeq { seq: 1, last: 0 })),
        "{refused:?}"
    );
}

/// A sink that gives up ends the load; the next load starts from the beginning.
pub async fn a_load_can_be_stopped_and_repeated(journal: &dyn Journal) {
    let (writer, ..) = open(journal, 1).await;
    append(&*writer, batch("a")).await;
    let mut writer = claimed(journal, 2).await;
    let stopped = writer.load(&mut GivesUp).await;
    assert!(
        matches!(stopped, Err(crate::LoadError::Rejected { .. })),
        "{stopped:?}"
    );
    let refused = writer.submit(batch("b"));
    assert!(
        matches!(refused, Err(AppendError::NotLoaded)),
        "{refused:?}"
    );
    let mut content = Content::default();
    if let Err(error) = writer.load(&mut content).await {
        panic!("the second load gave {error}");
    }
    assert_eq!(content.records, [(1, 1, batch("a"))]);
}

/// A load tells of each chunk and each record once the sink has it, so that a long one is not
/// taken for one that stands still.
pub async fn a_load_reports_each_step(journal: &dyn Journal) {
    let (writer, ..) = open(journal, 1).await;
    append(&*writer, batch("a")).await;
    let snapshot = Snapshot::new(1, 1, [Bytes::from_static(b"a"), Bytes::from_static(b"a")]);
    if let Err(error) = writer.snapshot(snapshot, TIMEOUT).await {
        panic!("the snapshot gave {error}");
    }
    append(&*writer, batch("b")).await;
    let mut writer = claimed(journal, 2).await;
    let steps = Arc::new(AtomicU64::new(0));
    let counted = steps.clone();
    writer.report_progress(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    let mut content = Content::default();
    if let Err(error) = writer.load(&mut content).await {
        panic!("the load gave {error}");
    }
    let given = content.chunks.len() + content.records.len();
    assert_eq!((given, steps.load(Ordering::Relaxed)), (3, 3));
}

struct GivesUp;

impl LoadSink for GivesUp {
    fn snapshot(&mut self, _: u16, _: Bytes) -> Result<(), Source> {
        Err("given up".into())
    }

    fn record(&mut self, _: &Record) -> Result<(), Source> {
        Err("given up".into())
    }
}

impl LoadSink for Content {
    fn snapshot(&mut self, version: u16, chunk: Bytes) -> Result<(), Source> {
        self.chunks.push((version, chunk));
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), Source> {
        assert_eq!(record.cluster, cluster("conformance"));
        let place = (record.epoch.get(), record.seq, record.batch.clone());
        self.records.push(place);
        Ok(())
    }
}

fn cluster(name: &str) -> kvcm_fence::ClusterId {
    match name.parse() {
        Ok(id) => id,
        Err(error) => panic!("{error}"),
    }
}

fn claim(epoch: u64) -> Claim {
    Claim {
        cluster: cluster("conformance"),
        epoch: Epoch::new(epoch).unwrap_or(Epoch::MAX),
        incarnation: Incarnation::from_bits(u128::from(epoch)),
    }
}

fn batch(operations: &str) -> Batch {
    Batch::new(3, 1, Bytes::copy_from_slice(operations.as_bytes()))
}

async fn claimed(journal: &dyn Journal, epoch: u64) -> Box<dyn Writer> {
    match journal.claim(claim(epoch), TIMEOUT).await {
        Ok(writer) => {
            assert_eq!(writer.claim(), &claim(epoch));
            writer
        }
        Err(error) => panic!("the claim of epoch {epoch} gave {error}"),
    }
}

async fn open(journal: &dyn Journal, epoch: u64) -> (Box<dyn Writer>, Loaded, Content) {
    let mut writer = claimed(journal, epoch).await;
    let mut content = Content::default();
    match writer.load(&mut content).await {
        Ok(loaded) => (writer, loaded, content),
        Err(error) => panic!("the load of epoch {epoch} gave {error}"),
    }
}

async fn append(writer: &dyn Writer, batch: Batch) -> u64 {
    match writer.append(batch, TIMEOUT).await {
        Ok(seq) => {
            assert!(writer.committed_seq() >= seq, "acknowledged, not committed");
            seq
        }
        Err(error) => panic!("an append gave {error}"),
    }
}

fn expect_fenced(result: Result<(), AppendError>) {
    assert!(matches!(result, Err(AppendError::Fenced(_))), "{result:?}");
}
