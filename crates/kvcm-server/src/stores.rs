//! Where a node keeps its registry and its indexes.

use std::{sync::Arc, time::Duration};

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
    clock: Arc<dyn Clock>,
}

impl Stores {
    /// Where an index is kept.
    ///
    /// # Errors
    /// When it can never work, whatever happens.
    pub(crate) fn index(&self, place: &IndexStore) -> anyhow::Result<Arc<dyn Journal>> {
        Ok(match place {
            IndexStore::Memory => self.memory.clone(),
            // Beside the registry, where both have the same directory.
            IndexStore::Local(path) => Arc::new(LocalJournal::with_network_fs(
                &path.join("cache"),
                // Said once, for all directories of a node.
                self.place.allows_network_fs(),
            )?),
            IndexStore::Redis(config) => Arc::new(RedisJournal::open(
                (**config).clone(),
                "cache",
                self.clock.clone(),
            )?),
        })
    }
}

/// The stores of a node. Those in the memory of this process belong to one cluster; when the
/// coordination backend names another one (it lost its data, and a node that knew nothing founded a
/// new cluster), they begin anew: claims of the new cluster on the old ones would be refused for
/// ever. A store outside this process is never given up like that.
#[derive(Debug)]
pub(crate) struct StoreSet {
    registry: Option<Arc<dyn Journal>>,
    place: Arc<RegistryStorage>,
    private: Mutex<Option<(ClusterId, Stores)>>,
    clock: Arc<dyn Clock>,
}

impl StoreSet {
    /// With the registry where the configuration wants it.
    ///
    /// # Errors
    /// When it can never work, whatever happens.
    pub(crate) fn open(registry: &RegistryStorage, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let place = Arc::new(registry.clone());
        let registry: Option<Arc<dyn Journal>> = match registry {
            RegistryStorage::Memory => None,
            RegistryStorage::Local {
                path,
                allow_network_fs,
            } => Some(Arc::new(
                LocalJournal::with_network_fs(&path.join("registry"), *allow_network_fs)
                    .context("kvcm.registry_storage.uri")?,
            )),
            RegistryStorage::Redis(config) => Some(Arc::new(
                RedisJournal::open((**config).clone(), "registry", clock.clone())
                    .context("kvcm.registry_storage.uri")?,
            )),
        };
        if let Some(registry) = &registry {
            tracing::info!(registry = registry.describe(), "the registry is durable");
        }
        Ok(Self {
            registry,
            place,
            private: Mutex::default(),
            clock,
        })
    }

    /// Where the registry is.
    pub(crate) fn place(&self) -> &RegistryStorage {
        &self.place
    }

    /// Whose the registry is; none when it is new, or in the memory of this process.
    pub(crate) async fn owner(&self, limit: Duration) -> Result<Option<ClusterId>, ClaimError> {
        let Some(registry) = &self.registry else {
            return Ok(None);
        };
        let standing = registry.standing(limit).await?;
        Ok(standing.map(|claim| claim.cluster))
    }

    /// Whether the registry can be claimed now.
    pub(crate) async fn probe(&self, limit: Duration) -> Result<(), Source> {
        match &self.registry {
            Some(registry) => registry.probe(limit).await,
            None => Ok(()),
        }
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
        let registry = self.registry.clone();
        let new = Stores {
            place: self.place.clone(),
            registry: registry.unwrap_or_else(|| Arc::new(MemoryJournal::new("registry"))),
            // Lost with the reign in any case: keeping each record would double the memory.
            memory: Arc::new(MemoryJournal::without_content("cache")),
            clock: self.clock.clone(),
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
}
