//! From the journal to a manager.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use kvcm_clock::Clock;
use kvcm_index::{Grant, Location, State};
use kvcm_journal::{LoadSink, Loaded, Record, Source, Writer};
use kvcm_registry::{Registry, Storage};

use crate::{
    CacheManager, Config, Error, Result, SessionId,
    append::Log,
    home::Home,
    manager::{Counts, Shared},
    mask::Success,
    ops::{DefineStorage, End, Ending, KIND, Locations, Op, OpenSession, Remove, Start, VERSION},
    sessions::Session,
    usage::ByType,
};

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

impl CacheManager {
    /// Replays the journal and gives the manager. The registry has to be recovered before: blocks
    /// of instances that it does not know are left out and reported.
    ///
    /// # Errors
    /// [`Error::Fenced`]; [`Error::NotStored`] when the journal cannot be read.
    pub async fn open(
        registry: Arc<Registry>,
        mut writer: Box<dyn Writer>,
        clock: Arc<dyn Clock>,
        config: Config,
    ) -> Result<(Self, Recovered)> {
        let mut loader = Loader {
            registry: &registry,
            shared: Shared::new(clock),
            sessions: HashMap::new(),
            ended: Vec::new(),
            skipped: HashMap::new(),
            unread: false,
        };
        let journal = writer
            .load(&mut loader)
            .await
            .map_err(|error| match error {
                kvcm_journal::LoadError::Fenced(fenced) => Error::Fenced {
                    fenced,
                    outcome: kvcm_journal::Outcome::NotDone,
                },
                other => Error::NotStored(other.to_string()),
            })?;
        let keep_log = loader.unread || !journal.skipped.is_empty();
        // A claim's epoch is above every epoch in the journal, so it counts from the start.
        let (grants, epoch) = (AtomicU64::new(1), writer.claim().epoch.get());
        let (shared, skipped) = loader.finish();
        for (reason, count) in &skipped {
            tracing::warn!(reason, count, "cache operations were left out");
        }
        let manager = Self {
            shared: Arc::new(shared),
            registry,
            log: Log::new(writer.into(), config.journal_timeout),
            config,
            epoch,
            grants,
            keep_log,
        };
        let recovered = Recovered {
            counts: manager.counts(),
            skipped,
            journal,
        };
        Ok((manager, recovered))
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
    shared: Shared,
    sessions: HashMap<SessionId, Session<Arc<Home>>>,
    ended: Vec<(SessionId, Success)>,
    skipped: HashMap<String, u64>,
    /// Something was not understood.
    unread: bool,
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
                Ok(Op::Start(op)) => self.start(op),
                Ok(Op::End(op)) => self.end(op),
                Ok(Op::Remove(op)) => self.remove(&op),
                Ok(Op::Locations(op)) => self.locations(&op),
                Ok(Op::OpenSession(op)) => self.open_session(op),
                Ok(Op::FinishedSession(op)) => self.ended.push((op.session, op.success)),
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

    fn start(&mut self, op: Start) {
        let Some(home) = self.home(&op.instance, op.fingerprint) else {
            return;
        };
        if !op.keys.is_empty() && !self.is_defined(op.storage) {
            return;
        }
        let mut locations = Vec::with_capacity(op.keys.len());
        for (position, key) in (0u32..).zip(&op.keys) {
            let group = op.group(position as usize).unwrap_or("?");
            let Some(specs) = home.specs.number(group) else {
                return self.not_understood(format!("instance `{}` has no such group", home.id));
            };
            let location = Location::new(op.grant, position, op.storage, specs, State::Writing);
            locations.push((*key, location));
        }
        home.index.restore(&locations, self.shared.now_s());
        let session = session(home, op.keys, op.grant, op.life_ms);
        self.sessions.insert(op.session, session);
    }

    fn open_session(&mut self, op: OpenSession) {
        if let Some(home) = self.home(&op.instance, op.fingerprint) {
            let session = session(home, op.keys, op.grant, op.life_ms);
            self.sessions.insert(op.session, session);
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
        let keys = op.keys.iter().zip(&op.positions);
        let locations: Vec<_> = keys.map(|(key, at)| (*key, location(*at))).collect();
        home.index.restore(&locations, self.shared.now_s());
    }

    /// The home that an operation speaks of; none, and a note, when it is gone.
    fn home(&mut self, instance_id: &str, fingerprint: u64) -> Option<Arc<Home>> {
        let Some(instance) = self.registry.instance(instance_id) else {
            self.skip(format!("instance `{instance_id}` is not registered"));
            return None;
        };
        let home = self.shared.home(instance);
        if home.fingerprint != fingerprint {
            self.skip(format!("instance `{instance_id}` was registered anew"));
            return None;
        }
        Some(home)
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
        let Some(session) = self.sessions.remove(&op.session) else {
            return;
        };
        let index = &session.home.index;
        let nothing = Success::nothing(session.keys.len());
        let success = match &op.ending {
            Ending::Finished(success) => success,
            Ending::Expired | Ending::BadMask => &nothing,
        };
        let now_s = self.shared.now_s();
        let written = |at| success.contains(at);
        index.commit(&session.keys, session.grant, now_s, written, |_, _| {});
        if let Ending::Finished(success) = op.ending {
            self.ended.push((op.session, success));
        }
    }

    fn remove(&mut self, op: &Remove) {
        // Without a home nothing of it was restored.
        let homes = self.shared.homes.read();
        if let Some(home) = homes.get(op.instance.as_str()) {
            for removed in &op.removed {
                home.index.release(&removed.keys, removed.grant, |_, _| {});
            }
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
    fn finish(self) -> (Shared, Vec<(String, u64)>) {
        let shared = self.shared;
        let storages = shared.storages.list();
        for home in shared.homes.read().values() {
            let mut bytes = ByType::default();
            home.index.scan(0, usize::MAX, |_, locations, _| {
                locations
                    .iter()
                    .for_each(|l| home.count(&storages, l, &mut bytes));
            });
            home.usage.found(bytes);
        }
        let now = shared.clock.now();
        for (id, session) in self.sessions {
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
