//! Disks that are full or may not be written to: what cannot be written takes and frees no lock.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod support;

use std::{
    env, fs,
    io::{ErrorKind, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
};

use coordination_core::{Backend, Error, Expect, Outcome, ReignEnd, RenewOutcome, UnlockOutcome};
use rustix::process::geteuid;
use support::{
    KEY, LONG, acquire, deadline, held_epoch,
    kid::{self, DIR, last_word, start_with},
    nothing_done, open, owner, settled, try_lock,
};
use tempfile::TempDir;

/// 64 KiB and 64 files, as full as they can be.
#[tokio::test]
async fn a_full_file_system_takes_and_frees_no_lock() {
    let dir = TempDir::new().unwrap();
    let mount = r#"exec unshare --mount sh -c '
        mount -t tmpfs -o size=64k,nr_inodes=64 tmpfs "$KVCM_TEST_DIR" && exec "$0" "$@"
    ' "$0" "$@""#;
    let shell = |program: &Path| {
        let mut command = Command::new("sh");
        command.args(["-c", mount]).arg(program);
        command
    };
    let allowed = shell(Path::new("true")).env(DIR, dir.path()).output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        // Then nothing is full but by a limit on the size of files, and nothing is read-only but
        // by permissions: see the next two tests.
        eprintln!("NOT ALLOWED to mount a tmpfs, so none was filled: {allowed:?}");
        return;
    }
    let (_child, said) = start_with(shell(&env::current_exe().unwrap()), "fill", dir.path());
    assert_eq!(said, "nothing was lost");
}

#[tokio::test]
async fn a_full_disk_takes_and_frees_no_lock() {
    let dir = TempDir::new().unwrap();
    let backend = open(dir.path());
    let a = owner("a");
    let first = acquire(&backend, &a).await.epoch;
    backend
        .unlock(KEY, &a, first, None, deadline())
        .await
        .unwrap();
    // No file may grow: writing fails like on a full disk, instead of by a signal.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" XFSZ; ulimit -f 0; exec "$0" "$@""#]);
    shell.arg(env::current_exe().unwrap());
    let (child, said) = start_with(shell, "try", dir.path());
    assert!(said.starts_with("not done"), "{said}");
    drop(child);
    assert_eq!(backend.lock_holder(KEY, deadline()).await.unwrap(), None);
    let second = acquire(&backend, &a).await;
    assert!(second.epoch > first);
    assert_eq!(second.previous.unwrap().end, ReignEnd::Released);
}

#[tokio::test]
async fn a_directory_without_permission_to_write_takes_no_lock() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    let a = owner("a");
    let first = {
        let backend = open(&store);
        let first = acquire(&backend, &a).await.epoch;
        backend
            .unlock(KEY, &a, first, None, deadline())
            .await
            .unwrap();
        first
    };
    let program = dir.path().join("program");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    set_mode(dir.path(), 0o755);
    set_mode(&store, 0o555);
    let mut command = Command::new(&program);
    if geteuid().is_root() {
        // Permissions do not stop root.
        command.uid(65534);
    }
    let (child, said) = start_with(command, "try", &store);
    assert!(said.starts_with("not done"), "{said}");
    drop(child);
    set_mode(&store, 0o755);
    assert!(acquire(&open(&store), &a).await.epoch > first);
}

/// Not a test: what a child does.
#[tokio::test]
async fn child() {
    let Some((role, dir)) = kid::role() else {
        return;
    };
    match role.as_str() {
        "try" => match try_lock(&open(&dir), &owner("child")).await {
            Err(Error::Unavailable {
                outcome: Outcome::NotDone,
                source,
            }) => last_word(format!("not done: {source}")),
            other => last_word(format!("{other:?}")),
        },
        "fill" => {
            for by in [fill_with_bytes, fill_with_files] {
                on_a_full_disk(&dir, by).await;
            }
            last_word("nothing was lost".to_owned())
        }
        other => panic!("no such role: {other}"),
    }
}

/// Everything that is tried while nothing can be written, by one who holds the lock and by one who
/// wants it.
async fn on_a_full_disk(dir: &Path, fill: fn(&Path)) {
    let (one, two) = (open(dir), open(dir));
    let (a, b) = (owner("a"), owner("b"));
    let first = acquire(&one, &a).await.epoch;
    // Both have tidied up.
    settled(&one).await;
    settled(&two).await;
    fill(dir);
    let renew = || one.renew_lock(KEY, &a, first, LONG, "", deadline());
    let unlock = || one.unlock(KEY, &a, first, None, deadline());
    let set = || one.set_value("v", "1", None, Expect::Any, deadline());
    nothing_done(renew().await);
    nothing_done(unlock().await);
    assert!(set().await.is_err_and(|error| error.is_retryable()));
    assert_eq!(held_epoch(try_lock(&two, &b).await.unwrap()), first);
    let holder = two.lock_holder(KEY, deadline()).await.unwrap();
    assert_eq!(holder.unwrap().epoch, first);
    empty(dir);
    assert_eq!(renew().await.unwrap(), RenewOutcome::Renewed);
    set().await.unwrap();
    assert_eq!(unlock().await.unwrap(), UnlockOutcome::Unlocked);
    fill(dir);
    nothing_done(try_lock(&two, &b).await);
    assert_eq!(one.lock_holder(KEY, deadline()).await.unwrap(), None);
    empty(dir);
    let second = acquire(&two, &b).await;
    assert!(second.epoch > first);
    assert_eq!(second.previous.unwrap().end, ReignEnd::Released);
    let unlock = two.unlock(KEY, &b, second.epoch, None, deadline());
    assert_eq!(unlock.await.unwrap(), UnlockOutcome::Unlocked);
}

fn fill_with_bytes(dir: &Path) {
    let mut filler = fs::File::create(dir.join("filler.0")).unwrap();
    let error = std::iter::repeat_with(|| filler.write_all(&[0; 1024])).find_map(Result::err);
    assert_eq!(error.unwrap().kind(), ErrorKind::StorageFull);
}

fn fill_with_files(dir: &Path) {
    let create = |number: u32| fs::File::create(dir.join(format!("filler.{number}"))).err();
    let error = (0..).find_map(create);
    assert_eq!(error.unwrap().kind(), ErrorKind::StorageFull);
}

fn empty(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("/filler.") {
            fs::remove_file(path).unwrap();
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
