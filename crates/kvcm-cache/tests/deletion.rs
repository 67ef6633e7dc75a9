//! What has ended leaves nothing behind, and nothing else goes with it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{Entry, Fixture, granted, group, start, storage};
use kvcm_cache::{Config, Mask, Permit};
use kvcm_clock::{Clock, ManualClock};
use kvcm_registry::{FileSpec, Storage, StorageSpec};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);

/// A fixture whose storage is a real directory.
struct Bench {
    f: Fixture,
    clock: ManualClock,
    root: TempDir,
}

impl std::ops::Deref for Bench {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.f
    }
}

fn files(root: &Path, keys_per_file: i32) -> Storage {
    let spec = FileSpec {
        root_path: root.to_str().unwrap().to_owned(),
        key_count_per_file: keys_per_file,
    };
    storage("nfs_01", StorageSpec::File(spec))
}

impl Bench {
    async fn new() -> Self {
        Self::with(1, Config::default()).await
    }

    async fn with(keys_per_file: i32, config: Config) -> Self {
        let clock = ManualClock::default();
        let f = Fixture::empty(Arc::new(clock.clone()), config).await;
        let root = TempDir::new().unwrap();
        f.registry
            .add_storage(files(root.path(), keys_per_file))
            .await
            .unwrap();
        f.registry.create_group(group(&["nfs_01"])).await.unwrap();
        f.register("i1", &["tp0", "tp1"], &[("zero", &["tp0"])])
            .await;
        Self { f, clock, root }
    }

    /// Starts a write, and puts the files where the locations say.
    async fn begin(&self, keys: &[i64]) -> (String, Vec<PathBuf>) {
        let started = self.start(keys).await.unwrap();
        assert_eq!(started.granted.len(), keys.len());
        let paths = paths(&granted(&started));
        for path in &paths {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"block").unwrap();
        }
        (started.session_id.to_string(), paths)
    }

    /// Writes blocks and their files.
    async fn fill(&self, keys: &[i64]) -> Vec<PathBuf> {
        let (id, paths) = self.begin(keys).await;
        let mask = Mask::Offset(keys.len() as i32);
        self.finish(&id, mask).await.unwrap();
        paths
    }

    /// Lets so much time pass, and deletes what is due.
    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.cache.expire(self.clock.now()).await.unwrap();
        self.delete_due().await;
    }

    fn bytes(&self) -> u64 {
        self.cache.counts().bytes
    }
}

/// Where the entries say that the bytes are; blocks of one file say the same.
fn paths(entries: &[Entry]) -> Vec<PathBuf> {
    let specs = entries.iter().flat_map(|(_, specs)| specs);
    let path = |uri: &str| {
        let path = uri.strip_prefix("file://nfs_01").unwrap();
        PathBuf::from(path.split_once('?').unwrap().0)
    };
    specs.map(|(_, uri)| path(uri)).collect()
}

fn there(paths: &[PathBuf]) -> Vec<bool> {
    paths.iter().map(|path| path.exists()).collect()
}

#[tokio::test]
async fn a_removed_block_cannot_be_read_at_once_and_its_bytes_go_after_the_delay() {
    let b = Bench::new().await;
    let paths = b.fill(&[1, 2]).await;
    assert_eq!(b.bytes(), 4 * 1024);
    assert_eq!(b.remove(&[1, 9]).await.unwrap(), 1);
    assert_eq!(b.prefix(&[1]), []);
    assert_eq!(b.states(&[1, 2]), ["DELETING", "SERVING"]);
    assert_eq!(b.remove(&[1]).await.unwrap(), 0, "it is on its way already");
    b.pass(SECOND * 999 / 1000).await;
    assert_eq!(there(&paths), [true; 4], "engines may be reading it");
    assert_eq!(b.bytes(), 4 * 1024, "bytes count until they are deleted");
    b.pass(SECOND / 1000).await;
    assert_eq!(there(&paths), [false, false, true, true]);
    assert_eq!(b.states(&[1, 2]), ["NOT_FOUND", "SERVING"]);
    assert_eq!(b.bytes(), 2 * 1024);
    assert_eq!(b.cache.counts().keys, 1);
    let activity = b.cache.activity();
    assert_eq!((activity.removed, activity.deleted), (1, 1));
}

