//! Faults that the predecessor had on the wire, one test each, over both protocols.

use serde_json::{Value, json};

use super::{Case, INVALID, hole, i, ok, refused, registration, run, start, with};
use crate::both::Caller;

/// Runs cases on a node where the main instance is registered, over both protocols.
async fn held(cases: Vec<Case>) {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let mut faults = Vec::new();
    let registered = ok("registerInstance", registration(), json!({}));
    let cases: Vec<_> = [registered].into_iter().chain(cases).collect();
    run(&mut Caller::Http(*node.ports()), &cases, &mut faults).await;
    run(&mut Caller::grpc(node.ports()).await, &cases, &mut faults).await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn registered(more: Value) -> Value {
    with(&registration(), more)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_none_is_refused_at_once() {
    let body = json!({"query_type": "QT_REVERSE_ROLL_SW_MATCH", "block_keys": [1], "sw_size": 0});
    held(vec![
        refused("getCacheLocation", i(body.clone()), INVALID, "*sw_size*"),
        refused("getCacheLocationLen", i(body), INVALID, "*sw_size*"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_query_type_is_an_error_and_no_crash() {
    let body = |number: i32| i(json!({"query_type": number, "block_keys": [1]}));
    held(vec![
        refused("getCacheLocation", body(77), INVALID, "*is 77*"),
        refused("getCacheLocation", body(-1), INVALID, "*is -1*"),
        // Not cut to a byte, where it would be another type.
        refused("getCacheLocationLen", body(257), INVALID, "*is 257*"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_size_below_one_is_refused_by_name() {
    let cases = [0, -1, i32::MIN].into_iter().flat_map(|size| {
        let body = registered(json!({"block_size": size, "instance_id": "n-$p"}));
        ["registerInstance", "admin/registerInstance"].map(|rpc| {
            refused(
                rpc,
                body.clone(),
                INVALID,
                "missing or invalid fields: {block_size}*",
            )
        })
    });
    held(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_negative_offset_is_refused_wherever_it_stands() {
    let masked = json!({"query_type": 2, "block_keys": [1], "block_mask": {"offset": -1}});
    let finish =
        json!({"write_session_id": "$s/write_session_id", "success_blocks": {"offset": -1}});
    held(vec![
        refused("getCacheLocation", i(masked), INVALID, "*offset is -1*"),
        ok("startWriteCache", i(json!({"block_keys": [1]})), json!({})).keep("s"),
        refused("finishWriteCache", i(finish), INVALID, "*offset is -1*"),
        // The key is free again.
        ok(
            "startWriteCache",
            i(json!({"block_keys": [1]})),
            json!({"block_mask": {"offset": 0}}),
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_registration_is_the_same_however_its_groups_are_sorted() {
    let groups = |names: [&str; 2]| {
        let groups = names.map(|name| json!({"name": name, "spec_names": ["tp0"]}));
        registered(json!({"instance_id": "n-$p", "location_spec_groups": groups}))
    };
    held(vec![
        ok("registerInstance", groups(["b", "a"]), json!({})),
        ok("registerInstance", groups(["b", "a"]), json!({})),
        ok("registerInstance", groups(["a", "b"]), json!({})),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_under_another_group_is_another_one() {
    let create = json!({"instance_group": {
        "name": "g-$p", "storage_candidates": ["nfs_01"], "global_quota_group_name": "q",
        "cache_config": {"data_storage_strategy": 2,
            "reclaim_strategy": {"storage_unique_name": "nfs_01"},
            "meta_indexer_config": {"max_key_count": 16,
                "meta_storage_backend_config": {"storage_type": "local"}}}}});
    let moved = registered(json!({"instance_group": "g-$p"}));
    let text = "*`i-$p`*{instance_group_name}*";
    held(vec![
        ok("createInstanceGroup", create, json!({})),
        refused("registerInstance", moved.clone(), "DUPLICATE_ENTITY", text),
        refused("admin/registerInstance", moved, "DUPLICATE_ENTITY", text),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_may_name_groups_of_specs_and_tokens_only() {
    let body =
        json!({"token_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9], "location_spec_group_names": ["a", "b"]});
    let locations =
        json!([{"location_specs": [{"name": "tp1"}]}, {"location_specs": [{"name": "tp0"}]}]);
    held(vec![ok(
        "startWriteCache",
        i(body),
        json!({"locations": locations}),
    )])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn admin_calls_tell_why_they_failed() {
    let changed = registered(json!({"block_size": 8}));
    let storage = json!({"storage": {"global_unique_name": "nfs_01", "nfs": {"root_path": "/x/"}}});
    held(vec![
        refused(
            "admin/registerInstance",
            changed,
            "DUPLICATE_ENTITY",
            "*{block_size}*",
        ),
        refused(
            "removeInstance",
            json!({"instance_id": "x"}),
            "INSTANCE_NOT_EXIST",
            "*`x`*",
        ),
        refused(
            "admin/getInstanceInfo",
            json!({"instance_id": "x"}),
            "INSTANCE_NOT_EXIST",
            "*`x`*",
        ),
        refused("addStorage", storage, "DUPLICATE_ENTITY", "*`nfs_01`*"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_listed_by_group_or_all() {
    let list = "listInstanceInfo";
    let own = json!({"instance_info": [{"instance_id": "i-$p"}]});
    let remove = || ok("removeInstance", i(json!({})), json!({}));
    held(vec![
        ok(list, json!({}), own.clone()),
        ok(list, json!({"instance_group_name": "default"}), own),
        ok(
            list,
            json!({"instance_group_name": "nobody"}),
            json!({"instance_info": []}),
        ),
        remove(),
        ok(list, json!({}), json!({"instance_info": []})),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_instance_can_be_registered_anew_and_has_no_blocks() {
    let keys = || i(json!({"block_keys": [1]}));
    let finish =
        json!({"write_session_id": "$s/write_session_id", "success_blocks": {"offset": 1}});
    held(vec![
        ok("startWriteCache", keys(), json!({})).keep("s"),
        ok("finishWriteCache", i(finish), json!({})),
        ok("removeInstance", i(json!({})), json!({})),
        refused("getCacheMeta", keys(), "INSTANCE_NOT_EXIST", "*`i-$p`*"),
        ok(
            "registerInstance",
            registered(json!({"block_size": 8})),
            json!({}),
        ),
        ok("getCacheMeta", keys(), json!({"locations": [hole()]})),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_storages_are_an_error_and_no_crash() {
    let storage = || json!({"storage_unique_name": "nfs_01"});
    let keys = || i(json!({"block_keys": [1], "query_type": 1}));
    let text = "all storages are unavailable for instance group `default` (nfs_01)*";
    let start = "startWriteCache";
    held(vec![
        ok("disableStorage", storage(), json!({})),
        refused(start, i(json!({"block_keys": [1]})), "INTERNAL_ERROR", text),
        refused("getCacheLocation", keys(), "INTERNAL_ERROR", text),
        ok("enableStorage", storage(), json!({})),
        ok("getCacheLocation", keys(), json!({"locations": [hole()]})),
        ok(
            start,
            i(json!({"block_keys": [1]})),
            json!({"block_mask": {"offset": 0}}),
        ),
    ])
    .await;
}
