//! The lock operations, on the thread.

use std::time::Duration;

use coordination_core::{
    Error, Holder, LockOutcome, LockState, NodeId, Owner, Phase, Reign, RenewOutcome, Reservation,
    TryLock, UnlockOutcome,
};
use kvcm_clock::{Moment, wall_clock_ms};
use kvcm_fence::{Epoch, Incarnation};

use crate::{
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

impl Store {
    pub(crate) fn try_lock(
        &mut self,
        request: &TryLock<'_>,
        call: &Call,
    ) -> Result<LockOutcome, Error> {
        if let Some(holder) = self.held_by_another(request)? {
            return Ok(LockOutcome::Held(holder));
        }
        let _guarded = self.enter(call)?;
        self.lives
            .take(&self.directory, request.owner.incarnation)?;
        let found = self.load_repaired(request.key)?;
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
        if let Some(reign) = state.reign.filter(|reign| before.as_ref() != Some(reign)) {
            let minted = state.counter.filter(|_| state.counter != counter_before);
            if let Some(epoch) = minted {
                // On the disk before anybody can see the epoch in the record and tell other hosts
                // of it. Whatever goes wrong here costs a number and changes nothing else.
                let mark = names::epoch_mark(request.key, epoch);
                self.directory.add_durable_mark(&mark)?;
                call.check()?;
            }
            call.start_change()?;
            let process = match (&outcome, found) {
                (LockOutcome::Held(_), Some(found)) => found.process,
                _ => self.process.clone(),
            };
            self.write(request.key, process, &reign)?;
            if minted.is_some() {
                self.directory.discard(old_marks);
            }
        }
        Ok(outcome)
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
        let _guarded = self.enter(call)?;
        let mut state = self.state(key)?;
        let now = call.check()?;
        let outcome = state.renew_lock(owner, epoch, ttl, info, now);
        if let (RenewOutcome::Renewed, Some(reign)) = (&outcome, state.reign) {
            call.start_change()?;
            self.write(key, self.process.clone(), &reign)?;
        }
        Ok(outcome)
    }

    pub(crate) fn unlock(
        &mut self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        call: &Call,
    ) -> Result<UnlockOutcome, Error> {
        let _guarded = self.enter(call)?;
        let mut state = self.state(key)?;
        let now = call.check()?;
        let outcome = state.unlock(owner, epoch, reserve_for, now);
        if let (UnlockOutcome::Unlocked, Some(reign)) = (&outcome, state.reign) {
            call.start_change()?;
            self.write(key, self.process.clone(), &reign)?;
        }
        Ok(outcome)
    }

    pub(crate) fn lock_holder(&mut self, key: &str, call: &Call) -> Result<Option<Holder>, Error> {
        let found = match self.load(key)? {
            Read::Whole(found) => found,
            Read::Damaged(_) => {
                let _guarded = self.enter(call)?;
                self.load_repaired(key)?
            }
        };
        let state = LockState {
            counter: None,
            reign: found.map(|found| found.reign),
        };
        Ok(state.lock_holder(self.clock.now()))
    }

    /// The reign that the record tells of, without the guard: records are replaced as wholes.
    pub(crate) fn load(&mut self, key: &str) -> Result<Read<Option<Found>>, Error> {
        let Some(bytes) = self.directory.read(&names::lock_record(key))? else {
            return Ok(Read::Whole(None));
        };
        let record: LockRecord = match record::decode(KIND, &bytes)? {
            Read::Whole(record) => record,
            Read::Damaged(how) => return Ok(Read::Damaged(how)),
        };
        if record.key != key {
            let hint = "restore the name of the record, or remove it while no kvcm runs";
            let source = format!("the record of lock {key} is that of lock {}", record.key);
            return Err(Error::fatal(hint, source));
        }
        let process = record.process.clone();
        let is_of_our_boot = host::same_boot(&record.clock, &self.clock_name);
        let reign = self.judge(key, bytes, record)?;
        Ok(Read::Whole(Some(Found {
            reign,
            process,
            is_of_our_boot,
        })))
    }

    /// All incarnations that hold a lock, or none at all when that cannot be told.
    pub(crate) fn holders(&self, all_names: &[String]) -> Option<Vec<Incarnation>> {
        let mut holders = Vec::new();
        for name in all_names.iter().filter(|name| names::is_lock_record(name)) {
            let bytes = self.directory.read(name).ok()??;
            let Read::Whole(record) = record::decode::<LockRecord>(KIND, &bytes).ok()? else {
                return None;
            };
            holders.push(record.into_reign().owner.incarnation);
        }
        Some(holders)
    }

    /// The same under the guard; a damaged record is set aside, and no record remains.
    fn load_repaired(&mut self, key: &str) -> Result<Option<Found>, Error> {
        match self.load(key)? {
            Read::Whole(found) => Ok(found),
            Read::Damaged(how) => {
                self.directory.set_aside(&names::lock_record(key), &how)?;
                Ok(None)
            }
        }
    }

    fn state(&mut self, key: &str) -> Result<LockState, Error> {
        let found = self.load_repaired(key)?;
        Ok(LockState {
            counter: None,
            reign: found.map(|found| found.reign),
        })
    }

    /// Answers the ordinary contender without the guard: a lock that another holds, without doubt
    /// and without anything to change.
    fn held_by_another(&mut self, request: &TryLock<'_>) -> Result<Option<Holder>, Error> {
        let Read::Whole(Some(found)) = self.load(request.key)? else {
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

    /// Brings a record of another clock to ours: its lease is waited for once, from the moment
    /// when we first saw it. If it changes meanwhile, somebody lives on that clock.
    fn judge(&mut self, key: &str, bytes: Vec<u8>, record: LockRecord) -> Result<Reign, Error> {
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
            Some(Seen::Foreign { bytes: same, since }) if *same == bytes => Some(*since),
            Some(_) => {
                self.seen
                    .insert(key.to_owned(), Seen::Foreign { bytes, since: now });
                let hint = "give each host its own directory, or use a backend for several hosts";
                let source = format!(
                    "{}: another host, or a container with its own clock, uses lock {key}, too",
                    self.directory.path().display()
                );
                return Err(Error::fatal(hint, source));
            }
        };
        let since = since.unwrap_or_else(|| {
            self.seen
                .insert(key.to_owned(), Seen::Foreign { bytes, since: now });
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

    fn write(&mut self, key: &str, process: Process, reign: &Reign) -> Result<(), Error> {
        let record = LockRecord::new(key, &self.clock_name, process, reign);
        let bytes = record::encode(KIND, &record)?;
        self.directory.replace(&names::lock_record(key), &bytes)?;
        let highest = reign.epoch;
        self.seen.insert(key.to_owned(), Seen::Ours { highest });
        Ok(())
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
