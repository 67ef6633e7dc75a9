//! Where a node keeps its registry and its indexes.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use kvcm_clock::Clock;
use kvcm_fence::ClusterId;
use kvcm_journal::{ClaimError, Journal, LocalJournal, MemoryJournal, RedisJournal, Source};
use parking_lot::Mutex;

use crate::{index_store::IndexStore, prepare::RegistryStorage};

/// Where a reign keeps what it knows.
#[derive(Clone, Debug)]
pub(crate) struct Stores {
    /// Storages, groups, instances.
    pub(crate) registry: Arc<dyn Journal>,
    /// Where the registry is.
    pub(crate) place: Arc<RegistryStorage>,
    /// The indexes of groups that keep them in memory.
    memory: Arc<dyn Journal>,
    outside: Arc<Outside>,
}

impl Stores {
    /// Where an index is kept. One outside this process is the same for all reigns, so that its
    /// connections and threads are there when the next one begins.
    ///
    /// # Errors
    /// When it can never work, whatever happens.
    pub(crate) fn index(&self, place: &IndexStore) -> anyhow::Result<Arc<dyn Journal>> {
        let outside = &self.outside;
        match place {
            IndexStore::Memory => Ok(self.memory.clone()),
            IndexStore::Local(path) => outside.index(place, || outside.local(path)),
            IndexStore::Redis(config) => outside.index(place, || outside.redis(config)),
        }
    }

    /// No other indexes are used any more.
    pub(crate) fn keep_only<'p>(&self, places: impl IntoIterator<Item = &'p IndexStore>) {
        let used: HashSet<_> = places.into_iter().map(IndexStore::identity).collect();
        self.outside
            .indexes
            .lock()
            .retain(|id, _| used.contains(id));
    }
}

/// What a node keeps outside its memory.
#[derive(Debug)]
struct Outside {
    /// None for a registry in memory.
    registry: Option<Registry>,
    /// By identity.
    indexes: Mutex<HashMap<String, Index>>,
    allows_network_fs: bool,
    clock: Arc<dyn Clock>,
}

/// The journal of an index, with what it was opened for.
#[derive(Debug)]
struct Index {
    place: IndexStore,
    journal: Arc<dyn Journal>,
}

/// The journal of the registry.
#[derive(Clone, Debug)]
enum Registry {
    Local(Arc<LocalJournal>),
    Redis(Arc<RedisJournal>),
}

impl Registry {
    fn open(place: &RegistryStorage, clock: &Arc<dyn Clock>) -> anyhow::Result<Option<Self>> {
        Ok(match place {
            RegistryStorage::Memory => None,
            RegistryStorage::Local {
                path,
                allow_network_fs,
            } => {
                let path = path.join("registry");
                let journal = LocalJournal::with_network_fs(&path, *allow_network_fs)?;
                Some(Self::Local(Arc::new(journal)))
            }
            RegistryStorage::Redis(config) => {
                let config = (**config).clone();
                let journal = RedisJournal::open(config, "registry", clock.clone())?;
                Some(Self::Redis(Arc::new(journal)))
            }
        })
    }

    fn journal(&self) -> Arc<dyn Journal> {
        match self {
            Self::Local(journal) => journal.clone(),
            Self::Redis(journal) => journal.clone(),
        }
    }
}

impl Outside {
    /// The journal that was opened for this very place before, or a new one.
    fn index(
        &self,
        place: &IndexStore,
        open: impl FnOnce() -> anyhow::Result<Arc<dyn Journal>>,
    ) -> anyhow::Result<Arc<dyn Journal>> {
        let mut indexes = self.indexes.lock();
        match indexes.get(&place.identity()) {
            // Not with another password, for instance.
            Some(known) if known.place == *place => Ok(known.journal.clone()),
            _ => {
                let journal = open()?;
                let index = Index {
                    place: place.clone(),
                    journal: journal.clone(),
                };
                indexes.insert(place.identity(), index);
                Ok(journal)
            }
        }
    }

    fn local(&self, path: &Path) -> anyhow::Result<Arc<dyn Journal>> {
        // Beside the registry, where both have the same directory.
        let path = path.join("cache");
        // Said once, for all directories of a node.
        let journal = LocalJournal::with_network_fs(&path, self.allows_network_fs)?;
        Ok(Arc::new(journal))
    }

    fn redis(&self, config: &kvcm_redis::Config) -> anyhow::Result<Arc<dyn Journal>> {
        let journal = match &self.registry {
            // Over its connections, which are open also while this node stands by.
            Some(Registry::Redis(registry)) if config == registry.config() => {
                registry.beside("cache")
            }
            _ => RedisJournal::open(config.clone(), "cache", self.clock.clone())?,
        };
        Ok(Arc::new(journal))
    }
}

/// The stores of a node. Those in the memory of this process belong to one cluster; when the
/// coordination backend names another one (it lost its data, and a node that knew nothing founded a
/// new cluster), they begin anew: claims of the new cluster on the old ones would be refused for
/// ever. A store outside this process is never given up like that.
#[derive(Debug)]
pub(crate) struct StoreSet {
    place: Arc<RegistryStorage>,
    outside: Arc<Outside>,
    private: Mutex<Option<(ClusterId, Stores)>>,
}

