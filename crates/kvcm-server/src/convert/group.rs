//! Instance groups.

use kvcm_proto::{admin, json};
use kvcm_registry::{
    CacheConfig, Group, MetaCachePolicyConfig, MetaIndexerConfig, MetaStorageBackendConfig, Quota,
    ReclaimStrategy, StorageType, TriggerStrategy, TypeQuota,
};

use crate::reply::{CallError, Code};

/// A group as the registry takes it, which checks it.
///
/// # Errors
/// No group, or a limit for a kind of storage that there is not.
pub(crate) fn group(group: Option<admin::InstanceGroup>) -> Result<Group, CallError> {
    let group = group.ok_or_else(|| CallError::missing(&["instance_group"]))?;
    Ok(Group {
        name: group.name,
        storage_candidates: group.storage_candidates,
        global_quota_group_name: group.global_quota_group_name,
        max_instance_count: group.max_instance_count,
        quota: quota(group.quota.unwrap_or_default())?,
        cache_config: cache_config(group.cache_config.unwrap_or_default())?,
        user_data: group.user_data,
        version: group.version,
        extra_info: group.extra_info.unwrap_or_default(),
        event_report_storage_candidates: group.event_report_storage_candidates,
        revisit_interval_buckets: group.revisit_interval_buckets.unwrap_or_default(),
    })
}

fn quota(quota: admin::InstanceGroupQuota) -> Result<Quota, CallError> {
    let mut limits = Vec::with_capacity(quota.quota_config.len());
    for (index, limit) in quota.quota_config.iter().enumerate() {
        let storage_type = StorageType::from_number(limit.storage_type).ok_or_else(|| {
            let field = format!("instance_group.quota.quota_config[{index}].storage_type");
            let known = StorageType::ALL.map(|kind| format!("{} {kind}", kind.number()));
            let message = format!(
                "missing or invalid fields: {{{field}}}: {} is no kind of storage that holds \
                 bytes ({})",
                limit.storage_type,
                known.join(", ")
            );
            CallError::new(Code::InvalidArgument, message)
        })?;
        limits.push(TypeQuota {
            storage_type,
            capacity: limit.capacity,
        });
    }
    Ok(Quota {
        capacity: quota.capacity,
        quota_config: limits,
    })
}

fn cache_config(config: admin::CacheConfig) -> Result<CacheConfig, CallError> {
    let reclaim = config.reclaim_strategy.unwrap_or_default();
    let index = config.meta_indexer_config.unwrap_or_default();
    let backend = index.meta_storage_backend_config.unwrap_or_default();
    let policy = index.meta_cache_policy_config;
    let defaults = MetaIndexerConfig::default();
    let migration = config.migration_config.map(|migration| {
        let json = json::to_json(&migration).map_err(|error| error.to_string())?;
        serde_json::from_slice(&json).map_err(|error| error.to_string())
    });
    let migration_config = migration
        .transpose()
        .map_err(|error: String| CallError::new(Code::Internal, error))?;
    Ok(CacheConfig {
        reclaim_strategy: ReclaimStrategy {
            storage_unique_name: reclaim.storage_unique_name,
            reclaim_policy: reclaim.reclaim_policy,
            trigger_strategy: reclaim.trigger_strategy.map_or_else(
                TriggerStrategy::default,
                |trigger| TriggerStrategy {
                    used_size: trigger.used_size,
                    used_percentage: trigger.used_percentage,
                },
            ),
            trigger_period_seconds: reclaim.trigger_period_seconds,
            reclaim_step_size: reclaim.reclaim_step_size,
            reclaim_step_percentage: reclaim.reclaim_step_percentage,
            delay_before_delete_ms: reclaim.delay_before_delete_ms,
            instance_reclaim_budget_policy: reclaim.instance_reclaim_budget_policy,
        },
        cache_prefer_strategy: config.data_storage_strategy,
        meta_indexer_config: MetaIndexerConfig {
            max_key_count: index.max_key_count,
            mutex_shard_num: index.mutex_shard_num,
            batch_key_size: index.batch_key_size,
            persist_metadata_interval_time_ms: index
                .persist_metadata_interval_time_ms
                .unwrap_or(defaults.persist_metadata_interval_time_ms),
            meta_storage_backend_config: MetaStorageBackendConfig {
                storage_type: backend.storage_type,
                storage_uri: backend.storage_uri,
            },
            meta_cache_policy_config: policy.map_or(defaults.meta_cache_policy_config, |policy| {
                MetaCachePolicyConfig {
                    kind: policy.r#type,
                    capacity: policy.capacity,
                    cache_shard_bits: policy.cache_shard_bits,
                    high_pri_pool_ratio: policy.high_pri_pool_ratio,
                }
            }),
            mutex_enabled: index.mutex_enabled,
        },
        migration_config,
    })
}