#[tokio::test]
async fn a_key_that_is_being_deleted_can_be_written_again_and_keeps_its_new_bytes() {
    let b = Bench::new().await;
    let old = b.fill(&[1]).await;
    b.remove(&[1]).await.unwrap();
    let new = b.fill(&[1]).await;
    assert_ne!(old, new);
    assert_eq!(b.states(&[1]), ["SERVING"]);
    assert_eq!(paths(&b.prefix(&[1])), new);
    b.pass(SECOND).await;
    assert_eq!((there(&old), there(&new)), (vec![false; 2], vec![true; 2]));
    assert_eq!(paths(&b.prefix(&[1])), new);
}

#[tokio::test]
async fn what_a_session_did_not_write_is_deleted_too() {
    let b = Bench::new().await;
    let (id, partly) = b.begin(&[1, 2]).await;
    b.finish(&id, Mask::Bools(&[true, false])).await.unwrap();
    let (id, rejected) = b.begin(&[3]).await;
    b.finish(&id, Mask::Bools(&[true, true])).await.unwrap_err();
    let (_, expired) = b.begin(&[4]).await;
    assert_eq!(b.states(&[1, 2, 3]), ["SERVING", "DELETING", "DELETING"]);
    b.pass(SECOND).await;
    assert_eq!(there(&partly), [true, true, false, false]);
    assert_eq!(there(&rejected), [false; 2]);
    assert_eq!(there(&expired), [true; 2]);
    b.pass(59 * SECOND).await;
    assert_eq!(b.states(&[4]), ["DELETING"]);
    b.pass(SECOND).await;
    assert_eq!(there(&expired), [false; 2]);
    assert_eq!(b.cache.counts().keys, 1);
    let activity = b.cache.activity();
    assert_eq!(activity.unwritten, 3);
    let ended = (
        activity.sessions_finished,
        activity.sessions_rejected,
        activity.sessions_expired,
    );
    assert_eq!(ended, (1, 1, 1));
}

#[tokio::test]
async fn bytes_that_a_session_may_still_write_stay_until_it_has_ended() {
    let b = Bench::new().await;
    let (id, paths) = b.begin(&[1]).await;
    b.remove(&[1]).await.unwrap();
    b.pass(10 * SECOND).await;
    assert_eq!(there(&paths), [true; 2]);
    b.finish(&id, Mask::Offset(1)).await.unwrap();
    assert_eq!(b.states(&[1]), ["DELETING"], "a finish revives nothing");
    b.pass(10 * SECOND).await;
    assert_eq!(there(&paths), [false; 2]);
    assert_eq!(b.cache.counts().keys, 0);
}

#[tokio::test]
async fn a_shared_file_goes_with_the_last_of_its_blocks() {
    let mut b = Bench::with(4, Config::default()).await;
    let paths = b.fill(&[1, 2, 3, 4, 5]).await;
    // Two specs: keys 1 to 4 share two files, key 5 has two of its own.
    b.remove(&[2, 5]).await.unwrap();
    b.pass(SECOND).await;
    assert_eq!(b.bytes(), 8 * 1024, "those of key 2 are still there");
    let first = &paths[..2];
    assert_eq!(
        (there(first), there(&paths[8..])),
        (vec![true; 2], vec![false; 2])
    );
    assert_eq!(b.prefix(&[3]).len(), 1);
    b.f.fail_over().await;
    assert_eq!(b.bytes(), 6 * 1024, "the next leader knows of blocks only");
    b.remove(&[1, 4]).await.unwrap();
    b.pass(SECOND).await;
    assert_eq!(there(first), [true; 2], "key 3 lives in it");
    assert_eq!(b.bytes(), 6 * 1024);
    b.remove(&[3]).await.unwrap();
    b.f.fail_over().await;
    b.pass(Duration::ZERO).await;
    b.pass(SECOND).await;
    assert_eq!(there(first), [false; 2]);
    assert_eq!((b.cache.counts().keys, b.bytes()), (0, 0));
}

