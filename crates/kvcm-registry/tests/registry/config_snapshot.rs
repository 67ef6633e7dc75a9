//! The whole registry as a text, and back.

use kvcm_journal::MemoryJournal;
use kvcm_registry::{
    Account, ErrorKind, FileSpec, Group, PasswordHash, Registry, Role, Storage, StorageSpec,
};
use serde_json::{Value, json};

use crate::common::{initialised, open, registration};

/// A registry with two of everything.
async fn full() -> (MemoryJournal, Registry) {
    let (journal, registry) = initialised().await;
    let storage = Storage {
        name: "nfs_02".to_owned(),
        is_available: false,
        check_when_open: true,
        spec: StorageSpec::File(FileSpec {
            root_path: "/b/".to_owned(),
            key_count_per_file: 1,
        }),
    };
    registry.add_storage(storage).await.unwrap();
    let mut group = Group {
        name: "other".to_owned(),
        extra_info: "{\"a\":1}".to_owned(),
        ..(*registry.group("default").unwrap()).clone()
    };
    group.cache_config.migration_config = Some(json!({"strategies": []}));
    registry.create_group(group).await.unwrap();
    for (id, group) in [("i1", "default"), ("i2", "other")] {
        let mut wanted = registration(id);
        wanted.group = group.to_owned();
        registry.register_instance(wanted).await.unwrap();
    }
    let account = Account {
        user_name: "ops".to_owned(),
        role: Role::Admin,
        password: Some(PasswordHash::of("s3cret").unwrap()),
    };
    registry.add_account(account).await.unwrap();
    (journal, registry)
}

/// The snapshot with one thing changed.
fn changed(registry: &Registry, change: impl FnOnce(&mut Value)) -> String {
    let mut value = serde_json::from_str(&registry.config_snapshot()).unwrap();
    change(&mut value);
    value.to_string()
}

#[tokio::test]
async fn a_snapshot_brings_everything_but_passwords_to_another_registry() {
    let (_journal, from) = full().await;
    let text = from.config_snapshot();
    assert!(!text.contains("argon2"), "{text}");
    let journal = MemoryJournal::new("registry");
    let (to, _) = open(&journal, 1).await;
    let loaded = to.load_config_snapshot(&text).await.unwrap();
    assert_eq!(loaded.dropped, [""; 0]);
    assert_eq!(loaded.without_password, ["ops"]);
    assert_eq!(to.config_snapshot(), text);
    assert!(to.is_initialised());
    let (again, _) = open(&journal, 2).await;
    assert_eq!(again.config_snapshot(), text);
    // Nobody can log in with it until it is added again, which may happen.
    assert_eq!(again.account("ops").unwrap().password, None);
    let account = (*from.account("ops").unwrap()).clone();
    again.add_account(account.clone()).await.unwrap();
    assert_eq!(*again.account("ops").unwrap(), account);
}

#[tokio::test]
async fn loading_replaces_everything_and_keeps_the_passwords_of_accounts_that_stay() {
    let (_journal, registry) = full().await;
    let before = registry.account("ops").unwrap();
    let text = changed(&registry, |snapshot| {
        snapshot["storages"].as_array_mut().unwrap().remove(1);
        snapshot["instances"].as_array_mut().unwrap().remove(1);
        snapshot["instance_groups"]
            .as_array_mut()
            .unwrap()
            .remove(1);
        snapshot["instances"][0]["block_size"] = json!(64);
        snapshot["accounts"][0]["role"] = json!("user");
    });
    let loaded = registry.load_config_snapshot(&text).await.unwrap();
    assert_eq!(loaded.dropped, ["i2", "i1"]);
    assert_eq!(loaded.without_password, [""; 0]);
    assert!(registry.storage("nfs_02").is_none() && registry.group("other").is_none());
    assert_eq!(registry.instance("i1").unwrap().block_size, 64);
    let account = registry.account("ops").unwrap();
    assert_eq!(
        (account.role, &account.password),
        (Role::User, &before.password)
    );
    let text = changed(&registry, |snapshot| {
        snapshot.as_object_mut().unwrap().remove("accounts");
    });
    registry.load_config_snapshot(&text).await.unwrap();
    assert_eq!(
        registry.accounts().len(),
        1,
        "a text without accounts removed some"
    );
    let text = changed(&registry, |snapshot| snapshot["accounts"] = json!([]));
    registry.load_config_snapshot(&text).await.unwrap();
    assert_eq!(registry.accounts().len(), 0);
}

#[tokio::test]
async fn the_same_again_writes_nothing() {
    let (journal, registry) = full().await;
    let text = registry.config_snapshot();
    registry.load_config_snapshot(&text).await.unwrap();
    let (_, first) = open(&journal, 2).await;
    let (_, second) = open(&journal, 3).await;
    assert_eq!(first.journal, second.journal);
    assert_eq!(first.journal.records, 6, "{first:?}");
}

#[tokio::test]
async fn every_mistake_is_named_and_nothing_changes() {
    type Change = fn(&mut Value);
    let (_journal, registry) = full().await;
    let before = registry.config_snapshot();
    let cases: [(Change, &str); 16] = [
        (|s| s["format"] = json!("other"), "`format` is `other`"),
        (|s| s["version"] = json!(2), "`version` is 2"),
        (|s| s["version"] = Value::Null, "`version` is missing"),
        (|s| s["storages"] = Value::Null, "`storages` is missing"),
        (
            |s| s["instances"] = json!({}),
            "`instances` is an object, expected a list",
        ),
        (
            |s| s["storage"] = json!([]),
            "unknown member `storage` is ignored; did you mean",
        ),
        (
            |s| s["storages"][0]["storage_spec"] = json!({"root_path": ""}),
            "`storages[0].storage_spec.root_path` must not be empty",
        ),
        (
            |s| s["storages"][0]["type"] = json!("dummy"),
            "`dummy` is not a storage type",
        ),
        (
            |s| s["storages"][1]["global_unique_name"] = json!("nfs_01"),
            "`storages[1]` repeats",
        ),
        (
            |s| s["instance_groups"][0]["quota"]["capcity"] = json!(1),
            "did you mean `capacity`",
        ),
        (
            |s| {
                s["instance_groups"][0]["cache_config"]["meta_indexer_config"]["mutex_shard_num"] =
                    json!(15)
            },
            "mutex_shard_num` must be a power of two",
        ),
        (
            |s| s["instance_groups"][0]["name"] = json!("gone"),
            "`instances[0].instance_group_name` is `default`",
        ),
        (
            |s| s["instances"][1]["block_size"] = json!(0),
            "`instances[1].block_size` must be positive",
        ),
        (
            |s| s["instances"][1]["instance_id"] = json!(7),
            "`instances[1]`: invalid type",
        ),
        (
            |s| s["instances"][1]["instance_id"] = json!("i1"),
            "`instances[1]` repeats `i1`",
        ),
        (
            |s| s["accounts"][0]["role"] = json!("root"),
            "`accounts[0].role`: unknown variant `root`",
        ),
    ];
    for (change, expected) in cases {
        let text = changed(&registry, change);
        let error = registry.load_config_snapshot(&text).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert_eq!(registry.config_snapshot(), before, "{expected}");
    }
    for text in ["", "{", "[]", "null"] {
        let error = registry.load_config_snapshot(text).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}: {error}");
    }
    let two = changed(&registry, |snapshot| {
        snapshot["version"] = json!(0);
        snapshot["storages"][0]["is_available"] = json!("yes");
    });
    let error = registry.load_config_snapshot(&two).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("version") && text.contains("is_available"),
        "{text}"
    );
}
