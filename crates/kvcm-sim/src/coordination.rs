//! The coordination backend: the lock rules of the memory backend behind a network, with what
//! happens to real servers and their data.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use coordination_core::{
    Backend, DeleteOutcome, Error, Expect, Hint, HintStream, Holder, LEADER_KEY, LockOutcome,
    Owner, ReignEnd, RenewOutcome, Reservation, SetOutcome, TryLock, UnlockOutcome, Value,
};
use coordination_memory::{Backup, MemoryBackend};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use kvcm_clock::Moment;
use kvcm_fence::{Epoch, Incarnation};
use parking_lot::Mutex;

use crate::{
    callbacks::Callbacks,
    dice::Dice,
    event::{Event, Life, Log},
    fault::Fault,
    mutant::Mutant,
    net::{End, Net, Refused, Remote},
    service::place_of,
    time::HostClock,
    world::World,
};

/// Backups that are kept for going back.
const BACKUPS: usize = 8;

/// The server.
pub(crate) struct Coordination {
    world: World,
    log: Log,
    net: Net,
    dice: Dice,
    pub(crate) remote: Arc<Remote>,
    store: MemoryBackend,
    /// Milliseconds that its wall clock shows at the beginning of the run.
    wall: Arc<AtomicU64>,
    backups: Mutex<Vec<Backup>>,
    mutant: Mutant,
    /// An epoch that a broken backend mints again.
    first: Mutex<Option<Epoch>>,
    lease: Duration,
    /// The command by which the lock was won last.
    last_try: Mutex<Option<(Life, OwnedTry)>>,
    /// What ambushes promotions.
    callbacks: Arc<Callbacks>,
    /// Nanoseconds at which data was lost last.
    lost_at: AtomicU64,
    /// What the nemesis does as soon as the lock is kept for a successor.
    on_reserved: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// What one process sees of it.
pub(crate) struct NodeBackend {
    pub(crate) server: Arc<Coordination>,
    pub(crate) life: Life,
}

impl Coordination {
    pub(crate) fn new(
        world: World,
        log: Log,
        net: Net,
        dice: Dice,
        lease: Duration,
        callbacks: Arc<Callbacks>,
        mutant: Mutant,
    ) -> Arc<Self> {
        let clock = HostClock::new(world.clone(), dice.between(0, 1 << 40), drift(&dice));
        let wall = Arc::new(AtomicU64::new(1_000_000));
        let (wall_clock, time) = (wall.clone(), world.clone());
        let wall_clock = move || wall_clock.load(Relaxed) + time.now() / 1_000_000;
        let end = End::Coordination;
        Arc::new(Self {
            remote: Remote::new(world.clone(), net.clone(), log.clone(), dice.clone(), end),
            store: MemoryBackend::with_wall_clock(Arc::new(clock), wall_clock),
            wall,
            backups: Mutex::default(),
            mutant,
            first: Mutex::default(),
            lease,
            last_try: Mutex::default(),
            callbacks,
            lost_at: AtomicU64::new(0),
            on_reserved: Mutex::default(),
            world,
            log,
            net,
            dice,
        })
    }

    // What happens to its data.

    pub(crate) fn lose_all(&self, clock_behind: bool) {
        if clock_behind {
            // As far back as the run is old: lower than every epoch that it has minted.
            self.wall.store(1, Relaxed);
        }
        self.log.hit(if clock_behind {
            Fault::DataLostClockBehind
        } else {
            Fault::DataLost
        });
        self.lost_at.store(self.world.now(), Relaxed);
        self.store.flush();
    }

    pub(crate) fn lose_counter(&self) {
        self.log.hit(Fault::CounterLost);
        self.store.lose_counter(LEADER_KEY);
    }

    pub(crate) fn roll_back(&self) {
        let backups = std::mem::take(&mut *self.backups.lock());
        if !backups.is_empty() {
            self.log.hit(Fault::DataRolledBack);
            self.lost_at.store(self.world.now(), Relaxed);
            let which = self.dice.below(backups.len());
            self.store.restore(LEADER_KEY, backups[which].clone());
        }
    }

    pub(crate) fn forget_holder(&self, fault: Fault) {
        if self.store.forget_holder(LEADER_KEY) {
            self.log.hit(fault);
            self.lost_at.store(self.world.now(), Relaxed);
        }
    }

    /// The command by which `life` won the lock arrives a second time.
    pub(crate) fn repeat_try(self: &Arc<Self>, life: Life) {
        let last = self.last_try.lock().clone();
        if let Some((winner, request)) = last
            && winner == life
        {
            self.log.hit(Fault::BackendCommandTwice);
            let server = self.clone();
            let later = self.dice.time(Duration::ZERO, Duration::from_millis(5));
            self.world.after(later, move || {
                let _ = server.try_lock(life, &request);
            });
        }
    }

