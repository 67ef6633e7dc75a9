//! The local journal: conformance, and what can happen to a directory.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use bytes::Bytes;
use kvcm_fence::{Claim, ClaimRefused, Epoch, Fenced, Incarnation};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{
    LocalJournal, claim, directory::Directory, file_error::FileError, mark, names, segment,
    store::LocalStore,
};
use crate::{
    AppendError, Batch, ClaimError, Journal, LoadSink, Loaded, Outcome, Record, Snapshot, Source,
    Writer, conformance, store::StoreError,
};

/// Long, because it only bounds a failure.
const TIMEOUT: Duration = Duration::from_secs(60);

fn claim_of(epoch: u64) -> Claim {
    Claim {
        cluster: "c".parse().unwrap(),
        epoch: Epoch::new(epoch).unwrap(),
        incarnation: Incarnation::from_bits(u128::from(epoch)),
    }
}

fn batch(text: &str) -> Batch {
    Batch::new(1, 1, Bytes::copy_from_slice(text.as_bytes()))
}

/// What a load gave: the operations as texts.
#[derive(Debug, Default)]
struct Texts(Vec<String>);

impl LoadSink for Texts {
    fn snapshot(&mut self, _: u16, chunk: Bytes) -> Result<(), Source> {
        self.0.push(String::from_utf8(chunk.to_vec())?);
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), Source> {
        self.0
            .push(String::from_utf8(record.batch.operations.to_vec())?);
        Ok(())
    }
}

/// A node of its own: another journal on the same directory.
struct Node(LocalJournal);

impl Node {
    fn at(path: &Path) -> Self {
        Self(LocalJournal::new(path).unwrap())
    }

    async fn claim(&self, epoch: u64) -> Result<Box<dyn Writer>, ClaimError> {
        self.0.claim(claim_of(epoch), TIMEOUT).await
    }

    async fn open(&self, epoch: u64) -> (Box<dyn Writer>, Loaded, Vec<String>) {
        let mut writer = self.claim(epoch).await.unwrap();
        let mut texts = Texts::default();
        let loaded = writer.load(&mut texts).await.unwrap();
        (writer, loaded, texts.0)
    }
}

async fn append(writer: &dyn Writer, text: &str) -> u64 {
    writer.append(batch(text), TIMEOUT).await.unwrap()
}

fn snapshot(through: u64, text: &'static str) -> Snapshot {
    Snapshot::new(through, 1, [Bytes::from_static(text.as_bytes())])
}

fn names(dir: &Path) -> names::Names {
    Directory::new(dir, false).names().unwrap()
}

/// The path of the newest part of the log.
fn tail(dir: &Path) -> PathBuf {
    dir.join(names::segment(*names(dir).segments.last().unwrap()))
}

#[tokio::test]
async fn conforms() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    let fresh = || -> Arc<dyn Journal> {
        count += 1;
        let path = dir.path().join("deep").join(format!("{count}"));
        Arc::new(LocalJournal::new(&path).unwrap())
    };
    conformance::all(fresh).await;
}

#[tokio::test]
async fn a_new_process_finds_everything_and_learns_who_led() {
    let dir = tempfile::tempdir().unwrap();
    let (writer, ..) = Node::at(dir.path()).open(3).await;
    assert_eq!(writer.former(), None);
    append(&*writer, "a").await;
    drop(writer);
    let (writer, loaded, texts) = Node::at(dir.path()).open(9).await;
    assert_eq!(writer.former(), Some(&claim_of(3)));
    assert_eq!((texts, loaded.dropped), (vec!["a".to_owned()], false));
}

