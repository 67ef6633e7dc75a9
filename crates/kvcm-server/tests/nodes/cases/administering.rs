//! What operators call: the registry. Each group of cases leaves nothing behind.

use serde_json::{Value, json};

use super::{Case, INTERNAL, INVALID, i, ok, refused, registration, with};

const DUPLICATE: &str = "DUPLICATE_ENTITY";

fn nfs(name: &str, root: &str) -> Value {
    json!({"global_unique_name": name, "nfs": {"root_path": root, "key_count_per_file": 8}})
}

pub(super) fn storages() -> Vec<Case> {
    let (add, update, list) = ("addStorage", "updateStorage", "listStorage");
    let named = json!({"storage_unique_name": "s-$p"});
    let missing = json!({"storage_unique_name": "x"});
    let first = json!({"global_unique_name": "nfs_01", "is_available": true,
        "nfs": {"root_path": "$d/kv", "key_count_per_file": 1}});
    let listed = |root: &str, available: bool| {
        let own = with(
            &nfs("s-$p", root),
            json!({
                "is_available": available, "check_storage_available_when_open": true,
                "storage_type": null,
            }),
        );
        ok(list, json!({}), json!({"storage": [first.clone(), own]}))
    };
    let own = |root: &str| {
        let storage = nfs("s-$p", root);
        json!({"storage": with(&storage, json!({"check_storage_available_when_open": true}))})
    };
    let unsupported = |kind: &str| {
        let mut storage = json!({"global_unique_name": "u", "storage_type": 7});
        storage[kind] = json!({});
        let text = format!("storages of kind {kind} are not supported: *");
        refused(add, json!({"storage": storage}), "UNSUPPORTED", &text)
    };
    let mut cases = vec![
        ok(list, json!({}), json!({"storage": [first]})),
        refused(
            add,
            json!({}),
            INVALID,
            "missing or invalid fields: {storage}",
        ),
        refused(
            add,
            json!({"storage": {}}),
            INVALID,
            "*{storage.storage_spec}",
        ),
        refused(
            add,
            json!({"storage": nfs("", "")}),
            INVALID,
            "missing or invalid fields: {global_unique_name, storage_spec.root_path}*",
        ),
        refused(
            add,
            json!({"storage": nfs("r", "relative")}),
            INVALID,
            "*must begin with `/`*",
        ),
        refused(
            add,
            json!({"storage": {"global_unique_name": "r", "mooncake": {}}}),
            INVALID,
            "*{storage_spec.local_hostname, storage_spec.metadata_connstring, *",
        ),
        ok(add, own("$d/b/"), json!({})),
        // The one that is there stays as it is.
        refused(
            add,
            json!({"storage": nfs("s-$p", "/other/")}),
            DUPLICATE,
            "*`s-$p`*",
        ),
        listed("$d/b/", true),
        refused(
            update,
            json!({"storage": nfs("x", "/x/")}),
            INTERNAL,
            "*`x`*",
        ),
        ok("disableStorage", named.clone(), json!({})),
        ok("disableStorage", named.clone(), json!({})),
        listed("$d/b/", false),
        ok(
            update,
            with(&own("$d/c/"), json!({"force_update": true})),
            json!({}),
        ),
        listed("$d/c/", false),
        ok("enableStorage", named.clone(), json!({})),
        listed("$d/c/", true),
    ];
    for rpc in ["enableStorage", "disableStorage", "removeStorage"] {
        cases.push(refused(rpc, json!({}), INVALID, "*{storage_unique_name}"));
        cases.push(refused(rpc, missing.clone(), INTERNAL, "*`x`*"));
    }
    cases.extend(["local", "dummy", "event_report"].map(unsupported));
    cases.push(ok("removeStorage", named.clone(), json!({})));
    cases.push(refused("removeStorage", named, INTERNAL, "*`s-$p`*"));
    cases
}

