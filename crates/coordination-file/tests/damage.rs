//! Damage and mishaps: nothing that cannot be read gives the lock away.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod support;

use std::{fs, path::Path, sync::Arc, time::Duration};

use coordination_core::{
    Backend, Expect, LockOutcome, ReignEnd, RenewOutcome, SetOutcome, UnlockOutcome,
};
use coordination_file::{FileBackend, Options};
use kvcm_clock::{BootClock, Clock};
use kvcm_uri::Uri;
use rustix::fs::{FlockOperation, flock};
use support::{KEY, LONG, acquire, deadline, nothing_done, open, owner, settled, try_lock};
use tempfile::TempDir;

const RECORD: &str = "lock-_TAIR_KVCM_LEADER_KEY.record";

#[tokio::test]
async fn a_damaged_record_is_set_aside_and_its_reign_ends_unknown() {
    let dir = TempDir::new().unwrap();
    let (backend, a, b) = (open(dir.path()), owner("a"), owner("b"));
    let record = dir.path().join(RECORD);
    let mut last = acquire(&backend, &a).await.epoch;
    let whole = fs::read(&record).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for (number, damaged) in [half, flipped, Vec::new(), vec![0; 4096]]
        .iter()
        .enumerate()
    {
        fs::write(&record, damaged).unwrap();
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
        let aside = format!("{RECORD}.damaged.{}", number + 1);
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
    fs::remove_file(dir.path().join(RECORD)).unwrap();
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
    fs::create_dir(dir.path().join(RECORD)).unwrap();
    nothing_done(try_lock(&backend, &b).await);
    nothing_done(backend.lock_holder(KEY, deadline()).await);
    fs::remove_dir(dir.path().join(RECORD)).unwrap();
    acquire(&backend, &b).await;
}

#[tokio::test]
async fn a_guard_that_cannot_be_locked_is_unavailable() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("guard")).unwrap();
    let (backend, b) = (open(dir.path()), owner("b"));
    nothing_done(try_lock(&backend, &b).await);
    fs::remove_dir(dir.path().join("guard")).unwrap();
    acquire(&backend, &b).await;
}

#[tokio::test]
async fn a_removed_directory_is_unavailable_until_it_is_there_again() {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("made/by/us");
    let (backend, a) = (open(&dir), owner("a"));
    let first = acquire(&backend, &a).await.epoch;
    settled(&backend).await;
    fs::remove_dir_all(&dir).unwrap();
    nothing_done(backend.lock_holder(KEY, deadline()).await);
    nothing_done(try_lock(&backend, &owner("b")).await);
    nothing_done(
        backend
            .renew_lock(KEY, &a, first, LONG, "", deadline())
            .await,
    );
    nothing_done(backend.list_values("", deadline()).await);
    fs::create_dir(&dir).unwrap();
    let renewed = backend.renew_lock(KEY, &a, first, LONG, "", deadline());
    assert_eq!(renewed.await.unwrap(), RenewOutcome::NotHeld);
    let other = open(&dir);
    let second = acquire(&other, &owner("b")).await;
    let outcome = try_lock(&backend, &a).await.unwrap();
    assert!(matches!(outcome, LockOutcome::Held(holder) if holder.epoch == second.epoch));
}

#[tokio::test]
async fn a_guard_that_somebody_replaced_still_excludes() {
    let dir = TempDir::new().unwrap();
    let (backend, a) = (open(dir.path()), owner("a"));
    let first = acquire(&backend, &a).await.epoch;
    settled(&backend).await;
    fs::remove_file(dir.path().join("guard")).unwrap();
    let another = hold_guard(dir.path());
    let soon = BootClock.now() + Duration::from_millis(50);
    nothing_done(backend.unlock(KEY, &a, first, None, soon).await);
    drop(another);
    let unlocked = backend.unlock(KEY, &a, first, None, deadline()).await;
    assert_eq!(unlocked.unwrap(), UnlockOutcome::Unlocked);
}

#[tokio::test]
async fn a_call_that_was_given_up_neither_happens_later_nor_keeps_others_waiting() {
    let dir = TempDir::new().unwrap();
    let (backend, a) = (open(dir.path()), owner("a"));
    let epoch = acquire(&backend, &a).await.epoch;
    settled(&backend).await;
    let guard = hold_guard(dir.path());
    let far = BootClock.now() + LONG;
    let mut unlock = backend.unlock(KEY, &a, epoch, None, far);
    assert!(futures_util::poll!(&mut unlock).is_pending());
    drop(unlock);
    // Served after the call before it.
    let holder = backend.lock_holder(KEY, deadline()).await.unwrap();
    assert_eq!(holder.unwrap().epoch, epoch);
    drop(guard);
    settled(&backend).await;
    let holder = backend.lock_holder(KEY, deadline()).await.unwrap();
    assert_eq!(holder.unwrap().epoch, epoch);
}

#[tokio::test]
async fn a_damaged_value_is_set_aside_and_its_version_never_comes_back() {
    let dir = TempDir::new().unwrap();
    let backend = open(dir.path());
    let set = |text| backend.set_value("k", text, None, Expect::Any, deadline());
    let SetOutcome::Stored(first) = set("1").await.unwrap() else {
        panic!("nothing was expected");
    };
    fs::write(dir.path().join("value-k.record"), "torn").unwrap();
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
    assert!(dir.path().join("a b").join(RECORD).exists());
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
    acquire(&backend, &owner("b")).await;
    assert!(!mark.exists());
}

/// Locks the guard like another process.
fn hold_guard(dir: &Path) -> fs::File {
    let guard = fs::File::create(dir.join("guard")).unwrap();
    flock(&guard, FlockOperation::NonBlockingLockExclusive).unwrap();
    guard
}