#[tokio::test]
async fn a_directory_that_lost_its_fence_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    let (writer, ..) = node.open(1).await;
    append(&*writer, "a").await;
    fs::remove_file(dir.path().join(names::claim(claim_of(1).epoch))).unwrap();
    let refused = writer.append(batch("b"), TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::Fenced(Fenced::Missing))),
        "{refused:?}"
    );
    let refused = node.claim(2).await;
    assert!(
        matches!(refused, Err(ClaimError::Fatal { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_directory_that_was_replaced_acknowledges_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (writer, ..) = Node::at(&path).open(1).await;
    append(&*writer, "a").await;
    // As a backup is put back: the same names, other files.
    let backup = dir.path().join("backup");
    fs::create_dir(&backup).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), backup.join(entry.file_name())).unwrap();
    }
    append(&*writer, "b").await;
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&backup, &path).unwrap();
    let refused = writer.append(batch("c"), TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::Fenced(Fenced::Missing))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_damaged_claim_is_not_taken_for_none() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    node.open(1).await;
    fs::write(dir.path().join(names::claim(claim_of(1).epoch)), "x").unwrap();
    let refused = node.claim(2).await.unwrap_err().to_string();
    assert!(refused.contains("while no node leads"), "{refused}");
}

#[tokio::test]
async fn what_a_superseded_writer_adds_after_the_cut_is_never_read() {
    let dir = tempfile::tempdir().unwrap();
    let (old, ..) = Node::at(dir.path()).open(1).await;
    append(&*old, "a").await;
    let log = tail(dir.path());
    let (new, _, texts) = Node::at(dir.path()).open(2).await;
    assert_eq!(texts, ["a"]);
    // The old one was stopped before its write, and goes on now.
    let before = fs::metadata(&log).unwrap().len();
    let refused = old.append(batch("late"), TIMEOUT).await;
    assert!(
        matches!(&refused, Err(AppendError::Fenced(Fenced::By { by })) if *by == claim_of(2)),
        "{refused:?}"
    );
    assert!(
        fs::metadata(&log).unwrap().len() > before,
        "it was not even tried"
    );
    append(&*new, "b").await;
    let (_, loaded, texts) = Node::at(dir.path()).open(3).await;
    assert_eq!(texts, ["a", "b"]);
    assert_eq!((loaded.last_seq, loaded.skipped), (2, vec![]));
}

/// The rule that all hangs on: whatever is acknowledged while another node claims, that node finds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_acknowledged_is_lost_in_a_race_with_a_claim() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..30 {
        let path = dir.path().join(format!("{round}"));
        let (old, ..) = Node::at(&path).open(1).await;
        let writing = tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            loop {
                let text = format!("{}", acknowledged.len());
                match old.append(batch(&text), TIMEOUT).await {
                    Ok(_) => acknowledged.push(text),
                    Err(AppendError::Fenced(_)) => return acknowledged,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let mut epoch = 1;
        let mut former = Vec::new();
        // Several claims, so that some come while another is under way.
        let claims = (2..5).map(|epoch| {
            let node = Node::at(&path);
            tokio::spawn(async move { node.claim(epoch).await.is_ok() })
        });
        for claim in claims.collect::<Vec<_>>() {
            former.push(claim.await.unwrap());
            epoch += 1;
        }
        let acknowledged = writing.await.unwrap();
        let (_, loaded, texts) = Node::at(&path).open(epoch + 1).await;
        assert!(
            texts.starts_with(&acknowledged),
            "{acknowledged:?} are not in {texts:?}"
        );
        assert_eq!(loaded.skipped, []);
    }
}

