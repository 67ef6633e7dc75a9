//! Deletes the bytes of one batch, then its records.

use std::{sync::Arc, time::Duration};

use kvcm_clock::Moment;
use kvcm_index::Location;
use kvcm_storage::Deletion;

use super::{Batch, Permit, bytes::Files};
use crate::{
    Result,
    append::Log,
    events,
    manager::Shared,
    ops::{Op, Remove},
};

/// How long the files of one batch may take.
const WITHIN: Duration = Duration::from_secs(30);
/// The wait after the first failure; it doubles with each one.
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Deletes batches.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) log: Log,
    pub(super) permit: Permit,
}

/// A batch that was taken from the queue. What is still in it when it is dropped goes back, so
/// that a worker that is stopped loses nothing.
struct Taken {
    shared: Arc<Shared>,
    batch: Option<Batch>,
    storage: u16,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            let now = self.shared.clock.now();
            self.shared.deletions.put_back(batch, now);
        }
        self.shared.deletions.idle(self.storage);
    }
}

impl Worker {
    /// Deletes the batch.
    ///
    /// # Errors
    /// Those of the journal: the batch is tried again.
    pub(super) async fn delete(&self, batch: Batch) -> Result<()> {
        let mut taken = Taken {
            shared: Arc::clone(&self.shared),
            storage: batch.storage,
            batch: Some(batch),
        };
        self.postpone_written(&mut taken);
        let Some(outcomes) = self.delete_bytes(&mut taken).await else {
            return Ok(());
        };
        let Some(mut batch) = taken.batch.take() else {
            return Ok(());
        };
        let deleted = outcomes == Outcomes::Deleted;
        let done = std::mem::take(&mut batch.locations);
        self.forget(batch, done, deleted).await
    }

    /// What an open session may still write stays until the session has ended, or its bytes would
    /// come back with no record of them.
    fn postpone_written(&self, taken: &mut Taken) {
        let Some(batch) = &mut taken.batch else {
            return;
        };
        let sessions = &self.shared.sessions;
        let is_open = |(_, location): &mut (i64, Location)| sessions.is_open(location.grant());
        let open: Vec<_> = batch.locations.extract_if(.., is_open).collect();
        if !open.is_empty() {
            let later = self.shared.delay(&batch.home).max(RETRY);
            self.put_back(batch, open, batch.tries, later);
        }
    }

    /// Deletes the bytes. Only locations whose bytes are gone are left in the batch; none at all
    /// when it is over for now.
    async fn delete_bytes(&self, taken: &mut Taken) -> Option<Outcomes> {
        let batch = taken.batch.as_mut()?;
        if batch.locations.is_empty() {
            taken.batch = None;
            return None;
        }
        let storages = self.shared.storages.list();
        let named = batch.home.named(&storages);
        let (known, naming) = (storages.get(batch.storage)?, named.get(batch.storage)?);
        let keys_per_file = known.data.keys_per_file();
        let mut files = Files::new(&batch.home, naming, keys_per_file, &batch.locations);
        if self.shared.registry.storage(&known.storage.name).is_none() {
            if self.shared.deletions.note(batch.storage, true) {
                tracing::warn!(
                    storage = known.storage.name,
                    "the storage is not registered any more: its blocks are forgotten, their bytes \
                     are not deleted"
                );
            }
            return Some(Outcomes::Forgotten);
        }
        let outcomes = if files.places.is_empty() {
            Ok(Vec::new())
        } else {
            let permit = Arc::clone(&self.permit);
            let places = std::mem::take(&mut files.places);
            // The batch is in `taken` all the while: whoever drops this future loses nothing, and
            // the files that blocks share are rebuilt below or by the next try.
            known.data.delete(places, WITHIN, move || permit()).await
        };
        let (outcomes, unavailable) = match outcomes {
            Ok(outcomes) => (outcomes, None),
            Err(error) => {
                let nothing = vec![Deletion::NotBegun; files.count()];
                (nothing, Some(error.to_string()))
            }
        };
        let failures = files.failures(&batch.home, &mut batch.locations, &outcomes);
        self.shared.stats.delete_failures.add(failures.tried);
        let error = failures.error.or(unavailable);
        let name = &known.storage.name;
        if let Some(error) = &error {
            if self.shared.deletions.note(batch.storage, true) {
                let count = failures.locations.len();
                tracing::warn!(
                    storage = name,
                    count,
                    error,
                    "bytes cannot be deleted, it is tried again"
                );
            }
        } else if !outcomes.is_empty()
            && failures.locations.is_empty()
            && self.shared.deletions.note(batch.storage, false)
        {
            tracing::info!(storage = name, "bytes can be deleted again");
        }
        if !failures.locations.is_empty() {
            // Without an error the permission has ended: whoever gets it next goes on at once.
            let tries = batch.tries + u32::from(error.is_some());
            let wait = error.map_or(Duration::ZERO, |_| back_off(batch.tries));
            self.put_back(batch, failures.locations, tries, wait);
        }
        Some(Outcomes::Deleted)
    }

    fn put_back(&self, batch: &Batch, locations: Vec<(i64, Location)>, tries: u32, wait: Duration) {
        let again = Batch {
            home: Arc::clone(&batch.home),
            storage: batch.storage,
            locations,
            tries,
        };
        let due: Moment = self.shared.clock.now() + wait;
        self.shared.deletions.put_back(again, due);
    }

    /// The bytes are gone: the records go.
    async fn forget(&self, batch: Batch, done: Vec<(i64, Location)>, deleted: bool) -> Result<()> {
        if done.is_empty() {
            return Ok(());
        }
        let mut op = Remove::of(&batch.home.id);
        for (key, location) in &done {
            op.push(*key, location.grant());
        }
        let removed = op.removed.clone();
        let shared = Arc::clone(&self.shared);
        let settle = move |stored: bool| {
            let Batch { home, tries, .. } = &batch;
            if !stored {
                let again = Batch {
                    home: Arc::clone(home),
                    storage: batch.storage,
                    locations: done,
                    tries: tries + 1,
                };
                let due = shared.clock.now() + back_off(*tries);
                return shared.deletions.put_back(again, due);
            }
            home.freeing(&shared.storages.list(), |drop| {
                for part in &removed {
                    home.index
                        .release(&part.keys, part.grant, |key, location| drop(key, location));
                }
            });
            let stats = &shared.stats;
            let count = if deleted {
                &stats.deleted
            } else {
                &stats.forgotten
            };
            count.add(done.len());
            events::deleted(home, batch.storage, done.len(), deleted);
            shared.deletions.settle(home, batch.storage, done.len());
        };
        self.log.commit(&[Op::Remove(op)], settle).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcomes {
    /// The bytes are gone.
    Deleted,
    /// Nobody can delete the bytes any more.
    Forgotten,
}

fn back_off(tries: u32) -> Duration {
    let wait = RETRY.saturating_mul(1 << tries.min(8));
    wait.min(RETRY_MAX)
}
