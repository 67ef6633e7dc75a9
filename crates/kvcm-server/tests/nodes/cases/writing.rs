//! Write sessions and the state of keys.

use serde_json::{Value, json};

use super::{BLOCKS, Case, INTERNAL, INVALID, hole, i, ok, refused, registration, with};

const GONE: &str = "write_session_id has been deleted: *";

pub(super) fn writing() -> Vec<Case> {
    let (start, finish) = ("startWriteCache", "finishWriteCache");
    let place = |key: &str| {
        let uri = |spec, size| format!("file://nfs_01$d/kv/i-$p/{spec}/*/{key}-*-*?size={size}");
        json!({"type": "ST_NFS", "spec_size": 2, "location_specs": [
            {"name": "tp1", "uri": uri("tp1", 100)}, {"name": "tp0", "uri": uri("tp0", 1024)},
        ]})
    };
    let session = |name: &str, success: Value| {
        let id = format!("${name}/write_session_id");
        i(json!({"write_session_id": id, "success_blocks": success}))
    };
    let mask = |values: &[bool]| json!({"bool_masks": {"values": values}});
    let keys = |keys: &[i64]| i(json!({"block_keys": keys}));
    let none = json!({"write_session_id": "", "locations": [], "block_mask": null});
    let metas = |states: &[&str]| {
        let metas = states
            .iter()
            .map(|s| format!("{{\"id\":\"*\",\"status\":\"CLS_{s}\"}}"));
        json!({"metas": metas.collect::<Vec<_>>()})
    };
    let groups = |keys: Value, names: Value| {
        i(json!({"block_keys": keys, "location_spec_group_names": names}))
    };
    let mut missing = refused(start, i(json!({})), INVALID, BLOCKS);
    missing.expected = with(&missing.expected, none);
    let both_groups = groups(json!([20, 21]), json!(["b", "a"]));
    vec![
        missing,
        refused(start, json!({"instance_id": "x", "block_keys": [1]}), "INSTANCE_NOT_EXIST", "*`x`*"),
        // A mask that does not fit ends the session: the pair of codes that public clients expect.
        ok(start, i(json!({"block_keys": [1, 2, -1], "write_timeout_seconds": 1_000_000})), json!({
            "block_mask": {"offset": 0}, "locations": [place("1"), place("2"), place("ffffffffffffffff")],
        })).keep("bad"),
        ok("getCacheMeta", keys(&[1, 9]), metas(&["WRITING", "NOT_FOUND"])),
        refused(finish, session("bad", mask(&[true])), INVALID, "*bool_masks has 1 values*3 new keys*"),
        refused(finish, session("bad", mask(&[true, true, true])), INTERNAL, GONE),
        ok("getCacheMeta", keys(&[1]), metas(&["DELETING"])),
        // No time-out is the default one, and a repeated key gets one location.
        ok(start, keys(&[1, 2, -1, 1]), json!({
            "block_mask": mask(&[false, false, false, true]),
        })).keep("s"),
        ok(start, keys(&[2]), json!({"block_mask": {"offset": 1}, "locations": []})),
        refused(finish, i(json!({})), INVALID, "missing or invalid fields: {write_session_id, success_blocks}"),
        refused(finish, session("s", Value::Null), INVALID, "missing or invalid fields: {success_blocks}"),
        refused(finish, i(json!({"write_session_id": "x", "success_blocks": {}})), INTERNAL, GONE),
        ok(finish, session("s", mask(&[true, true, false])), json!({})),
        // The same again is the same; another outcome comes too late.
        ok(finish, session("s", json!({"offset": 2})), json!({})),
        refused(finish, session("s", json!({"offset": 3})), INTERNAL, GONE),
        ok("getCacheMeta", i(json!({"block_keys": [1, 2, -1], "block_mask": {"offset": 1}})),
            with(&metas(&["NOT_FOUND", "SERVING", "DELETING"]), json!({
                "locations": [hole(), "$s/locations/1", "$bad/locations/2"],
            }))),
        ok("getCacheMeta", i(json!({})), json!({"locations": [], "metas": []})),
        ok(start, keys(&[5, 1, 6]), json!({"block_mask": mask(&[false, true, false])})).keep("m"),
        refused(finish, session("m", json!({"offset": -1})), INVALID, "*success_blocks.offset is -1*"),
        ok(start, keys(&[1, 2, 7]), json!({"block_mask": {"offset": 2}, "locations": [place("7")]})).keep("m"),
        refused(finish, session("m", json!({})), INVALID, "*success_blocks is empty*"),
        // A session without new keys.
        ok(start, keys(&[1, 2]), json!({"block_mask": {"offset": 2}, "locations": []})).keep("none"),
        ok(finish, session("none", json!({})), json!({})),
        ok(start, i(json!({"token_ids": [1, 2, 3]})), json!({"block_mask": {"offset": 0}, "locations": []})),
        // A key that goes while it is written stays gone, and can be written anew at once.
        ok(start, keys(&[8, 9]), json!({})).keep("old"),
        ok("removeCache", keys(&[9]), json!({})),
        ok(start, keys(&[8, 9]), json!({"block_mask": {"offset": 1}})).keep("new"),
        ok(finish, session("old", json!({"offset": 2})), json!({})),
        ok("getCacheMeta", keys(&[8, 9]), with(&metas(&["SERVING", "WRITING"]), json!({
            "locations": ["$old/locations/0", "$new/locations/0"],
        }))),
        // Groups of specs.
        refused(start, groups(json!([20, 21]), json!(["a"])), INVALID, "*1 names for 2 keys*"),
        refused(start, groups(json!([20]), json!(["c"])), INVALID, "*no spec group `c`*"),
        ok(start, both_groups, json!({"block_mask": {"offset": 0}, "locations": [
            {"spec_size": 1, "location_specs": [{"name": "tp0"}]},
            {"spec_size": 1, "location_specs": [{"name": "tp1"}]},
        ]})).keep("g"),
        ok(finish, session("g", json!({"offset": 2})), json!({})),
        ok(start, groups(json!([20, 21, 22]), json!(["b", "b", ""])), json!({"block_mask": {"offset": 1}})),
        ok(start, i(json!({"token_ids": [9, 9, 9, 9, 8, 8, 8, 8], "location_spec_group_names": ["a", "b"]})),
            json!({"locations": [{"spec_size": 1}, {"spec_size": 1}]})),
        ok(start, i(json!({"block_keys": [1], "min_replica_count": 2})), json!({"block_mask": {"offset": 0}})),
        // Limits: key count and bytes. What was refused leaves nothing behind.
        refused(start, keys(&(0..101).collect::<Vec<_>>()), INVALID,
            "block_keys has 101 blocks, more than the 100 that kvcm.service.max_keys_per_request*"),
        refused(start, keys(&(100..132).collect::<Vec<_>>()), "REACH_MAX_ENTITY_CAPACITY",
            "max_key_count of instance `i-$p`*of 32 keys used, 32 more*"),
        ok("getCacheMeta", keys(&[100]), metas(&["NOT_FOUND"])),
        ok("registerInstance", with(&registration(), json!({
            "instance_id": "odd?/%é-$p", "location_spec_groups": [],
            "location_spec_infos": [{"name": "big&", "size": 40_000}],
        })), json!({})),
        refused(start, json!({"instance_id": "odd?/%é-$p", "block_keys": [1, 2, 3]}),
            "REACH_MAX_ENTITY_CAPACITY", "quota_config of storage type file in instance group `default`*"),
        ok(start, json!({"instance_id": "odd?/%é-$p", "block_keys": [26]}), json!({"locations": [
            {"location_specs": [{"name": "big&",
                "uri": "file://nfs_01$d/kv/odd%3F%2F%25%C3%A9-$p/big%26/*/1a-*?size=40000"}]},
        ]})).keep("odd"),
        refused(finish, session("odd", json!({"offset": 1})), INVALID, "*another instance*`i-$p`*"),
        ok("trimCache", json!({"instance_id": "odd?/%é-$p", "strategy": 1}), json!({})),
    ]
}