#[tokio::test]
async fn the_bytes_of_a_shared_file_are_free_when_its_last_block_has_gone() {
    let b = Bench::with(4, Config::default()).await;
    let staying = |b: &Bench| {
        let usage = b.cache.group_usage();
        let of = |bytes: fn(&kvcm_cache::GroupBytes) -> u64| usage.iter().map(bytes).sum::<u64>();
        (of(|group| group.staying), of(|group| group.leaving))
    };
    b.fill(&[1, 2, 3, 4]).await;
    b.remove(&[1, 2]).await.unwrap();
    assert_eq!(staying(&b), (4 * 1024, 4 * 1024));
    b.pass(SECOND).await;
    assert_eq!(staying(&b), (8 * 1024, 0), "nothing has become free");
    b.remove(&[3]).await.unwrap();
    assert_eq!(staying(&b), (6 * 1024, 2 * 1024));
    b.remove(&[4]).await.unwrap();
    assert_eq!(staying(&b), (0, 8 * 1024), "all will be free");
    b.pass(SECOND).await;
    assert_eq!(staying(&b), (0, 0));
}

#[tokio::test]
async fn the_blocks_of_a_shared_file_may_have_different_specs() {
    let b = Bench::with(4, Config::default()).await;
    let groups = ["".to_owned(), "zero".to_owned()];
    let request = kvcm_cache::StartRequest {
        spec_group_names: &groups,
        ..start(&[1, 2])
    };
    let started = b.cache.start_write(&request).await.unwrap();
    let paths = paths(&granted(&started));
    for path in &paths {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"block").unwrap();
    }
    b.finish(started.session_id.as_str(), Mask::Offset(2))
        .await
        .unwrap();
    b.remove(&[1]).await.unwrap();
    b.pass(SECOND).await;
    b.remove(&[2]).await.unwrap();
    b.pass(SECOND).await;
    // Spec tp1 was in key 1 only, and its file went with key 2.
    assert_eq!(there(&paths), [false; 3]);
}

#[tokio::test]
async fn nothing_is_deleted_without_permission_which_is_asked_before_each_file() {
    let b = Bench::new().await;
    let paths = b.fill(&[1, 2, 3]).await;
    b.trim().await.unwrap();
    b.clock.advance(SECOND);
    let no: Permit = Arc::new(|| false);
    b.cache.delete_due(&no).await.unwrap();
    assert_eq!(there(&paths), [true; 6]);
    // The lead is lost after the second file: once is for the batch.
    let asked = Arc::new(AtomicUsize::new(0));
    let some: Permit = {
        let asked = Arc::clone(&asked);
        Arc::new(move || asked.fetch_add(1, Ordering::SeqCst) < 3)
    };
    b.cache.delete_due(&some).await.unwrap();
    let left = there(&paths).into_iter().filter(|there| *there).count();
    assert_eq!(left, 4);
    assert_eq!(b.cache.activity().delete_failures, 0, "it is no failure");
    b.delete_due().await;
    assert_eq!(there(&paths), [false; 6]);
    assert_eq!(b.cache.counts().keys, 0);
}

