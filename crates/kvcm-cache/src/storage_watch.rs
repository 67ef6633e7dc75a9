//! Looks after the data storages, in the background.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kvcm_clock::{Clock, Timer};
use kvcm_registry::{Registry, Storage};
use kvcm_storage::{DataStorage, Level, Problem, Status, probe_all};
use parking_lot::Mutex;

use crate::storages::open;

/// Between two checks of a storage.
const INTERVAL: Duration = Duration::from_secs(5);
/// Between two looks for storages that were added or changed.
const LOOK: Duration = Duration::from_secs(1);
/// How long a check may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Checks the registered storages and knows how they are.
///
/// What it finds holds for all cache managers of the process, because storages with the same
/// directory share what is known of it. One task of the leader drives [`run`](Self::run).
#[derive(Debug)]
pub struct StorageWatch {
    registry: Arc<Registry>,
    /// By name, with the configuration that it was opened with.
    open: Mutex<HashMap<String, (Storage, Arc<DataStorage>)>>,
}

impl StorageWatch {
    /// Watches the storages of this registry.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            open: Mutex::default(),
        }
    }

    /// Checks all storages every five seconds, and new ones within a second, for ever.
    pub async fn run(&self, clock: &dyn Clock, timer: &dyn Timer) {
        let mut next = clock.now();
        loop {
            let new = self.look();
            if clock.now() >= next {
                next = clock.now() + INTERVAL;
                self.check().await;
            } else {
                probe_all(new.iter().map(|data| &**data), TIMEOUT).await;
            }
            timer.sleep_until(clock.now() + LOOK).await;
        }
    }

    /// Checks all storages once. It takes three seconds at most, whatever hangs.
    pub async fn check(&self) {
        self.look();
        let open: Vec<Arc<DataStorage>> = {
            let open = self.open.lock();
            open.values().map(|(_, data)| Arc::clone(data)).collect()
        };
        probe_all(open.iter().map(|data| &**data), TIMEOUT).await;
    }

    /// Checks a storage that is about to be registered, when it wants to be checked before it is
    /// used. What it found is known as long as the result lives, or the storage is watched.
    ///
    /// # Errors
    /// It does not work.
    pub async fn first_check(
        &self,
        storage: &Storage,
    ) -> Result<Option<Arc<DataStorage>>, Problem> {
        let opened = opened(storage).filter(|_| storage.check_when_open);
        let Some((_, data)) = opened else {
            return Ok(None);
        };
        probe_all([&*data], TIMEOUT).await;
        match data.status().problem {
            None => Ok(Some(data)),
            Some(problem) => Err(problem),
        }
    }

    /// Learns what was added to the registry, changed or removed, which it does by itself within a
    /// second.
    pub fn refresh(&self) {
        self.look();
    }

    /// Opens the storages that were added or changed, and returns them.
    fn look(&self) -> Vec<Arc<DataStorage>> {
        let registered = self.registry.storages();
        let mut open = self.open.lock();
        open.retain(|name, _| registered.iter().any(|storage| storage.name == *name));
        let new = registered.iter().filter(|storage| {
            let same = |(known, _): &(Storage, _)| known.spec == storage.spec;
            !open.get(&storage.name).is_some_and(same)
        });
        let new: Vec<_> = new.filter_map(|storage| opened(storage)).collect();
        for (storage, data) in &new {
            let entry = (storage.clone(), Arc::clone(data));
            open.insert(storage.name.clone(), entry);
        }
        new.into_iter().map(|(_, data)| data).collect()
    }

    /// What is known of a storage; none for a kind that cannot be used here.
    pub fn status(&self, storage: &Storage) -> Option<Status> {
        self.data(storage).map(|data| data.status())
    }

    /// Whether a registered storage takes new blocks: operators have it enabled, and it works as
    /// far as is known.
    pub fn is_available(&self, storage: &Storage) -> bool {
        let level = self.status(storage).map(|status| status.level);
        storage.is_available && level.is_none_or(|level| level == Level::Up)
    }

    /// The registered storages, sorted by name, with what is known of them.
    pub fn all(&self) -> Vec<(Arc<Storage>, Option<Status>)> {
        let with_status = |storage: Arc<Storage>| {
            let status = self.status(&storage);
            (storage, status)
        };
        self.registry
            .storages()
            .into_iter()
            .map(with_status)
            .collect()
    }

    fn data(&self, storage: &Storage) -> Option<Arc<DataStorage>> {
        let known = self.open.lock().get(&storage.name).cloned();
        match known {
            Some((known, data)) if known.spec == storage.spec => Some(data),
            // One that was registered a moment ago.
            _ => opened(storage).map(|(_, data)| data),
        }
    }
}

fn opened(storage: &Storage) -> Option<(Storage, Arc<DataStorage>)> {
    // Kinds that are closed say so where they are used.
    let data = open(storage).ok()?;
    Some((storage.clone(), Arc::new(data)))
}
