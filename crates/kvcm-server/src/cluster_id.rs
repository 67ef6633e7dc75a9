//! The id of the cluster, which all nodes share through the coordination backend.

use std::time::Duration;

use coordination_core::{Backend, Error, Expect, SetOutcome};
use kvcm_clock::Clock;
use kvcm_fence::ClusterId;

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

/// The id that is stored; when none is, `known` is stored again (the backend has lost its data),
/// or a new one for a new cluster.
pub(crate) async fn stored_or_new(
    backend: &dyn Backend,
    clock: &dyn Clock,
    known: Option<ClusterId>,
) -> Result<ClusterId, Error> {
    let is_known = known.is_some();
    let proposed = known.unwrap_or_else(ClusterId::random);
    loop {
        if let Some(id) = stored(backend, clock).await? {
            return Ok(id);
        }
        let deadline = clock.now() + CALL;
        let set = backend.set_value(KEY, proposed.as_str(), None, Expect::Absent, deadline);
        if let SetOutcome::Stored(_) = set.await? {
            if is_known {
                tracing::warn!(cluster_id = %proposed, "the backend had lost the cluster's id");
            } else {
                tracing::info!(cluster_id = %proposed, "a new cluster");
            }
            return Ok(proposed);
        }
    }
}

/// Stores `id` whatever is stored.
pub(crate) async fn replace(
    backend: &dyn Backend,
    clock: &dyn Clock,
    id: &ClusterId,
) -> Result<(), Error> {
    tracing::info!(cluster_id = %id, "the cluster is that of the registry");
    let deadline = clock.now() + CALL;
    let set = backend.set_value(KEY, id.as_str(), None, Expect::Any, deadline);
    set.await.map(drop)
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
        let first = backend();
        assert_eq!(stored(&first, &clock).await.unwrap(), None);
        let id = stored_or_new(&first, &clock, None).await.unwrap();
        assert_eq!(stored(&first, &clock).await.unwrap(), Some(id.clone()));
        // What is stored wins over what a node believes.
        let other = Some(ClusterId::random());
        assert_eq!(stored_or_new(&first, &clock, other).await.unwrap(), id);

        let empty = backend();
        let again = stored_or_new(&empty, &clock, Some(id.clone())).await;
        assert_eq!(again.unwrap(), id);
        assert_eq!(stored_or_new(&empty, &clock, None).await.unwrap(), id);
    }
}
