//! Instance groups: placement, quota, eviction and index settings that instances share.

use serde::{Deserialize, Serialize};

use crate::{Fields, StorageType, instance::name_problem};

/// A group of instances. Field names are those of the configuration JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Names of the storages that new blocks may go to, in order of choice. They need not exist.
    pub storage_candidates: Vec<String>,
    /// Name of the quota group, for people.
    pub global_quota_group_name: String,
    /// Not enforced, as in the predecessor.
    pub max_instance_count: i64,
    /// Limits in bytes.
    pub quota: Quota,
    /// Placement, eviction and index.
    pub cache_config: CacheConfig,
    /// Free text.
    pub user_data: String,
    /// Rises with each update.
    pub version: i64,
    /// Free JSON for clients, of later versions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub extra_info: String,
    /// Storages of event reporters, of later versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event_report_storage_candidates: Vec<String>,
    /// Seconds, comma-separated, of later versions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub revisit_interval_buckets: String,
}

/// Limits of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Bytes in all; 0 or less refuses every write.
    pub capacity: i64,
    /// Bytes by kind of storage; a kind that is not named has no limit of its own.
    pub quota_config: Vec<TypeQuota>,
}

/// The limit of one kind of storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeQuota {
    /// The kind.
    pub storage_type: StorageType,
    /// Bytes.
    #[serde(default)]
    pub capacity: i64,
}

/// Placement, eviction and index of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheConfig {
    /// Eviction.
    pub reclaim_strategy: ReclaimStrategy,
    /// The number of the protocol's CachePreferStrategy (`data_storage_strategy` there).
    pub cache_prefer_strategy: i32,
    /// Index.
    pub meta_indexer_config: MetaIndexerConfig,
    /// Tiered storage, as the protocol's MigrationConfig has it in JSON: kept, unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_config: Option<serde_json::Value>,
}

/// When and how blocks are evicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReclaimStrategy {
    /// A storage; required by the protocol, unused.
    pub storage_unique_name: String,
    /// The number of the protocol's ReclaimPolicy; only LRU (1) acts.
    pub reclaim_policy: i32,
    /// When.
    pub trigger_strategy: TriggerStrategy,
    /// Unused.
    pub trigger_period_seconds: i32,
    /// Unused.
    pub reclaim_step_size: i32,
    /// Unused.
    pub reclaim_step_percentage: i32,
    /// Milliseconds between a block's end and the deletion of its bytes.
    pub delay_before_delete_ms: i32,
    /// The number of the protocol's InstanceReclaimBudgetPolicy, of later versions; none is
    /// GROUP_LRU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_reclaim_budget_policy: Option<i32>,
}

/// The watermark of eviction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TriggerStrategy {
    /// Unused.
    pub used_size: i64,
    /// Evict at this share of a limit or above; more than 1 switches eviction off.
    pub used_percentage: f64,
}

/// The index of each instance of the group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetaIndexerConfig {
    /// Most keys that an instance may hold.
    pub max_key_count: i64,
    /// Lock shards of the predecessor: checked, kept, unused.
    pub mutex_shard_num: i64,
    /// Keys per batch of the predecessor: kept, unused.
    pub batch_key_size: i64,
    /// Milliseconds between saves of the predecessor: kept, unused.
    pub persist_metadata_interval_time_ms: i64,
    /// Where the predecessor keeps the index.
    pub meta_storage_backend_config: MetaStorageBackendConfig,
    /// The predecessor's cache in front of it.
    pub meta_cache_policy_config: MetaCachePolicyConfig,
    /// Whether the predecessor locks at all, of later versions: kept, unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutex_enabled: Option<bool>,
}

/// Where the predecessor keeps the index: kept, unused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetaStorageBackendConfig {
    /// `local`, `redis`, …
    pub storage_type: String,
    /// Its URI.
    pub storage_uri: String,
}

/// The predecessor's cache in front of the index: kept, unused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetaCachePolicyConfig {
    /// `lru`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its size.
    pub capacity: i64,
    /// Logarithm of its shards.
    pub cache_shard_bits: i32,
    /// Share of its high-priority part.
    pub high_pri_pool_ratio: f64,
}

// === impl Group ===

impl Group {
    /// The limit for one kind of storage, when there is one. VCNS counts as 3FS.
    pub fn type_quota(&self, kind: StorageType) -> Option<i64> {
        let counted = |kind| match kind {
            StorageType::VcnsHf3fs => StorageType::Hf3fs,
            other => other,
        };
        let quotas = self.quota.quota_config.iter();
        let mut named = quotas.filter(|quota| counted(quota.storage_type) == counted(kind));
        named.next().map(|quota| quota.capacity)
    }