/// A group with what has to be said and little else.
fn group(version: i64) -> Value {
    json!({"name": "g-$p", "storage_candidates": ["nfs_01", "later"],
        "global_quota_group_name": "q", "version": version.to_string(),
        "quota": {"capacity": "1000", "quota_config": [{"storage_type": "ST_NFS", "capacity": 500}]},
        "cache_config": {
            "reclaim_strategy": {"storage_unique_name": "nfs_01"},
            "data_storage_strategy": "CPS_PREFER_3FS",
            "meta_indexer_config": {"max_key_count": 16,
                "meta_storage_backend_config": {"storage_type": "local"}}}})
}

pub(super) fn groups() -> Vec<Case> {
    let (create, update, get) = (
        "createInstanceGroup",
        "updateInstanceGroup",
        "getInstanceGroup",
    );
    let body = |group: Value| json!({"instance_group": group});
    let name = json!({"name": "g-$p"});
    let shown = |version: &str| {
        json!({"name": "g-$p", "version": version, "max_instance_count": "0", "extra_info": null,
            "quota": {"capacity": "1000",
                "quota_config": [{"storage_type": "ST_NFS", "capacity": "500"}]},
            "cache_config": {"data_storage_strategy": "CPS_PREFER_3FS",
                "reclaim_strategy": {"trigger_strategy": {"used_percentage": 0.8}},
                "meta_indexer_config": {"max_key_count": "16"}, "migration_config": null}})
    };
    let changed = |place: &str, value: Value| {
        let mut group = group(1);
        *group.pointer_mut(place).unwrap() = value;
        body(group)
    };
    let invalid = [
        ("/name", json!(""), "{name}"),
        ("/storage_candidates", json!([]), "{storage_candidates}"),
        (
            "/global_quota_group_name",
            json!(""),
            "{global_quota_group_name}",
        ),
        (
            "/cache_config/data_storage_strategy",
            json!(0),
            "{cache_config.cache_prefer_strategy}",
        ),
        (
            "/cache_config/data_storage_strategy",
            json!(77),
            "{cache_config.cache_prefer_strategy}",
        ),
        (
            "/cache_config/reclaim_strategy",
            Value::Null,
            "{cache_config.reclaim_strategy.storage_unique_name}",
        ),
        (
            "/cache_config/meta_indexer_config/meta_storage_backend_config",
            json!({}),
            "{cache_config.meta_indexer_config.meta_storage_backend_config.storage_type}",
        ),
        (
            "/cache_config/meta_indexer_config/max_key_count",
            json!(-1),
            "cache_config.meta_indexer_config.max_key_count",
        ),
        (
            "/quota/quota_config/0/storage_type",
            json!(263),
            "quota_config[0].storage_type}: 263",
        ),
    ];
    let mut cases = vec![
        refused(
            create,
            json!({}),
            INVALID,
            "missing or invalid fields: {instance_group}",
        ),
        refused(get, name.clone(), INTERNAL, "*`g-$p`*"),
        refused(get, json!({}), INVALID, "missing or invalid fields: {name}"),
    ];
    for (place, value, part) in invalid {
        cases.push(refused(
            create,
            changed(place, value),
            INVALID,
            &format!("*{part}*"),
        ));
    }
    let update_to = |current: i64, version: i64| {
        with(&body(group(version)), json!({"current_version": current}))
    };
    cases.extend([
        ok(create, body(group(1)), json!({})),
        refused(create, body(group(2)), DUPLICATE, "*`g-$p`*"),
        ok(get, name.clone(), json!({"instance_group": shown("1")})),
        ok(
            "listInstanceGroup",
            json!({}),
            json!({"instance_group": [{"name": "default"}, shown("1")]}),
        ),
        refused(update, update_to(2, 3), INTERNAL, "*`g-$p` has version 1*"),
        refused(update, update_to(1, 1), INTERNAL, "*`g-$p` has version 1*"),
        ok(update, update_to(1, 5), json!({})),
        refused(update, update_to(1, 6), INTERNAL, "*`g-$p` has version 5*"),
        ok(get, name.clone(), json!({"instance_group": shown("5")})),
        // Its instances go with it.
        ok(
            "registerInstance",
            with(
                &registration(),
                json!({
            "instance_group": "g-$p", "instance_id": "gone-$p"}),
            ),
            json!({}),
        ),
        refused(
            "removeInstanceGroup",
            json!({}),
            INVALID,
            "missing or invalid fields: {name}",
        ),
        ok("removeInstanceGroup", name.clone(), json!({})),
        refused(
            "getInstanceInfo",
            json!({"instance_id": "gone-$p"}),
            "INSTANCE_NOT_EXIST",
            "*",
        ),
        refused("removeInstanceGroup", name, INTERNAL, "*`g-$p`*"),
    ]);
    cases
}