    /// Does `work` as soon as the lock is kept for a successor; none: nothing.
    pub(crate) fn on_reserved(&self, work: Option<Box<dyn FnOnce() + Send>>) {
        *self.on_reserved.lock() = work;
    }

    pub(crate) fn remove_ttl(&self) {
        if self.store.remove_ttl(LEADER_KEY) {
            self.log.hit(Fault::TtlRemoved);
        }
    }

    /// The kernel tells all waiters that the process is dead, if it held the lock. Who takes over
    /// by such a proof is not told of a guard that the dead one had to keep, so nothing is proven
    /// while there can be one.
    pub(crate) fn prove_death(&self, incarnation: Incarnation) {
        let guarded = self.lost_at.load(Relaxed) + 3 * crate::world::nanos(self.lease);
        let lost = self.lost_at.load(Relaxed) > 0;
        if lost && self.world.now() < guarded {
            return;
        }
        if let Some(holder) = self.holder().filter(|h| h.owner.incarnation == incarnation) {
            self.log.hit(Fault::DeathProven);
            let epoch = holder.epoch;
            let hint = Hint::HolderDied { incarnation, epoch };
            self.store.send_hint(LEADER_KEY, hint);
        }
    }

    pub(crate) fn holder(&self) -> Option<Holder> {
        ready(self.store.lock_holder(LEADER_KEY, Moment::NEVER)).ok()?
    }

    // What it does.

    fn try_lock(self: &Arc<Self>, life: Life, request: &OwnedTry) -> Result<LockOutcome, Error> {
        if self.mutant == Mutant::LeaseCutShort && self.dice.chance(0.2) {
            self.store.forget_holder(LEADER_KEY);
        }
        let backup = self.store.back_up(LEADER_KEY);
        let mut outcome = ready(self.store.try_lock(request.borrow(), Moment::NEVER))?;
        if let LockOutcome::Acquired(acquired) = &mut outcome {
            if !acquired.repeated {
                let mut backups = self.backups.lock();
                if backups.len() == BACKUPS {
                    backups.remove(0);
                }
                backups.push(backup);
                *self.last_try.lock() = Some((life, request.clone()));
                if self.callbacks.ambushes() {
                    let server = self.clone();
                    let delay = self.dice.time(Duration::ZERO, self.lease / 20);
                    self.world.after(delay, move || {
                        server.forget_holder(Fault::AmbushPromotion);
                    });
                }
            }
            if self.mutant == Mutant::SameEpochAgain && !acquired.repeated {
                let mut first = self.first.lock();
                if first.is_none() || self.dice.chance(0.3) {
                    acquired.epoch = *first.get_or_insert(acquired.epoch);
                }
            }
            if matches!(self.mutant, Mutant::FalseProof | Mutant::LeaseCutShort)
                && let Some(previous) = &mut acquired.previous
                && previous.end == ReignEnd::Unknown
            {
                previous.end = ReignEnd::Expired;
                previous.lease_left = Duration::ZERO;
            }
            self.log.add(Event::Acquired {
                life,
                epoch: acquired.epoch.get(),
                previous: acquired.previous.as_ref().map(|previous| previous.end),
                repeated: acquired.repeated,
            });
        }
        Ok(outcome)
    }

    fn renew(&self, owner: &Owner, epoch: Epoch, ttl: Duration, info: &str) -> RenewOutcome {
        if self.mutant == Mutant::Restless && self.dice.chance(0.01) {
            self.store.forget_holder(LEADER_KEY);
        }
        let epoch = match self.mutant {
            Mutant::SameEpochAgain => self.holder().map_or(epoch, |holder| holder.epoch),
            _ => epoch,
        };
        let renewed = self
            .store
            .renew_lock(LEADER_KEY, owner, epoch, ttl, info, Moment::NEVER);
        ready(renewed).unwrap_or(RenewOutcome::NotHeld)
    }

    fn unlock(
        &self,
        life: Life,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
    ) -> UnlockOutcome {
        let reserve_for = reserve_for.filter(|_| self.mutant != Mutant::ReservationIgnored);
        let unlocked = self
            .store
            .unlock(LEADER_KEY, owner, epoch, reserve_for, Moment::NEVER);
        let outcome = ready(unlocked).unwrap_or(UnlockOutcome::NotHeld);
        if outcome == UnlockOutcome::Unlocked {
            let epoch = epoch.get();
            self.log.add(Event::Released { life, epoch });
            let to = reserve_for.and_then(|kept| place_of(kept.node.as_str()));
            if let Some(to) = to {
                self.log.add(Event::Reserved { life, epoch, to });
                let work = self.on_reserved.lock().take();
                if let Some(work) = work {
                    work();
                }
            }
        }
        outcome
    }
}

/// How many parts in a million a clock is wrong: two of them differ by less than one in a thousand.
pub(crate) fn drift(dice: &Dice) -> i64 {
    i64::try_from(dice.between(0, 800)).unwrap_or(0) - 400
}

/// The memory backend never waits.
fn ready<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let answer = answer.now_or_never();
    answer.unwrap_or_else(|| Err(Error::not_done("it waits")))
}

