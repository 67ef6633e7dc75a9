//! The id of the cluster, which all nodes share through the coordination backend.

use std::time::Duration;

use coordination_core::{Backend, Error, Expect, SetOutcome};
use kvcm_clock::Clock;
use kvcm_fence::ClusterId;
use xxhash_rust::xxh3::xxh3_64;

/// Where it is kept.
const KEY: &str = "_KVCM_CLUSTER_ID";

/// One call to the backend.
const CALL: Duration = Duration::from_secs(2);

/// The id that is stored, if any.
pub(crate) async fn stored(
    backend: &dyn Backend,
    clock: &dyn Clock,
) -> Result<Option<ClusterId>, Error> {
    let Some(value) = backend.get_value(KEY, clock.now() + CALL).await? else {
        return Ok(None);
    };
    let hint = "the stored cluster id is damaged; restore or delete its key";
    let id = value
        .text
        .parse()
        .map_err(|error| Error::fatal(hint, error))?;
    Ok(Some(id))
}

/// Stores `id` where none is stored, and tells which one is stored then.
pub(crate) async fn keep(
    backend: &dyn Backend,
    clock: &dyn Clock,
    id: &ClusterId,
) -> Result<ClusterId, Error> {
    loop {
        if let Some(stored) = stored(backend, clock).await? {
            return Ok(stored);
        }
        let deadline = clock.now() + CALL;
        let set = backend.set_value(KEY, id.as_str(), None, Expect::Absent, deadline);
        if let SetOutcome::Stored(_) = set.await? {
            tracing::info!(cluster_id = %id, "the cluster's id was not at the place of coordination, now it is");
            return Ok(id.clone());
        }
    }
}

/// The id of a new cluster that coordinates at `place`.
pub(crate) fn found(place: &str) -> ClusterId {
    // Both halves are hex digits, which an id may have.
    let id = format!("{:032x}{}", fastrand::u128(..), mark(place));
    id.parse().unwrap_or_else(|_| ClusterId::random())
}

/// Whether the cluster was founded at `place`. A store of a cluster from elsewhere may be in use
/// there, so only an operator can say that it is ours.
pub(crate) fn was_founded_at(id: &ClusterId, place: &str) -> bool {
    id.as_str().ends_with(&mark(place))
}

fn mark(place: &str) -> String {
    format!("-{:016x}", xxh3_64(place.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coordination_memory::MemoryBackend;
    use kvcm_clock::ManualClock;

    use super::*;

    #[tokio::test]
    async fn an_id_outlives_the_data_of_the_backend_as_long_as_one_node_knows_it() {
        let clock = ManualClock::default();
        let backend = || MemoryBackend::new(Arc::new(clock.clone()));
        let (first, id) = (backend(), found("here"));
        assert_eq!(stored(&first, &clock).await.unwrap(), None);
        assert_eq!(keep(&first, &clock, &id).await.unwrap(), id);
        assert_eq!(stored(&first, &clock).await.unwrap(), Some(id.clone()));
        // What is stored wins over what a node believes.
        let other = ClusterId::random();
        assert_eq!(keep(&first, &clock, &other).await.unwrap(), id);

        let empty = backend();
        assert_eq!(keep(&empty, &clock, &id).await.unwrap(), id);
        assert_eq!(stored(&empty, &clock).await.unwrap(), Some(id));
    }

    #[test]
    fn an_id_tells_where_its_cluster_was_founded() {
        let id = found("file:///run/kvcm");
        assert_ne!(id, found("file:///run/kvcm"));
        assert!(was_founded_at(&id, "file:///run/kvcm"));
        assert!(!was_founded_at(&id, "file:///run/other"));
        assert!(!was_founded_at(&ClusterId::random(), "file:///run/kvcm"));
    }
}