    /// Everything that is missing or cannot be, with the names of the wire under `place`.
    pub fn problems(&self, place: &str) -> Fields {
        let mut fields = Fields::default();
        let at = |field: &str| format!("{place}{field}");
        if let Some(reason) = name_problem(&self.name) {
            fields.add(at("name"), reason);
        }
        if self.storage_candidates.is_empty() {
            fields.add(at("storage_candidates"), "must name at least one storage");
        }
        for (index, name) in self.storage_candidates.iter().enumerate() {
            if let Some(reason) = name_problem(name) {
                fields.add(at(&format!("storage_candidates[{index}]")), reason);
            }
        }
        let empty = "must not be empty";
        fields.check(
            !self.global_quota_group_name.is_empty(),
            &at("global_quota_group_name"),
            empty,
        );
        let reclaim = &self.cache_config.reclaim_strategy;
        fields.check(
            !reclaim.storage_unique_name.is_empty(),
            &at("cache_config.reclaim_strategy.storage_unique_name"),
            empty,
        );
        let percentage = reclaim.trigger_strategy.used_percentage;
        fields.check(
            percentage.is_finite() && percentage >= 0.0,
            &at("cache_config.reclaim_strategy.trigger_strategy.used_percentage"),
            "must not be negative",
        );
        fields.check(
            reclaim.delay_before_delete_ms >= 0,
            &at("cache_config.reclaim_strategy.delay_before_delete_ms"),
            "must not be negative",
        );
        let strategy = self.cache_config.cache_prefer_strategy;
        fields.check(
            (1..=10).contains(&strategy),
            &at("cache_config.cache_prefer_strategy"),
            &format!("(data_storage_strategy in requests) must be from 1 to 10, is {strategy}"),
        );
        self.index_problems(&at("cache_config.meta_indexer_config."), &mut fields);
        fields
    }

    fn index_problems(&self, place: &str, fields: &mut Fields) {
        let index = &self.cache_config.meta_indexer_config;
        let (keys, shards) = (index.max_key_count, index.mutex_shard_num);
        fields.check(
            keys >= 0,
            &format!("{place}max_key_count"),
            &format!("must not be negative, is {keys}"),
        );
        // Requests that leave it out say 0.
        let is_power = shards == 0 || u64::try_from(shards).is_ok_and(u64::is_power_of_two);
        fields.check(
            is_power && (keys < 0 || shards <= keys),
            &format!("{place}mutex_shard_num"),
            &format!("must be a power of two and at most max_key_count ({keys}), is {shards}"),
        );
        fields.check(
            !index.meta_storage_backend_config.storage_type.is_empty(),
            &format!("{place}meta_storage_backend_config.storage_type"),
            "must not be empty",
        );
    }
}

// === impl defaults ===

impl Default for ReclaimStrategy {
    fn default() -> Self {
        Self {
            storage_unique_name: String::new(),
            reclaim_policy: 1,
            trigger_strategy: TriggerStrategy::default(),
            trigger_period_seconds: 0,
            reclaim_step_size: 0,
            reclaim_step_percentage: 0,
            delay_before_delete_ms: 1000,
            instance_reclaim_budget_policy: None,
        }
    }
}

impl Default for TriggerStrategy {
    fn default() -> Self {
        Self {
            used_size: 0,
            used_percentage: 0.8,
        }
    }
}

impl Default for MetaIndexerConfig {
    fn default() -> Self {
        Self {
            max_key_count: i64::MAX,
            mutex_shard_num: 16,
            batch_key_size: 16,
            persist_metadata_interval_time_ms: 1000,
            meta_storage_backend_config: MetaStorageBackendConfig::default(),
            meta_cache_policy_config: MetaCachePolicyConfig::default(),
            mutex_enabled: None,
        }
    }
}

impl Default for MetaStorageBackendConfig {
    fn default() -> Self {
        Self {
            storage_type: "local".to_owned(),
            storage_uri: String::new(),
        }
    }
}

impl Default for MetaCachePolicyConfig {
    fn default() -> Self {
        Self {
            kind: "lru".to_owned(),
            capacity: 1024,
            cache_shard_bits: 6,
            high_pri_pool_ratio: 0.0,
        }
    }
}