#[tokio::test]
async fn a_claimant_that_died_on_its_way_leaves_nothing_that_hurts() {
    let dir = tempfile::tempdir().unwrap();
    let (writer, ..) = Node::at(dir.path()).open(1).await;
    append(&*writer, "a").await;
    // It died after it was visible, before it had a log.
    let seen = mark::encode(&claim_of(2)).unwrap();
    fs::write(dir.path().join(names::claim(claim_of(2).epoch)), &seen).unwrap();
    fs::write(dir.path().join(names::temporary(claim_of(2).epoch)), "half").unwrap();
    let refused = writer.append(batch("b"), TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::Fenced(Fenced::By { .. }))),
        "{refused:?}"
    );
    let refused = Node::at(dir.path()).claim(2).await;
    assert!(matches!(
        refused,
        Err(ClaimError::Refused(ClaimRefused::Superseded { .. }))
    ));
    let (writer, _, texts) = Node::at(dir.path()).open(4).await;
    // "b" is whole in the log and was not acknowledged: either is right, and it stays so.
    assert_eq!(texts, ["a", "b"]);
    append(&*writer, "c").await;
    assert_eq!(names(dir.path()).temporary.len(), 0);
    // One that was overtaken between its claim and its log: no other log names this one.
    let header = segment::Header {
        claim: claim_of(3),
        base: 0,
        before: None,
    };
    let id = names::SegmentId {
        epoch: claim_of(3).epoch,
        number: 0,
    };
    claim::begin(&Directory::new(dir.path(), false), id, &header)
        .unwrap()
        .unwrap();
    let (writer, loaded, texts) = Node::at(dir.path()).open(5).await;
    assert_eq!((texts.join(""), loaded.skipped), ("abc".to_owned(), vec![]));
    writer.snapshot(snapshot(3, "abc"), TIMEOUT).await.unwrap();
    assert!(
        !names(dir.path()).segments.contains(&id),
        "it was not tidied away"
    );
}

/// A new log that vanishes before it has its name is the work of a successor.
#[tokio::test]
async fn a_file_that_was_tidied_away_is_heard_of_as_a_newer_claim() {
    let dir = TempDir::new().unwrap();
    let directory = Arc::new(Directory::new(dir.path(), false));
    let claimed = claim::claim(&directory, &claim_of(1)).unwrap();
    let node = Node::at(dir.path());
    let disks = (node.0.disk().clone(), node.0.snapshots().clone());
    let store = LocalStore::new(directory, disks, claimed);
    let missing = || {
        let error = std::io::ErrorKind::NotFound.into();
        store
            .reign
            .failed(FileError::new("create", dir.path(), error))
    };
    let alone = missing();
    assert!(matches!(alone, StoreError::Unavailable(_)), "{alone:?}");
    Node::at(dir.path()).claim(2).await.unwrap();
    let superseded = missing();
    assert!(
        matches!(&superseded, StoreError::Fenced(Fenced::By { by }) if *by == claim_of(2)),
        "{superseded:?}"
    );
}

