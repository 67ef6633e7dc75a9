//! A directory that has gone: made again where it was removed, waited for where its disk is away.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod support;

use std::{env, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use coordination_core::{Backend, LockOutcome, RenewOutcome};
use coordination_file::FileBackend;
use futures_util::StreamExt;
use kvcm_fence::Epoch;
use support::{
    KEY, LONG, acquire, deadline,
    kid::{self, last_word, start_with},
    nothing_done, open, owner, settled, try_lock,
};
use tempfile::TempDir;

#[tokio::test]
async fn a_removed_directory_is_made_again_and_its_lock_is_lost() {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("dir");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    let (backend, a) = (open(&dir), owner("a"));
    let first = acquire(&backend, &a).await.epoch;
    settled(&backend).await;
    fs::remove_dir_all(&dir).unwrap();
    let renewed = backend.renew_lock(KEY, &a, first, LONG, "", deadline());
    assert_eq!(renewed.await.unwrap(), RenewOutcome::NotHeld);
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
    // Whoever opens it now works in the same one.
    let second = acquire(&open(&dir), &owner("b")).await;
    assert!(second.epoch > first);
    let outcome = try_lock(&backend, &a).await.unwrap();
    assert!(matches!(outcome, LockOutcome::Held(holder) if holder.epoch == second.epoch));
}

#[tokio::test]
async fn a_directory_whose_parent_has_gone_too_is_waited_for() {
    let root = TempDir::new().unwrap();
    let dir = root.path().join("made/by/us");
    let (backend, a) = (open(&dir), owner("a"));
    let first = acquire(&backend, &a).await.epoch;
    settled(&backend).await;
    fs::remove_dir_all(root.path().join("made")).unwrap();
    everything_waits(&backend, first).await;
    fs::create_dir_all(&dir).unwrap();
    let renewed = backend.renew_lock(KEY, &a, first, LONG, "", deadline());
    assert_eq!(renewed.await.unwrap(), RenewOutcome::NotHeld);
    acquire(&backend, &a).await;
}

#[tokio::test]
async fn a_watch_goes_on_in_a_directory_that_was_made_again() {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("dir");
    let (backend, a) = (open(&dir), owner("a"));
    acquire(&backend, &a).await;
    let mut hints = backend.watch(KEY);
    for change in 0..2 {
        let mut next = hints.next();
        assert!(futures_util::poll!(&mut next).is_pending());
        // It has looked.
        settled(&backend).await;
        match change {
            0 => fs::remove_dir_all(&dir).unwrap(),
            _ => drop(acquire(&open(&dir), &owner("b")).await),
        }
        next.await.unwrap();
    }
}

/// What an unmounted disk leaves behind is no place for locks: others may still see the disk.
#[tokio::test]
async fn a_directory_on_an_unmounted_disk_is_waited_for() {
    let dir = TempDir::new().unwrap();
    let private = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command.arg(program);
        command
    };
    let allowed = private(Path::new("sh"))
        .args(["-c", "mount -t tmpfs none \"$0\" && umount \"$0\""])
        .arg(dir.path())
        .output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("NOT ALLOWED to mount a tmpfs, so none was unmounted: {allowed:?}");
        return;
    }
    let own = env::current_exe().unwrap();
    let (_child, said) = start_with(private(&own), "unmount", dir.path());
    assert_eq!(said, "waits");
}

/// Not a test: what a child does.
#[tokio::test]
async fn child() {
    let Some((role, mount)) = kid::role() else {
        return;
    };
    assert_eq!(role, "unmount");
    run("mount", &["-t", "tmpfs", "none"], &mount);
    let dir = mount.join("dir");
    let backend = open(&dir);
    let first = acquire(&backend, &owner("a")).await.epoch;
    settled(&backend).await;
    run("umount", &["-l"], &mount);
    everything_waits(&backend, first).await;
    assert!(!dir.exists());
    last_word("waits".to_owned())
}

/// Nothing is done, and nothing is said of the lock.
async fn everything_waits(backend: &FileBackend, epoch: Epoch) {
    let a = owner("a");
    nothing_done(backend.lock_holder(KEY, deadline()).await);
    nothing_done(try_lock(backend, &a).await);
    let renewed = backend.renew_lock(KEY, &a, epoch, LONG, "", deadline());
    nothing_done(renewed.await);
    nothing_done(backend.list_values("", deadline()).await);
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status().unwrap();
    assert!(status.success(), "{program} {}: {status}", path.display());
}
