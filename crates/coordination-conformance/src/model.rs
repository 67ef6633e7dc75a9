//! Random histories against a model.
//!
//! The model is written on its own, as simply as can be: it shares no rule with the backends.

use std::{collections::BTreeMap, time::Duration};

use coordination_core::{
    Acquired, DeleteOutcome, Holder, LockOutcome, NodeId, Owner, Previous, ReignEnd, RenewOutcome,
    Reservation, Reserved, SetOutcome, TryLock, UnlockOutcome, Value,
};
use kvcm_fence::{Epoch, Incarnation};
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Builder;

use crate::{
    Subject,
    handle::{Handle, owner, request},
    model_steps::{EpochOf, ExpectOf, KEYS, NODES, Presume, Step, history},
};

/// Runs `cases` random histories of one lock and some values, each on an empty store from `make`,
/// and compares every answer with the model's, to the millisecond.
///
/// Only for subjects whose clock stands still unless [`Subject::elapse`] moves it.
///
/// # Panics
/// When the backend and the model disagree, with the shortest history that shows it.
pub fn follows_the_model<S: Subject>(cases: u32, make: impl AsyncFn() -> S) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&history(), |steps| {
        runtime.block_on(async {
            let subject = make().await;
            let mut run = Run::new(&subject).await;
            for step in steps {
                run.step(step).await;
            }
        });
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// What the lock does in the model.
#[derive(Clone, Debug)]
enum Lock {
    Never,
    Held {
        owner: Owner,
        epoch: Epoch,
        info: String,
        ends: u64,
        previous: Option<Previous>,
    },
    Over {
        last: Previous,
        reserved: Option<(NodeId, u64)>,
    },
}

/// A history in progress: the backends and the model.
struct Run<'s> {
    subject: &'s dyn Subject,
    handles: Vec<Handle>,
    owners: Vec<Owner>,
    dead: Vec<Incarnation>,
    /// Milliseconds since the start.
    now: u64,
    lock: Lock,
    last_epoch: Epoch,
    /// Text, version and end.
    values: BTreeMap<&'static str, (String, u64, Option<u64>)>,
}

impl<'s> Run<'s> {
    async fn new(subject: &'s dyn Subject) -> Self {
        let mut handles = Vec::new();
        for _ in NODES {
            handles.push(Handle::open(subject).await);
        }
        Self {
            subject,
            handles,
            owners: (1..)
                .zip(NODES)
                .map(|(life, node)| owner(node, life))
                .collect(),
            dead: Vec::new(),
            now: 0,
            lock: Lock::Never,
            last_epoch: Epoch::ZERO,
            values: BTreeMap::new(),
        }
    }

    async fn step(&mut self, step: Step) {
        self.expire();
        match step {
            Step::Elapse(ms) => {
                self.subject.elapse(Duration::from_millis(ms)).await;
                self.now += ms;
            }
            Step::Die { who } => {
                self.dead.push(self.owners[who].incarnation);
                let life = self.owners[who].incarnation.bits() + 10;
                self.owners[who].incarnation = Incarnation::from_bits(life);
                // The new process starts when the old one has gone.
                self.handles.remove(who);
                self.handles.insert(who, Handle::open(self.subject).await);
            }
            Step::TryLock {
                who,
                ttl,
                floor,
                info,
                presume,
            } => self.try_lock(who, ttl, floor, info, presume).await,
            Step::Renew {
                who,
                epoch,
                ttl,
                info,
            } => self.renew(who, epoch, ttl, info).await,
            Step::Unlock { who, epoch, keep } => self.unlock(who, epoch, keep).await,
            Step::Holder { who } => {
                assert_eq!(self.handles[who].holder().await, self.holder());
            }
            Step::Set {
                who,
                key,
                text,
                ttl,
                expect,
            } => self.set(who, key, text, ttl, expect).await,
            Step::Delete { who, key, expect } => self.delete(who, key, expect).await,
            Step::Get { who, key } => {
                let found = self.handles[who].get(KEYS[key]).await;
                assert_eq!(found, self.value(KEYS[key]));
            }
            Step::List { who } => {
                let prefix = KEYS[0];
                let keys = self.values.keys().filter(|key| key.starts_with(prefix));
                let expected: Vec<_> = keys
                    .filter_map(|key| Some(((*key).to_owned(), self.value(key)?)))
                    .collect();
                assert_eq!(self.handles[who].list(prefix).await, expected);
            }
        }
    }

