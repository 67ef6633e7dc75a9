//! Processes that take turns at random before each step, where some are stopped for a while, with the
//! real code: nothing is lost, nothing is had twice.

use std::{
    cell::RefCell,
    collections::HashMap,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use coordination_core::{
    Expect, LockOutcome, Owner, RenewOutcome, SetOutcome, TryLock, UnlockOutcome, Value,
};
use kvcm_clock::{Clock, ManualClock, Moment};
use kvcm_fence::{Epoch, Incarnation};
use tempfile::TempDir;

use crate::{
    Options, directory::Directory, host::Process, lives::Lives, store::Store, worker::Call,
};

const PLAYERS: usize = 4;
const KEY: &str = "k";
const TTL: Duration = Duration::from_secs(600);

thread_local! {
    static PLAYER: RefCell<Option<(Arc<Table>, usize)>> = const { RefCell::new(None) };
}

/// Comes before everything that is asked of the file system.
pub(crate) fn take_turn() {
    let player = PLAYER.with_borrow(Clone::clone);
    if let Some((table, me)) = player {
        table.pass(me);
    }
}

/// Where one thread runs at a time.
struct Table {
    round: Mutex<Round>,
    changed: Condvar,
}

struct Round {
    turn: usize,
    plays: [bool; PLAYERS],
    is_stopped: [bool; PLAYERS],
    random: fastrand::Rng,
}

impl Table {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let round = Mutex::new(Round {
            turn: random.usize(..PLAYERS),
            plays: [true; PLAYERS],
            is_stopped: [false; PLAYERS],
            random,
        });
        let changed = Condvar::new();
        Self { round, changed }
    }

    fn pass(&self, me: usize) {
        let mut round = self.round.lock().unwrap();
        if round.turn == me {
            round.next();
            self.changed.notify_all();
        }
        while round.turn != me {
            round = self.changed.wait(round).unwrap();
        }
    }

    fn leave(&self, me: usize) {
        let mut round = self.round.lock().unwrap();
        round.plays[me] = false;
        round.next();
        self.changed.notify_all();
    }
}

impl Round {
    fn next(&mut self) {
        if self.random.u8(..20) == 0 {
            self.is_stopped = [(); PLAYERS].map(|()| self.random.u8(..3) > 0);
        }
        let runs = |player: &usize| self.plays[*player] && !self.is_stopped[*player];
        let mut running: Vec<_> = (0..PLAYERS).filter(runs).collect();
        if running.is_empty() {
            self.is_stopped = [false; PLAYERS];
            running = (0..PLAYERS).filter(|player| self.plays[*player]).collect();
        }
        if let Some(next) = self.random.choice(running) {
            self.turn = next;
        }
    }
}

struct Player {
    store: Store,
    owner: Owner,
    random: fastrand::Rng,
}

