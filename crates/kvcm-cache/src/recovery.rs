//! From the journal to a manager.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use kvcm_clock::Clock;
use kvcm_index::{Grant, Location, State};
use kvcm_journal::{LoadError, LoadSink, Loaded, Outcome, Record, Source, Writer};
use kvcm_registry::{Instance, Registry, Storage};

use crate::{
    CacheManager, Config, Error, Result, SessionId,
    append::Log,
    compaction::Compaction,
    home::Home,
    manager::{Counts, Shared},
    mask::Success,
    ops::{
        DefineInstance, DefineStorage, End, Ending, KIND, Locations, Op, OpenSession, Remove, Room,
        Start, VERSION,
    },
    sessions::Session,
};

/// The most keys that room is made for at once.
const ROOM_MAX: usize = 1 << 24;

/// What [`CacheManager::open`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// What there is now. Sessions begin their life again.
    pub counts: Counts,
    /// Operations that were left out, and why, with how often: of instances that are not
    /// registered any more, or not understood.
    pub skipped: Vec<(String, u64)>,
    /// What the journal says of the load.
    pub journal: Loaded,
}

/// What a manager lives in.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The instances. Recovered before the cache: blocks of instances that it does not know any
    /// more are deleted.
    pub registry: Arc<Registry>,
    /// The clock of everything.
    pub clock: Arc<dyn Clock>,
    /// Counts the grants of one epoch. Managers of the same epoch share one, so that none of them
    /// gives a path that another one has given.
    pub grants: Arc<AtomicU64>,
    /// The settings.
    pub config: Config,
}

impl Surroundings {
    /// For the only manager of its epoch.
    pub fn new(registry: Arc<Registry>, clock: Arc<dyn Clock>, config: Config) -> Self {
        Self {
            registry,
            clock,
            grants: Arc::new(AtomicU64::new(1)),
            config,
        }
    }
}

/// What a journal holds, read and ready to be taken over by a manager.
#[derive(Debug)]
pub struct Content {
    surroundings: Surroundings,
    shared: Shared,
    skipped: Vec<(String, u64)>,
    journal: Loaded,
    keep_log: bool,
}

impl Content {
    /// Replays a journal. Blocks of instances that are not `owned` are left out and reported, as are
    /// those of unknown ones while the registry is not complete. Dropping the future stops it; it can be done again.
    ///
    /// # Errors
    /// [`Error::Fenced`]; [`Error::NotStored`] when the journal cannot be read now;
    /// [`Error::Unsupported`] when this program does not understand it.
    pub async fn read(
        surroundings: Surroundings,
        writer: &mut dyn Writer,
        owned: &(dyn Fn(&Instance) -> bool + Sync),
    ) -> Result<Self> {
        let shared = Shared::new(
            surroundings.registry.clone(),
            surroundings.clock.clone(),
            &surroundings.config,
        );
        let mut loader = Loader {
            registry: &surroundings.registry,
            owned,
            now_s: shared.now_s(),
            shared,
            sessions: HashMap::new(),
            ended: Vec::new(),
            skipped: HashMap::new(),
            unread: false,
            bulk: Vec::new(),
        };
        let loaded = writer.load(&mut loader).await;
        let journal = loaded.map_err(|error| match error {
            LoadError::Fenced(fenced) => Error::Fenced {
                fenced,
                outcome: Outcome::NotDone,
            },
            LoadError::Rejected { .. } => Error::Unsupported(error.to_string()),
            other => Error::NotStored(other.to_string()),
        })?;
        let mut keep_log = loader.unread || !journal.skipped.is_empty();
        let (shared, skipped) = loader.finish();
        // An instance that the registry could not read may come back, and with it its blocks.
        keep_log |= !skipped.is_empty() && !surroundings.registry.is_complete();
        for (reason, count) in &skipped {
            tracing::warn!(reason, count, "cache operations were left out");
        }
        for part in &journal.skipped {
            let (place, reason) = (&part.place, &part.reason);
            tracing::warn!(place, reason, "a part of the cache's journal is damaged");
        }
        Ok(Self {
            surroundings,
            shared,
            skipped,
            journal,
            keep_log,
        })
    }
}

