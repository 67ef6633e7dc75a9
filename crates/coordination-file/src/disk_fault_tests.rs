//! Each step of each call fails, once or from then on: nothing that fails gives a lock or frees one.

use std::{cell::Cell, collections::HashMap, path::Path, sync::Arc, time::Duration};

use coordination_core::{
    DeleteOutcome, Error, Expect, Holder, LockOutcome, Outcome, Owner, RenewOutcome, TryLock,
    UnlockOutcome, Value,
};
use kvcm_clock::{Clock, ManualClock, Moment};
use kvcm_fence::{Epoch, Incarnation};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::{
    Options, directory::Directory, host::Process, lives::Lives, stop_tests::may_stop, store::Store,
    turn_tests::take_turn, worker::Call,
};

const KEY: &str = "k";
const TTL: Duration = Duration::from_secs(10);
/// No call has as many steps.
const STEPS_MAX: usize = 200;

/// What is to fail on this thread.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// How many steps go well before.
    after: usize,
    error: Errno,
    /// Whether all further steps fail, too.
    for_ever: bool,
}

thread_local! {
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
    static HAS_FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Comes before everything that is asked of the file system.
pub(crate) fn may_fail() -> Result<(), Errno> {
    may_stop();
    take_turn();
    let Some(fault) = FAULT.get() else {
        return Ok(());
    };
    if let Some(after) = fault.after.checked_sub(1) {
        FAULT.set(Some(Fault { after, ..fault }));
        return Ok(());
    }
    if !fault.for_ever {
        FAULT.set(None);
    }
    HAS_FAILED.set(true);
    Err(fault.error)
}

/// One process of the host.
struct Node {
    store: Store,
    clock: ManualClock,
}

impl Node {
    fn start(dir: &Path, clock: &ManualClock) -> Self {
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = Store {
            directory: Directory::open(dir, Options::default()).unwrap(),
            lives: Arc::new(Lives::new()),
            clock: shared,
            clock_name: "boot".to_owned(),
            process: Process::own(),
            seen: HashMap::new(),
            numbers: HashMap::new(),
            awaited: HashMap::new(),
        };
        Self {
            store,
            clock: clock.clone(),
        }
    }

    fn call(&self) -> Call {
        Call::unattended(self.store.clock.clone(), Moment::NEVER)
    }

    fn try_lock(
        &mut self,
        owner: &Owner,
        presumed_dead: Option<(Incarnation, Epoch)>,
    ) -> Result<LockOutcome, Error> {
        let request = TryLock {
            key: KEY,
            owner,
            ttl: TTL,
            floor: Epoch::ZERO,
            info: "",
            presumed_dead,
        };
        let call = self.call();
        self.store.try_lock(&request, &call)
    }

    fn acquire(&mut self, owner: &Owner) -> Epoch {
        match self.try_lock(owner, None).unwrap() {
            LockOutcome::Acquired(acquired) => acquired.epoch,
            other => panic!("{other:?}"),
        }
    }

    fn set(&mut self, text: &str, ttl: Option<Duration>) -> Result<(), Error> {
        let call = self.call();
        let set = self.store.set_value("v", text, ttl, Expect::Any, &call);
        set.map(drop)
    }
}

/// What everybody sees.
type View = (Option<Holder>, Option<Value>);

fn view(dir: &Path, clock: &ManualClock) -> View {
    let mut observer = Node::start(dir, clock);
    let call = observer.call();
    let holder = observer.store.lock_holder(KEY, &call).unwrap();
    (holder, observer.store.get_value("v", &call).unwrap())
}

fn owner(number: u128) -> Owner {
    Owner {
        node: format!("n{number}").parse().unwrap(),
        incarnation: Incarnation::from_bits(number),
    }
}

/// A node that holds the lock, one that contends with it, and the epoch.
struct Scene {
    dir: TempDir,
    holder: Node,
    contender: Node,
    epoch: Epoch,
}

impl Scene {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let clock = ManualClock::new(Moment::ZERO + Duration::from_secs(5));
        let mut holder = Node::start(dir.path(), &clock);
        let contender = Node::start(dir.path(), &clock);
        let epoch = holder.acquire(&owner(1));
        holder.set("old", Some(TTL * 100)).unwrap();
        clock.advance(TTL / 2);
        Self {
            dir,
            holder,
            contender,
            epoch,
        }
    }

    fn renew(&mut self) -> Result<RenewOutcome, Error> {
        let (call, owner) = (self.holder.call(), owner(1));
        let store = &mut self.holder.store;
        store.renew_lock(KEY, &owner, self.epoch, TTL, "renewed", &call)
    }

    fn unlock(&mut self) -> Result<UnlockOutcome, Error> {
        let call = self.holder.call();
        let store = &mut self.holder.store;
        store.unlock(KEY, &owner(1), self.epoch, None, &call)
    }

    fn view(&self) -> View {
        view(self.dir.path(), &self.holder.clock)
    }
}

