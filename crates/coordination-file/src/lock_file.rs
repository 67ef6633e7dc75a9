//! The lock operations, on the thread.

use std::time::Duration;

use coordination_core::{
    Error, Holder, LockOutcome, LockState, NodeId, Owner, Phase, Reign, RenewOutcome, Reservation,
    TryLock, UnlockOutcome,
};
use kvcm_clock::{Moment, wall_clock_ms};
use kvcm_fence::{Epoch, Incarnation};

use crate::{
    chain::{Chain, Draft, Newest},
    directory::Directory,
    host::{self, Process},
    lives,
    lock_record::LockRecord,
    names,
    record::{self, Read},
    store::{Seen, Store, marks},
    worker::Call,
};

/// The kind of a lock's record.
const KIND: &str = "lock";

/// How often it is looked for the first record when only the mark of its epoch is there, half a
/// millisecond apart: longer than a disk takes for a sync, far shorter than the lease that has to be
/// waited for when it was lost.
const LOOKS: u32 = 100;

/// A reign with its holder's process.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) reign: Reign,
    pub(crate) process: Process,
    /// Whether our kernel has its lifetime lock. That of another, which may be another host, tells
    /// us nothing: there the lease is waited for.
    pub(crate) is_of_our_boot: bool,
}

impl Found {
    /// Whether the holder's death is proven.
    pub(crate) fn is_dead(&self, directory: &Directory) -> bool {
        self.is_of_our_boot && lives::is_dead(directory, self.reign.owner.incarnation)
    }
}

/// A record as it was found.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) newest: Newest,
    /// None when there is none, or when it is damaged.
    pub(crate) found: Option<Found>,
}

impl Store {
    pub(crate) fn try_lock(
        &mut self,
        request: &TryLock<'_>,
        call: &Call,
    ) -> Result<LockOutcome, Error> {
        if let Some(holder) = self.held_by_another(request, call)? {
            return Ok(LockOutcome::Held(holder));
        }
        self.change(call, |store| store.try_lock_once(request, call))
    }

    fn try_lock_once(
        &mut self,
        request: &TryLock<'_>,
        call: &Call,
    ) -> Result<Option<LockOutcome>, Error> {
        self.lives
            .take(&self.directory, request.owner.incarnation)?;
        let Loaded { newest, found } = self.load(request.key, call)?;
        let all_names = self.directory.names()?;
        let (marked, old_marks) = marks(&all_names, &names::epoch_prefix(request.key));
        let now = call.check()?;
        let mut state = LockState {
            counter: marked.and_then(|marked| Epoch::new(marked).ok()),
            reign: found.as_ref().map(|found| found.reign.clone()),
        };
        if let Some(reign) = &state.reign {
            state.counter = state.counter.max(Some(reign.epoch));
        } else if let Some(epoch) = state.counter {
            if newest.number == 0 && self.may_appear(request.key, epoch) {
                return Ok(None);
            }
            state.reign = Some(lost_reign(epoch, request, now)?);
        }
        let counter_before = state.counter;
        let before = state.reign.clone();
        let proven_dead = request.presumed_dead.filter(|(incarnation, _)| {
            let holder = found.as_ref();
            let holder = holder.filter(|found| found.reign.owner.incarnation == *incarnation);
            holder.is_some_and(|holder| holder.is_dead(&self.directory))
        });
        let request = TryLock {
            presumed_dead: proven_dead,
            ..request.clone()
        };
        let outcome = state.try_lock(&request, now, wall_clock_ms)?;
        let Some(reign) = state.reign.filter(|reign| before.as_ref() != Some(reign)) else {
            return Ok(Some(outcome));
        };
        let minted = state.counter.filter(|_| state.counter != counter_before);
        if let Some(epoch) = minted {
            // On the disk before anybody can see the epoch in the record and tell other hosts of
            // it. Whatever goes wrong here costs a number and changes nothing else.
            let mark = names::epoch_mark(request.key, epoch);
            if !self.directory.add_durable_mark(&mark)? {
                // Another contender is at it.
                return Ok(None);
            }
        }
        let process = match (&outcome, found) {
            (LockOutcome::Held(_), Some(found)) => found.process,
            _ => self.process.clone(),
        };
        if !self.write(request.key, &newest, process, &reign, call)? {
            return Ok(None);
        }
        if minted.is_some() {
            self.directory.discard(old_marks);
        }
        Ok(Some(outcome))
    }