#[tokio::test]
async fn the_next_leader_deletes_what_the_former_left_after_the_whole_delay_again() {
    let mut b = Bench::new().await;
    let paths = b.fill(&[1, 2]).await;
    b.remove(&[1]).await.unwrap();
    b.clock.advance(SECOND);
    b.f.fail_over().await;
    assert_eq!(b.states(&[1, 2]), ["DELETING", "SERVING"]);
    let before = b.cache.counts();
    assert_eq!((before.keys, before.bytes), (2, 4096));
    b.pass(Duration::ZERO).await;
    b.pass(SECOND * 9 / 10).await;
    assert_eq!(there(&paths), [true; 4]);
    b.pass(SECOND / 10).await;
    assert_eq!(there(&paths), [false, false, true, true]);
    // And the one after it finds nothing of it.
    b.f.fail_over().await;
    assert_eq!(b.states(&[1, 2]), ["NOT_FOUND", "SERVING"]);
    assert_eq!(b.bytes(), 2048);
}

#[tokio::test]
async fn what_a_snapshot_holds_of_a_deletion_is_enough() {
    let mut b = Bench::new().await;
    let paths = b.fill(&[1, 2]).await;
    b.remove(&[1]).await.unwrap();
    assert!(b.cache.snapshot().await.unwrap());
    b.f.fail_over().await;
    b.pass(Duration::ZERO).await;
    b.pass(SECOND).await;
    assert_eq!(there(&paths), [false, false, true, true]);
}

#[tokio::test]
async fn what_does_not_fit_the_queue_goes_all_the_same() {
    let config = Config {
        deletions_queued_max: 100,
        ..Config::default()
    };
    let b = Bench::with(1, config).await;
    let keys: Vec<i64> = (0..350).collect();
    let paths = b.fill(&keys).await;
    for keys in keys.chunks(70) {
        b.remove(keys).await.unwrap();
    }
    for _ in 0..8 {
        b.pass(SECOND).await;
    }
    assert!(!there(&paths).contains(&true));
    assert_eq!((b.cache.counts().keys, b.bytes()), (0, 0));
}

#[tokio::test]
async fn a_deletion_that_fails_is_tried_again_later_and_holds_up_nothing_else() {
    let b = Bench::new().await;
    let paths = b.fill(&[1, 2]).await;
    // A directory with something in it cannot be deleted as a file.
    std::fs::remove_file(&paths[0]).unwrap();
    std::fs::create_dir(&paths[0]).unwrap();
    std::fs::write(paths[0].join("x"), b"").unwrap();
    b.remove(&[1, 2]).await.unwrap();
    b.pass(SECOND).await;
    assert_eq!(there(&paths), [true, false, false, false]);
    assert_eq!(b.states(&[1, 2]), ["DELETING", "NOT_FOUND"]);
    assert_eq!(b.cache.activity().delete_failures, 1);
    b.pass(SECOND).await;
    assert_eq!(b.cache.activity().delete_failures, 2);
    // The wait doubles.
    b.pass(SECOND).await;
    assert_eq!(b.cache.activity().delete_failures, 2);
    std::fs::remove_dir_all(&paths[0]).unwrap();
    b.pass(SECOND).await;
    assert_eq!(b.states(&[1]), ["NOT_FOUND"]);
    assert_eq!((b.cache.activity().deleted, b.bytes()), (2, 0));
}

#[tokio::test]
async fn a_file_that_was_never_written_is_no_failure() {
    let b = Bench::new().await;
    b.write(&[1]).await;
    b.remove(&[1]).await.unwrap();
    b.pass(SECOND).await;
    assert_eq!(b.cache.counts().keys, 0);
    assert_eq!(b.cache.activity().delete_failures, 0);
}

#[tokio::test]
async fn a_root_that_is_not_there_does_not_mean_that_its_files_are_gone() {
    let b = Bench::new().await;
    b.fill(&[1]).await;
    b.remove(&[1]).await.unwrap();
    let away = b.root.path().with_extension("away");
    std::fs::rename(b.root.path(), &away).unwrap();
    b.pass(SECOND).await;
    assert_eq!(b.states(&[1]), ["DELETING"]);
    std::fs::rename(&away, b.root.path()).unwrap();
    b.pass(SECOND).await;
    assert_eq!(b.states(&[1]), ["NOT_FOUND"]);
}