/// A group as the protocol shows it. What newer versions of the protocol added is there only when
/// it says something.
pub(crate) fn instance_group(group: &Group) -> admin::InstanceGroup {
    let limits = group.quota.quota_config.iter();
    admin::InstanceGroup {
        name: group.name.clone(),
        storage_candidates: group.storage_candidates.clone(),
        global_quota_group_name: group.global_quota_group_name.clone(),
        max_instance_count: group.max_instance_count,
        quota: Some(admin::InstanceGroupQuota {
            capacity: group.quota.capacity,
            quota_config: limits
                .map(|limit| admin::QuotaConfig {
                    storage_type: limit.storage_type.number(),
                    capacity: limit.capacity,
                })
                .collect(),
        }),
        cache_config: Some(shown_cache_config(&group.cache_config)),
        user_data: group.user_data.clone(),
        version: group.version,
        extra_info: said(&group.extra_info),
        event_report_storage_candidates: group.event_report_storage_candidates.clone(),
        revisit_interval_buckets: said(&group.revisit_interval_buckets),
    }
}

fn shown_cache_config(config: &CacheConfig) -> admin::CacheConfig {
    let reclaim = &config.reclaim_strategy;
    let trigger = &reclaim.trigger_strategy;
    let index = &config.meta_indexer_config;
    let (backend, policy) = (
        &index.meta_storage_backend_config,
        &index.meta_cache_policy_config,
    );
    let interval = index.persist_metadata_interval_time_ms;
    let default_interval = MetaIndexerConfig::default().persist_metadata_interval_time_ms;
    // It was written by this program, from a message of this kind.
    let migration = config.migration_config.as_ref();
    let migration = migration.and_then(|value| json::from_json(value.to_string().as_bytes()).ok());
    admin::CacheConfig {
        reclaim_strategy: Some(admin::CacheReclaimStrategy {
            storage_unique_name: reclaim.storage_unique_name.clone(),
            reclaim_policy: reclaim.reclaim_policy,
            trigger_strategy: Some(admin::TriggerStrategy {
                used_size: trigger.used_size,
                used_percentage: trigger.used_percentage,
            }),
            trigger_period_seconds: reclaim.trigger_period_seconds,
            reclaim_step_size: reclaim.reclaim_step_size,
            reclaim_step_percentage: reclaim.reclaim_step_percentage,
            delay_before_delete_ms: reclaim.delay_before_delete_ms,
            instance_reclaim_budget_policy: reclaim.instance_reclaim_budget_policy,
        }),
        data_storage_strategy: config.cache_prefer_strategy,
        meta_indexer_config: Some(admin::MetaIndexerConfig {
            max_key_count: index.max_key_count,
            mutex_shard_num: index.mutex_shard_num,
            batch_key_size: index.batch_key_size,
            meta_storage_backend_config: Some(admin::MetaStorageBackendConfig {
                storage_type: backend.storage_type.clone(),
                storage_uri: backend.storage_uri.clone(),
            }),
            meta_cache_policy_config: Some(admin::MetaCachePolicyConfig {
                capacity: policy.capacity,
                r#type: policy.kind.clone(),
                cache_shard_bits: policy.cache_shard_bits,
                high_pri_pool_ratio: policy.high_pri_pool_ratio,
            }),
            persist_metadata_interval_time_ms: Some(interval).filter(|ms| *ms != default_interval),
            mutex_enabled: index.mutex_enabled,
        }),
        migration_config: migration,
    }
}