    pub(crate) fn renew_lock(
        &mut self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
        call: &Call,
    ) -> Result<RenewOutcome, Error> {
        self.change(call, |store| {
            let (newest, mut state) = store.state(key, call)?;
            let now = call.check()?;
            let outcome = state.renew_lock(owner, epoch, ttl, info, now);
            let reign = state.reign.filter(|_| outcome == RenewOutcome::Renewed);
            store.write_own(key, &newest, reign, outcome, call)
        })
    }

    pub(crate) fn unlock(
        &mut self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        call: &Call,
    ) -> Result<UnlockOutcome, Error> {
        self.change(call, |store| {
            let (newest, mut state) = store.state(key, call)?;
            let now = call.check()?;
            let outcome = state.unlock(owner, epoch, reserve_for, now);
            let reign = state.reign.filter(|_| outcome == UnlockOutcome::Unlocked);
            store.write_own(key, &newest, reign, outcome, call)
        })
    }

    pub(crate) fn lock_holder(&mut self, key: &str, call: &Call) -> Result<Option<Holder>, Error> {
        let (_, state) = self.state(key, call)?;
        Ok(state.lock_holder(self.clock.now()))
    }

    /// The reign that the newest record tells of. A damaged record is set aside, and counts as
    /// none.
    pub(crate) fn load(&mut self, key: &str, call: &Call) -> Result<Loaded, Error> {
        let chain = names::lock_chain(key);
        let newest = self.newest(&chain, call)?;
        let Some(bytes) = &newest.bytes else {
            self.directory.check()?;
            let found = None;
            return Ok(Loaded { newest, found });
        };
        let record: LockRecord = match record::decode(KIND, bytes)? {
            Read::Whole(record) => record,
            Read::Damaged(how) => {
                let aside = names::damaged(&chain, newest.number);
                let record = chain.record(newest.number);
                self.directory.set_aside(&record, &aside, &how);
                let found = None;
                return Ok(Loaded { newest, found });
            }
        };
        if record.key != key {
            let hint = "restore the name of the record, or remove it while no kvcm runs";
            let source = format!("the record of lock {key} is that of lock {}", record.key);
            return Err(Error::fatal(hint, source));
        }
        let process = record.process.clone();
        let is_of_our_boot = host::same_boot(&record.clock, &self.clock_name);
        let reign = self.judge(key, bytes, record)?;
        let found = Some(Found {
            reign,
            process,
            is_of_our_boot,
        });
        Ok(Loaded { newest, found })
    }

    /// The lifetime files of all who hold a lock or held it last, or none at all when that cannot
    /// be told.
    pub(crate) fn holders(&mut self, call: &Call) -> Option<Vec<String>> {
        let mut lives = Vec::new();
        for chain in Chain::all(&self.directory.names().ok()?) {
            if !names::is_lock(&chain) {
                continue;
            }
            let bytes = self.newest(&chain, call).ok()?.bytes?;
            let Read::Whole(record) = record::decode::<LockRecord>(KIND, &bytes).ok()? else {
                return None;
            };
            lives.push(names::life(record.into_reign().owner.incarnation));
        }
        Some(lives)
    }

    fn state(&mut self, key: &str, call: &Call) -> Result<(Newest, LockState), Error> {
        let Loaded { newest, found } = self.load(key, call)?;
        let state = LockState {
            counter: None,
            reign: found.map(|found| found.reign),
        };
        Ok((newest, state))
    }

    /// Answers the ordinary contender at once: a lock that another holds, without doubt and without
    /// anything to change.
    fn held_by_another(
        &mut self,
        request: &TryLock<'_>,
        call: &Call,
    ) -> Result<Option<Holder>, Error> {
        let Some(found) = self.load(request.key, call)?.found else {
            return Ok(None);
        };
        let reign = found.reign;
        if request.presumed_dead.is_some()
            || reign.owner == *request.owner
            || reign.ends == Moment::NEVER
        {
            return Ok(None);
        }
        let state = LockState {
            counter: None,
            reign: Some(reign),
        };
        Ok(state.lock_holder(self.clock.now()))
    }