impl StoreSet {
    /// With the registry where the configuration wants it.
    ///
    /// # Errors
    /// When it can never work, whatever happens.
    pub(crate) fn open(registry: &RegistryStorage, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let place = Arc::new(registry.clone());
        let registry = Registry::open(&place, &clock).context("kvcm.registry_storage.uri")?;
        if let Some(registry) = &registry {
            let registry = registry.journal().describe();
            tracing::info!(registry, "the registry is durable");
        }
        let outside = Outside {
            registry,
            indexes: Mutex::default(),
            allows_network_fs: place.allows_network_fs(),
            clock,
        };
        Ok(Self {
            place,
            outside: Arc::new(outside),
            private: Mutex::default(),
        })
    }

    /// Where the registry is.
    pub(crate) fn place(&self) -> &RegistryStorage {
        &self.place
    }

    /// Whose the registry is; none when it is new, or in the memory of this process.
    pub(crate) async fn owner(&self, limit: Duration) -> Result<Option<ClusterId>, ClaimError> {
        let Some(registry) = self.registry() else {
            return Ok(None);
        };
        let standing = registry.standing(limit).await?;
        Ok(standing.map(|claim| claim.cluster))
    }

    /// Whether the registry can be claimed now.
    pub(crate) async fn probe(&self, limit: Duration) -> Result<(), Source> {
        match self.registry() {
            Some(registry) => registry.probe(limit).await,
            None => Ok(()),
        }
    }

    fn registry(&self) -> Option<Arc<dyn Journal>> {
        self.outside.registry.as_ref().map(Registry::journal)
    }

    /// The stores of this cluster.
    pub(crate) fn of(&self, cluster: &ClusterId) -> Stores {
        let mut private = self.private.lock();
        match &*private {
            Some((owner, stores)) if owner == cluster => return stores.clone(),
            Some((owner, _)) => tracing::warn!(
                before = %owner,
                now = %cluster,
                "the coordination backend names another cluster: this node forgets what it knew \
                 of the one before"
            ),
            None => {}
        }
        let registry = self.registry();
        let new = Stores {
            place: self.place.clone(),
            registry: registry.unwrap_or_else(|| Arc::new(MemoryJournal::new("registry"))),
            // Lost with the reign in any case: keeping each record would double the memory.
            memory: Arc::new(MemoryJournal::without_content("cache")),
            outside: self.outside.clone(),
        };
        *private = Some((cluster.clone(), new.clone()));
        new
    }
}

#[cfg(test)]
mod tests {
    use kvcm_fence::{Claim, Epoch, Incarnation};

    use super::*;

    #[tokio::test]
    async fn another_cluster_gets_new_stores_and_the_same_one_the_old_ones() {
        let clock = Arc::new(kvcm_clock::ManualClock::default());
        let stores = StoreSet::open(&RegistryStorage::Memory, clock).unwrap();
        let claim = |cluster: &ClusterId, epoch| Claim {
            cluster: cluster.clone(),
            epoch: Epoch::new(epoch).unwrap(),
            incarnation: Incarnation::from_bits(1),
        };
        let limit = Duration::from_secs(1);
        let (first, second) = (ClusterId::random(), ClusterId::random());
        let registry = stores.of(&first).registry;
        registry.claim(claim(&first, 2), limit).await.unwrap();
        let again = stores.of(&first).registry;
        let refused = again.claim(claim(&first, 1), limit).await;
        assert!(refused.is_err(), "an old epoch was let in");
        let other = stores.of(&second).registry;
        other.claim(claim(&second, 1), limit).await.unwrap();
    }

    #[test]
    fn an_index_outside_is_opened_once_unless_it_is_configured_anew() {
        let redis = |uri: &str| {
            let uri = kvcm_uri::Uri::parse(uri).unwrap();
            Box::new(kvcm_redis::Config::from_uri(&uri).unwrap().0)
        };
        let uri = "redis://a:first@h:1/?cluster_name=c";
        let clock = Arc::new(kvcm_clock::ManualClock::default());
        let stores = StoreSet::open(&RegistryStorage::Redis(redis(uri)), clock).unwrap();
        let reign = || stores.of(&ClusterId::random());
        let same = |a: &Arc<dyn Journal>, b: &Arc<dyn Journal>| Arc::ptr_eq(a, b);
        let place = IndexStore::Redis(redis(uri));
        let first = reign().index(&place).unwrap();
        assert!(same(&first, &reign().index(&place).unwrap()));
        let changed = IndexStore::Redis(redis("redis://a:second@h:1/?cluster_name=c"));
        assert_eq!(changed.identity(), place.identity());
        let second = reign().index(&changed).unwrap();
        assert!(!same(&first, &second), "it would use the old password");
        reign().keep_only([&changed]);
        assert!(same(&second, &reign().index(&changed).unwrap()));
        reign().keep_only([]);
        assert!(!same(&second, &reign().index(&changed).unwrap()));
    }
}
