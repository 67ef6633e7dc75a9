//! Damage and mishaps: nothing that cannot be read gives the lock away.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use coordination_core::{Backend, Expect, ReignEnd, RenewOutcome, SetOutcome};
use coordination_file::{FileBackend, Options};
use kvcm_clock::BootClock;
use kvcm_uri::Uri;
use support::{KEY, LONG, acquire, deadline, nothing_done, open, owner, settled, try_lock};
use tempfile::TempDir;

const RECORD: &str = "lock-_TAIR_KVCM_LEADER_KEY.record.";

#[tokio::test]
async fn a_damaged_record_is_set_aside_and_its_reign_ends_unknown() {
    let dir = TempDir::new().unwrap();
    let (backend, a, b) = (open(dir.path()), owner("a"), owner("b"));
    let mut last = acquire(&backend, &a).await.epoch;
    let whole = fs::read(newest(dir.path()).1).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for damaged in &[half, flipped, Vec::new(), vec![0; 4096]] {
        let (number, record) = newest(dir.path());
        fs::write(record, damaged).unwrap();
        assert_eq!(
            backend.lock_holder(KEY, deadline()).await.unwrap(),
            None,
            "the record was set aside"
        );
        let taken = acquire(&backend, &b).await;
        assert!(taken.epoch > last && !taken.repeated);
        let previous = taken.previous.unwrap();
        assert_eq!((previous.end, previous.epoch), (ReignEnd::Unknown, last));
        assert!(!previous.lease_left.is_zero());
        last = taken.epoch;
        let aside = format!("lock-{KEY}.damaged.{number}");
        assert_eq!(&fs::read(dir.path().join(aside)).unwrap(), damaged);
    }
    let renewed = backend.renew_lock(KEY, &a, last, LONG, "", deadline());
    assert!(matches!(
        renewed.await.unwrap(),
        RenewOutcome::HeldByOther(_)
    ));
}

#[tokio::test]
async fn a_record_that_somebody_removed_leaves_its_epoch() {
    let dir = TempDir::new().unwrap();
    let (backend, a) = (open(dir.path()), owner("a"));
    let first = acquire(&backend, &a).await.epoch;
    settled(&backend).await;
    for (_, record) in records(dir.path()) {
        fs::remove_file(record).unwrap();
    }
    let renewed = backend.renew_lock(KEY, &a, first, LONG, "", deadline());
    assert_eq!(renewed.await.unwrap(), RenewOutcome::NotHeld);
    let second = acquire(&backend, &owner("b")).await;
    assert_eq!(second.epoch, first.next().unwrap());
    let previous = second.previous.unwrap();
    assert_eq!((previous.end, previous.epoch), (ReignEnd::Unknown, first));
}

#[tokio::test]
async fn an_epoch_of_a_crash_between_mark_and_record_is_not_minted_again() {
    let dir = TempDir::new().unwrap();
    let (backend, a, b) = (open(dir.path()), owner("a"), owner("b"));
    let first = acquire(&backend, &a).await.epoch;
    let crashed = first.next().unwrap();
    fs::write(dir.path().join(format!("lock-{KEY}.epoch.{crashed}")), "").unwrap();
    backend
        .unlock(KEY, &a, first, None, deadline())
        .await
        .unwrap();
    let second = acquire(&backend, &b).await;
    assert!(second.epoch > crashed);
    assert_eq!(second.previous.unwrap().end, ReignEnd::Released);
}

#[tokio::test]
async fn what_cannot_be_read_is_unavailable_and_not_free() {
    let dir = TempDir::new().unwrap();
    let (backend, b) = (open(dir.path()), owner("b"));
    let record = dir.path().join(format!("{RECORD}7"));
    fs::create_dir(&record).unwrap();
    nothing_done(try_lock(&backend, &b).await);
    nothing_done(backend.lock_holder(KEY, deadline()).await);
    fs::remove_dir(&record).unwrap();
    acquire(&backend, &b).await;
}

/// By somebody who keeps the marks: what is minted goes on, and the records begin again.
#[tokio::test]
async fn records_that_somebody_removed_after_many_begin_again() {
    let dir = TempDir::new().unwrap();
    let (backend, other) = (open(dir.path()), open(dir.path()));
    let (a, b) = (owner("a"), owner("b"));
    let first = acquire(&backend, &a).await.epoch;
    for _ in 0..20 {
        let renewed = backend.renew_lock(KEY, &a, first, LONG, "", deadline());
        assert_eq!(renewed.await.unwrap(), RenewOutcome::Renewed);
    }
    assert!(records(dir.path()).len() < 10, "old records are removed");
    settled(&backend).await;
    for (_, record) in records(dir.path()) {
        fs::remove_file(record).unwrap();
    }
    let second = acquire(&other, &b).await;
    assert!(second.epoch > first);
    assert_eq!(second.previous.unwrap().end, ReignEnd::Unknown);
    let renewed = backend.renew_lock(KEY, &a, first, LONG, "", deadline());
    let renewed = renewed.await.unwrap();
    assert!(matches!(renewed, RenewOutcome::HeldByOther(holder) if holder.epoch == second.epoch));
}

