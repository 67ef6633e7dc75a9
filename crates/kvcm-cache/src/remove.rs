//! Blocks go: single ones, all of an instance, an instance.

use std::sync::Arc;

use kvcm_index::{Location, State};
use kvcm_journal::RequestKey;

use crate::{
    CacheManager, RemoveRequest, RequestOutcome, Result, TrimRequest, TrimStrategy, events,
    home::Home,
    manager::{BLOCKS, has_blocks, require},
    ops::{Op, Remove, Request},
};

/// Keys that one batch of the journal removes at most.
const STEP: usize = 4096;

impl CacheManager {
    /// Removes all locations of the keys, whatever their state; absent keys are no error. A key
    /// whose start is not acknowledged yet comes after the removal and stays. Returns how many
    /// locations are on their way out now.
    ///
    /// From then on nobody reads them, and the keys can be written again at once, at paths that
    /// were never granted before. Their bytes are deleted after the group's
    /// `delay_before_delete_ms`.
    ///
    /// # Errors
    /// [`MissingFields`](crate::Error::MissingFields), too many keys,
    /// [`InstanceNotExist`](crate::Error::InstanceNotExist), and those of the journal.
    pub async fn remove(&self, request: &RemoveRequest<'_>) -> Result<usize> {
        require(&[
            ("instance_id", !request.instance_id.is_empty()),
            (BLOCKS, has_blocks(request.blocks)),
        ])?;
        let home = self.home(request.instance_id)?;
        let keys = self.keys(&home, request.blocks)?;
        let mut gone = Gone::new(&home);
        home.index
            .inspect(keys.iter().copied(), |key, list| gone.add(key, list));
        self.commit_removal(home, gone, request.request.map(done))
            .await
    }

    /// Removes every block that the instance has when the call begins. Blocks that are written
    /// meanwhile may stay. Returns how many locations are on their way out now.
    ///
    /// # Errors
    /// [`MissingFields`](crate::Error::MissingFields),
    /// [`InstanceNotExist`](crate::Error::InstanceNotExist), and those of the journal: a part may
    /// be removed then.
    pub async fn trim(&self, request: &TrimRequest<'_>) -> Result<usize> {
        require(&[("instance_id", !request.instance_id.is_empty())])?;
        let home = self.home(request.instance_id)?;
        match request.strategy {
            TrimStrategy::RemoveAllCache => self.remove_all(home, request.request.map(done)).await,
        }
    }

    /// Removes every block of an instance that has been removed from the registry, and forgets
    /// it. Returns how many locations are on their way out now.
    ///
    /// # Errors
    /// Those of the journal: the rest goes later.
    pub async fn drop_instance(&self, instance_id: &str) -> Result<usize> {
        let home = self.shared.homes.write().remove(instance_id);
        let Some(home) = home else {
            return Ok(0);
        };
        self.shared.retire_home(Arc::clone(&home));
        self.remove_all(home, None).await
    }

    /// Removes what there is in the homes of registrations that are gone, and forgets those that
    /// are empty. True when there are more.
    ///
    /// # Errors
    /// Those of the journal: try again.
    pub(crate) async fn empty_retired(&self) -> Result<bool> {
        let homes = self.shared.retired.read().clone();
        for home in homes {
            if home.staying_keys() > 0 {
                self.remove_all(home, None).await?;
            }
        }
        let mut homes = self.shared.retired.write();
        // A start that holds the home and is not acknowledged yet has its keys in the index.
        homes.retain(|home| !home.index.is_empty());
        Ok(!homes.is_empty())
    }

    /// The last batch holds the record of the request: before that, it is not done.
    async fn remove_all(&self, home: Arc<Home>, recorded: Option<Request>) -> Result<usize> {
        let mut removed = 0;
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let mut gone = Gone::new(&home);
            cursor = home
                .index
                .scan(from, STEP, |key, list, _| gone.add(key, list));
            let recorded = recorded.clone().filter(|_| cursor.is_none());
            removed += self
                .commit_removal(Arc::clone(&home), gone, recorded)
                .await?;
        }
        Ok(removed)
    }

    async fn commit_removal(
        &self,
        home: Arc<Home>,
        gone: Gone,
        recorded: Option<Request>,
    ) -> Result<usize> {
        let shared = Arc::clone(&self.shared);
        let told = Arc::clone(&home);
        let settled = move |count| {
            if count > 0 {
                shared.stats.removed.add(count);
                events::removed(&told, count);
            }
        };
        self.commit_deletion(home, gone, recorded, settled).await
    }

    /// Sends locations on their way out, and tells `settled` how many there were.
    pub(crate) async fn commit_deletion(
        &self,
        home: Arc<Home>,
        gone: Gone,
        recorded: Option<Request>,
        settled: impl FnOnce(usize) + Send + 'static,
    ) -> Result<usize> {
        let removed = gone.0;
        let shared = Arc::clone(&self.shared);
        let mut ops = Vec::new();
        if !removed.removed.is_empty() {
            ops.push(Op::Delete(removed.clone()));
        }
        // A request that removes nothing is recorded too: a late repeat would find something.
        ops.extend(shared.answered.begin(recorded.as_ref()));
        if ops.is_empty() {
            return Ok(0);
        }
        let settle = move |stored: bool| {
            let now = shared.clock.now();
            shared.answered.settle(recorded, stored, now);
            if !stored {
                return 0;
            }
            let count = shared.retire(&home, |retired| {
                home.index.retire(removed.locations(), retired);
            });
            settled(count);
            count
        };
        self.log.commit(&ops, settle).await
    }
}

const fn done(key: RequestKey) -> Request {
    Request {
        key,
        outcome: RequestOutcome::Done,
    }
}

/// Collects the locations that go.
pub(crate) struct Gone(Remove);

impl Gone {
    pub(crate) fn new(home: &Home) -> Self {
        Self(Remove::of(&home.id))
    }

    /// All of a key, so far as they are acknowledged and not on their way out already.
    pub(crate) fn add(&mut self, key: i64, locations: &[Location]) {
        for location in locations {
            if matches!(location.state(), State::Writing | State::Serving) {
                self.0.push(key, location.grant());
            }
        }
    }
}
