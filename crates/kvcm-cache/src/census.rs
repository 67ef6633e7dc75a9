//! What there is, for whoever watches.

use kvcm_registry::StorageType;

use crate::CacheManager;

/// Bytes of one instance group in one kind of storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupBytes {
    /// The group.
    pub group: String,
    /// The kind; VCNS counts as 3FS.
    pub kind: StorageType,
    /// Bytes that are written or being written.
    pub staying: u64,
    /// Bytes that are on their way out.
    pub leaving: u64,
}

/// Blocks of one registered instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceBlocks {
    /// Its group.
    pub group: String,
    /// Its id.
    pub instance: String,
    /// Its keys, in any state.
    pub keys: usize,
}

impl CacheManager {
    /// Bytes of all groups by kind of storage, so far as there are any.
    pub fn group_usage(&self) -> Vec<GroupBytes> {
        let usages = self.shared.usages.read();
        let mut found = Vec::new();
        for (group, usage) in usages.iter() {
            let (granted, leaving) = usage.both();
            let kinds = StorageType::ALL.into_iter();
            let kinds = kinds.filter(|kind| *kind != StorageType::VcnsHf3fs);
            found.extend(
                kinds
                    .filter(|kind| granted.of(*kind) > 0)
                    .map(|kind| GroupBytes {
                        group: group.to_string(),
                        kind,
                        staying: granted.of(kind).saturating_sub(leaving.of(kind)),
                        leaving: leaving.of(kind),
                    }),
            );
        }
        found
    }

    /// The registered instances that have or had blocks.
    pub fn instance_usage(&self) -> Vec<InstanceBlocks> {
        let homes = self.shared.homes.read();
        let blocks = homes.values().map(|home| InstanceBlocks {
            group: home.instance.group.clone(),
            instance: home.instance.id.clone(),
            keys: home.index.len(),
        });
        blocks.collect()
    }

    /// Locations on their way out whose bytes are not deleted yet.
    pub fn deletions_pending(&self) -> usize {
        let homes = self.shared.all_homes();
        homes.iter().map(|home| home.leaving()).sum()
    }
}