pub(super) fn instances() -> Vec<Case> {
    let (register, remove, list) = (
        "admin/registerInstance",
        "removeInstance",
        "listInstanceInfo",
    );
    let own = with(&registration(), json!({"instance_id": "a-$p"}));
    let id = json!({"instance_id": "a-$p"});
    let keys = |keys: &[i64]| json!({"instance_id": "a-$p", "block_keys": keys});
    let status =
        |status: &str| json!({"metas": [format!("{{\"id\":\"*\",\"status\":\"CLS_{status}\"}}")]});
    vec![
        refused(
            register,
            json!({}),
            INVALID,
            "missing or invalid fields: {instance_group, *",
        ),
        ok(register, own.clone(), json!({"storage_configs": null})),
        ok(register, own.clone(), json!({})),
        refused(
            register,
            with(&own, json!({"block_size": 8})),
            DUPLICATE,
            "*`a-$p`*{block_size}*",
        ),
        refused(
            register,
            with(&own, json!({"block_size": 0, "instance_id": "b"})),
            INVALID,
            "*block_size*",
        ),
        refused(
            "admin/getInstanceInfo",
            json!({}),
            INVALID,
            "*{instance_id}",
        ),
        refused(
            "admin/getInstanceInfo",
            json!({"instance_id": "x"}),
            "INSTANCE_NOT_EXIST",
            "*`x`*",
        ),
        ok(
            "admin/getInstanceInfo",
            id.clone(),
            json!({"instance_info": {
            "instance_id": "a-$p", "quota_group_name": "q", "block_size": 4,
            "location_spec_infos": [{"name": "tp1", "size": "100"}, {"name": "tp0", "size": "1024"}],
            "default_query_type": null}}),
        ),
        // All of them, those of a group, those of no group.
        ok(
            list,
            json!({}),
            json!({"instance_info": [
            {"instance_id": "a-$p"}, {"instance_id": "i-$p"}, {"instance_id": "odd?/%é-$p"}]}),
        ),
        ok(
            list,
            json!({"instance_group_name": "default"}),
            json!({"instance_info": [
            {"instance_id": "a-$p"}, {"instance_id": "i-$p"}, {"instance_id": "odd?/%é-$p"}]}),
        ),
        ok(
            list,
            json!({"instance_group_name": "x"}),
            json!({"instance_info": []}),
        ),
        ok("startWriteCache", keys(&[1, 2]), json!({})).keep("a"),
        ok(
            "finishWriteCache",
            json!({"instance_id": "a-$p", "success_blocks": {"offset": 2},
            "write_session_id": "$a/write_session_id"}),
            json!({}),
        ),
        ok("admin/getCacheMeta", keys(&[1]), status("SERVING")),
        ok("admin/getCacheMeta", keys(&[3]), status("NOT_FOUND")),
        refused(
            "admin/getCacheMeta",
            json!({"instance_id": "x", "block_keys": [1]}),
            "INSTANCE_NOT_EXIST",
            "*`x`*",
        ),
        refused(
            "admin/removeCache",
            id.clone(),
            INVALID,
            "*{block_keys or token_ids}",
        ),
        ok("admin/removeCache", keys(&[1]), json!({})),
        ok("admin/getCacheMeta", keys(&[1]), status("DELETING")),
        ok("admin/getCacheMeta", keys(&[2]), status("SERVING")),
        refused(remove, json!({}), INVALID, "*{instance_id}"),
        refused(
            remove,
            json!({"instance_id": "x"}),
            "INSTANCE_NOT_EXIST",
            "*`x`*",
        ),
        ok(remove, id.clone(), json!({})),
        refused(remove, id.clone(), "INSTANCE_NOT_EXIST", "*`a-$p`*"),
        refused(
            "admin/getCacheMeta",
            keys(&[2]),
            "INSTANCE_NOT_EXIST",
            "*`a-$p`*",
        ),
        // Registered anew it has no blocks.
        ok(register, own, json!({})),
        ok("admin/getCacheMeta", keys(&[2]), status("NOT_FOUND")),
        ok(remove, id, json!({})),
        ok(remove, json!({"instance_id": "odd?/%é-$p"}), json!({})),
        // The registry's own words are names like others.
        ok(
            register,
            with(&registration(), json!({"instance_id": "storage"})),
            json!({}),
        ),
        ok(
            "admin/getInstanceInfo",
            json!({"instance_id": "storage"}),
            json!({}),
        ),
        ok(remove, json!({"instance_id": "storage"}), json!({})),
    ]
}

