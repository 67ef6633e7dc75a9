//! Which blocks go, and their going.

use std::{collections::HashSet, sync::Arc};

use kvcm_index::{BlockIndex, Cutoff, Location};
use kvcm_registry::{Group, StorageType};

use super::mark::{Mark, type_quotas};
use crate::{
    CacheManager, Error, Result, deletion::Neighbours, events, home::Home, remove::Gone,
    stats::Stats, storages::List,
};

/// Keys that one batch of the journal evicts at most.
const STEP: usize = 4096;

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Keys of one instance.
    Keys,
    /// Bytes of a group in one kind of storage.
    Type(StorageType),
    /// Bytes of a group.
    Bytes,
}

impl What {
    const fn reason(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Type(_) => "type",
            Self::Bytes => "bytes",
        }
    }

    fn count(self, stats: &Stats, evicted: usize) {
        match self {
            Self::Keys => stats.evicted_keys.add(evicted),
            Self::Type(_) => stats.evicted_type.add(evicted),
            Self::Bytes => stats.evicted_bytes.add(evicted),
        }
    }

    /// Whether a location counts.
    fn is_of(self, storages: &List, location: &Location) -> bool {
        let Self::Type(kind) = self else {
            return true;
        };
        let known = storages.get(location.storage());
        known.is_some_and(|known| match known.kind() {
            StorageType::VcnsHf3fs => kind == StorageType::Hf3fs,
            other => other == kind,
        })
    }

    /// How much of it a key is.
    fn weigh(self, home: &Home, storages: &List, locations: &[Location]) -> u64 {
        if self == Self::Keys {
            return 1;
        }
        let of_it = locations.iter().filter(|l| self.is_of(storages, l));
        of_it.map(|l| home.specs.bytes(l.specs())).sum()
    }
}

impl CacheManager {
    /// Evicts until every group is below its marks, so far as there are blocks that serve. Returns
    /// how many locations are on their way out now.
    ///
    /// # Errors
    /// Those of the journal: a part may be evicted.
    pub async fn reclaim(&self) -> Result<usize> {
        let mut evicted = 0;
        for group in self.registry.groups() {
            if let Some(mark) = Mark::of(&group) {
                evicted += self.reclaim_group(&group, mark).await?;
            }
        }
        Ok(evicted)
    }

    async fn reclaim_group(&self, group: &Group, mark: Mark) -> Result<usize> {
        let mut homes = self.shared.all_homes();
        homes.retain(|home| home.instance.group == group.name);
        let mut evicted = 0;
        let keys = group.cache_config.meta_indexer_config.max_key_count;
        for home in &homes {
            let excess = mark.excess(home.staying_keys() as u64, keys);
            evicted += self.evict(&[Arc::clone(home)], What::Keys, excess).await?;
        }
        let usage = self.shared.usage(&group.name);
        for (kind, quota) in type_quotas(group) {
            let excess = mark.excess(usage.staying().of(kind), quota);
            evicted += self.evict(&homes, What::Type(kind), excess).await?;
        }
        let excess = mark.excess(usage.staying().total(), group.quota.capacity);
        evicted += self.evict(&homes, What::Bytes, excess).await?;
        Ok(evicted)
    }

    /// Evicts the oldest blocks of these homes until `amount` is gone.
    async fn evict(&self, homes: &[Arc<Home>], what: What, amount: u64) -> Result<usize> {
        if amount == 0 {
            return Ok(0);
        }
        let storages = self.shared.storages.list();
        let mut search = Search {
            homes: homes.to_vec(),
            storages,
            what,
            cutoff: None,
            place: Some((0, usize::MAX)),
            left: amount,
        };
        let mut evicted = 0;
        loop {
            // With millions of keys that were all used at the same time a step takes milliseconds.
            let step = tokio::task::spawn_blocking(move || {
                let victims = search.step(amount);
                (search, victims)
            });
            let victims;
            (search, victims) = step
                .await
                .map_err(|error| Error::Internal(format!("the search for victims: {error}")))?;
            let Some((home, gone)) = victims else {
                return Ok(evicted);
            };
            let (shared, told) = (Arc::clone(&self.shared), Arc::clone(&home));
            let settled = move |count| {
                what.count(&shared.stats, count);
                events::evicted(&told, count, what.reason());
            };
            evicted += self.commit_deletion(home, gone, None, settled).await?;
        }
    }
}

/// Looks for victims, one batch at a time.
struct Search {
    homes: Vec<Arc<Home>>,
    storages: List,
    what: What,
    cutoff: Option<Cutoff>,
    /// The home that is searched, and below which slot.
    place: Option<(usize, usize)>,
    /// How much is still to go, as far as files go as a whole: then it may be less than what is
    /// old enough.
    left: u64,
}

impl Search {
    /// The next batch; none at the end.
    fn step(&mut self, amount: u64) -> Option<(Arc<Home>, Gone)> {
        let (what, storages) = (self.what, self.storages.clone());
        let mut cutoff = match self.cutoff {
            Some(cutoff) => cutoff,
            None => self.oldest(amount)?,
        };
        while let Some((number, below)) = self.place {
            let home = Arc::clone(self.homes.get(number)?);
            let mut found: Vec<(i64, Location)> = Vec::new();
            let next = home.index.oldest(
                &mut cutoff,
                below,
                STEP,
                |locations| what.weigh(&home, &storages, locations),
                |key, locations, _| {
                    let of_it = locations.iter().filter(|l| what.is_of(&storages, l));
                    found.extend(of_it.map(|location| (key, *location)));
                },
            );
            self.cutoff = Some(cutoff);
            self.place = match next {
                Some(below) => Some((number, below)),
                None => Some((number + 1, usize::MAX)),
            };
            if !found.is_empty() {
                let gone = self.gone(&home, &found);
                if self.left == 0 {
                    self.place = None;
                }
                return Some((home, gone));
            }
        }
        None
    }

    /// Those that were found, and with each one all that share its file: nothing is free before.
    fn gone(&mut self, home: &Home, found: &[(i64, Location)]) -> Gone {
        let mut gone = Gone::new(home);
        let mut files = HashSet::new();
        // As they were written, so that what becomes of them meets whole runs.
        for (key, location) in found.iter().rev() {
            let known = self.storages.get(location.storage());
            let keys_per_file = known.map_or(1, |known| known.data.keys_per_file());
            if keys_per_file <= 1 || self.what == What::Keys {
                gone.add(*key, std::slice::from_ref(location));
                continue;
            }
            let Neighbours { file, keys, held } = home.files.neighbours(location, keys_per_file);
            if self.left == 0 || !files.insert(file) {
                continue;
            }
            for key in &keys {
                gone.add(*key, std::slice::from_ref(location));
            }
            // What the others had may have been written with other specs: near enough.
            let bytes = home.specs.bytes(location.specs()) * keys.len() as u64;
            self.left = self.left.saturating_sub(bytes + held);
        }
        gone
    }

    /// Up to which age blocks go so that `amount` is gone.
    fn oldest(&self, amount: u64) -> Option<Cutoff> {
        let indexes: Vec<&BlockIndex> = self.homes.iter().map(|home| &home.index).collect();
        Cutoff::of(&indexes, amount, |number, locations| {
            self.what
                .weigh(&self.homes[number], &self.storages, locations)
        })
    }
}
