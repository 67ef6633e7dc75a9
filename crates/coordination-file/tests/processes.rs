//! Real processes that are killed, stopped and starved.
//!
//! The children are this test binary again, running only [`child`].

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod support;

use std::{
    fs,
    os::fd::OwnedFd,
    process::{Command, Stdio},
    time::Duration,
};

use coordination_core::{Backend, Hint, HintStream, LockOutcome, Previous, ReignEnd, TryLock};
use coordination_file::FileBackend;
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock};
use kvcm_fence::{Epoch, Incarnation};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, getpid, kill_process, pidfd_getfd, pidfd_open,
};
use support::{
    KEY, acquire, acquired, deadline, held_epoch,
    kid::{self, say, start},
    open, owner, request, try_lock,
};
use tempfile::TempDir;
use tokio::time::timeout;

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
    assert_eq!(Some(died(&mut hints).await), presumed);
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
async fn a_holder_that_has_started_a_program_is_known_to_be_dead_all_the_same() {
    let dir = TempDir::new().unwrap();
    let backend = open(dir.path());
    let mut hints = backend.watch(KEY);
    let (child, said) = start("parent", dir.path());
    let (epoch, program) = epoch_and_program(&said);
    child.signal(Signal::KILL);
    let presumed = died(&mut hints).await;
    assert_eq!(presumed.1, epoch);
    assert_eq!(
        presume(&backend, presumed).await.unwrap().end,
        ReignEnd::Dead
    );
    kill_process(program, Signal::KILL).unwrap();
}

/// The end of the process is seen, but the lock of its life goes on: no proof, so the lease is
/// waited for, or the end of the copy.
#[tokio::test]
async fn a_holder_whose_fork_lives_on_is_not_known_to_be_dead() {
    let dir = TempDir::new().unwrap();
    let backend = open(dir.path());
    let mut hints = backend.watch(KEY);
    let (mut child, said) = start("forked", dir.path());
    let (epoch, fork) = epoch_and_program(&said);
    let LockOutcome::Held(holder) = try_lock(&backend, &owner("b")).await.unwrap() else {
        panic!("the child holds the lock");
    };
    child.signal(Signal::KILL);
    child.0.wait().unwrap();
    let presumed = (holder.owner.incarnation, epoch);
    assert_eq!(presume(&backend, presumed).await, None);
    kill_process(fork, Signal::KILL).unwrap();
    assert_eq!(died(&mut hints).await, presumed);
    assert_eq!(
        presume(&backend, presumed).await.unwrap().end,
        ReignEnd::Dead
    );
}

#[tokio::test]
async fn the_death_of_a_holder_that_was_superseded_is_not_taken_for_that_of_its_successor() {
    let dir = TempDir::new().unwrap();
    let backend = open(dir.path());
    let mut hints = backend.watch(KEY);
    let (stopped, first) = start("briefly", dir.path());
    stopped.signal(Signal::STOP);
    let end = BootClock.now() + PATIENCE;
    while let Some(holder) = backend.lock_holder(KEY, deadline()).await.unwrap() {
        assert!(BootClock.now() < end, "{holder:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (successor, second) = start("hold", dir.path());
    let [first, second] = [first, second].map(|epoch| epoch.parse::<Epoch>().unwrap());
    assert!(second > first);
    drop(stopped);
    // The waiter is not misled, and looks where it has to.
    let held = try_lock(&backend, &owner("b")).await.unwrap();
    assert_eq!(held_epoch(held), second);
    successor.signal(Signal::KILL);
    let presumed = died(&mut hints).await;
    assert_eq!(presumed.1, second);
    assert_eq!(
        presume(&backend, presumed).await.unwrap().end,
        ReignEnd::Dead
    );
}

/// What a waiter is told of a death, first of all deaths.
async fn died(hints: &mut HintStream) -> (Incarnation, Epoch) {
    let told = async {
        loop {
            if let Hint::HolderDied { incarnation, epoch } = hints.next().await.unwrap() {
                return (incarnation, epoch);
            }
        }
    };
    timeout(PATIENCE, told).await.expect("nobody is told")
}

/// Tries to take the lock over from the dead; how the reign before ended, or none while it is held.
async fn presume(backend: &FileBackend, presumed_dead: (Incarnation, Epoch)) -> Option<Previous> {
    let b = owner("b");
    let presuming = TryLock {
        presumed_dead: Some(presumed_dead),
        ..request(&b)
    };
    match backend.try_lock(presuming, deadline()).await.unwrap() {
        LockOutcome::Acquired(acquired) => acquired.previous,
        LockOutcome::Held(holder) => {
            assert_eq!((holder.owner.incarnation, holder.epoch), presumed_dead);
            None
        }
        other => panic!("{other:?}"),
    }
}

/// What a child has said that had started a program.
fn epoch_and_program(said: &str) -> (Epoch, Pid) {
    let (epoch, program) = said.split_once(' ').unwrap();
    let program = Pid::from_raw(program.parse().unwrap()).unwrap();
    (epoch.parse().unwrap(), program)
}

/// Not a test: what a child does.
#[tokio::test]
async fn child() {
    let Some((role, dir)) = kid::role() else {
        return;
    };
    match role.as_str() {
        "hold" => {
            let backend = open(&dir);
            let epoch = acquire(&backend, &owner("child")).await.epoch;
            say(epoch);
            std::future::pending().await
        }
        "parent" | "forked" => {
            let backend = open(&dir);
            let epoch = acquire(&backend, &owner("child")).await.epoch;
            let mut program = Command::new("sleep");
            program.arg("600").stdout(Stdio::null());
            if role == "forked" {
                program.stdin(own_lifetime_lock());
            }
            let mut program = program.spawn().unwrap();
            say(format!("{epoch} {}", program.id()));
            program.wait().unwrap();
        }
        "briefly" => {
            let backend = open(&dir);
            let me = owner("child");
            let request = TryLock {
                ttl: Duration::from_millis(300),
                ..request(&me)
            };
            let outcome = backend.try_lock(request, deadline()).await;
            let epoch = acquired(outcome.unwrap()).epoch;
            say(epoch);
            std::future::pending().await
        }
        other => panic!("no such role: {other}"),
    }
}

/// The file that this process holds for its life, a second time, as a fork would have it.
fn own_lifetime_lock() -> OwnedFd {
    let is_life = |number: &i32| {
        let file = fs::read_link(format!("/proc/self/fd/{number}"));
        file.is_ok_and(|file| file.to_string_lossy().contains("/life."))
    };
    let number = (0..1000).find(is_life).unwrap();
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    pidfd_getfd(own, number, PidfdGetfdFlags::empty()).unwrap()
}
