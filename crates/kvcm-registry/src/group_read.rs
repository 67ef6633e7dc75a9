//! A group out of the configuration JSON.

use std::cell::RefCell;

use serde_json::Value;

use crate::{
    CacheConfig, Group, MetaCachePolicyConfig, MetaIndexerConfig, MetaStorageBackendConfig, Quota,
    ReclaimStrategy, TriggerStrategy, TypeQuota,
    reader::{Notes, Reader},
};

/// The placement of a group that does not say: prefer 3FS, as in the built-in configuration.
pub(crate) const PREFER_3FS: i32 = 2;

/// Reads a group.
pub(crate) fn group(reader: &mut Reader<'_>) -> Group {
    reader.require("quota", "a group without capacity refuses every write");
    Group {
        name: reader.text("name", ""),
        storage_candidates: texts(reader, "storage_candidates"),
        global_quota_group_name: reader.text("global_quota_group_name", "default_quota_group"),
        max_instance_count: reader.int("max_instance_count", 0),
        quota: reader.object("quota", quota).unwrap_or_default(),
        cache_config: reader
            .object("cache_config", cache)
            .unwrap_or_else(|| CacheConfig {
                cache_prefer_strategy: PREFER_3FS,
                ..CacheConfig::default()
            }),
        user_data: reader.text("user_data", ""),
        version: reader.int("version", 1),
        extra_info: reader.text("extra_info", ""),
        event_report_storage_candidates: texts(reader, "event_report_storage_candidates"),
        revisit_interval_buckets: reader.text("revisit_interval_buckets", ""),
    }
}

fn texts(reader: &mut Reader<'_>, name: &'static str) -> Vec<String> {
    let mut texts = Vec::new();
    for (place, item) in reader.list(name) {
        match item {
            Value::String(text) => texts.push(text.clone()),
            other => reader.mistake(format!("`{place}` is {other}, expected a text")),
        }
    }
    texts
}

fn quota(reader: &mut Reader<'_>) -> Quota {
    reader.require("capacity", "a group without capacity refuses every write");
    let notes = reader.notes();
    let items = reader.list("quota_config");
    Quota {
        capacity: reader.int("capacity", 0),
        quota_config: items
            .into_iter()
            .filter_map(|(place, item)| type_quota(&place, item, notes))
            .collect(),
    }
}

fn type_quota<'a>(place: &str, item: &'a Value, notes: &'a RefCell<Notes>) -> Option<TypeQuota> {
    Reader::read(place, item, notes, |reader| {
        reader.require("storage_type", "which kind of storage it limits");
        let text = reader.text("storage_type", "");
        let capacity = reader.int("capacity", 0);
        match text.parse() {
            Ok(storage_type) => Some(TypeQuota {
                storage_type,
                capacity,
            }),
            Err(_) if text.is_empty() => None,
            Err(reason) => {
                reader.mistake(format!("`{}`: {reason}", reader.place_of("storage_type")));
                None
            }
        }
    })
    .flatten()
}

fn cache(reader: &mut Reader<'_>) -> CacheConfig {
    CacheConfig {
        reclaim_strategy: reader
            .object("reclaim_strategy", reclaim)
            .unwrap_or_default(),
        cache_prefer_strategy: reader.int("cache_prefer_strategy", PREFER_3FS),
        meta_indexer_config: reader
            .object("meta_indexer_config", index)
            .unwrap_or_default(),
        migration_config: reader.raw("migration_config"),
    }
}

fn reclaim(reader: &mut Reader<'_>) -> ReclaimStrategy {
    let default = ReclaimStrategy::default();
    ReclaimStrategy {
        storage_unique_name: reader.text("storage_unique_name", ""),
        reclaim_policy: reader.int("reclaim_policy", default.reclaim_policy),
        trigger_strategy: reader
            .object("trigger_strategy", |reader| TriggerStrategy {
                used_size: reader.int("used_size", 0),
                used_percentage: reader
                    .float("used_percentage", default.trigger_strategy.used_percentage),
            })
            .unwrap_or_default(),
        trigger_period_seconds: reader.int("trigger_period_seconds", 0),
        reclaim_step_size: reader.int("reclaim_step_size", 0),
        reclaim_step_percentage: reader.int("reclaim_step_percentage", 0),
        delay_before_delete_ms: reader
            .int("delay_before_delete_ms", default.delay_before_delete_ms),
        instance_reclaim_budget_policy: reader.optional_int("instance_reclaim_budget_policy"),
    }
}

fn index(reader: &mut Reader<'_>) -> MetaIndexerConfig {
    let default = MetaIndexerConfig::default();
    let keys: u64 = reader.int("max_key_count", u64::MAX);
    MetaIndexerConfig {
        // The predecessor's default is the largest unsigned number.
        max_key_count: i64::try_from(keys).unwrap_or(i64::MAX),
        mutex_shard_num: reader.int("mutex_shard_num", default.mutex_shard_num),
        batch_key_size: reader.int("batch_key_size", default.batch_key_size),
        persist_metadata_interval_time_ms: reader.int(
            "persist_metadata_interval_time_ms",
            default.persist_metadata_interval_time_ms,
        ),
        meta_storage_backend_config: reader
            .object("meta_storage_backend_config", |reader| {
                MetaStorageBackendConfig {
                    storage_type: reader.text("storage_type", "local"),
                    storage_uri: reader.text("storage_uri", ""),
                }
            })
            .unwrap_or_default(),
        meta_cache_policy_config: reader
            .object("meta_cache_policy_config", cache_policy)
            .unwrap_or_default(),
        mutex_enabled: reader.optional_flag("mutex_enabled"),
    }
}

fn cache_policy(reader: &mut Reader<'_>) -> MetaCachePolicyConfig {
    let default = MetaCachePolicyConfig::default();
    MetaCachePolicyConfig {
        kind: reader.text("type", &default.kind),
        capacity: reader.int("capacity", default.capacity),
        cache_shard_bits: reader.int("cache_shard_bits", default.cache_shard_bits),
        high_pri_pool_ratio: reader.float("high_pri_pool_ratio", default.high_pri_pool_ratio),
    }
}