/// A call; whether it has changed something.
type Change = fn(&mut Scene) -> Result<bool, Error>;
/// What is called, after what.
type Case = (&'static str, fn(&mut Scene), Change);

const CASES: [Case; 10] = [
    (
        "acquire a held lock",
        |_| (),
        |scene| scene.contender.try_lock(&owner(2), None).map(acquires),
    ),
    (
        "take over from the living: the lock stays held",
        |_| (),
        |scene| {
            let presumed = Some((owner(1).incarnation, scene.epoch));
            scene.contender.try_lock(&owner(2), presumed).map(acquires)
        },
    ),
    (
        "acquire a free lock",
        |scene| drop(scene.unlock().unwrap()),
        |scene| scene.contender.try_lock(&owner(2), None).map(acquires),
    ),
    (
        "acquire after the lease",
        |scene| scene.holder.clock.advance(TTL),
        |scene| scene.contender.try_lock(&owner(2), None).map(acquires),
    ),
    (
        "take over from the dead",
        |scene| scene.holder.store.lives.end(),
        |scene| {
            let presumed = Some((owner(1).incarnation, scene.epoch));
            scene.contender.try_lock(&owner(2), presumed).map(acquires)
        },
    ),
    (
        "renew",
        |_| (),
        |scene| {
            scene
                .renew()
                .map(|outcome| outcome == RenewOutcome::Renewed)
        },
    ),
    (
        "unlock",
        |_| (),
        |scene| {
            scene
                .unlock()
                .map(|outcome| outcome == UnlockOutcome::Unlocked)
        },
    ),
    (
        "set a value that stays",
        |_| (),
        |scene| scene.contender.set("new", None).map(|()| true),
    ),
    (
        "set a value with a time to live",
        |_| (),
        |scene| scene.contender.set("new", Some(TTL)).map(|()| true),
    ),
    (
        "delete a value",
        |_| (),
        |scene| {
            let call = scene.contender.call();
            let store = &mut scene.contender.store;
            let deleted = store.delete_value("v", Expect::Any, &call);
            deleted.map(|outcome| outcome == DeleteOutcome::Deleted)
        },
    ),
];

fn acquires(outcome: LockOutcome) -> bool {
    matches!(outcome, LockOutcome::Acquired(_))
}

#[test]
fn a_step_that_fails_leaves_the_lock_with_whom_it_was_and_a_lock_that_can_be_had() {
    for (name, prepare, call) in CASES {
        for (error, for_ever) in [
            (Errno::IO, false),
            (Errno::NOSPC, true),
            (Errno::ACCESS, true),
        ] {
            let steps = (0..STEPS_MAX).find(|after| {
                let fault = Fault {
                    after: *after,
                    error,
                    for_ever,
                };
                !fails(name, prepare, call, fault)
            });
            assert!(
                steps.is_some_and(|steps| steps > 0),
                "{name}: {steps:?} steps"
            );
        }
    }
}

/// Runs a case with a fault; returns whether it had so many steps.
fn fails(name: &str, prepare: fn(&mut Scene), call: Change, fault: Fault) -> bool {
    let mut scene = Scene::new();
    prepare(&mut scene);
    let before = scene.view();
    HAS_FAILED.set(false);
    FAULT.set(Some(fault));
    let outcome = call(&mut scene);
    FAULT.set(None);
    let after = scene.view();
    let context = format!("{name}, {fault:?}: {outcome:?}\nbefore {before:?}\nafter  {after:?}");
    match outcome {
        // What has failed does not matter, such as the removal of old marks; or a death was not
        // proven, and the lease is waited for.
        Ok(changed) => {
            assert_eq!(after != before, changed, "{context}");
            if name.contains("held") {
                assert!(!changed, "{context}");
            } else {
                assert!(changed || HAS_FAILED.get(), "{context}");
            }
        }
        Err(Error::Unavailable { outcome, .. }) => {
            assert!(HAS_FAILED.get(), "{context}");
            assert!(after == before || outcome == Outcome::Unknown, "{context}");
        }
        Err(Error::Fatal { .. }) => panic!("{context}"),
    }
    let epochs = [before.0, after.0].map(|holder| holder.map_or(Epoch::ZERO, |held| held.epoch));
    scene.holder.clock.advance(TTL * 2);
    // The disk is well again: so is the node that met the fault, and so are others.
    let next = scene.contender.acquire(&owner(2));
    assert!(
        next > epochs[0].max(epochs[1]).max(scene.epoch),
        "{context}"
    );
    scene.holder.clock.advance(TTL * 2);
    let mut other = Node::start(scene.dir.path(), &scene.holder.clock);
    assert!(other.acquire(&owner(3)) > next, "{context}");
    HAS_FAILED.get()
}

#[test]
fn what_cannot_be_read_is_neither_free_nor_absent() {
    type Read = fn(&mut Scene) -> Result<bool, Error>;
    let reads: [Read; 3] = [
        |scene| {
            let call = scene.contender.call();
            let holder = scene.contender.store.lock_holder(KEY, &call)?;
            Ok(holder.is_some())
        },
        |scene| {
            let call = scene.contender.call();
            Ok(scene.contender.store.get_value("v", &call)?.is_some())
        },
        |scene| {
            let call = scene.contender.call();
            Ok(scene.contender.store.list_values("", &call)?.len() == 1)
        },
    ];
    for read in reads {
        for error in [Errno::IO, Errno::ACCESS] {
            for after in 0.. {
                let mut scene = Scene::new();
                HAS_FAILED.set(false);
                FAULT.set(Some(Fault {
                    after,
                    error,
                    for_ever: true,
                }));
                let found = read(&mut scene);
                FAULT.set(None);
                if let Ok(found) = &found {
                    assert!(found);
                }
                if !HAS_FAILED.get() {
                    break;
                }
                assert!(found.is_err_and(|error| error.is_retryable()));
            }
        }
    }
}
