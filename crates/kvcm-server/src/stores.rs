//! The stores of a node that keeps them to itself.

use std::sync::Arc;

use kvcm_fence::ClusterId;
use kvcm_journal::{Journal, MemoryJournal};
use parking_lot::Mutex;

/// Where a reign keeps what it knows.
#[derive(Clone, Debug)]
pub(crate) struct Stores {
    /// Storages, groups, instances.
    pub(crate) registry: Arc<dyn Journal>,
    /// Where blocks live.
    pub(crate) cache: Arc<dyn Journal>,
}

/// Stores in the memory of this process. They belong to one cluster; when the coordination backend
/// names another one (it lost its data, and a node that knew nothing founded a new cluster), they
/// begin anew: claims of the new cluster on the old ones would be refused for ever.
#[derive(Debug, Default)]
pub(crate) struct PrivateStores(Mutex<Option<(ClusterId, Stores)>>);

impl PrivateStores {
    /// The stores of this cluster.
    pub(crate) fn of(&self, cluster: &ClusterId) -> Stores {
        let mut stores = self.0.lock();
        match &*stores {
            Some((owner, stores)) if owner == cluster => return stores.clone(),
            Some((owner, _)) => tracing::warn!(
                before = %owner,
                now = %cluster,
                "the coordination backend names another cluster: this node forgets what it knew \
                 of the one before"
            ),
            None => {}
        }
        let new = Stores {
            registry: Arc::new(MemoryJournal::new("registry")),
            // Lost with the reign in any case: keeping each record would double the memory.
            cache: Arc::new(MemoryJournal::without_content("cache")),
        };
        *stores = Some((cluster.clone(), new.clone()));
        new
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kvcm_fence::{Claim, Epoch, Incarnation};

    use super::*;

    #[tokio::test]
    async fn another_cluster_gets_new_stores_and_the_same_one_the_old_ones() {
        let stores = PrivateStores::default();
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
