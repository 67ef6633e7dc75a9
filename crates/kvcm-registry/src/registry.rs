//! The registry: reads from memory, writes through the journal.

use std::{sync::Arc, time::Duration};

use kvcm_journal::{AppendError, Outcome, RequestKey, Snapshot, Writer};
use parking_lot::RwLock;
use tokio::sync::{Mutex, MutexGuard};
use tracing::{debug, error, warn};

use crate::{
    Account, Error, Group, Instance, Recovery, Registered, Registration, Storage,
    load::{Loader, snapshot_chunk},
    operation::{Operation, VERSION},
    registration::differences,
    state::State,
};

/// How long a write waits for the journal, by default.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Records after which a snapshot replaces the log.
const LOG_RECORDS_MAX: u64 = 1024;

/// Storages, instance groups, instances and accounts under one claim.
///
/// Reads are cheap and never wait for the journal. Writes are serialised; each is in the journal
/// before a reader sees it. A write whose outcome is unknown is settled before the next write
/// begins: when the journal has it by then it becomes visible, and a caller that repeats its
/// request finds it done. Dropping a write's future loses only the answer.
#[derive(Debug)]
pub struct Registry {
    shared: Arc<Shared>,
    timeout: Duration,
    /// Whose changes go through this handle.
    request: Option<RequestKey>,
}

#[derive(Debug)]
struct Shared {
    writer: Box<dyn Writer>,
    state: RwLock<State>,
    writes: Mutex<Unsettled>,
    /// Something was skipped at loading: a snapshot would bury it.
    keep_log: bool,
}

/// A submitted write that has not been applied yet.
#[derive(Debug, Default)]
pub(crate) struct Unsettled(Option<(u64, Vec<Operation>)>);

// === impl Registry: opening and reading ===

impl Registry {
    /// Replays the journal. One entry that cannot be used is skipped and reported.
    ///
    /// # Errors
    /// [`Error::Fenced`] and [`Error::Load`].
    pub async fn open(mut writer: Box<dyn Writer>) -> Result<(Self, Recovery), Error> {
        let mut loader = Loader::default();
        let journal = writer.load(&mut loader).await?;
        let Loader { state, skipped, .. } = loader;
        for entry in &skipped {
            warn!(
                place = entry.place,
                reason = entry.reason,
                "registry entry skipped"
            );
        }
        for part in &journal.skipped {
            warn!(
                place = part.place,
                reason = part.reason,
                "a part of the registry's journal is damaged"
            );
        }
        let recovery = Recovery {
            storages: state.storages.len(),
            groups: state.groups.len(),
            instances: state.instances.len(),
            initialised: state.initialised,
            skipped,
            journal,
        };
        let shared = Shared {
            writer,
            state: RwLock::new(state),
            writes: Mutex::default(),
            keep_log: !(recovery.skipped.is_empty() && recovery.journal.skipped.is_empty()),
        };
        let registry = Self {
            shared: Arc::new(shared),
            timeout: TIMEOUT,
            request: None,
        };
        Ok((registry, recovery))
    }