#[tokio::test]
async fn a_network_file_system_is_refused_unless_it_is_allowed() {
    let dir = TempDir::new().unwrap();
    for allowed in [false, true] {
        let journal = LocalJournal::with_network_fs(dir.path(), allowed).unwrap();
        *journal.directory().file_system.lock() = Some("nfs");
        let probed = journal.probe(TIMEOUT).await;
        assert_eq!(probed.is_ok(), allowed, "{probed:?}");
        match journal.claim(claim_of(1), TIMEOUT).await {
            Ok(_) => assert!(allowed),
            Err(ClaimError::Fatal { source, .. }) => {
                let text = source.to_string();
                assert!(!allowed && text.contains("on nfs") && text.contains("allow_network_fs"));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_torn_end_is_cut_wherever_it_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    let (writer, ..) = node.open(1).await;
    append(&*writer, "a").await;
    let whole = fs::metadata(tail(dir.path())).unwrap().len() as usize;
    append(&*writer, "b").await;
    let log = tail(dir.path());
    let bytes = fs::read(&log).unwrap();
    for end in whole..=bytes.len() {
        let copy = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let torn = copy.path().join(log.file_name().unwrap());
        fs::write(&torn, &bytes[..end]).unwrap();
        let (writer, loaded, mut texts) = Node::at(copy.path()).open(2).await;
        assert_eq!(loaded.skipped, []);
        assert_eq!(append(&*writer, "next").await, texts.len() as u64 + 1);
        // Should the rest of the torn write arrive all the same, it does not count.
        fs::write(&torn, &bytes).unwrap();
        texts.push("next".to_owned());
        let (_, loaded, again) = Node::at(copy.path()).open(3).await;
        assert_eq!((again, loaded.skipped), (texts, vec![]));
    }
}

#[tokio::test]
async fn a_damaged_record_is_reported_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (writer, ..) = Node::at(dir.path()).open(1).await;
    for text in ["first", "second", "third"] {
        append(&*writer, text).await;
    }
    let log = tail(dir.path());
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes
        .windows(6)
        .position(|window| window == b"second")
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&log, bytes).unwrap();
    let (writer, loaded, texts) = Node::at(dir.path()).open(2).await;
    assert_eq!(texts, ["first", "third"]);
    assert_eq!(
        (loaded.last_seq, loaded.skipped.len()),
        (3, 2),
        "{:?}",
        loaded.skipped
    );
    assert!(
        loaded.skipped[0].reason.contains("checksum"),
        "{:?}",
        loaded.skipped
    );
    assert!(
        loaded.skipped[1].reason.contains("records 2 to 2"),
        "{:?}",
        loaded.skipped
    );
    assert_eq!(append(&*writer, "fourth").await, 4);
}

#[tokio::test]
async fn a_full_disk_refuses_and_goes_on_when_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    let (writer, ..) = node.open(1).await;
    append(&*writer, "a").await;
    let full = &node.0.directory().full;
    full.store(true, Ordering::SeqCst);
    let error = writer.append(batch("b"), TIMEOUT).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    let text = error.to_string();
    assert!(text.contains(tail(dir.path()).to_str().unwrap()), "{text}");
    assert!(text.contains("free space"), "{text}");
    // No further batch gets a place, so nothing piles up.
    let error = writer.submit(batch("c")).unwrap_err();
    assert!(!error.is_unknown(), "{error}");
    let error = writer
        .snapshot(snapshot(1, "A"), TIMEOUT)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("free space"), "{error}");
    let error = Node::at(dir.path());
    error.0.directory().full.store(true, Ordering::SeqCst);
    let error = error.claim(2).await.unwrap_err().to_string();
    assert!(error.contains("free space"), "{error}");

    full.store(false, Ordering::SeqCst);
    writer.committed(2, TIMEOUT).await.unwrap();
    append(&*writer, "c").await;
    writer.snapshot(snapshot(3, "ABC"), TIMEOUT).await.unwrap();
    let (_, loaded, texts) = Node::at(dir.path()).open(2).await;
    assert_eq!((texts, loaded.skipped), (vec!["ABC".to_owned()], vec![]));
}

#[tokio::test]
async fn snapshots_bound_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    let (mut writer, ..) = node.open(1).await;
    let mut expected = Vec::new();
    for round in 1..=4 {
        for step in 0..40 {
            let text = format!("{round}/{step}/{}", "x".repeat(100));
            append(&*writer, &text).await;
            expected.push(text);
        }
        let found = names(dir.path());
        assert!(found.segments.len() > 3, "no new file was begun: {found:?}");
        let through = writer.committed_seq() - 1;
        writer
            .snapshot(snapshot(through, "S"), TIMEOUT)
            .await
            .unwrap();
        let found = names(dir.path());
        assert_eq!(
            (found.segments.len(), found.snapshots.len()),
            (2, 1),
            "{found:?}"
        );
        assert_eq!(found.claims.len() + found.temporary.len(), 1, "{found:?}");
        let (next, loaded, texts) = node.open(round + 1).await;
        assert_eq!(texts, ["S", expected.last().unwrap()]);
        assert_eq!((loaded.last_seq, loaded.skipped), (through + 1, vec![]));
        writer = next;
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_reported_and_what_follows_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    let (writer, ..) = node.open(1).await;
    append(&*writer, "a").await;
    writer.snapshot(snapshot(1, "A"), TIMEOUT).await.unwrap();
    append(&*writer, "b").await;
    let id = *names(dir.path()).snapshots.last().unwrap();
    let path = dir.path().join(names::snapshot(id));
    let whole = fs::read(&path).unwrap();
    for (damage, skipped) in [(0, 3), (whole.len() - 1, 1)] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 1;
        fs::write(&path, bytes).unwrap();
        let (_, loaded, texts) = node
            .open(writer.claim().epoch.get() + 1 + damage as u64)
            .await;
        assert_eq!(texts, ["b"]);
        assert_eq!(loaded.skipped.len(), skipped, "{:?}", loaded.skipped);
    }
}