#[tokio::test]
async fn a_directory_of_another_format_is_refused() {
    for other in ["guard", "format.1"] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join(other), "").unwrap();
        let opened = FileBackend::open(dir.path(), Options::default(), Arc::new(BootClock));
        let error = opened.unwrap_err();
        assert!(!error.is_retryable());
        assert!(error.to_string().contains(other), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_value_is_set_aside_and_its_version_never_comes_back() {
    let dir = TempDir::new().unwrap();
    let backend = open(dir.path());
    let set = |text| backend.set_value("k", text, None, Expect::Any, deadline());
    let SetOutcome::Stored(first) = set("1").await.unwrap() else {
        panic!("nothing was expected");
    };
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("/values.record.") {
            fs::write(path, "torn").unwrap();
        }
    }
    assert_eq!(backend.list_values("", deadline()).await.unwrap(), []);
    assert_eq!(backend.get_value("k", deadline()).await.unwrap(), None);
    let SetOutcome::Stored(second) = set("2").await.unwrap() else {
        panic!("nothing was expected");
    };
    assert!(second > first);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_fatal() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.as_path(), &file.join("below"), Path::new("/proc/kvcm")] {
        let error = FileBackend::open(path, Options::default(), Arc::new(BootClock)).unwrap_err();
        assert!(!error.is_retryable(), "{error}");
        let named = path.display().to_string();
        assert!(error.to_string().contains(&named), "{error}");
    }
}

#[tokio::test]
async fn a_uri_names_the_directory() {
    let dir = TempDir::new().unwrap();
    let text = format!("file://{}/a%20b", dir.path().display());
    let uri = Uri::parse(&text).unwrap();
    let backend = FileBackend::from_uri(&uri, Arc::new(BootClock)).unwrap();
    let expected = format!("file://{}/a b", dir.path().display());
    assert_eq!(backend.describe(), expected);
    acquire(&backend, &owner("a")).await;
    assert_eq!(records(&dir.path().join("a b")).len(), 1);
}

#[tokio::test]
async fn a_dropped_backend_changes_nothing_any_more() {
    for _ in 0..50 {
        let dir = TempDir::new().unwrap();
        let backend = open(dir.path());
        acquire(&backend, &owner("a")).await;
        drop(backend);
        // Fails when a file comes into being meanwhile.
        dir.close().unwrap();
    }
}

#[tokio::test]
async fn what_dead_processes_left_is_tidied_up() {
    let dir = TempDir::new().unwrap();
    let long_gone = dir.path().join("life.00000000000000000000000000000001");
    let half_written = dir.path().join("tmp.1");
    fs::write(&long_gone, "").unwrap();
    fs::write(&half_written, "").unwrap();
    let abandoned = dir.path().join(format!("lock-{KEY}.candidate.1.0"));
    fs::write(&abandoned, "").unwrap();
    let (backend, a) = (open(dir.path()), owner("a"));
    let epoch = acquire(&backend, &a).await.epoch;
    settled(&backend).await;
    assert!(!long_gone.exists() && !half_written.exists());
    let life = dir.path().join(format!("life.{}", a.incarnation));
    let mark = dir.path().join(format!("lock-{KEY}.epoch.{epoch}"));
    assert!(life.exists() && mark.exists());
    backend
        .unlock(KEY, &a, epoch, None, deadline())
        .await
        .unwrap();
    let b = owner("b");
    let epoch = acquire(&backend, &b).await.epoch;
    assert!(!mark.exists());
    settled(&backend).await;
    // A new holder has something better to do.
    assert!(abandoned.exists());
    let renewed = backend
        .renew_lock(KEY, &b, epoch, LONG, "", deadline())
        .await;
    assert_eq!(renewed.unwrap(), RenewOutcome::Renewed);
    settled(&backend).await;
    assert!(!abandoned.exists());
    assert_eq!(records(dir.path()).len(), 1);
}

/// The records of the lock, with their numbers, in their order.
fn records(dir: &Path) -> Vec<(u64, PathBuf)> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let mut records: Vec<_> = names
        .filter_map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            let number = name.strip_prefix(RECORD)?.parse().unwrap();
            Some((number, entry.path()))
        })
        .collect();
    records.sort_unstable();
    records
}

fn newest(dir: &Path) -> (u64, PathBuf) {
    records(dir).pop().unwrap()
}