pub(super) fn accounts() -> Vec<Case> {
    let (add, delete, list) = ("addAccount", "deleteAccount", "listAccount");
    let account = json!({"user_name": "u-$p", "password": "s3cret-word", "role": "ROLE_ADMIN"});
    vec![
        ok(list, json!({}), json!({"accounts": []})),
        refused(
            add,
            json!({}),
            INVALID,
            "missing or invalid fields: {user_name, password}*",
        ),
        refused(add, with(&account, json!({"role": 7})), INVALID, "*{role}*"),
        refused(
            add,
            with(&account, json!({"password": "x".repeat(1025)})),
            INVALID,
            "*{password}*",
        ),
        refused(
            add,
            with(&account, json!({"user_name": "a\nb"})),
            INVALID,
            "*{user_name}*",
        ),
        ok(add, account.clone(), json!({})),
        refused(add, account.clone(), DUPLICATE, "*`u-$p`*"),
        ok(
            list,
            json!({}),
            json!({"accounts": [
            {"user_name": "u-$p", "role": "ROLE_ADMIN", "password": null}]}),
        ),
        refused(
            delete,
            json!({}),
            INVALID,
            "missing or invalid fields: {user_name}",
        ),
        refused(delete, json!({"user_name": "x"}), INTERNAL, "*`x`*"),
        ok(delete, json!({"user_name": "u-$p"}), json!({})),
        ok(list, json!({}), json!({"accounts": []})),
    ]
}

pub(super) fn snapshots() -> Vec<Case> {
    let (take, load) = ("genConfigSnapshot", "loadConfigSnapshot");
    let text = "{\"format\":\"kvcm-registry\",\"version\":1,\"storages\":[{\"type\":\"file\",*\
                \"instance_groups\":[{\"name\":\"default\",*\
                \"instances\":[{\"instance_id\":\"i-$p\",*\
                \"accounts\":[{\"user_name\":\"u\",\"role\":\"user\"}]}";
    vec![
        ok(
            "addAccount",
            json!({"user_name": "u", "password": "p"}),
            json!({}),
        ),
        ok(take, json!({}), json!({"config_snapshot": text})).keep("snapshot"),
        refused(
            load,
            json!({}),
            INVALID,
            "missing or invalid fields: {config_snapshot}",
        ),
        refused(
            load,
            json!({"config_snapshot": "{}"}),
            INVALID,
            "config_snapshot is not usable, nothing was changed: *`storages` is missing*",
        ),
        refused(
            load,
            json!({"config_snapshot": "nonsense"}),
            INVALID,
            "*it is not JSON*",
        ),
        // Everything that came after it goes, and what went comes back.
        ok(
            "addStorage",
            json!({"storage": nfs("new-$p", "/n/")}),
            json!({}),
        ),
        ok("removeInstance", i(json!({})), json!({})),
        ok(
            load,
            json!({"config_snapshot": "$snapshot/config_snapshot"}),
            json!({}),
        ),
        ok(
            "listStorage",
            json!({}),
            json!({"storage": [{"global_unique_name": "nfs_01"}]}),
        ),
        ok(
            "getInstanceInfo",
            i(json!({})),
            json!({"instance_group": "default"}),
        ),
        ok(
            take,
            json!({}),
            json!({"config_snapshot": "$snapshot/config_snapshot"}),
        ),
        ok("deleteAccount", json!({"user_name": "u"}), json!({})),
        ok("removeInstance", i(json!({})), json!({})),
    ]
}