#[tokio::test]
async fn a_disk_that_hangs_blocks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    let (writer, ..) = node.open(1).await;
    let (go_on, hang) = mpsc::sync_channel::<()>(0);
    let hanging = node.0.disk().run(move || hang.recv().is_err());
    let asking = async {
        let limit = Duration::from_millis(50);
        let error = writer.append(batch("a"), limit).await.unwrap_err();
        assert!(error.is_unknown(), "{error}");
        match node.0.claim(claim_of(2), limit).await {
            // It had not begun, and does not begin later.
            Err(ClaimError::Unavailable {
                outcome: Outcome::NotDone,
                ..
            }) => {}
            other => panic!("{other:?}"),
        }
        drop(go_on);
    };
    let (hung, ()) = tokio::join!(hanging, asking);
    assert!(hung.unwrap());
    writer.committed(1, TIMEOUT).await.unwrap();
    append(&*writer, "b").await;
}

/// A slow snapshot holds up no append, and is asked for its chunks one at a time.
#[tokio::test]
async fn appends_go_on_while_a_snapshot_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    let (writer, ..) = node.open(1).await;
    append(&*writer, "a").await;
    let (go_on, hang) = mpsc::sync_channel::<()>(0);
    let hanging = node.0.snapshots().run(move || hang.recv().is_err());
    let asked = Arc::new(AtomicUsize::new(0));
    let chunks = (0..3).map({
        let asked = Arc::clone(&asked);
        move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            Bytes::from_static(b"A")
        }
    });
    let writing = writer.snapshot(Snapshot::new(1, 1, chunks), TIMEOUT);
    let appending = async {
        while asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        append(&*writer, "b").await;
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        drop(go_on);
    };
    let (hung, written, ()) = tokio::join!(hanging, writing, appending);
    assert!(hung.unwrap());
    written.unwrap();
    let (_, loaded, texts) = Node::at(dir.path()).open(2).await;
    assert_eq!(
        (texts.concat(), loaded.skipped),
        ("AAAb".to_owned(), vec![])
    );
}

#[tokio::test]
async fn a_load_that_is_dropped_stops_and_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::at(dir.path());
    let (writer, ..) = node.open(1).await;
    for _ in 0..100 {
        append(&*writer, &"x".repeat(100)).await;
    }
    let mut writer = node.claim(2).await.unwrap();
    {
        let mut texts = Texts::default();
        let mut load = writer.load(&mut texts);
        // Until it waits for the disk.
        assert!(futures_util::poll!(&mut load).is_pending());
    }
    let mut texts = Texts::default();
    writer.load(&mut texts).await.unwrap();
    assert_eq!(texts.0.len(), 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Reigns that append, compact, die in the middle of a write, and follow one another: each
    /// finds what was acknowledged, in order, and perhaps the one batch that was under way.
    #[test]
    fn every_reign_finds_what_was_acknowledged(
        reigns in prop::collection::vec((0usize..12, prop::option::of(0usize..12), 0usize..200), 1..6)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = TempDir::new().unwrap();
            let mut all: Vec<String> = Vec::new();
            for (epoch, (appends, compact, torn)) in (1u64..).zip(reigns) {
                let (writer, loaded, texts) = Node::at(dir.path()).open(epoch).await;
                assert_eq!(loaded.skipped, []);
                assert_eq!(texts.concat(), all.concat());
                for step in 0..appends {
                    let text = format!("{epoch}.{step}{};", "-".repeat(50));
                    append(&*writer, &text).await;
                    all.push(text);
                    if compact == Some(step) {
                        let through = writer.committed_seq();
                        let state = Snapshot::new(through, 1, [Bytes::from(all.concat())]);
                        writer.snapshot(state, TIMEOUT).await.unwrap();
                    }
                }
                let log = tail(dir.path());
                let mut bytes = fs::read(&log).unwrap();
                bytes.extend_from_slice(&b"kvg\x01torn"[..].repeat(30)[..torn]);
                fs::write(&log, bytes).unwrap();
            }
        });
    }
}
