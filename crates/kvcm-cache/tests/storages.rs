//! What a start makes in its storage, and what becomes of it when the storage fails.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod common;

use std::{
    fs,
    future::Future,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
};

use common::{Fixture, file_at, granted, group, start, storage};
use kvcm_cache::{Config, ErrorKind, StartRequest, StorageWatch};
use kvcm_clock::{Clock, ManualClock, Timer};
use kvcm_registry::{Hf3fsSpec, Storage, StorageSpec};
use kvcm_storage::{Level, Reason};
use tempfile::TempDir;

/// Storages `a` and `b`, whose roots are directories of this name in a directory of their own;
/// preferred in this order.
async fn two(dir: &Path, a: &str, b: &str) -> Fixture {
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    for (name, root) in [("a", a), ("b", b)] {
        let storage = file_at(name, dir.join(root).to_str().unwrap());
        f.registry.add_storage(storage).await.unwrap();
    }
    f.registry.create_group(group(&["a", "b"])).await.unwrap();
    let groups: &[(&str, &[&str])] = &[("one", &["tp1"])];
    f.register("i1", &["tp0", "tp1"], groups).await;
    f
}

fn uris(started: &kvcm_cache::Started) -> Vec<String> {
    let entries = granted(started).into_iter();
    let specs = entries.flat_map(|(_, specs)| specs);
    specs.map(|(_, uri)| uri).collect()
}

/// Where an engine writes.
fn path(uri: &str) -> String {
    let (_, path) = uri.split_once("://").unwrap();
    let path = path.split_once('?').unwrap().0;
    path[path.find('/').unwrap()..].to_owned()
}

#[tokio::test]
async fn an_engine_can_write_at_each_place_that_it_gets() {
    let dir = TempDir::new().unwrap();
    let f = two(dir.path(), "a", "b").await;
    let started = f.start(&[1, 2, 3]).await.unwrap();
    let uris = uris(&started);
    assert_eq!(uris.len(), 6);
    for uri in &uris {
        fs::write(path(uri), "block").unwrap();
    }
}

#[tokio::test]
async fn only_the_specs_that_are_written_get_directories() {
    let dir = TempDir::new().unwrap();
    let f = two(dir.path(), "a", "b").await;
    let request = StartRequest {
        spec_group_names: &["one".to_owned(), "one".to_owned()],
        ..start(&[1, 2])
    };
    let started = f.cache.start_write(&request).await.unwrap();
    for uri in uris(&started) {
        fs::write(path(&uri), "block").unwrap();
    }
    assert!(!dir.path().join("a/i1/tp0").exists());
}

#[tokio::test]
async fn keys_that_are_all_there_make_nothing() {
    let dir = TempDir::new().unwrap();
    let f = two(dir.path(), "a", "b").await;
    f.write(&[1]).await;
    let directories = || fs::read_dir(dir.path().join("a/i1/tp0")).unwrap().count();
    let before = directories();
    for _ in 0..10 {
        f.start(&[1]).await.unwrap();
    }
    assert_eq!(directories(), before);
}

#[tokio::test]
async fn a_storage_that_fails_is_passed_over() {
    let dir = TempDir::new().unwrap();
    let f = two(dir.path(), "absent/a", "b").await;
    for key in 1..5 {
        let started = f.start(&[key]).await.unwrap();
        for uri in uris(&started) {
            assert!(uri.starts_with("file://b/"), "{uri}");
            fs::write(path(&uri), "block").unwrap();
        }
    }
    // One location of two specs for each key, and nothing of those that failed.
    assert_eq!(f.cache.counts().keys, 4);
    assert_eq!(f.cache.counts().bytes, 4 * 2 * 1024);
}

#[tokio::test]
async fn a_start_that_finds_no_storage_that_works_changes_nothing_and_says_why() {
    let dir = TempDir::new().unwrap();
    let f = two(dir.path(), "x/a", "y/b").await;
    let error = f.start(&[1, 2]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    let text = error.to_string();
    assert!(
        text.contains("missing: ") && text.contains("mount what"),
        "{text}"
    );
    let counts = f.cache.counts();
    assert_eq!((counts.keys, counts.bytes, counts.sessions), (0, 0, 0));
    // It stays down until a check finds it, twice.
    fs::create_dir(dir.path().join("y")).unwrap();
    let text = f.start(&[1]).await.unwrap_err().to_string();
    assert!(
        text.contains("(a, b); enable one, or repair what is missing: "),
        "{text}"
    );
    let watch = StorageWatch::new(Arc::clone(&f.registry));
    watch.check().await;
    watch.check().await;
    let started = f.start(&[1, 2]).await.unwrap();
    assert!(uris(&started)[0].starts_with("file://b/"));
}

#[tokio::test]
async fn a_caller_that_goes_away_while_directories_are_made_leaves_its_keys_free() {
    let dir = TempDir::new().unwrap();
    let f = two(dir.path(), "a", "b").await;
    {
        let mut starting = pin!(f.start(&[1, 2]));
        let mut context = Context::from_waker(Waker::noop());
        assert!(starting.as_mut().poll(&mut context).is_pending());
        assert_eq!(f.cache.counts().keys, 2);
    }
    let counts = f.cache.counts();
    assert_eq!((counts.keys, counts.bytes), (0, 0));
    assert_eq!(f.start(&[1, 2]).await.unwrap().granted.len(), 2);
}

fn hf3fs(mountpoint: &Path) -> Storage {
    let spec = Hf3fsSpec {
        mountpoint: mountpoint.to_str().unwrap().to_owned(),
        root_dir: "kv".to_owned(),
        key_count_per_file: 2,
        touch_file_when_create: true,
        ..Hf3fsSpec::default()
    };
    storage("nfs_01", StorageSpec::Hf3fs(spec))
}

#[tokio::test]
async fn files_are_there_when_the_storage_wants_them_touched() {
    let dir = TempDir::new().unwrap();
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    f.simple_in(hf3fs(dir.path())).await;
    for keys in [[1, 2, 3], [4, 5, 6]] {
        let started = f.start(&keys).await.unwrap();
        let mut paths: Vec<String> = uris(&started).iter().map(|uri| path(uri)).collect();
        paths.dedup();
        assert_eq!(paths.len(), 2, "two keys share a file");
        assert!(
            paths.iter().all(|path| Path::new(path).is_file()),
            "{paths:?}"
        );
    }
}

/// Files below a directory, without those of checks.
fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let (directories, mut found): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    found.extend(directories.iter().flat_map(|path| files(path)));
    found
}