#[tokio::test]
async fn a_disabled_storage_is_left_alone_until_it_is_enabled() {
    let b = Bench::new().await;
    let paths = b.fill(&[1]).await;
    b.remove(&[1]).await.unwrap();
    b.registry
        .set_storage_available("nfs_01", false)
        .await
        .unwrap();
    b.pass(SECOND).await;
    assert_eq!(
        (there(&paths), b.states(&[1])),
        (vec![true; 2], vec!["DELETING"])
    );
    b.registry
        .set_storage_available("nfs_01", true)
        .await
        .unwrap();
    b.pass(Duration::ZERO).await;
    assert_eq!(
        (there(&paths), b.states(&[1])),
        (vec![false; 2], vec!["NOT_FOUND"])
    );
}

#[tokio::test]
async fn the_blocks_of_a_storage_that_is_not_registered_any_more_are_forgotten() {
    let b = Bench::new().await;
    let paths = b.fill(&[1]).await;
    b.remove(&[1]).await.unwrap();
    b.registry.remove_storage("nfs_01").await.unwrap();
    b.pass(SECOND).await;
    assert_eq!(
        (there(&paths), b.states(&[1])),
        (vec![true; 2], vec!["NOT_FOUND"])
    );
    let activity = b.cache.activity();
    assert_eq!((activity.forgotten, activity.deleted), (1, 0));
}

#[tokio::test]
async fn a_record_that_the_journal_does_not_let_go_is_tried_again() {
    let b = Bench::new().await;
    let paths = b.fill(&[1]).await;
    b.remove(&[1]).await.unwrap();
    b.clock.advance(SECOND);
    b.journal.faults().refuse_submits(true);
    let permit: Permit = Arc::new(|| true);
    b.cache.delete_due(&permit).await.unwrap_err();
    assert_eq!(
        (there(&paths), b.states(&[1])),
        (vec![false; 2], vec!["DELETING"])
    );
    b.journal.faults().heal();
    b.pass(SECOND).await;
    assert_eq!(b.states(&[1]), ["NOT_FOUND"]);
}

#[tokio::test]
async fn a_removal_that_the_journal_refuses_deletes_nothing() {
    let b = Bench::new().await;
    let paths = b.fill(&[1]).await;
    b.journal.faults().refuse_submits(true);
    b.remove(&[1]).await.unwrap_err();
    b.journal.faults().heal();
    b.pass(60 * SECOND).await;
    assert_eq!(
        (there(&paths), b.states(&[1])),
        (vec![true; 2], vec!["SERVING"])
    );
}

#[tokio::test]
async fn a_superseded_leader_is_told_before_anything_is_marked() {
    let mut b = Bench::new().await;
    let paths = b.fill(&[1, 2]).await;
    b.remove(&[1]).await.unwrap();
    let old = Arc::clone(&b.cache);
    b.f.fail_over().await;
    let request = kvcm_cache::RemoveRequest {
        instance_id: "i1",
        blocks: kvcm_cache::Blocks::keys(&[2]),
        request: None,
    };
    assert!(old.remove(&request).await.unwrap_err().is_fenced());
    b.clock.advance(60 * SECOND);
    let lost: Permit = Arc::new(|| false);
    old.delete_due(&lost).await.unwrap();
    assert_eq!(there(&paths), [true; 4]);
}

#[tokio::test]
async fn blocks_of_a_removed_instance_are_deleted() {
    let b = Bench::new().await;
    let paths = b.fill(&[1, 2]).await;
    b.registry.remove_instance("i1").await.unwrap();
    assert_eq!(b.cache.drop_instance("i1").await.unwrap(), 2);
    b.pass(SECOND).await;
    assert_eq!(there(&paths), [false; 4]);
    assert_eq!(b.bytes(), 0);
}
