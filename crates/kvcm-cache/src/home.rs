//! Where the blocks of one instance live.

use std::sync::Arc;

use kvcm_index::{BlockIndex, Location};
use kvcm_registry::Instance;

use crate::{
    naming::{Named, Namings},
    specs::SpecSets,
    storages::List,
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
            namings: Namings::default(),
        }
    }

    /// Whether this is the home of that registration.
    pub(crate) fn is_of(&self, instance: &Arc<Instance>) -> bool {
        Arc::ptr_eq(&self.instance, instance) || self.instance == *instance
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
        let mut freed = ByType::default();
        let result = remove(&mut |_, location| self.count(storages, location, &mut freed));
        self.usage.give_back(freed);
        result
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