impl Player {
    fn new(dir: &Path, number: usize, seed: u64) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(Moment::ZERO));
        let store = Store {
            directory: Directory::open(dir, Options::default()).unwrap(),
            lives: Arc::new(Lives::new()),
            clock,
            clock_name: "boot".to_owned(),
            process: Process::own(),
            seen: HashMap::new(),
            numbers: HashMap::new(),
            awaited: HashMap::new(),
        };
        let owner = Owner {
            node: format!("n{number}").parse().unwrap(),
            incarnation: Incarnation::random(),
        };
        let random = fastrand::Rng::with_seed(seed);
        Self {
            store,
            owner,
            random,
        }
    }

    fn call(&self) -> Call {
        Call::unattended(self.store.clock.clone(), Moment::NEVER)
    }

    fn try_lock(&mut self) -> LockOutcome {
        let call = self.call();
        let request = TryLock {
            key: KEY,
            owner: &self.owner,
            ttl: TTL,
            floor: Epoch::ZERO,
            info: "",
            presumed_dead: None,
        };
        self.store.try_lock(&request, &call).unwrap()
    }

    /// Acquires the lock, if it is free, and releases it.
    fn lead(&mut self, reigns: &Mutex<Vec<(Epoch, bool)>>) {
        let call = self.call();
        let LockOutcome::Acquired(acquired) = self.try_lock() else {
            return;
        };
        let epoch = acquired.epoch;
        {
            let mut reigns = reigns.lock().unwrap();
            let before = reigns.last().copied();
            assert!(before.is_none_or(|(_, ended)| ended), "two hold the lock");
            assert!(
                before.is_none_or(|(last, _)| last < epoch),
                "{before:?} before {epoch}"
            );
            reigns.push((epoch, false));
        }
        for _ in 0..self.random.u8(..3) {
            let store = &mut self.store;
            let renewed = store.renew_lock(KEY, &self.owner, epoch, TTL, "", &call);
            assert_eq!(renewed.unwrap(), RenewOutcome::Renewed);
        }
        reigns.lock().unwrap().last_mut().unwrap().1 = true;
        let unlocked = self.store.unlock(KEY, &self.owner, epoch, None, &call);
        assert_eq!(unlocked.unwrap(), UnlockOutcome::Unlocked);
    }

    fn get(&mut self) -> Option<Value> {
        let call = self.call();
        self.store.get_value("sum", &call).unwrap()
    }

    /// Adds one to the sum; whether nobody else did meanwhile.
    fn add(&mut self) -> bool {
        let call = self.call();
        let found = self.get();
        let sum = found
            .as_ref()
            .map_or(0, |value| value.text.parse().unwrap());
        let expect = found.map_or(Expect::Absent, |value| Expect::Version(value.version));
        let text = (sum + 1u32).to_string();
        let store = &mut self.store;
        let set = store.set_value("sum", &text, Some(TTL), expect, &call);
        matches!(set.unwrap(), SetOutcome::Stored(_))
    }
}

/// That another has marked an epoch does not mean that a record was lost.
#[test]
fn the_first_of_several_has_no_predecessor() {
    for seed in 0..20 {
        let dir = TempDir::new().unwrap();
        let table = Arc::new(Table::new(seed));
        thread::scope(|scope| {
            for number in 0..PLAYERS {
                let mut player = Player::new(dir.path(), number, seed);
                let table = table.clone();
                scope.spawn(move || {
                    PLAYER.set(Some((table.clone(), number)));
                    let outcome = player.try_lock();
                    PLAYER.set(None);
                    table.leave(number);
                    if let LockOutcome::Acquired(acquired) = outcome {
                        assert_eq!(acquired.previous, None, "seed {seed}");
                    }
                });
            }
        });
    }
}

#[test]
fn whoever_is_stopped_where_one_at_a_time_has_the_lock_and_no_change_is_lost() {
    let mut led = 0;
    for seed in 0..60 {
        let dir = TempDir::new().unwrap();
        let table = Arc::new(Table::new(seed));
        let reigns = Mutex::new(Vec::new());
        let sum = Mutex::new(0);
        thread::scope(|scope| {
            for number in 0..PLAYERS {
                let mut player = Player::new(dir.path(), number, seed + number as u64);
                let (table, reigns, sum) = (table.clone(), &reigns, &sum);
                scope.spawn(move || {
                    PLAYER.set(Some((table.clone(), number)));
                    let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        for _ in 0..8 {
                            match player.random.u8(..5) {
                                0 | 1 => player.lead(reigns),
                                2 | 3 => {
                                    let added = u32::from(player.add());
                                    *sum.lock().unwrap() += added;
                                }
                                _ => player.store.tidy(),
                            }
                        }
                    }));
                    PLAYER.set(None);
                    table.leave(number);
                    played.unwrap_or_else(|panic| {
                        eprintln!("with seed {seed}");
                        std::panic::resume_unwind(panic)
                    });
                });
            }
        });
        let stored = Player::new(dir.path(), 9, 0).get();
        let stored = stored.map_or(0, |value| value.text.parse::<u32>().unwrap());
        assert_eq!(stored, *sum.lock().unwrap(), "seed {seed}");
        led += reigns.into_inner().unwrap().len();
    }
    assert!(led > 100, "{led} reigns");
}
