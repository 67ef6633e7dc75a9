//! What is left after a power cut, by what was synced before it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
    sync::{Arc, PoisonError},
    time::Duration,
};

use coordination_core::{
    Expect, LockOutcome, Owner, ReignEnd, RenewOutcome, TryLock, UnlockOutcome,
};
use kvcm_clock::{Clock, ManualClock, Moment};
use kvcm_fence::{Epoch, Incarnation};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::{
    Options, directory::Directory, host::Process, lives::Lives, names, store::Store, worker::Call,
};

const KEY: &str = "k";
const TTL: Duration = Duration::from_secs(10);

/// The files of a directory.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

impl Directory {
    /// Comes with every sync.
    pub(crate) fn remember_sync(&self) {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        *synced = (synced.0 + 1, files(self.path()));
    }

    fn syncs(&self) -> usize {
        self.synced.lock().unwrap().0
    }
}

fn files(path: &Path) -> Files {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let named = names.map(|entry| entry.file_name().into_string().unwrap());
    named
        .map(|name| (name.clone(), fs::read(path.join(name)).unwrap()))
        .collect()
}

/// The records of the lock among them.
fn lock_records(files: &Files) -> Files {
    let prefix = names::lock_record_prefix(KEY);
    let records = files.iter().filter(|(name, _)| name.starts_with(&prefix));
    records
        .map(|(name, bytes)| (name.clone(), bytes.clone()))
        .collect()
}

/// One boot of the host with one process.
struct Boot {
    store: Store,
    clock: ManualClock,
}

impl Boot {
    fn start(dir: &Path, number: u64) -> Self {
        let clock = ManualClock::new(Moment::ZERO + Duration::from_secs(5 + number % 7));
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = Store {
            directory: Directory::open(dir, Options::default()).unwrap(),
            lives: Arc::new(Lives::new()),
            clock: shared,
            clock_name: format!("boot-{number}"),
            process: Process::own(),
            seen: HashMap::new(),
            numbers: HashMap::new(),
            awaited: HashMap::new(),
        };
        Self { store, clock }
    }

    fn call(&self) -> Call {
        Call::unattended(self.store.clock.clone(), Moment::NEVER)
    }

    fn try_lock(&mut self, owner: &Owner) -> LockOutcome {
        let request = TryLock {
            key: KEY,
            owner,
            ttl: TTL,
            floor: Epoch::ZERO,
            info: "",
            presumed_dead: None,
        };
        let call = self.call();
        self.store.try_lock(&request, &call).unwrap()
    }

    fn acquire(&mut self, owner: &Owner) -> Epoch {
        match self.try_lock(owner) {
            LockOutcome::Acquired(acquired) => acquired.epoch,
            other => panic!("{other:?}"),
        }
    }

    fn renew(&mut self, owner: &Owner, epoch: Epoch) -> RenewOutcome {
        let call = self.call();
        let renewed = self.store.renew_lock(KEY, owner, epoch, TTL, "", &call);
        renewed.unwrap()
    }

    fn unlock(&mut self, owner: &Owner, epoch: Epoch) -> UnlockOutcome {
        let call = self.call();
        let unlocked = self.store.unlock(KEY, owner, epoch, None, &call);
        unlocked.unwrap()
    }

    fn set(&mut self, text: &str, ttl: Option<Duration>) {
        let call = self.call();
        let set = self.store.set_value("v", text, ttl, Expect::Any, &call);
        set.unwrap();
    }

    fn get(&mut self) -> Option<String> {
        let call = self.call();
        let value = self.store.get_value("v", &call).unwrap();
        value.map(|value| value.text)
    }
}

fn owner(number: u128) -> Owner {
    Owner {
        node: format!("n{number}").parse().unwrap(),
        incarnation: Incarnation::from_bits(number),
    }
}