fn said(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a request can say, so that nothing is lost on the way.
    fn full() -> admin::InstanceGroup {
        let text = r#"{
            "name":"g","storage_candidates":["a","b"],"global_quota_group_name":"q",
            "max_instance_count":"3",
            "quota":{"capacity":"-1","quota_config":[
                {"storage_type":"ST_NFS","capacity":"5"},
                {"storage_type":"ST_TAIRMEMPOOL_SSD","capacity":"6"}]},
            "cache_config":{
                "reclaim_strategy":{"storage_unique_name":"a","reclaim_policy":"POLICY_LFU",
                    "trigger_strategy":{"used_size":"1","used_percentage":3.2},
                    "trigger_period_seconds":2,"reclaim_step_size":3,"reclaim_step_percentage":4,
                    "delay_before_delete_ms":5,"instance_reclaim_budget_policy":"USAGE_PROPORTIONAL"},
                "data_storage_strategy":"CPS_PREFER_TAIR_MEMPOOL_SSD",
                "meta_indexer_config":{"max_key_count":"16","mutex_shard_num":"8",
                    "batch_key_size":"4",
                    "meta_storage_backend_config":{"storage_type":"redis","storage_uri":"redis://h"},
                    "meta_cache_policy_config":{"capacity":"1","type":"lru","cache_shard_bits":2,
                        "high_pri_pool_ratio":0.5},
                    "persist_metadata_interval_time_ms":"7","mutex_enabled":false},
                "migration_config":{"strategies":[{"source_storage_name":"a",
                    "target_storage_name":"b","trigger_threshold":0.5,
                    "method_configs":{"copy":{"enabled":true},"mark":{"enabled":true,"timeout_ms":"8"}},
                    "retention":"MIGRATION_RETENTION_KEEP_BOTH"}],
                    "copy_max_concurrency":2,
                    "mark_clear_policy":"MIGRATION_MARK_CLEAR_ON_FULL_BLOCK_COVERED"}},
            "user_data":"u","version":"9","extra_info":"{}",
            "event_report_storage_candidates":["e"],"revisit_interval_buckets":"1,2"}"#;
        json::from_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_group_comes_back_as_it_was_sent() {
        let stored = group(Some(full())).unwrap();
        assert_eq!(instance_group(&stored), full());
        // And through the registry's own form.
        let text = serde_json::to_string(&stored).unwrap();
        let stored: Group = serde_json::from_str(&text).unwrap();
        assert_eq!(instance_group(&stored), full());
    }

    #[test]
    fn what_is_left_out_has_the_defaults_that_apply() {
        let stored = group(Some(admin::InstanceGroup::default())).unwrap();
        let reclaim = &stored.cache_config.reclaim_strategy;
        assert_eq!(reclaim.trigger_strategy.used_percentage, 0.8);
        let shown = instance_group(&stored);
        assert_eq!(shown.extra_info, None);
        assert_eq!(group(Some(shown)).unwrap(), stored);
        assert!(
            group(None)
                .unwrap_err()
                .message
                .contains("{instance_group}")
        );
    }

    #[test]
    fn a_limit_for_no_kind_of_storage_is_refused() {
        let mut wanted = full();
        wanted.quota.as_mut().unwrap().quota_config[1].storage_type = 263;
        let error = group(Some(wanted)).unwrap_err();
        assert!(
            error.message.contains("quota_config[1].storage_type}: 263"),
            "{error:?}"
        );
    }
}
