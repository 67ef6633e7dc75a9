//! Storages and groups as operators change them.

use crate::common::{initialised, open, registration};
use kvcm_registry::{ErrorKind, FileSpec, Group, Registry, Storage, StorageSpec};

fn files(name: &str, root_path: &str) -> Storage {
    Storage {
        name: name.to_owned(),
        is_available: true,
        check_when_open: false,
        spec: StorageSpec::File(FileSpec {
            root_path: root_path.to_owned(),
            key_count_per_file: 1,
        }),
    }
}

async fn change_group(registry: &Registry, current: i64, new: i64) -> Result<(), ErrorKind> {
    let mut group = (*registry.group("default").unwrap()).clone();
    group.version = new;
    let updated = registry.update_group(current, group).await;
    updated.map_err(|error| error.kind())
}

#[tokio::test]
async fn adding_a_storage_that_exists_leaves_the_old_one() {
    let (journal, registry) = initialised().await;
    let old = registry.storage("nfs_01").unwrap();
    let error = registry
        .add_storage(files("nfs_01", "/new/"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Duplicate);
    registry
        .add_storage(files("nfs_02", "/new/"))
        .await
        .unwrap();
    let (registry, _) = open(&journal, 2).await;
    assert_eq!(registry.storage("nfs_01").unwrap(), old);
    assert_eq!(registry.storages().len(), 2);
}

#[tokio::test]
async fn an_update_keeps_a_storage_disabled() {
    let (journal, registry) = initialised().await;
    let set = registry.set_storage_available("nfs_01", false);
    set.await.unwrap();
    let update = registry.update_storage(files("nfs_01", "/new/"));
    update.await.unwrap();
    let (registry, _) = open(&journal, 2).await;
    let storage = registry.storage("nfs_01").unwrap();
    assert!(!storage.is_available);
    assert_eq!(storage.spec, files("", "/new/").spec);
    let group = registry.group("default").unwrap();
    let json = registry.storage_configs_json(&group, |storage| storage.is_available);
    assert!(json.contains("\"is_available\":false"), "{json}");
}

#[tokio::test]
async fn candidates_come_in_the_groups_order_without_the_missing() {
    let (_journal, registry) = initialised().await;
    registry.add_storage(files("a", "/a/")).await.unwrap();
    let group = Group {
        storage_candidates: vec!["nfs_01".into(), "gone".into(), "a".into()],
        ..(*registry.group("default").unwrap()).clone()
    };
    let storages = registry.storages_of(&group);
    let names: Vec<_> = storages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["nfs_01", "a"]);
    registry.remove_storage("nfs_01").await.unwrap();
    assert_eq!(
        registry.storage_configs_json(&group, |storage| storage.is_available),
        "[{\"type\":\"file\",\"is_available\":true,\"global_unique_name\":\"a\",\
         \"storage_spec\":{\"root_path\":\"/a/\",\"key_count_per_file\":1}}]"
    );
    let json = registry.storage_configs_json(&group, |_| false);
    assert!(json.contains("\"is_available\":false"), "{json}");
}

#[tokio::test]
async fn what_does_not_exist_is_named() {
    let (_journal, registry) = initialised().await;
    let error = registry.remove_storage("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchStorage);
    let error = registry
        .update_storage(files("x", "/x/"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchStorage);
    let error = registry.remove_group("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchGroup);
}

#[tokio::test]
async fn a_path_that_would_break_uris_is_refused() {
    let (_journal, registry) = initialised().await;
    let error = registry.add_storage(files("x", "/a?b/")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "missing or invalid fields: {storage_spec.root_path} (storage_spec.root_path must not \
         hold `?`, `#` or control characters, it is part of URIs)"
    );
    let error = registry
        .add_storage(files("x", "relative/"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("must begin with `/`"), "{error}");
}

#[tokio::test]
async fn a_group_update_needs_the_stored_version_and_a_larger_one() {
    let (_journal, registry) = initialised().await;
    let conflict = Err(ErrorKind::VersionConflict);
    assert_eq!(change_group(&registry, 0, 2).await, conflict);
    assert_eq!(change_group(&registry, 1, 1).await, conflict);
    assert_eq!(change_group(&registry, 1, 2).await, Ok(()));
    assert_eq!(change_group(&registry, 1, 3).await, conflict);
    assert_eq!(registry.group("default").unwrap().version, 2);
}

#[tokio::test]
async fn a_group_with_bad_index_settings_is_never_stored() {
    let (_journal, registry) = initialised().await;
    let mut group = (*registry.group("default").unwrap()).clone();
    group.name = "bad".to_owned();
    group.cache_config.meta_indexer_config.mutex_shard_num = 15;
    let error = registry.create_group(group).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("mutex_shard_num"), "{error}");
    assert!(registry.group("bad").is_none());
}

#[tokio::test]
async fn removing_a_group_takes_its_instances_along_in_one_step() {
    let (journal, registry) = initialised().await;
    let other = Group {
        name: "other".to_owned(),
        ..(*registry.group("default").unwrap()).clone()
    };
    registry.create_group(other).await.unwrap();
    for id in ["i1", "i2"] {
        registry.register_instance(registration(id)).await.unwrap();
    }
    let mut kept = registration("kept");
    kept.group = "other".to_owned();
    registry.register_instance(kept).await.unwrap();
    let removed = registry.remove_group("default").await.unwrap();
    assert_eq!(removed.len(), 2);
    let (registry, recovery) = open(&journal, 2).await;
    assert!(recovery.skipped.is_empty());
    assert_eq!(registry.instances().len(), 1);
    assert!(registry.group("default").is_none());
}
