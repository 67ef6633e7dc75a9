//! Registering, finding and removing instances.

use crate::common::{initialised, open, registration};
use kvcm_registry::{Error, ErrorKind, Group, Registration, Registry};

/// A field and a change that makes it differ or invalid.
type Change = (&'static str, fn(&mut Registration));

async fn refused(registry: &Registry, change: impl FnOnce(&mut Registration)) -> Error {
    let mut wanted = registration("i1");
    change(&mut wanted);
    registry.register_instance(wanted).await.unwrap_err()
}

#[tokio::test]
async fn a_registered_instance_is_found_now_and_in_the_next_reign() {
    let (journal, registry) = initialised().await;
    let registered = registry
        .register_instance(registration("i1"))
        .await
        .unwrap();
    assert!(registered.is_new);
    let instance = registry.instance("i1").unwrap();
    assert_eq!(instance, registered.instance);
    assert_eq!(instance.quota_group, "default_quota_group");
    assert_eq!(instance.block_bytes(), 2048);
    assert_eq!(instance.spec_group("b").unwrap().spec_names, ["tp0", "tp1"]);

    let (registry, recovery) = open(&journal, 2).await;
    assert_eq!(registry.instance("i1").unwrap(), instance);
    assert_eq!(
        (recovery.storages, recovery.groups, recovery.instances),
        (1, 1, 1)
    );
    assert!(recovery.initialised && recovery.skipped.is_empty());
}

#[tokio::test]
async fn the_same_registration_again_writes_nothing() {
    let (journal, registry) = initialised().await;
    registry
        .register_instance(registration("i1"))
        .await
        .unwrap();
    let mut again = registration("i1");
    again.location_spec_groups.reverse();
    again.location_spec_groups[1].spec_names = vec!["tp0".into(), "tp1".into(), "tp0".into()];
    again.model_deployment.as_mut().unwrap().user_data = "other".to_owned();
    let registered = registry.register_instance(again).await.unwrap();
    assert!(!registered.is_new);
    assert_eq!(registered.instance.model_deployment.user_data, "");
    let (_, recovery) = open(&journal, 2).await;
    assert_eq!(recovery.journal.records, 2);
}

#[tokio::test]
async fn each_field_of_the_identity_is_named_when_it_differs() {
    let (_journal, registry) = initialised().await;
    let group = Group {
        name: "other".to_owned(),
        ..(*registry.group("default").unwrap()).clone()
    };
    registry.create_group(group).await.unwrap();
    registry
        .register_instance(registration("i1"))
        .await
        .unwrap();
    let changes: [Change; 6] = [
        ("instance_group_name", |r| r.group = "other".to_owned()),
        ("block_size", |r| r.block_size = 64),
        ("location_spec_infos", |r| r.location_spec_infos.reverse()),
        ("model_deployment", |r| {
            r.model_deployment.as_mut().unwrap().extra = "x".to_owned();
        }),
        ("location_spec_groups", |r| {
            r.location_spec_groups.truncate(1);
        }),
        ("default_query_type", |r| r.default_query_type = 1),
    ];
    for (field, change) in changes {
        let error = refused(&registry, change).await;
        assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}");
        let text = error.to_string();
        let head = format!("instance `i1` exists with different fields: {{{field}}}");
        assert!(text.starts_with(&head), "{text}");
    }
}

#[tokio::test]
async fn a_different_model_is_told_by_its_members_without_user_data() {
    let (_journal, registry) = initialised().await;
    let mut first = registration("i1");
    first.model_deployment.as_mut().unwrap().user_data = "private".to_owned();
    registry.register_instance(first).await.unwrap();
    let error = refused(&registry, |r| {
        let model = r.model_deployment.as_mut().unwrap();
        model.dtype = "bf16".to_owned();
        model.tp_size += 1;
    });
    let text = error.await.to_string();
    let tail = "(model_deployment differs in dtype (\"fp8\", not \"bf16\"), tp_size (0, not 1))";
    assert!(text.ends_with(tail), "{text}");
    assert!(!text.contains("private"), "{text}");
}