impl CacheManager {
    /// Replays the journal and gives the manager: [`Content::read`], then [`CacheManager::take_over`].
    ///
    /// # Errors
    /// Those of [`Content::read`].
    pub async fn open(
        surroundings: Surroundings,
        mut writer: Box<dyn Writer>,
    ) -> Result<(Self, Recovered)> {
        let content = Content::read(surroundings, &mut *writer, &|_| true).await?;
        Ok(Self::take_over(content, writer))
    }

    /// Takes over what was read through this very writer.
    pub fn take_over(content: Content, writer: Box<dyn Writer>) -> (Self, Recovered) {
        let Content {
            surroundings,
            shared,
            skipped,
            journal,
            keep_log,
        } = content;
        let Surroundings {
            registry,
            grants,
            config,
            ..
        } = surroundings;
        // A claim's epoch is above every epoch in the journal, so grants count from the start.
        let epoch = writer.claim().epoch.get();
        if keep_log {
            tracing::warn!("parts of the journal were not read: no snapshot takes its place");
        }
        let snapshot = journal.bytes.saturating_sub(writer.log_size().bytes);
        let manager = Self {
            shared: Arc::new(shared),
            registry,
            log: Log::new(writer.into(), config.journal_timeout),
            config,
            epoch,
            grants,
            keep_log,
            left_out: !skipped.is_empty(),
            compaction: Compaction::found(snapshot),
        };
        let recovered = Recovered {
            counts: manager.counts(),
            skipped,
            journal,
        };
        (manager, recovered)
    }
}

fn session(home: Arc<Home>, keys: Vec<i64>, grant: Grant, life_ms: u32) -> Session<Arc<Home>> {
    Session {
        instance_id: Arc::clone(&home.id),
        home,
        keys: keys.into(),
        grant,
        life: Duration::from_millis(life_ms.into()),
    }
}

/// Applies operations in the order of the journal.
struct Loader<'a> {
    registry: &'a Registry,
    owned: &'a (dyn Fn(&Instance) -> bool + Sync),
    shared: Shared,
    /// The open ones, each with the slot of its first key.
    sessions: HashMap<SessionId, (Session<Arc<Home>>, usize)>,
    ended: Vec<(SessionId, Success)>,
    skipped: HashMap<String, u64>,
    /// Something was not understood.
    unread: bool,
    /// Homes that are filled in bulk: their keys are not found yet.
    bulk: Vec<Arc<Home>>,
    /// Coarse time, for the order of use: all of it is used now.
    now_s: u32,
}

impl LoadSink for Loader<'_> {
    fn snapshot(&mut self, version: u16, chunk: bytes::Bytes) -> Result<(), Source> {
        self.apply_all(version, &chunk)
    }

    fn record(&mut self, record: &Record) -> Result<(), Source> {
        if record.batch.kind != KIND {
            self.not_understood(format!(
                "batch kind {} is not the cache's",
                record.batch.kind
            ));
            return Ok(());
        }
        self.apply_all(record.batch.version, &record.batch.operations)
    }
}