    /// Whether the first record may still come, of a contender that has marked its epoch and syncs
    /// the mark: looked for some times, in this call or later ones, before it counts as lost.
    fn may_appear(&mut self, key: &str, epoch: Epoch) -> bool {
        let (marked, looks) = self.awaited.entry(key.to_owned()).or_insert((epoch, 0));
        if *marked != epoch {
            (*marked, *looks) = (epoch, 0);
        }
        *looks += 1;
        *looks <= LOOKS
    }

    /// Brings a record of another clock to ours: its lease is waited for once, from the moment
    /// when we first saw it. If it changes meanwhile, somebody lives on that clock.
    fn judge(&mut self, key: &str, bytes: &[u8], record: LockRecord) -> Result<Reign, Error> {
        // After the record was read: an older `now` would make a new lease look too long.
        let now = self.clock.now();
        if record.is_of(&self.clock_name, now) {
            let reign = record.into_reign();
            let highest = match self.seen.get(key) {
                Some(Seen::Ours { highest }) => reign.epoch.max(*highest),
                _ => reign.epoch,
            };
            self.seen.insert(key.to_owned(), Seen::Ours { highest });
            return Ok(went_back(reign, highest, now));
        }
        let since = match self.seen.get(key) {
            None => None,
            Some(Seen::Foreign { bytes: same, since }) if same == bytes => Some(*since),
            Some(_) => {
                self.see_foreign(key, bytes, now);
                let hint = "give each host its own directory, or use a backend for several hosts";
                let source = format!(
                    "{}: another host, or a container with its own clock, uses lock {key}, too",
                    self.directory.path().display()
                );
                return Err(Error::fatal(hint, source));
            }
        };
        let since = since.unwrap_or_else(|| {
            self.see_foreign(key, bytes, now);
            now
        });
        let mut reign = record.into_reign();
        reign.ends = since + reign.ttl;
        match &mut reign.phase {
            Phase::Held if now >= reign.ends => reign.phase = Phase::Vanished,
            Phase::Released { reserved } => *reserved = None,
            _ => {}
        }
        Ok(reign)
    }

    fn see_foreign(&mut self, key: &str, bytes: &[u8], since: Moment) {
        let bytes = bytes.to_vec();
        let seen = Seen::Foreign { bytes, since };
        self.seen.insert(key.to_owned(), seen);
    }

    /// Writes what a call of the holder makes of its reign, if anything; returns the answer, or none
    /// when another was faster.
    fn write_own<T>(
        &mut self,
        key: &str,
        replaces: &Newest,
        reign: Option<Reign>,
        answer: T,
        call: &Call,
    ) -> Result<Option<T>, Error> {
        let written = match reign {
            Some(reign) => self.write(key, replaces, self.process.clone(), &reign, call)?,
            None => true,
        };
        Ok(written.then_some(answer))
    }

    /// Replaces a record; returns whether it was the first to do so.
    fn write(
        &mut self,
        key: &str,
        replaces: &Newest,
        process: Process,
        reign: &Reign,
        call: &Call,
    ) -> Result<bool, Error> {
        let record = LockRecord::new(key, &self.clock_name, process, reign);
        let draft = Draft {
            replaces,
            bytes: &record::encode(KIND, &record)?,
            copy: None,
        };
        let is_first = self.publish(&names::lock_chain(key), draft, call)?;
        if is_first {
            let highest = reign.epoch;
            self.seen.insert(key.to_owned(), Seen::Ours { highest });
        }
        Ok(is_first)
    }
}

/// The reign of a record when reigns up to `highest` were seen before. A record of an earlier one
/// came back (a backup, a disk that was mounted anew after it had failed): how that reign ended
/// tells nothing of the later ones, whose leader may live.
fn went_back(mut reign: Reign, highest: Epoch, now: Moment) -> Reign {
    if reign.epoch < highest && !reign.is_held(now) {
        reign.phase = Phase::Vanished;
        reign.ends = now + reign.ttl;
    }
    reign
}

/// The reign of a record that was lost: only its epoch is known. Its lease may be as long as ours.
fn lost_reign(epoch: Epoch, request: &TryLock<'_>, now: Moment) -> Result<Reign, Error> {
    let node: NodeId = "unknown".parse().map_err(Error::not_done)?;
    Ok(Reign {
        owner: Owner {
            node,
            incarnation: Incarnation::from_bits(0),
        },
        epoch,
        info: String::new(),
        ttl: request.ttl,
        ends: now + request.ttl,
        previous: None,
        phase: Phase::Vanished,
    })
}
