//! Real processes that are killed, stopped and starved.
//!
//! The children are this test binary again, running only [`child`].

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod support;

use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use coordination_core::{
    Backend, Error, Hint, LockOutcome, Outcome, ReignEnd, TryLock, UnlockOutcome,
};
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock};
use kvcm_fence::Epoch;
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, geteuid, kill_process},
};
use support::{KEY, acquire, acquired, deadline, open, owner, request, try_lock};
use tempfile::TempDir;
use tokio::time::timeout;

/// Tells a child what to do.
const ROLE: &str = "KVCM_TEST_CHILD";
/// Tells a child where.
const DIR: &str = "KVCM_TEST_DIR";
/// No test waits longer for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_death_of_the_holder_is_told_and_its_lease_is_not_waited_for() {
    let dir = TempDir::new().unwrap();
    let backend = open(dir.path());
    let mut hints = backend.watch(KEY);
    let (child, said) = start("hold", dir.path());
    let epoch: Epoch = said.parse().unwrap();
    let LockOutcome::Held(holder) = try_lock(&backend, &owner("b")).await.unwrap() else {
        panic!("the child holds the lock");
    };
    assert_eq!(holder.epoch, epoch);
    // A stopped process is not dead, whatever is presumed.
    let presumed = Some((holder.owner.incarnation, epoch));
    child.signal(Signal::STOP);
    let b = owner("b");
    let presuming = TryLock {
        presumed_dead: presumed,
        ..request(&b)
    };
    let outcome = backend.try_lock(presuming.clone(), deadline()).await;
    assert_eq!(held_epoch(outcome.unwrap()), epoch);
    let start = BootClock.now();
    // Kill without waiting: a zombie is dead enough.
    child.signal(Signal::KILL);
    let died = async {
        loop {
            if let Hint::HolderDied { incarnation, epoch } = hints.next().await.unwrap() {
                return Some((incarnation, epoch));
            }
        }
    };
    assert_eq!(timeout(PATIENCE, died).await.unwrap(), presumed);
    let told = BootClock.now().since(start);
    let taken = acquired(backend.try_lock(presuming, deadline()).await.unwrap());
    let took = BootClock.now().since(start);
    println!("told of the death after {told:?}, took over after {took:?}");
    assert!(taken.epoch > epoch);
    let previous = taken.previous.unwrap();
    assert_eq!(previous.end, ReignEnd::Dead);
    assert!(!previous.lease_left.is_zero());
}

#[tokio::test]
async fn a_process_that_stopped_inside_the_guard_hangs_nobody() {
    let dir = TempDir::new().unwrap();
    let backend = open(dir.path());
    let a = owner("a");
    let epoch = acquire(&backend, &a).await.epoch;
    let (child, _) = start("guard", dir.path());
    child.signal(Signal::STOP);
    let soon = BootClock.now() + Duration::from_millis(50);
    let unlock = backend.unlock(KEY, &a, epoch, None, soon);
    let answer = timeout(PATIENCE, unlock).await.expect("a call hangs");
    let not_done = matches!(
        answer,
        Err(Error::Unavailable {
            outcome: Outcome::NotDone,
            ..
        })
    );
    assert!(not_done, "{answer:?}");
    // Readers and contenders that only look need no guard.
    let holder = backend.lock_holder(KEY, deadline()).await.unwrap();
    assert_eq!(holder.unwrap().epoch, epoch);
    let outcome = try_lock(&backend, &owner("b")).await.unwrap();
    assert_eq!(held_epoch(outcome), epoch);
    drop(child);
    let unlocked = backend.unlock(KEY, &a, epoch, None, deadline()).await;
    assert_eq!(unlocked.unwrap(), UnlockOutcome::Unlocked);
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
#[test]
fn child() {
    let Ok(role) = env::var(ROLE) else {
        return;
    };
    let dir = env::var(DIR).unwrap();
    let dir = Path::new(&dir);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        match role.as_str() {
            "hold" => {
                let backend = open(dir);
                say(acquire(&backend, &owner("child")).await.epoch);
                std::future::pending().await
            }
            "guard" => {
                let guard = fs::File::open(dir.join("guard")).unwrap();
                flock(&guard, FlockOperation::LockExclusive).unwrap();
                say("guarded");
                std::future::pending().await
            }
            "try" => match try_lock(&open(dir), &owner("child")).await {
                Err(Error::Unavailable {
                    outcome: Outcome::NotDone,
                    source,
                }) => last_word(format!("not done: {source}")),
                other => last_word(format!("{other:?}")),
            },
            other => panic!("no such role: {other}"),
        }
    });
}

/// A child that does not outlive its test, however the test ends.
struct Kid(Child);

impl Kid {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Kid {
    fn drop(&mut self) {
        // Both fail only when it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a child and waits for its first word.
fn start(role: &str, dir: &Path) -> (Kid, String) {
    start_with(Command::new(env::current_exe().unwrap()), role, dir)
}

fn start_with(mut command: Command, role: &str, dir: &Path) -> (Kid, String) {
    command
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, dir)
        .stdout(Stdio::piped());
    let mut child = Kid(command.spawn().unwrap());
    let said = listen(child.0.stdout.take().unwrap());
    (child, said)
}

/// The test harness talks, too: what a child says is marked.
#[expect(clippy::print_stdout, reason = "its parent listens")]
fn say(what: impl std::fmt::Display) {
    println!("\n@{what}");
}

/// Ends before the harness finds that nobody listens any more.
fn last_word(what: String) -> ! {
    say(what);
    std::process::exit(0)
}

fn listen(stdout: ChildStdout) -> String {
    let lines = BufReader::new(stdout).lines().map(Result::unwrap);
    let mut said = lines.filter_map(|line| line.strip_prefix('@').map(str::to_owned));
    said.next().expect("the child ended without a word")
}

fn held_epoch(outcome: LockOutcome) -> Epoch {
    match outcome {
        LockOutcome::Held(holder) => holder.epoch,
        other => panic!("expected that the lock is held: {other:?}"),
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