    /// The same registry for one request of a client: each change through this handle is recorded
    /// as the request's, in the same batch, so that a repeat is known; see
    /// [`answered`](Self::answered).
    #[must_use]
    pub fn for_request(&self, request: Option<RequestKey>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            timeout: self.timeout,
            request,
        }
    }

    /// Whether the request with this id has changed something, and the hash of its body. The last
    /// few thousand are remembered.
    pub fn answered(&self, id: u128) -> Option<u64> {
        let state = self.shared.state.read();
        state.requests.get(id).map(|(body, ())| body)
    }

    /// How long each write waits for the journal, 5 s when nothing is said.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The instance of this id.
    pub fn instance(&self, id: &str) -> Option<Arc<Instance>> {
        self.shared.state.read().instances.get(id).cloned()
    }

    /// All instances, sorted by id.
    pub fn instances(&self) -> Vec<Arc<Instance>> {
        let mut all: Vec<_> = self
            .shared
            .state
            .read()
            .instances
            .values()
            .cloned()
            .collect();
        all.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// The instances of one group, sorted by id; none when the group does not exist.
    pub fn instances_of(&self, group: &str) -> Vec<Arc<Instance>> {
        let mut all = self.instances();
        all.retain(|instance| instance.group == group);
        all
    }

    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<Arc<Group>> {
        self.shared.state.read().groups.get(name).cloned()
    }

    /// All groups, sorted by name.
    pub fn groups(&self) -> Vec<Arc<Group>> {
        self.shared.state.read().groups.values().cloned().collect()
    }

    /// The storage of this name.
    pub fn storage(&self, name: &str) -> Option<Arc<Storage>> {
        self.shared.state.read().storages.get(name).cloned()
    }

    /// All storages, sorted by name.
    pub fn storages(&self) -> Vec<Arc<Storage>> {
        self.shared
            .state
            .read()
            .storages
            .values()
            .cloned()
            .collect()
    }

    /// The group's candidates that exist, in its order of choice.
    pub fn storages_of(&self, group: &Group) -> Vec<Arc<Storage>> {
        let state = self.shared.state.read();
        let candidates = group.storage_candidates.iter();
        candidates
            .filter_map(|name| state.storages.get(name).cloned())
            .collect()
    }

    /// The group's candidates as the JSON text that clients get with a registration: an array of
    /// `{type, is_available, global_unique_name, storage_spec{…}}`. Whether one is available is
    /// asked: that it is enabled is not enough.
    pub fn storage_configs_json(
        &self,
        group: &Group,
        is_available: impl Fn(&Storage) -> bool,
    ) -> String {
        let as_it_is = |storage: Arc<Storage>| Storage {
            is_available: is_available(&storage),
            ..(*storage).clone()
        };
        let storages = self.storages_of(group).into_iter();
        let storages: Vec<Storage> = storages.map(as_it_is).collect();
        // Texts, numbers and booleans always have a JSON form.
        serde_json::to_string(&storages).unwrap_or_default()
    }

    /// The account of this name.
    pub fn account(&self, user_name: &str) -> Option<Arc<Account>> {
        self.shared.state.read().accounts.get(user_name).cloned()
    }

    /// All accounts, sorted by name.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.shared
            .state
            .read()
            .accounts
            .values()
            .cloned()
            .collect()
    }

    /// What it knows at one moment.
    pub(crate) fn state(&self) -> State {
        self.shared.state.read().clone()
    }

    /// Whether all of the journal could be read: nothing is missing that may come back.
    pub fn is_complete(&self) -> bool {
        !self.shared.keep_log
    }

    /// Whether a startup configuration has been taken in.
    pub fn is_initialised(&self) -> bool {
        self.shared.state.read().initialised
    }
}

// === impl Registry: writing ===