    async fn try_lock(&mut self, who: usize, ttl: u64, floor: u64, info: &str, presume: Presume) {
        let me = self.owners[who].clone();
        let floor = Epoch::new(self.last_epoch.get().saturating_add(floor)).unwrap();
        let presumed_dead = match (&self.lock, presume) {
            (Lock::Held { owner, epoch, .. }, Presume::Dead)
                if self.dead.contains(&owner.incarnation) =>
            {
                Some((owner.incarnation, *epoch))
            }
            (Lock::Held { owner, epoch, .. }, Presume::OlderEpoch) => {
                Some((owner.incarnation, Epoch::new(epoch.get() - 1).unwrap()))
            }
            (Lock::Held { epoch, .. }, Presume::OtherLife) => {
                Some((Incarnation::from_bits(9999), *epoch))
            }
            _ => None,
        };
        let request = TryLock {
            floor,
            info,
            presumed_dead,
            ..request(&me, Duration::from_millis(ttl))
        };
        let outcome = self.handles[who].ask(request).await.unwrap();
        let ends = self.now + ttl;
        let previous = match &mut self.lock {
            Lock::Held {
                owner,
                epoch,
                info: stored,
                ends: end,
                previous,
            } if *owner == me => {
                info.clone_into(stored);
                *end = ends;
                let expected = Acquired {
                    epoch: *epoch,
                    previous: previous.clone(),
                    repeated: true,
                };
                return assert_eq!(outcome, LockOutcome::Acquired(expected));
            }
            Lock::Held {
                owner, epoch, ends, ..
            } => {
                if presumed_dead != Some((owner.incarnation, *epoch)) {
                    let expected = self.holder().unwrap();
                    return assert_eq!(outcome, LockOutcome::Held(expected));
                }
                Some(Previous {
                    owner: owner.clone(),
                    epoch: *epoch,
                    end: ReignEnd::Dead,
                    lease_left: Duration::from_millis(*ends - self.now),
                })
            }
            Lock::Over { last, reserved } => {
                if let Some((node, until)) = reserved
                    && *until > self.now
                    && *node != me.node
                {
                    let expected = Reserved {
                        node: node.clone(),
                        remaining: Duration::from_millis(*until - self.now),
                        epoch: last.epoch,
                    };
                    return assert_eq!(outcome, LockOutcome::Reserved(expected));
                }
                Some(last.clone())
            }
            Lock::Never => None,
        };
        let LockOutcome::Acquired(acquired) = outcome else {
            panic!("{me} should acquire: {outcome:?}");
        };
        if self.last_epoch.is_zero() {
            assert!(acquired.epoch > floor);
        } else {
            assert_eq!(Some(acquired.epoch), floor.max(self.last_epoch).next());
        }
        assert_eq!(acquired.previous, previous);
        assert!(!acquired.repeated);
        self.last_epoch = acquired.epoch;
        self.lock = Lock::Held {
            owner: me,
            epoch: acquired.epoch,
            info: info.to_owned(),
            ends,
            previous,
        };
    }

    async fn renew(&mut self, who: usize, epoch: EpochOf, ttl: u64, info: &str) {
        let me = self.owners[who].clone();
        let epoch = self.epoch(epoch);
        let ttl_asked = Duration::from_millis(ttl);
        let outcome = self.handles[who].renew(&me, epoch, ttl_asked, info).await;
        let now = self.now;
        let expected = match &mut self.lock {
            Lock::Held {
                owner,
                epoch: held,
                info: stored,
                ends,
                ..
            } if *owner == me && *held == epoch => {
                info.clone_into(stored);
                *ends = now + ttl;
                RenewOutcome::Renewed
            }
            _ => match self.holder() {
                Some(holder) => RenewOutcome::HeldByOther(holder),
                None => RenewOutcome::NotHeld,
            },
        };
        assert_eq!(outcome, expected);
    }

