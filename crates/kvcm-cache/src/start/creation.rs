//! Makes what the blocks of a start are written to, before its answer names it.

use std::sync::Arc;

use kvcm_index::{Grant, Location, State};
use kvcm_storage::{CreateError, MadeDirectories, Place, UriTemplate};

use super::{Granted, Prepared, Wanted};
use crate::{
    CacheManager, Result, StartRequest, home::Home, manager::Shared, naming::Naming,
    storages::Known,
};

/// A storage that could not take the blocks of a start.
pub(super) struct Failed {
    pub(super) storage: u16,
    pub(super) error: CreateError,
}

impl CacheManager {
    /// Reserves the keys, in the first storage that can take them.
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare), also when every storage failed.
    pub(super) async fn reserve(&self, request: &StartRequest<'_>) -> Result<Prepared> {
        let mut failed = Vec::new();
        loop {
            let prepared = self.prepare(request, &failed)?;
            let granted = &prepared.granted;
            let missing = Missing::of(granted).filter(Missing::is_something);
            let Some(missing) = missing else {
                return Ok(prepared);
            };
            let reserved = Reserved::of(&self.shared, granted);
            match missing.create(self.config.storage_timeout).await {
                Ok(()) => {
                    reserved.keep();
                    return Ok(prepared);
                }
                Err(error) => {
                    tracing::warn!(%error, "a start goes to the next storage, if there is one");
                    let storage = missing.known.number;
                    failed.push(Failed { storage, error });
                }
            }
        }
    }
}

impl CacheManager {
    /// Removes the files that were made for a start that never happened: nobody was told of them.
    pub(super) async fn remove_files(&self, granted: &Granted) {
        let missing = Missing::of(granted).filter(|missing| missing.known.data.creates_files());
        let Some(missing) = missing else {
            return;
        };
        let (data, within) = (&missing.known.data, self.config.storage_timeout);
        let removed = data.delete(missing.files(), within, || true).await;
        let left = match removed {
            Ok(outcomes) => outcomes.iter().filter(|outcome| !outcome.is_done()).count(),
            Err(_) => granted.len(),
        };
        if left > 0 {
            let storage = data.name();
            tracing::warn!(left, storage, "empty files of a start that failed are left");
        }
    }
}

/// What a start needs in its storage.
struct Missing<'a> {
    granted: &'a Granted,
    known: &'a Arc<Known>,
    naming: &'a Arc<Naming>,
}

impl<'a> Missing<'a> {
    /// What this start needs; nothing when no key was new.
    fn of(granted: &'a Granted) -> Option<Self> {
        let (known, naming) = granted.storage.as_ref()?;
        Some(Self {
            granted,
            known,
            naming,
        })
    }

    fn grant(&self) -> kvcm_storage::Grant {
        kvcm_storage::Grant {
            epoch: self.granted.grant.epoch,
            counter: self.granted.grant.counter,
        }
    }

    /// Whether anything has to be made: mostly not, and then nothing is allocated.
    fn is_something(&self) -> bool {
        let data = &self.known.data;
        data.creates_files() || self.missing().next().is_some()
    }

    /// The specs whose directories are not known to be there, with these directories.
    fn missing(&self) -> impl Iterator<Item = (&UriTemplate, &MadeDirectories)> {
        let specs = &self.granted.home.specs;
        let sets = self.granted.wanted.sets();
        let specs = sets.flat_map(|set| specs.specs(set).iter().copied());
        let made = specs.filter_map(|spec| self.naming.made(spec));
        made.filter(|(_, made)| !self.known.data.has_directory(made, self.grant()))
    }

    async fn create(&self, within: std::time::Duration) -> Result<(), CreateError> {
        let mut specs: Vec<_> = self.missing().collect();
        // Sets of specs share some.
        specs.sort_unstable_by_key(|(_, made)| std::ptr::from_ref(*made));
        specs.dedup_by_key(|(_, made)| std::ptr::from_ref(*made));
        let data = &self.known.data;
        let files = match data.creates_files() {
            true => self.files(),
            false => Vec::new(),
        };
        data.create(specs, files, self.grant(), within).await
    }

    fn files(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for at in 0..self.granted.keys.len() {
            let specs = self.granted.home.specs.specs(self.granted.wanted.of(at));
            places.extend(specs.iter().filter_map(|spec| self.place(*spec, at)));
        }
        // Those that keys share are there for each of them.
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Where one spec of the key at this position goes.
    fn place(&self, spec: u16, at: usize) -> Option<Place> {
        let Granted {
            grant,
            keys,
            wanted,
            ..
        } = self.granted;
        let (position, specs) = (at as u32, wanted.of(at));
        let location = Location::new(*grant, position, self.known.number, specs, State::Writing);
        let uri = self.naming.uri(spec, *keys.get(at)?, &location)?;
        Some(uri.place())
    }
}

impl Wanted {
    /// The sets that occur; they may come twice.
    fn sets(&self) -> impl Iterator<Item = u16> {
        let (same, each) = match self {
            Self::Same(set) => (Some(*set), [].as_slice()),
            Self::Each(sets) => (None, sets.as_slice()),
        };
        // Neighbours mostly want the same.
        let each = each.chunk_by(PartialEq::eq).map(|run| run[0]);
        same.into_iter().chain(each)
    }
}

/// Keys that come free unless they are kept, also when the caller goes away.
struct Reserved<'a> {
    shared: &'a Shared,
    home: Arc<Home>,
    keys: Arc<[i64]>,
    grant: Grant,
    is_kept: bool,
}

impl<'a> Reserved<'a> {
    fn of(shared: &'a Shared, granted: &Granted) -> Self {
        Self {
            shared,
            home: Arc::clone(&granted.home),
            keys: Arc::clone(&granted.keys),
            grant: granted.grant,
            is_kept: false,
        }
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.shared.release(&self.home, &self.keys, self.grant);
        }
    }
}