#[tokio::test]
async fn files_of_a_start_that_the_journal_refuses_go_again() {
    let dir = TempDir::new().unwrap();
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    f.simple_in(hf3fs(dir.path())).await;
    f.start(&[1, 2, 3]).await.unwrap();
    let before = files(dir.path());
    assert_eq!(before.len(), 2);
    f.journal.faults().refuse_submits(true);
    let error = f.start(&[4, 5, 6]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotStored);
    assert_eq!(files(dir.path()), before);
    f.journal.faults().heal();
    f.start(&[4, 5, 6]).await.unwrap();
    assert_eq!(files(dir.path()).len(), 4);
}

#[tokio::test]
async fn a_storage_that_must_be_checked_takes_blocks_after_its_first_check() {
    let dir = TempDir::new().unwrap();
    let f = Fixture::empty(Arc::new(ManualClock::default()), Config::default()).await;
    let mut storage = hf3fs(dir.path());
    storage.check_when_open = true;
    f.simple_in(storage.clone()).await;
    let watch = StorageWatch::new(Arc::clone(&f.registry));
    assert!(!watch.is_available(&storage));
    let text = f.start(&[1]).await.unwrap_err().to_string();
    assert!(
        text.contains("unproven: its first check has not ended"),
        "{text}"
    );
    watch.check().await;
    assert!(watch.is_available(&storage));
    f.start(&[1]).await.unwrap();
}

#[tokio::test]
async fn the_watch_tells_disabled_missing_and_working_storages() {
    let dir = TempDir::new().unwrap();
    let f = two(dir.path(), "absent/a", "b").await;
    let watch = StorageWatch::new(Arc::clone(&f.registry));
    let seen = || {
        let all = watch.all().into_iter();
        let seen = all.map(|(storage, status)| {
            let status = status.unwrap();
            let reason = status.problem.map(|problem| problem.reason);
            (watch.is_available(&storage), status.level, reason)
        });
        seen.collect::<Vec<_>>()
    };
    let up = (true, Level::Up, None);
    let missing = (false, Level::Down, Some(Reason::Missing));
    assert_eq!(seen(), [up, up], "as long as nothing is known");
    watch.check().await;
    assert_eq!(seen(), [missing, up]);
    f.registry.set_storage_available("b", false).await.unwrap();
    assert_eq!(seen(), [missing, (false, Level::Up, None)]);
    // Another place under the same name starts anew.
    let moved = file_at("a", dir.path().join("a").to_str().unwrap());
    f.registry.update_storage(moved).await.unwrap();
    watch.check().await;
    assert_eq!(seen()[0], up);
    f.registry.remove_storage("a").await.unwrap();
    assert_eq!(seen().len(), 1);
}

#[tokio::test]
async fn the_watch_checks_on_its_own_and_finds_new_storages() {
    let dir = TempDir::new().unwrap();
    let clock = ManualClock::default();
    let f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
    let watch = Arc::new(StorageWatch::new(Arc::clone(&f.registry)));
    let (running, on) = (Arc::clone(&watch), clock.clone());
    let task = tokio::spawn(async move { running.run(&on, &Stepping(on.clone())).await });
    let storage = file_at("late", dir.path().join("x/late").to_str().unwrap());
    f.registry.add_storage(storage.clone()).await.unwrap();
    while watch.is_available(&storage) {
        tokio::task::yield_now().await;
    }
    fs::create_dir(dir.path().join("x")).unwrap();
    while !watch.is_available(&storage) {
        tokio::task::yield_now().await;
    }
    task.abort();
}

/// Moves the clock to where it is waited for.
#[derive(Debug)]
struct Stepping(ManualClock);

#[async_trait::async_trait]
impl Timer for Stepping {
    async fn sleep_until(&self, moment: kvcm_clock::Moment) {
        self.0.advance(self.0.now().until(moment));
        tokio::task::yield_now().await;
    }
}
