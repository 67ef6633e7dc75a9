//! How many bytes a group has granted, by kind of storage.

use kvcm_registry::{Group, StorageType};
use parking_lot::Mutex;

use crate::{Capacity, Error, Result};

/// The bytes of all locations of a group's instances, in any state: what was granted counts, whether
/// it is written yet or not, until the bytes are deleted.
#[derive(Debug)]
pub(crate) struct Usage {
    group: Box<str>,
    bytes: Mutex<Bytes>,
}

#[derive(Debug, Default)]
struct Bytes {
    granted: ByType,
    /// Those of them that are on their way out: they count for quotas, for they are still there,
    /// and not for eviction, for they will be gone.
    leaving: ByType,
}

/// Bytes by kind of storage; VCNS counts as 3FS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByType([u64; StorageType::ALL.len()]);

impl ByType {
    /// Adds bytes of one kind.
    pub(crate) fn add(&mut self, kind: StorageType, bytes: u64) {
        self.0[place(kind)] += bytes;
    }

    /// Bytes of one kind.
    pub(crate) fn of(&self, kind: StorageType) -> u64 {
        self.0[place(kind)]
    }

    /// Bytes of all kinds.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn plus(&mut self, more: Self) {
        for (bytes, more) in self.0.iter_mut().zip(more.0) {
            *bytes += more;
        }
    }

    fn minus(&mut self, less: Self) {
        for (bytes, less) in self.0.iter_mut().zip(less.0) {
            debug_assert!(*bytes >= less, "more bytes came back than were taken");
            *bytes = bytes.saturating_sub(less);
        }
    }
}

fn place(kind: StorageType) -> usize {
    let counted = match kind {
        StorageType::VcnsHf3fs => StorageType::Hf3fs,
        other => other,
    };
    let found = StorageType::ALL.iter().position(|kind| *kind == counted);
    found.unwrap_or(0)
}

impl Usage {
    pub(crate) fn new(group: &str) -> Self {
        Self {
            group: group.into(),
            bytes: Mutex::default(),
        }
    }

    /// What is used now.
    pub(crate) fn now(&self) -> ByType {
        self.bytes.lock().granted
    }

    /// What is used now, and what of it is on its way out.
    pub(crate) fn both(&self) -> (ByType, ByType) {
        let bytes = self.bytes.lock();
        (bytes.granted, bytes.leaving)
    }

    /// What is used once all that is on its way out has gone.
    pub(crate) fn staying(&self) -> ByType {
        let (mut staying, leaving) = self.both();
        staying.minus(leaving);
        staying
    }

    /// Takes `requested` bytes in the first of `kinds` that has room for them, and returns its
    /// place in the list.
    ///
    /// # Errors
    /// [`Error::Capacity`] naming the quota that is full; nothing is taken.
    pub(crate) fn take(
        &self,
        group: &Group,
        kinds: impl IntoIterator<Item = StorageType>,
        requested: u64,
    ) -> Result<usize> {
        let bytes = &mut self.bytes.lock().granted;
        let total = bytes.total();
        let full = |limit: String, used, capacity| {
            Error::Capacity(Capacity {
                limit,
                unit: "bytes",
                used,
                requested,
                capacity,
            })
        };
        if !fits(total, requested, group.quota.capacity) {
            let limit = format!("quota.capacity of instance group `{}`", self.group);
            return Err(full(limit, total, group.quota.capacity));
        }
        let mut refusal = None;
        for (at, kind) in kinds.into_iter().enumerate() {
            match group.type_quota(kind) {
                Some(capacity) if !fits(bytes.of(kind), requested, capacity) => {
                    let limit = format!(
                        "quota_config of storage type {kind} in instance group `{}`",
                        self.group
                    );
                    refusal.get_or_insert_with(|| full(limit, bytes.of(kind), capacity));
                }
                _ => {
                    bytes.add(kind, requested);
                    return Ok(at);
                }
            }
        }
        Err(refusal.unwrap_or_else(|| Error::Internal("there is no storage to write to".into())))
    }

    /// Bytes are on their way out.
    pub(crate) fn leave(&self, leaving: ByType) {
        self.bytes.lock().leaving.plus(leaving);
    }

    /// Gives bytes back, of which `left` were on their way out.
    pub(crate) fn give_back(&self, freed: ByType, left: ByType) {
        let mut bytes = self.bytes.lock();
        bytes.granted.minus(freed);
        bytes.leaving.minus(left);
    }

    /// Adds what a recovery found.
    pub(crate) fn found(&self, granted: ByType, leaving: ByType) {
        let mut bytes = self.bytes.lock();
        bytes.granted.plus(granted);
        bytes.leaving.plus(leaving);
    }
}

fn fits(used: u64, requested: u64, capacity: i64) -> bool {
    let capacity = u64::try_from(capacity).unwrap_or(0);
    used.checked_add(requested)
        .is_some_and(|sum| sum <= capacity && capacity > 0)
}

#[cfg(test)]
mod tests {
    use kvcm_registry::{Quota, TypeQuota};

    use super::*;

    fn group(capacity: i64, types: &[(StorageType, i64)]) -> Group {
        Group {
            name: "g".into(),
            quota: Quota {
                capacity,
                quota_config: types
                    .iter()
                    .map(|(storage_type, capacity)| TypeQuota {
                        storage_type: *storage_type,
                        capacity: *capacity,
                    })
                    .collect(),
            },
            ..Group::default()
        }
    }

    #[test]
    fn a_full_group_says_used_requested_and_capacity() {
        let usage = Usage::new("g");
        let group = group(100, &[]);
        assert_eq!(usage.take(&group, [StorageType::File], 60).unwrap(), 0);
        let error = usage.take(&group, [StorageType::File], 50).unwrap_err();
        assert_eq!(
            error.to_string(),
            "quota.capacity of instance group `g` is reached: 60 of 100 bytes used, \
             50 more requested"
        );
        assert_eq!(usage.now().total(), 60);
        usage.take(&group, [StorageType::File], 40).unwrap();
    }

    #[test]
    fn a_quota_of_zero_or_less_refuses_everything() {
        for capacity in [0, -1, i64::MIN] {
            let usage = Usage::new("g");
            let taken = usage.take(&group(capacity, &[]), [StorageType::File], 0);
            assert!(matches!(taken, Err(Error::Capacity(_))), "{taken:?}");
        }
    }

    #[test]
    fn a_full_type_is_passed_over_and_named_when_it_was_the_last() {
        use StorageType::{File, Hf3fs, VcnsHf3fs};
        let usage = Usage::new("g");
        let group = group(1000, &[(Hf3fs, 50), (File, 100)]);
        // VCNS counts as 3FS.
        assert_eq!(usage.take(&group, [VcnsHf3fs, File], 40).unwrap(), 0);
        assert_eq!(usage.take(&group, [Hf3fs, File], 40).unwrap(), 1);
        let error = usage.take(&group, [Hf3fs, File], 70).unwrap_err();
        assert!(error.to_string().contains("hf3fs"), "{error}");
        let mut freed = ByType::default();
        freed.add(Hf3fs, 40);
        usage.leave(freed);
        assert!(usage.take(&group, [Hf3fs], 50).is_err(), "still there");
        assert_eq!(usage.staying().of(Hf3fs), 0);
        usage.give_back(freed, freed);
        assert_eq!(usage.take(&group, [Hf3fs, File], 50).unwrap(), 0);
        assert_eq!((usage.both().1.total(), usage.staying().of(Hf3fs)), (0, 50));
    }
}
