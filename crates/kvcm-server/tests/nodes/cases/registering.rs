//! Instances.

use serde_json::{Value, json};

use super::{Case, INTERNAL, INVALID, i, ok, refused, with};

/// The main instance.
pub(super) fn registration() -> Value {
    i(json!({
        "instance_group": "default", "block_size": 4,
        "location_spec_infos": [{"name": "tp1", "size": "100"}, {"name": "tp0", "size": 1024}],
        "model_deployment": {"model_name": "m", "dtype": "fp16", "user_data": "u"},
        "location_spec_groups": [
            {"name": "b", "spec_names": ["tp0"]},
            {"name": "a", "spec_names": ["tp1"]},
        ],
    }))
}

pub(super) fn registering() -> Vec<Case> {
    let rpc = "registerInstance";
    let registration = registration();
    let same = json!({
        "extra_info": null,
        "storage_configs": "[{\"type\":\"file\",\"is_available\":true,\
            \"global_unique_name\":\"nfs_01\",\"storage_spec\":{\"root_path\":\"$d/kv\",\
            \"key_count_per_file\":1}}]",
    });
    let changed = |more| with(&registration, more);
    let all = "missing or invalid fields: {instance_group, instance_id, block_size, \
               model_deployment, location_spec_infos}*";
    let field = |name: &str| format!("missing or invalid fields: {{{name}}}*{name} *");
    let mut cases = vec![
        refused(
            "getInstanceInfo",
            i(json!({})),
            "INSTANCE_NOT_EXIST",
            "*`i-$p`*",
        ),
        refused(
            "getInstanceInfo",
            json!({}),
            INVALID,
            "missing or invalid fields: {instance_id}",
        ),
        refused(rpc, json!({}), INVALID, all),
        ok(rpc, registration.clone(), same.clone()),
        ok(rpc, registration.clone(), same.clone()),
        ok(
            rpc,
            changed(json!({
                "model_deployment": {"model_name": "m", "dtype": "fp16", "user_data": "other"},
                "location_spec_groups": [
                    {"name": "a", "spec_names": ["tp1", "tp1"]},
                    {"name": "b", "spec_names": ["tp0"]},
                ],
            })),
            same,
        ),
        ok(
            "getInstanceInfo",
            i(json!({})),
            json!({"instance_group": "default", "instance_info": {
                "quota_group_name": "q", "instance_group_name": "default", "instance_id": "i-$p",
                "block_size": 4,
                "location_spec_infos": [
                    {"name": "tp1", "size": "100"}, {"name": "tp0", "size": "1024"},
                ],
                "model_deployment": {"model_name": "m", "dtype": "fp16", "user_data": "u"},
                "location_spec_groups": [
                    {"name": "a", "spec_names": ["tp1"]}, {"name": "b", "spec_names": ["tp0"]},
                ],
                "default_query_type": null,
            }}),
        ),
        refused(
            rpc,
            changed(json!({"instance_group": "nowhere", "instance_id": "n-$p"})),
            INTERNAL,
            "*`nowhere`*",
        ),
    ];
    let duplicates = [
        (json!({"block_size": 8}), "*`i-$p`*{block_size}*"),
        (
            json!({"model_deployment": {"model_name": "m", "dtype": "bf16"}}),
            "*`i-$p`*{model_deployment}*dtype (\"fp16\", not \"bf16\")*",
        ),
        (
            json!({"location_spec_groups": []}),
            "*`i-$p`*{location_spec_groups}*",
        ),
        (
            json!({"default_query_type": 2}),
            "*`i-$p`*{default_query_type}*",
        ),
    ];
    for (change, text) in duplicates {
        cases.push(refused(rpc, changed(change), "DUPLICATE_ENTITY", text));
    }
    let invalid = [
        (json!({"block_size": 0}), "block_size"),
        (json!({"block_size": -1}), "block_size"),
        (json!({"instance_id": "a\nb"}), "instance_id"),
        (json!({"model_deployment": null}), "model_deployment"),
        (
            json!({"model_deployment": {"model_name": "m"}}),
            "model_deployment.dtype",
        ),
        (
            json!({"location_spec_infos": [{}], "location_spec_groups": []}),
            "location_spec_infos[0].name",
        ),
        (
            json!({"location_spec_groups": [{"name": "c", "spec_names": ["x"]}]}),
            "location_spec_groups[0].spec_names",
        ),
    ];
    for (change, name) in invalid {
        let mut case = refused(rpc, changed(change), INVALID, &field(name));
        case.expected["storage_configs"] = json!("");
        cases.push(case);
    }
    cases
}