impl Registry {
    /// Registers an instance. The same registration again is not an error and writes nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::NoSuchGroup`], [`Error::Duplicate`] naming the fields
    /// that differ, [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn register_instance(&self, wanted: Registration) -> Result<Registered, Error> {
        wanted.validate()?;
        let mut writes = self.begin().await?;
        let group = self.existing_group(&wanted.group)?;
        let wanted = wanted.into_instance(&group);
        if let Some(stored) = self.instance(&wanted.id) {
            let fields = differences(&stored, &wanted);
            if fields.0.is_empty() {
                return Ok(Registered {
                    instance: stored,
                    is_new: false,
                });
            }
            return Err(Error::Duplicate {
                what: "instance",
                name: wanted.id,
                fields,
            });
        }
        let id = wanted.id.clone();
        self.commit(
            &mut writes,
            vec![Operation::PutInstance { instance: wanted }],
        )
        .await?;
        let instance = self.existing_instance(&id)?;
        Ok(Registered {
            instance,
            is_new: true,
        })
    }

    /// Removes an instance from the registry and gives it back, so that its blocks can go too.
    ///
    /// # Errors
    /// [`Error::NoSuchInstance`], [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn remove_instance(&self, id: &str) -> Result<Arc<Instance>, Error> {
        let mut writes = self.begin().await?;
        let instance = self.existing_instance(id)?;
        let operation = Operation::RemoveInstance { id: id.to_owned() };
        self.commit(&mut writes, vec![operation]).await?;
        Ok(instance)
    }

    /// Waits for a write whose outcome was unknown, and makes it visible when the journal has it.
    /// Every write does so first; this is for callers that have nothing to write.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn settle(&self) -> Result<(), Error> {
        self.begin().await.map(drop)
    }

    /// Takes the turn to write, with everything before settled.
    pub(crate) async fn begin(&self) -> Result<MutexGuard<'_, Unsettled>, Error> {
        let mut writes = self.shared.writes.lock().await;
        if let Some((seq, _)) = &writes.0 {
            let settled = self.see_through(*seq).await;
            settled.map_err(|error| match error.into() {
                // The earlier write is unknown; the one that wants to begin is not done.
                Error::Unavailable { source, .. } => Error::Unavailable {
                    outcome: Outcome::NotDone,
                    source: format!("an earlier write is not settled: {source}").into(),
                },
                other => other,
            })?;
            self.apply(&mut writes);
        }
        Ok(writes)
    }

    /// Writes `operations` and makes them visible, with the record of the request whose they are.
    pub(crate) async fn commit(
        &self,
        writes: &mut Unsettled,
        mut operations: Vec<Operation>,
    ) -> Result<(), Error> {
        if let Some(request) = self.request {
            operations.push(Operation::Request(request.into()));
        }
        if operations.is_empty() {
            return Ok(());
        }
        let batch = Operation::batch(&operations).map_err(|error| Error::Unavailable {
            outcome: Outcome::NotDone,
            source: error.into(),
        })?;
        let seq = self.shared.writer.submit(batch)?;
        // Noted before the first wait: when this future is dropped, the next write settles it.
        writes.0 = Some((seq, operations));
        self.see_through(seq).await?;
        self.apply(writes);
        self.compact(seq).await;
        Ok(())
    }

    /// Waits for the journal. When it has lost what it had acknowledged, it gets all that is known
    /// here, which is just that: one write at a time is under way.
    async fn see_through(&self, seq: u64) -> Result<(), AppendError> {
        match self.shared.writer.committed(seq, self.timeout).await {
            Err(AppendError::WentBack { has, had }) => {
                error!(
                    has,
                    had, "the registry's journal lost changes, writing them again"
                );
                self.write_snapshot(had).await?;
                self.shared.writer.committed(seq, self.timeout).await
            }
            other => other,
        }
    }

    fn apply(&self, writes: &mut Unsettled) {
        let Some((_, operations)) = writes.0.take() else {
            return;
        };
        let mut state = self.shared.state.write();
        for operation in operations {
            state.apply(operation);
        }
    }

    /// Replaces a long log by a snapshot. A failure costs nothing: the next write tries again.
    async fn compact(&self, through: u64) {
        if self.shared.keep_log || self.shared.writer.log_size().records <= LOG_RECORDS_MAX {
            return;
        }
        match self.write_snapshot(through).await {
            Ok(()) => debug!(through, "registry log compacted"),
            Err(error) => warn!(%error, "the registry's log was not compacted"),
        }
    }

    /// Writes a snapshot of the state, which is that after batch `through`.
    async fn write_snapshot(&self, through: u64) -> Result<(), AppendError> {
        let chunk = snapshot_chunk(&self.shared.state.read()).map_err(AppendError::not_done)?;
        let snapshot = Snapshot::new(through, VERSION, [chunk]);
        self.shared.writer.snapshot(snapshot, self.timeout).await
    }

    pub(crate) fn existing_group(&self, name: &str) -> Result<Arc<Group>, Error> {
        let state = self.shared.state.read();
        state.groups.get(name).cloned().ok_or_else(|| {
            let some: Vec<_> = state.groups.keys().take(10).map(String::as_str).collect();
            Error::NoSuchGroup {
                group: name.to_owned(),
                known: if some.is_empty() {
                    "none".to_owned()
                } else {
                    some.join(", ")
                },
            }
        })
    }

    fn existing_instance(&self, id: &str) -> Result<Arc<Instance>, Error> {
        self.instance(id)
            .ok_or_else(|| Error::NoSuchInstance(id.to_owned()))
    }

    pub(crate) fn existing_storage(&self, name: &str) -> Result<Arc<Storage>, Error> {
        self.storage(name)
            .ok_or_else(|| Error::NoSuchStorage(name.to_owned()))
    }
}