/// Leaves in the directory what a disk may: what was synced is there, of all that came later
/// anything, and records that were never synced may be torn.
fn cut_power(dir: &Path, synced: &Files, random: &mut fastrand::Rng) {
    let latest = files(dir);
    let names: BTreeSet<_> = synced.keys().chain(latest.keys()).collect();
    for name in names {
        let path = dir.join(name);
        let (old, new) = (synced.get(name), latest.get(name));
        // Lists the name as it was at the sync, or as a later change left it.
        let kept = if random.bool() { old } else { new };
        match kept {
            None => drop(fs::remove_file(path)),
            Some(bytes) => {
                let is_record = name.contains(".record.") || name.contains(".candidate.");
                let is_torn = is_record && random.u8(..) < 100;
                let length = if is_torn {
                    random.usize(..=bytes.len())
                } else {
                    bytes.len()
                };
                // Not into the file that stood there, which may have a second name.
                let _ = fs::remove_file(&path);
                fs::write(path, &bytes[..length]).unwrap();
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Lock(u128),
    Renew,
    Unlock,
    Elapse,
    SetValue(bool),
    CutPower(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..4u128).prop_map(Step::Lock),
        1 => Just(Step::Renew),
        2 => Just(Step::Unlock),
        1 => Just(Step::Elapse),
        1 => any::<bool>().prop_map(Step::SetValue),
        2 => any::<u64>().prop_map(Step::CutPower),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_epoch_is_minted_twice_and_no_lasting_value_is_lost_whatever_power_cuts_leave(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let dir = TempDir::new().unwrap();
        let mut boot = Boot::start(dir.path(), 0);
        let mut holder: Option<(Owner, Epoch)> = None;
        let mut highest = Epoch::ZERO;
        let mut lasting = None;
        for (number, step) in (1..).zip(steps) {
            match (step, holder.clone()) {
                (Step::Lock(who), _) => {
                    if let LockOutcome::Acquired(acquired) = boot.try_lock(&owner(who)) {
                        prop_assert!(acquired.repeated || acquired.epoch > highest);
                        highest = acquired.epoch;
                        holder = Some((owner(who), highest));
                    }
                }
                (Step::Renew, Some((owner, epoch))) => drop(boot.renew(&owner, epoch)),
                (Step::Unlock, Some((owner, epoch))) => drop(boot.unlock(&owner, epoch)),
                (Step::Elapse, _) => boot.clock.advance(TTL),
                (Step::SetValue(lasts), _) => {
                    let text = number.to_string();
                    boot.set(&text, (!lasts).then_some(TTL));
                    lasting = lasts.then_some(text);
                }
                (Step::CutPower(seed), _) => {
                    let synced = boot.store.directory.synced.lock().unwrap().1.clone();
                    drop(boot);
                    let random = &mut fastrand::Rng::with_seed(seed);
                    cut_power(dir.path(), &synced, random);
                    boot = Boot::start(dir.path(), number);
                    // What this boot has found is what the next cut cannot undo.
                    boot.store.directory.remember_sync();
                    holder = None;
                    prop_assert_eq!(boot.get(), lasting.clone());
                }
                (Step::Renew | Step::Unlock, None) => {}
            }
        }
        // In the end the lock can be had, after one lease at most.
        boot.clock.advance(TTL);
        boot.try_lock(&owner(9));
        boot.clock.advance(TTL);
        prop_assert!(boot.acquire(&owner(9)) > highest);
    }
}

#[test]
fn an_epoch_is_on_the_disk_before_anybody_can_see_it() {
    let dir = TempDir::new().unwrap();
    let mut boot = Boot::start(dir.path(), 0);
    let first = boot.acquire(&owner(1));
    boot.unlock(&owner(1), first);
    let second = boot.acquire(&owner(2));
    let (_, synced) = boot.store.directory.synced.lock().unwrap().clone();
    assert!(synced.contains_key(&names::epoch_mark(KEY, second)));
    let records = lock_records(&synced);
    let records: String = records
        .values()
        .map(|bytes| String::from_utf8_lossy(bytes))
        .collect();
    assert!(records.contains(&first.to_string()) && !records.contains(&second.to_string()));
}

#[test]
fn only_a_new_epoch_and_a_lasting_value_wait_for_the_disk() {
    let dir = TempDir::new().unwrap();
    let mut boot = Boot::start(dir.path(), 0);
    let syncs = |boot: &Boot| boot.store.directory.syncs();
    let epoch = boot.acquire(&owner(1));
    assert_eq!(syncs(&boot), 1);
    assert_eq!(boot.acquire(&owner(1)), epoch);
    assert_eq!(boot.renew(&owner(1), epoch), RenewOutcome::Renewed);
    assert_eq!(boot.unlock(&owner(1), epoch), UnlockOutcome::Unlocked);
    boot.set("x", Some(TTL));
    assert_eq!(syncs(&boot), 1);
    boot.set("x", None);
    assert_eq!(syncs(&boot), 2);
    // Else a power cut would bring back the value that it replaces.
    boot.set("x", Some(TTL));
    assert_eq!(syncs(&boot), 3);
}

/// Its process was killed, or stopped, when it had changed the record.
#[test]
fn what_should_last_and_has_no_copy_gets_one_with_the_next_change_of_anything() {
    let dir = TempDir::new().unwrap();
    let mut boot = Boot::start(dir.path(), 0);
    boot.set("lasting", None);
    let copies = |dir: &Path| {
        let names = files(dir).into_keys();
        let copies: Vec<_> = names
            .filter(|name| name.starts_with(names::VALUES_COPY))
            .collect();
        copies
    };
    for copy in copies(dir.path()) {
        fs::remove_file(dir.path().join(copy)).unwrap();
    }
    let call = boot.call();
    let any = Expect::Any;
    let set = |boot: &mut Boot| {
        let set = boot.store.set_value("w", "x", Some(TTL), any, &call);
        set.unwrap();
        boot.store.directory.syncs()
    };
    let syncs = set(&mut boot);
    assert_eq!(copies(dir.path()).len(), 1);
    assert_eq!(set(&mut boot), syncs);
    let synced = boot.store.directory.synced.lock().unwrap().1.clone();
    drop(boot);
    // Of the records nothing is left.
    let mut random = fastrand::Rng::with_seed(1);
    cut_power(dir.path(), &synced, &mut random);
    for name in files(dir.path()).into_keys() {
        if name.contains(".record.") {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
    }
    assert_eq!(Boot::start(dir.path(), 1).get().unwrap(), "lasting");
}

#[test]
fn a_record_that_came_back_tells_nothing_of_the_reigns_after_it() {
    let dir = TempDir::new().unwrap();
    let mut boot = Boot::start(dir.path(), 0);
    let first = boot.acquire(&owner(1));
    boot.unlock(&owner(1), first);
    let old = lock_records(&files(dir.path()));
    let second = boot.acquire(&owner(2));
    for name in lock_records(&files(dir.path())).keys() {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    for (name, bytes) in old {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    assert_eq!(boot.renew(&owner(2), second), RenewOutcome::NotHeld);
    let LockOutcome::Acquired(third) = boot.try_lock(&owner(3)) else {
        panic!("the lock is free");
    };
    assert!(third.epoch > second);
    let previous = third.previous.unwrap();
    assert_eq!(
        (previous.end, previous.lease_left),
        (ReignEnd::Unknown, TTL)
    );
}