#[tokio::test]
async fn missing_and_invalid_fields_are_all_named() {
    let (_journal, registry) = initialised().await;
    let error = registry.register_instance(Registration::default()).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "missing or invalid fields: {instance_group, instance_id, block_size, model_deployment, \
         location_spec_infos} (instance_group must not be empty; instance_id must not be empty; \
         block_size must be positive, is 0; model_deployment is missing; location_spec_infos must \
         hold 1 to 4096 specs, holds 0)"
    );
    let changes: [Change; 12] = [
        ("block_size", |r| r.block_size = -1),
        ("instance_id", |r| r.id = "a\nb".to_owned()),
        ("instance_id", |r| r.id = "a".repeat(257)),
        ("model_deployment.model_name", |r| {
            r.model_deployment.as_mut().unwrap().model_name.clear();
        }),
        ("model_deployment.dtype", |r| {
            r.model_deployment.as_mut().unwrap().dtype.clear();
        }),
        ("location_spec_infos[1].name", |r| {
            r.location_spec_infos[1].name.clear();
            r.location_spec_groups.clear();
        }),
        ("location_spec_infos[1].name", |r| {
            r.location_spec_infos[1].name = "tp0".to_owned();
            r.location_spec_groups.clear();
        }),
        ("location_spec_infos[0].size", |r| {
            r.location_spec_infos[0].size = -1;
        }),
        ("location_spec_infos", |r| {
            r.location_spec_infos[0].size = i64::MAX;
        }),
        ("location_spec_groups[0].spec_names", |r| {
            r.location_spec_groups[0].spec_names.push("tp9".to_owned());
        }),
        ("location_spec_groups[1].name", |r| {
            r.location_spec_groups[1].name = "b".to_owned();
        }),
        ("location_spec_groups[1].spec_names", |r| {
            r.location_spec_groups[1].spec_names.clear();
        }),
    ];
    for (field, change) in changes {
        let text = refused(&registry, change).await.to_string();
        let head = format!("missing or invalid fields: {{{field}}} ({field} ");
        assert!(text.starts_with(&head), "{field}: {text}");
    }
    assert_eq!(registry.instances().len(), 0);
}

#[tokio::test]
async fn an_unknown_group_is_named_with_those_that_exist() {
    let (_journal, registry) = initialised().await;
    let error = refused(&registry, |r| r.group = "nowhere".to_owned()).await;
    assert_eq!(error.kind(), ErrorKind::NoSuchGroup);
    assert_eq!(
        error.to_string(),
        "instance group `nowhere` does not exist; known groups: default"
    );
}

#[tokio::test]
async fn ids_that_the_predecessor_reserved_are_ordinary() {
    let (journal, registry) = initialised().await;
    let ids = [
        "account",
        "instance",
        "instance_group",
        "storage",
        "nfs_01/../?x",
    ];
    for id in ids {
        registry.register_instance(registration(id)).await.unwrap();
    }
    let (registry, _) = open(&journal, 2).await;
    let found: Vec<_> = registry.instances_of("default");
    let found: Vec<_> = found.iter().map(|instance| instance.id.as_str()).collect();
    assert_eq!(
        found,
        [
            "account",
            "instance",
            "instance_group",
            "nfs_01/../?x",
            "storage"
        ]
    );
    assert!(registry.storage("nfs_01").is_some() && registry.group("default").is_some());
    assert_eq!(registry.instances_of("nowhere").len(), 0);
}

#[tokio::test]
async fn a_removed_instance_is_gone_for_good() {
    let (journal, registry) = initialised().await;
    registry
        .register_instance(registration("i1"))
        .await
        .unwrap();
    assert_eq!(registry.remove_instance("i1").await.unwrap().id, "i1");
    let error = registry.remove_instance("i1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchInstance);
    let (registry, _) = open(&journal, 2).await;
    assert!(registry.instance("i1").is_none());
}
