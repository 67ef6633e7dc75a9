//! Blocks go: single ones, all of an instance, an instance.

use std::sync::Arc;

use kvcm_index::{Location, State};
use kvcm_journal::RequestKey;

use crate::{
    CacheManager, RemoveRequest, RequestOutcome, Result, TrimRequest, TrimStrategy,
    home::Home,
    manager::{BLOCKS, has_blocks, require},
    ops::{Op, Remove, Request},
};

/// Keys that one batch of the journal removes at most.
const STEP: usize = 4096;

impl CacheManager {
    /// Removes all locations of the keys, whatever their state; absent keys are no error. A key
    /// whose start is not acknowledged yet comes after the removal and stays. Returns how many
    /// locations went.
    ///
    /// The keys can be written again at once, at paths that were never granted before. The stored
    /// bytes are not deleted.
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
    /// meanwhile may stay. Returns how many locations went.
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
    /// it. Returns how many locations went.
    ///
    /// # Errors
    /// Those of the journal: call it again.
    pub async fn drop_instance(&self, instance_id: &str) -> Result<usize> {
        let home = self.shared.homes.read().get(instance_id).cloned();
        let Some(home) = home else {
            return Ok(0);
        };
        let removed = self.remove_all(Arc::clone(&home), None).await?;
        let mut homes = self.shared.homes.write();
        // A registration that came meanwhile has a home of its own, or goes on with this one.
        let registered = self.registry.instance(instance_id).is_some();
        if !registered
            && homes
                .get(instance_id)
                .is_some_and(|h| Arc::ptr_eq(h, &home))
        {
            homes.remove(instance_id);
        }
        Ok(removed)
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
        let op = gone.0;
        let shared = Arc::clone(&self.shared);
        let removed = op.removed.clone();
        let mut ops = Vec::new();
        if !removed.is_empty() {
            ops.push(Op::Remove(op));
        }
        // A request that removes nothing is recorded too: a late repeat would find something.
        ops.extend(shared.answered.begin(recorded.as_ref()));
        if ops.is_empty() {
            return Ok(0);
        }
        let settle = move |stored: bool| {
            let now = shared.clock.now();
            shared.answered.settle(recorded, stored, now);
            let mut count = 0;
            if stored {
                home.freeing(&shared.storages.list(), |drop| {
                    for part in &removed {
                        home.index.release(&part.keys, part.grant, |key, location| {
                            count += 1;
                            drop(key, location);
                        });
                    }
                });
            }
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
struct Gone(Remove);

impl Gone {
    fn new(home: &Home) -> Self {
        Self(Remove {
            instance: home.id.as_ref().to_owned(),
            removed: Vec::new(),
        })
    }

    fn add(&mut self, key: i64, locations: &[Location]) {
        for location in locations {
            if location.state() != State::Reserved {
                self.0.push(key, location.grant());
            }
        }
    }
}