/// A [`TryLock`] that can travel.
#[derive(Clone)]
struct OwnedTry {
    key: String,
    owner: Owner,
    ttl: Duration,
    floor: Epoch,
    info: String,
    presumed_dead: Option<(Incarnation, Epoch)>,
}

impl OwnedTry {
    fn borrow(&self) -> TryLock<'_> {
        TryLock {
            key: &self.key,
            owner: &self.owner,
            ttl: self.ttl,
            floor: self.floor,
            info: &self.info,
            presumed_dead: self.presumed_dead,
        }
    }
}

impl NodeBackend {
    async fn ask<T: Send + 'static>(
        &self,
        work: impl Fn(&Arc<Coordination>) -> T + Send + Sync + 'static,
    ) -> Result<T, Error> {
        let server = self.server.clone();
        let from = End::Node(self.life.node);
        let late = self.server.lease;
        let answer = self.server.remote.ask(from, late, move || work(&server));
        answer
            .await
            .map_err(|Refused| Error::not_done("connection refused"))
    }
}

// === impl Backend ===

#[async_trait]
impl Backend for NodeBackend {
    fn describe(&self) -> String {
        "sim://".to_owned()
    }

    async fn try_lock(&self, request: TryLock<'_>, _: Moment) -> Result<LockOutcome, Error> {
        let (life, request) = (
            self.life,
            OwnedTry {
                key: request.key.to_owned(),
                owner: request.owner.clone(),
                ttl: request.ttl,
                floor: request.floor,
                info: request.info.to_owned(),
                presumed_dead: request.presumed_dead,
            },
        );
        self.ask(move |server| server.try_lock(life, &request))
            .await?
    }

    async fn renew_lock(
        &self,
        _: &str,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
        _: Moment,
    ) -> Result<RenewOutcome, Error> {
        let (owner, info) = (owner.clone(), info.to_owned());
        let sent = self.server.world.now();
        let answer = self.ask(move |server| server.renew(&owner, epoch, ttl, &info));
        let outcome = answer.await?;
        let took = Duration::from_nanos(self.server.world.now() - sent);
        if outcome == RenewOutcome::Renewed && took > self.server.lease {
            let (life, epoch) = (self.life, epoch.get());
            self.server
                .log
                .add(Event::RenewalHeard { life, epoch, took });
        }
        Ok(outcome)
    }

    async fn unlock(
        &self,
        _: &str,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        _: Moment,
    ) -> Result<UnlockOutcome, Error> {
        let (life, owner, reserve_for) = (self.life, owner.clone(), reserve_for.cloned());
        self.ask(move |server| server.unlock(life, &owner, epoch, reserve_for.as_ref()))
            .await
    }

    async fn lock_holder(&self, key: &str, _: Moment) -> Result<Option<Holder>, Error> {
        let key = key.to_owned();
        self.ask(move |server| ready(server.store.lock_holder(&key, Moment::NEVER)))
            .await?
    }

    async fn set_value(
        &self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
        _: Moment,
    ) -> Result<SetOutcome, Error> {
        let (key, text) = (key.to_owned(), text.to_owned());
        self.ask(move |server| {
            ready(
                server
                    .store
                    .set_value(&key, &text, ttl, expect, Moment::NEVER),
            )
        })
        .await?
    }

    async fn get_value(&self, key: &str, _: Moment) -> Result<Option<Value>, Error> {
        let key = key.to_owned();
        self.ask(move |server| ready(server.store.get_value(&key, Moment::NEVER)))
            .await?
    }

    async fn delete_value(
        &self,
        key: &str,
        expect: Expect,
        _: Moment,
    ) -> Result<DeleteOutcome, Error> {
        let key = key.to_owned();
        self.ask(move |server| ready(server.store.delete_value(&key, expect, Moment::NEVER)))
            .await?
    }

    async fn list_values(&self, prefix: &str, _: Moment) -> Result<Vec<(String, Value)>, Error> {
        let prefix = prefix.to_owned();
        self.ask(move |server| ready(server.store.list_values(&prefix, Moment::NEVER)))
            .await?
    }

    fn watch(&self, key: &str) -> HintStream {
        let hints = self.server.store.watch(key);
        let (server, node) = (self.server.clone(), self.life.node);
        Box::pin(stream::unfold(hints, move |mut hints| {
            let server = server.clone();
            async move {
                loop {
                    let hint = hints.next().await?;
                    if let Some(trip) = server.net.trip(End::Coordination, End::Node(node)) {
                        server.world.sleep(Duration::from_nanos(trip)).await;
                        return Some((hint, hints));
                    }
                }
            }
        }))
    }
}

impl fmt::Debug for NodeBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sim:// of {}", self.life)
    }
}
