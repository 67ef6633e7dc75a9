//! Where the blocks of one instance live.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use kvcm_index::{BlockIndex, Grant, Location, State};
use kvcm_registry::Instance;

use crate::{
    deletion::{Backlog, Freed, SharedFiles},
    naming::{Named, Namings},
    ops::DefineInstance,
    specs::SpecSets,
    storages::{Known, List},
    usage::{ByType, Usage},
};

/// One registered instance with its blocks.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) id: Arc<str>,
    pub(crate) instance: Arc<Instance>,
    /// Tells this registration from another one under the same id.
    pub(crate) fingerprint: u64,
    pub(crate) specs: SpecSets,
    pub(crate) index: BlockIndex,
    pub(crate) usage: Arc<Usage>,
    /// The journal has its registration.
    defined: AtomicBool,
    /// Its locations that are on their way out.
    leaving: AtomicUsize,
    pub(crate) backlog: Backlog,
    pub(crate) files: SharedFiles,
    namings: Namings,
}

impl Home {
    pub(crate) fn new(instance: Arc<Instance>, usage: Arc<Usage>) -> Self {
        Self {
            id: instance.id.as_str().into(),
            fingerprint: fingerprint(&instance),
            specs: SpecSets::new(&instance),
            index: BlockIndex::new(),
            instance,
            usage,
            defined: AtomicBool::new(false),
            leaving: AtomicUsize::new(0),
            backlog: Backlog::default(),
            files: SharedFiles::default(),
            namings: Namings::default(),
        }
    }

    /// Whether this is the home of that registration.
    pub(crate) fn is_of(&self, instance: &Arc<Instance>) -> bool {
        Arc::ptr_eq(&self.instance, instance) || self.instance == *instance
    }

    /// The operation that tells its registration, when the journal may not have it.
    pub(crate) fn definition(&self) -> Option<DefineInstance> {
        let defined = self.defined.load(Ordering::Acquire);
        (!defined).then(|| DefineInstance::of(self))
    }

    /// The journal has its registration.
    pub(crate) fn set_defined(&self) {
        self.defined.store(true, Ordering::Release);
    }

    /// How its places are called.
    pub(crate) fn named(&self, storages: &List) -> Named {
        self.namings.all(&self.instance, storages)
    }

    /// Runs a removal and gives the bytes of what it dropped back to the group.
    pub(crate) fn freeing<R>(
        &self,
        storages: &List,
        remove: impl FnOnce(&mut dyn FnMut(i64, &Location)) -> R,
    ) -> R {
        let (mut freed, mut left, mut gone) = (ByType::default(), ByType::default(), 0);
        let result = remove(&mut |_, location| {
            let was_leaving = location.state() == State::Deleting;
            gone += usize::from(was_leaving);
            let Some(known) = storages.get(location.storage()) else {
                return;
            };
            let bytes = self.specs.bytes(location.specs());
            let of_it = match known.data.keys_per_file() {
                0 | 1 => Freed { bytes, left: bytes },
                keys => self.files.settle(location, bytes, keys),
            };
            freed.add(known.kind(), of_it.bytes);
            if was_leaving {
                left.add(known.kind(), of_it.left);
            }
        });
        self.usage.give_back(freed, left);
        self.leaving.fetch_sub(gone, Ordering::Relaxed);
        result
    }

    /// Notes that these locations are on their way out.
    pub(crate) fn leave(&self, storages: &List, locations: &[(i64, Location)]) {
        let mut bytes = ByType::default();
        for (_, location) in locations {
            self.count(storages, location, &mut bytes);
            if let Some(known) = storages.get(location.storage())
                && known.data.keys_per_file() > 1
            {
                let with_it = self.files.leave(location, known.data.keys_per_file());
                bytes.add(known.kind(), with_it);
            }
        }
        self.usage.leave(bytes);
        self.leaving.fetch_add(locations.len(), Ordering::Relaxed);
    }

    /// Locations that are on their way out.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Keys that are there when all that is on its way out has gone. Less, for a moment, when a key
    /// has several locations of which some go.
    pub(crate) fn staying_keys(&self) -> usize {
        self.index.len().saturating_sub(self.leaving())
    }

    /// Adds up what the index holds, as a recovery has filled it, and notes what is on its way out.
    pub(crate) fn take_stock(&self, storages: &List) {
        let (mut bytes, mut leaving, mut count) = (ByType::default(), ByType::default(), 0);
        self.index.scan(0, usize::MAX, |key, locations, _| {
            for location in locations {
                self.count(storages, location, &mut bytes);
                if let Some(known) = storages.get(location.storage())
                    && known.data.keys_per_file() > 1
                {
                    self.files.insert(location, key, known.data.keys_per_file());
                }
                if location.state() == State::Deleting {
                    self.count(storages, location, &mut leaving);
                    self.backlog.miss(location.storage());
                    count += 1;
                }
            }
        });
        self.usage.found(bytes, leaving);
        self.leaving.fetch_add(count, Ordering::Relaxed);
    }

    /// Notes that the locations of a grant live in files that they share.
    pub(crate) fn share_files(&self, storage: &Known, grant: Grant, keys: &[i64]) {
        let keys_per_file = storage.data.keys_per_file();
        if keys_per_file > 1 {
            for (position, key) in (0..).zip(keys) {
                let location = Location::new(grant, position, storage.number, 0, State::Writing);
                self.files.insert(&location, *key, keys_per_file);
            }
        }
    }

    /// Adds the bytes of a location.
    pub(crate) fn count(&self, storages: &List, location: &Location, bytes: &mut ByType) {
        if let Some(known) = storages.get(location.storage()) {
            bytes.add(known.kind(), self.specs.bytes(location.specs()));
        }
    }
}

/// FNV-1a over what gives a location its meaning. Stored, so it never changes.
fn fingerprint(instance: &Instance) -> u64 {
    let meaning = (
        instance.block_size,
        &instance.location_spec_infos,
        &instance.location_spec_groups,
    );
    // Texts and numbers always have a JSON form.
    let json = serde_json::to_vec(&meaning).unwrap_or_default();
    json.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::tests::instance;

    #[test]
    fn the_fingerprint_is_stored_and_so_never_changes() {
        let stored = instance(&[("tp0", 1024)], &[("g", &["tp0"])]);
        assert_eq!(fingerprint(&stored), FINGERPRINT);
        let mut other = stored.clone();
        other.block_size += 1;
        assert_ne!(fingerprint(&other), FINGERPRINT);
        let mut same = stored;
        same.model_deployment.user_data = "x".into();
        assert_eq!(fingerprint(&same), FINGERPRINT);
    }

    const FINGERPRINT: u64 = 13_042_177_213_895_615_576;
}