impl Loader<'_> {
    fn apply_all(&mut self, version: u16, bytes: &[u8]) -> Result<(), Source> {
        if version > VERSION {
            return Err(format!(
                "its operations have version {version}, this program reads up to {VERSION}"
            )
            .into());
        }
        for op in Op::decode_all(bytes) {
            match op {
                Ok(Op::DefineStorage(op)) => self.define_storage(&op),
                Ok(Op::DefineInstance(op)) => self.define_instance(&op),
                Ok(Op::Start(op)) => self.start(op),
                Ok(Op::End(op)) => self.end(op),
                Ok(Op::Remove(op)) => self.remove(&op),
                Ok(Op::Delete(op)) => self.delete(&op),
                Ok(Op::Room(op)) => self.room(&op),
                Ok(Op::Locations(op)) => self.locations(&op),
                Ok(Op::OpenSession(op)) => self.open_session(op),
                Ok(Op::FinishedSession(op)) => self.ended.push((op.session, op.success)),
                Ok(Op::Request(op)) => {
                    let now = self.shared.clock.now();
                    self.shared.answered.settle(Some(op), true, now);
                }
                Err(error) => self.not_understood(error.to_string()),
            }
        }
        Ok(())
    }

    fn define_storage(&mut self, op: &DefineStorage) {
        let restored = serde_json::from_str::<Storage>(&op.config)
            .map_err(|error| error.to_string())
            .and_then(|storage| {
                let restored = self.shared.storages.restore(op.number, storage);
                restored.map_err(|error| error.to_string())
            });
        if let Err(reason) = restored {
            self.not_understood(format!(
                "storage number {} is not usable: {reason}",
                op.number
            ));
        }
    }

    fn define_instance(&mut self, op: &DefineInstance) {
        let instance = match serde_json::from_str::<Instance>(&op.config) {
            Ok(instance) => Arc::new(instance),
            Err(error) => return self.not_understood(format!("a registration: {error}")),
        };
        let usage = self.shared.usage(&instance.group);
        let home = Home::new(instance, usage);
        home.set_defined();
        if let Some(registered) = self.registered(&home.id, home.fingerprint) {
            registered.set_defined();
            return;
        }
        let registered = self.registry.instance(&home.id);
        let is_owned = registered.is_none_or(|instance| (self.owned)(&instance));
        let is_known = self.gone(&home.id, home.fingerprint).is_some();
        // What the registry could not read, or has given to another journal, is not gone.
        if is_owned && !is_known && self.registry.is_complete() {
            self.shared.retire_home(Arc::new(home));
        }
    }

    fn start(&mut self, op: Start) {
        let Some(home) = self.home(&op.instance, op.fingerprint) else {
            return;
        };
        if !op.keys.is_empty() && !self.is_defined(op.storage) {
            return;
        }
        let specs = op.groups.iter().map(|group| home.specs.number(group));
        let specs: Option<Vec<_>> = specs.collect();
        let Some(specs) = specs.filter(|_| op.has_groups()) else {
            return self.not_understood(format!("instance `{}` has no such group", home.id));
        };
        let location = |(position, key): (usize, &i64)| {
            let specs = specs[op.group(position)];
            let position = position as u32;
            let location = Location::new(op.grant, position, op.storage, specs, State::Writing);
            (*key, location)
        };
        let locations = op.keys.iter().enumerate().map(location);
        self.begin_bulk(&home, 0);
        let slot = home.index.restore(locations, self.now_s).slot;
        let session = session(home, op.keys, op.grant, op.life_ms);
        self.sessions.insert(op.session, (session, slot));
    }

    fn open_session(&mut self, op: OpenSession) {
        if let Some(home) = self.home(&op.instance, op.fingerprint) {
            let session = session(home, op.keys, op.grant, op.life_ms);
            self.sessions.insert(op.session, (session, 0));
        }
    }

    fn locations(&mut self, op: &Locations) {
        let Some(home) = self.home(&op.instance, op.fingerprint) else {
            return;
        };
        if !self.is_defined(op.storage) {
            return;
        }
        let Some(specs) = home.specs.number(&op.group) else {
            return self.not_understood(format!("instance `{}` has no such group", home.id));
        };
        let location = |position| Location::new(op.grant, position, op.storage, specs, op.state);
        let locations = op.placed().map(|(key, at)| (key, location(at)));
        home.index.restore(locations, self.now_s);
    }

    /// Keys of this home come without being looked up.
    fn begin_bulk(&mut self, home: &Arc<Home>, keys: usize) {
        if home.index.begin_bulk(keys) {
            self.bulk.push(Arc::clone(home));
        }
    }

    /// From here on keys are looked up.
    fn end_bulk(&mut self) {
        for home in self.bulk.drain(..) {
            home.index.end_bulk();
        }
    }

    fn room(&mut self, op: &Room) {
        if let Some(home) = self.home(&op.instance, op.fingerprint) {
            let keys = usize::try_from(op.keys).unwrap_or(usize::MAX);
            self.begin_bulk(&home, keys.min(ROOM_MAX));
        }
    }

    /// The home that an operation speaks of; none, and a note, when nobody knows it.
    fn home(&mut self, instance_id: &str, fingerprint: u64) -> Option<Arc<Home>> {
        if let Some(instance) = self.registry.instance(instance_id)
            && !(self.owned)(&instance)
        {
            self.skip(format!(
                "instance `{instance_id}` belongs to another journal"
            ));
            return None;
        }
        let registered = self.registered(instance_id, fingerprint);
        let home = registered.or_else(|| self.gone(instance_id, fingerprint));
        if home.is_none() {
            self.skip(format!(
                "instance `{instance_id}` is not registered any more"
            ));
        }
        home
    }

    /// The home of that registration, when it stands.
    fn registered(&self, instance_id: &str, fingerprint: u64) -> Option<Arc<Home>> {
        let instance = self.registry.instance(instance_id);
        let instance = instance.filter(|instance| (self.owned)(instance))?;
        let home = self.shared.home(instance);
        (home.fingerprint == fingerprint).then_some(home)
    }

    /// The home of that registration, when it is gone.
    fn gone(&self, instance_id: &str, fingerprint: u64) -> Option<Arc<Home>> {
        let retired = self.shared.retired.read();
        let mut homes = retired.iter();
        let same = |home: &&Arc<Home>| &*home.id == instance_id && home.fingerprint == fingerprint;
        homes.find(same).cloned()
    }

    /// All homes of an instance, whatever their registration.
    fn homes_of(&self, instance_id: &str) -> Vec<Arc<Home>> {
        let homes = self.shared.homes.read();
        let retired = self.shared.retired.read();
        let gone = retired.iter().filter(|home| &*home.id == instance_id);
        gone.chain(homes.get(instance_id)).cloned().collect()
    }

    fn is_defined(&mut self, storage: u16) -> bool {
        let defined = self.shared.storages.list().get(storage).is_some();
        if !defined {
            self.not_understood(format!("storage number {storage} is not defined"));
        }
        defined
    }

    fn end(&mut self, op: End) {
        // The start of an unknown one was left out and told.
        let Some((session, slot)) = self.sessions.remove(&op.session) else {
            return;
        };
        let index = &session.home.index;
        let nothing = Success::nothing(session.keys.len());
        let success = match &op.ending {
            Ending::Finished(success) => success,
            Ending::Expired | Ending::BadMask => &nothing,
        };
        let written = |at| success.contains(at);
        let (keys, grant) = (&session.keys, session.grant);
        index.commit_at(slot, keys, grant, self.now_s, written, |_, _| {});
        if let Ending::Finished(success) = op.ending {
            self.ended.push((op.session, success));
        }
    }

    fn remove(&mut self, op: &Remove) {
        // A grant is given once, so it meets the locations of one registration only. Without a home
        // nothing of it was restored.
        self.end_bulk();
        for home in self.homes_of(&op.instance) {
            for removed in &op.removed {
                home.index.release(&removed.keys, removed.grant, |_, _| {});
            }
        }
    }

    fn delete(&mut self, op: &Remove) {
        self.end_bulk();
        for home in self.homes_of(&op.instance) {
            home.index.retire(op.locations(), |_, _| {});
        }
    }

    fn not_understood(&mut self, reason: String) {
        self.unread = true;
        self.skip(reason);
    }

    fn skip(&mut self, reason: String) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    /// Counts the bytes and lets the sessions live again.
    fn finish(mut self) -> (Shared, Vec<(String, u64)>) {
        self.end_bulk();
        let shared = self.shared;
        let storages = shared.storages.list();
        for home in shared.all_homes() {
            home.take_stock(&storages);
        }
        let now = shared.clock.now();
        for (id, (session, _)) in self.sessions {
            shared.sessions.open(id, session, now);
        }
        for (id, success) in self.ended {
            shared.sessions.close(id, Some(success), now);
        }
        let mut skipped: Vec<_> = self.skipped.into_iter().collect();
        skipped.sort_unstable();
        (shared, skipped)
    }
}
