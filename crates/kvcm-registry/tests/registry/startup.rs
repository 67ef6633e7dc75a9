//! The startup configuration: its text, its defaults, and when it applies.

use crate::common::{initialised, open};
use kvcm_registry::{Applied, FileSpec, StartupConfig, StorageSpec, StorageType};
use serde_json::{Value, json};

fn text() -> Value {
    json!({
        "storage_config": {
            "type": "file",
            "global_unique_name": "nfs_01",
            "storage_spec": {"root_path": "/data/"}
        },
        "instance_group": {
            "name": "g",
            "storage_candidates": ["nfs_01"],
            "quota": {"capacity": 1000, "quota_config": [
                {"storage_type": "vcns_hf3fs", "capacity": 5}
            ]},
            "cache_config": {
                "reclaim_strategy": {"trigger_strategy": {"used_percentage": 3.2}},
                "meta_indexer_config": {"max_key_count": 18_446_744_073_709_551_615u64}
            }
        }
    })
}

fn mistakes(value: &Value) -> Vec<String> {
    StartupConfig::parse(&value.to_string()).unwrap_err().0
}

#[test]
fn the_built_in_configuration_is_valid_and_survives_its_own_text() {
    let config = StartupConfig::default();
    assert_eq!(config.storage.problems("").0, []);
    assert_eq!(config.group.problems("").0, []);
    let text = json!({"storage_config": config.storage, "instance_group": config.group});
    assert_eq!(StartupConfig::parse(&text.to_string()), Ok(config));
}

#[test]
fn the_built_in_configuration_is_that_of_the_predecessor() {
    let StartupConfig { storage, group, .. } = StartupConfig::default();
    let storage = serde_json::to_string(&[storage]).unwrap();
    assert_eq!(
        storage,
        "[{\"type\":\"file\",\"is_available\":true,\"global_unique_name\":\"nfs_01\",\
         \"storage_spec\":{\"root_path\":\"/tmp/nfs/\",\"key_count_per_file\":8}}]"
    );
    assert_eq!(
        (group.name.as_str(), group.quota.capacity),
        ("default", 30_000_000_000)
    );
    assert_eq!(
        group.type_quota(StorageType::VcnsHf3fs),
        Some(10_000_000_000)
    );
    assert_eq!(group.type_quota(StorageType::Mooncake), None);
    assert_eq!(
        group.cache_config.meta_indexer_config.max_key_count,
        1_000_000
    );
    assert_eq!(group.cache_config.cache_prefer_strategy, 2);
}

#[test]
fn members_that_are_left_out_have_defaults() {
    let config = StartupConfig::parse(&text().to_string()).unwrap();
    assert!(config.storage.is_available && config.warnings.is_empty());
    assert_eq!(
        config.storage.spec,
        StorageSpec::File(FileSpec {
            root_path: "/data/".to_owned(),
            key_count_per_file: 1
        })
    );
    let cache = &config.group.cache_config;
    assert_eq!(cache.reclaim_strategy.trigger_strategy.used_percentage, 3.2);
    assert_eq!(cache.reclaim_strategy.delay_before_delete_ms, 1000);
    assert_eq!(cache.reclaim_strategy.storage_unique_name, "nfs_01");
    assert_eq!(cache.meta_indexer_config.max_key_count, i64::MAX);
    assert_eq!(cache.meta_indexer_config.mutex_shard_num, 16);
    assert_eq!(config.group.type_quota(StorageType::Hf3fs), Some(5));
}

#[test]
fn every_mistake_is_listed_with_its_place() {
    let mut value = text();
    value["storage_config"]["is_available"] = json!(1);
    value["storage_config"]["storage_spec"] = json!({"root_path": ""});
    value["instance_group"]["name"] = json!(null);
    value["instance_group"]["storage_candidates"] = json!(["nfs_01", 3]);
    value["instance_group"]["quota"]["capacity"] = json!("1000");
    value["instance_group"]["quota"]["quota_config"][0]["storage_type"] = json!("nfs");
    value["instance_group"]["cache_config"]["meta_indexer_config"] = json!({"mutex_shard_num": 15});
    assert_eq!(
        mistakes(&value),
        [
            "`storage_config.is_available` is 1, expected true or false",
            "`instance_group.storage_candidates[1]` is 3, expected a text",
            "`instance_group.quota.capacity` is \"1000\", expected a whole number of 64 bits, not \
             in quotes",
            "`instance_group.quota.quota_config[0].storage_type`: `nfs` is not a storage type \
             (file, hf3fs, vcns_hf3fs, mooncake, pace, pace_ssd)",
            "`storage_config.storage_spec.root_path` must not be empty",
            "`instance_group.name` must not be empty",
            "`instance_group.cache_config.meta_indexer_config.mutex_shard_num` must be a power of \
             two and at most max_key_count (9223372036854775807), is 15",
        ]
    );
}

#[test]
fn texts_that_are_no_configuration_are_refused() {
    let refused = |text: &str| StartupConfig::parse(text).unwrap_err().to_string();
    assert!(refused("{").starts_with("it is not JSON: "));
    assert_eq!(refused("[]"), "`the text` is a list, expected an object");
    assert_eq!(
        refused("{}"),
        "`storage_config` is missing: the first storage; `instance_group` is missing: the first \
         group"
    );
    let mut value = text();
    value["storage_config"]["type"] = json!("floppy");
    assert!(
        mistakes(&value)[0].starts_with("`storage_config.type`: `floppy` is not a storage type")
    );
}

#[test]
fn what_is_odd_is_warned_about() {
    let mut value = text();
    value["storage_conf"] = json!({});
    value["storage_config"]["storage_spec"]["root_pth"] = json!("x");
    value["instance_group"]["quota"]["capacity"] = json!(0);
    value["instance_group"]["storage_candidates"] = json!(["nfs_01", "nfs_02"]);
    let config = StartupConfig::parse(&value.to_string()).unwrap();
    assert_eq!(
        config.warnings,
        [
            "unknown member `storage_config.storage_spec.root_pth` is ignored; did you mean \
             `root_path`?",
            "unknown member `storage_conf` is ignored; did you mean `storage_config`?",
            "`instance_group.quota.capacity` is 0: the group refuses every write",
            "`instance_group.storage_candidates` names `nfs_02`, which `storage_config` does not \
             describe: it is skipped until it is added",
        ]
    );
}

#[tokio::test]
async fn it_applies_once_and_never_over_an_operators_change() {
    let (journal, registry) = initialised().await;
    registry.remove_group("default").await.unwrap();
    let mut storage = (*registry.storage("nfs_01").unwrap()).clone();
    storage.spec = StorageSpec::File(FileSpec {
        root_path: "/elsewhere/".to_owned(),
        key_count_per_file: 1,
    });
    registry.update_storage(storage.clone()).await.unwrap();
    let (registry, _) = open(&journal, 2).await;
    let config = StartupConfig::default();
    let applied = registry.apply_startup_config(&config).await.unwrap();
    assert_eq!(applied, Applied::AlreadyInitialised);
    assert!(registry.group("default").is_none());
    assert_eq!(*registry.storage("nfs_01").unwrap(), storage);
}
