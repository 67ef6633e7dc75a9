//! How much is too much.

use kvcm_registry::{Group, StorageType};

/// The mark of a group: a share of each of its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark(f64);

/// The protocol's number of the policy that evicts what was not used for longest. The others have
/// no effect, as in the predecessor.
const LRU: i32 = 1;

impl Mark {
    /// That of a group; none when it evicts nothing.
    pub(super) fn of(group: &Group) -> Option<Self> {
        let reclaim = &group.cache_config.reclaim_strategy;
        let share = reclaim.trigger_strategy.used_percentage;
        (reclaim.reclaim_policy == LRU && (0.0..=1.0).contains(&share)).then_some(Self(share))
    }

    /// How much has to go so that `used` is below the mark of `limit`: used to the mark is too
    /// much. A limit of 0 or less empties.
    pub(super) fn excess(self, used: u64, limit: i64) -> u64 {
        let limit = u64::try_from(limit).unwrap_or(0);
        // A limit too large for exact numbers is off by less than one part in 10^15.
        let first_too_much = (self.0 * limit as f64).ceil() as u64;
        used.saturating_sub(first_too_much.saturating_sub(1))
    }
}

/// The kinds of storage that have a quota of their own, with it. VCNS counts as 3FS.
pub(super) fn type_quotas(group: &Group) -> Vec<(StorageType, i64)> {
    let mut quotas: Vec<(StorageType, i64)> = Vec::new();
    for quota in &group.quota.quota_config {
        let kind = match quota.storage_type {
            StorageType::VcnsHf3fs => StorageType::Hf3fs,
            kind => kind,
        };
        if !quotas.iter().any(|(known, _)| *known == kind) {
            quotas.push((kind, quota.capacity));
        }
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(policy: i32, share: f64) -> Option<Mark> {
        let mut group = Group::default();
        let reclaim = &mut group.cache_config.reclaim_strategy;
        reclaim.reclaim_policy = policy;
        reclaim.trigger_strategy.used_percentage = share;
        Mark::of(&group)
    }

    #[test]
    fn used_to_the_mark_is_too_much_and_just_below_it_is_not() {
        let excess = |share, used, limit| mark(1, share).unwrap().excess(used, limit);
        assert_eq!(excess(0.1, 16, 16), 15, "the mark is 1.6 keys");
        assert_eq!(excess(0.5, 8, 16), 1);
        assert_eq!(excess(0.5, 7, 16), 0);
        assert_eq!(excess(0.8, 80, 100), 1);
        assert_eq!(excess(0.8, 79, 100), 0);
        assert_eq!(excess(1.0, 100, 100), 1);
        assert_eq!(excess(1.0, 99, 100), 0);
        assert_eq!(excess(0.0, 3, 100), 3);
        assert_eq!(excess(0.8, 3, 0), 3);
        assert_eq!(excess(0.8, 3, -1), 3);
        assert_eq!(excess(0.0, 0, 0), 0);
        assert_eq!(excess(0.8, 1 << 40, i64::MAX), 0);
    }

    #[test]
    fn above_one_or_with_another_policy_nothing_is_evicted() {
        assert_eq!(mark(1, 3.2), None);
        assert_eq!(mark(1, 1.000_001), None);
        for policy in [0, 2, 3, 77] {
            assert_eq!(mark(policy, 0.5), None);
        }
        assert_eq!(mark(1, 1.0), Some(Mark(1.0)));
    }
}