    async fn unlock(&mut self, who: usize, epoch: EpochOf, keep: Option<(usize, u64)>) {
        let me = self.owners[who].clone();
        let epoch = self.epoch(epoch);
        let wish = keep.map(|(node, ms)| Reservation {
            node: self.owners[node].node.clone(),
            duration: Duration::from_millis(ms),
        });
        let unlock = self.handles[who].unlock_for(&me, epoch, wish.as_ref());
        let outcome = unlock.await;
        let expected = match self.holder() {
            None => UnlockOutcome::NotHeld,
            Some(holder) if holder.owner == me && holder.epoch == epoch => {
                self.lock = Lock::Over {
                    last: Previous {
                        owner: me,
                        epoch,
                        end: ReignEnd::Released,
                        lease_left: Duration::ZERO,
                    },
                    reserved: keep
                        .map(|(node, ms)| (self.owners[node].node.clone(), self.now + ms)),
                };
                UnlockOutcome::Unlocked
            }
            Some(holder) => UnlockOutcome::HeldByOther(holder),
        };
        assert_eq!(outcome, expected);
    }

    async fn set(
        &mut self,
        who: usize,
        key: usize,
        text: &str,
        ttl: Option<u64>,
        expect: ExpectOf,
    ) {
        let key = KEYS[key];
        let present = self.value(key).map(|value| value.version);
        let expect = expect.of(present);
        let ttl_asked = ttl.map(Duration::from_millis);
        let outcome = self.handles[who].set(key, text, ttl_asked, expect).await;
        if !ExpectOf::holds(expect, present) {
            return assert_eq!(outcome, SetOutcome::Conflict(present));
        }
        let SetOutcome::Stored(version) = outcome else {
            panic!("{key} should be set: {outcome:?}");
        };
        if let Some((_, before, _)) = self.values.get(key) {
            assert!(version > *before, "{version} after {before}");
        }
        let ends = ttl.map(|ttl| self.now + ttl);
        self.values.insert(key, (text.to_owned(), version, ends));
    }

    async fn delete(&mut self, who: usize, key: usize, expect: ExpectOf) {
        let key = KEYS[key];
        let present = self.value(key).map(|value| value.version);
        let expect = expect.of(present);
        let outcome = self.handles[who].delete(key, expect).await;
        let expected = match present {
            None => DeleteOutcome::Absent,
            Some(_) if ExpectOf::holds(expect, present) => {
                self.values.remove(key);
                DeleteOutcome::Deleted
            }
            Some(version) => DeleteOutcome::Conflict(version),
        };
        assert_eq!(outcome, expected);
    }

    fn expire(&mut self) {
        if let Lock::Held {
            owner, epoch, ends, ..
        } = &self.lock
            && *ends <= self.now
        {
            let last = Previous {
                owner: owner.clone(),
                epoch: *epoch,
                end: ReignEnd::Expired,
                lease_left: Duration::ZERO,
            };
            let reserved = None;
            self.lock = Lock::Over { last, reserved };
        }
    }

    fn holder(&self) -> Option<Holder> {
        match &self.lock {
            Lock::Held {
                owner,
                epoch,
                info,
                ends,
                ..
            } => Some(Holder {
                owner: owner.clone(),
                epoch: *epoch,
                info: info.clone(),
                remaining: Duration::from_millis(*ends - self.now),
            }),
            _ => None,
        }
    }

    fn epoch(&self, which: EpochOf) -> Epoch {
        match which {
            EpochOf::Last => self.last_epoch,
            EpochOf::Older => Epoch::new(self.last_epoch.get().saturating_sub(1)).unwrap(),
        }
    }

    fn value(&self, key: &str) -> Option<Value> {
        let (text, version, ends) = self.values.get(key)?;
        let live = ends.is_none_or(|ends| ends > self.now);
        live.then(|| Value {
            text: text.clone(),
            version: *version,
            remaining: ends.map(|ends| Duration::from_millis(ends - self.now)),
        })
    }
}
