//! Removal, and what operators call.

use serde_json::json;

use super::{BLOCKS, Case, INVALID, i, ok, refused};

pub(super) fn operating() -> Vec<Case> {
    let elector = "updateLeaderElectorConfig";
    vec![
        ok(
            "removeCache",
            i(json!({"block_keys": [123_456]})),
            json!({}),
        ),
        refused("removeCache", i(json!({})), INVALID, BLOCKS),
        refused(
            "removeCache",
            json!({"instance_id": "x", "block_keys": [1]}),
            "INSTANCE_NOT_EXIST",
            "*`x`*",
        ),
        refused(
            "trimCache",
            json!({}),
            INVALID,
            "missing or invalid fields: {instance_id, strategy}",
        ),
        refused(
            "trimCache",
            i(json!({"strategy": 9})),
            INVALID,
            "*{strategy}*is 9)",
        ),
        refused(
            "trimCache",
            i(json!({"strategy": "TS_REMOVE_ALL_META"})),
            "UNSUPPORTED",
            "*TS_REMOVE_ALL_META*",
        ),
        refused(
            "trimCache",
            i(json!({"strategy": 3})),
            "UNSUPPORTED",
            "*TS_TIMESTAMP*",
        ),
        refused(
            "trimCache",
            json!({"instance_id": "x", "strategy": 1}),
            "INSTANCE_NOT_EXIST",
            "*`x`*",
        ),
        refused(
            "getCacheMeta",
            i(json!({"block_mask": {"offset": -1}})),
            INVALID,
            "block_mask.offset is -1*",
        ),
        ok(
            "getClusterInfo",
            json!({"instance_id": "nobody"}),
            json!({
                "self_node_id": "cases", "leader_node_id": "cases", "self_role": "leader",
                "leader_endpoint": {"node_id": "cases", "host": "127.0.0.1", "custom_info": "c"},
            }),
        ),
        ok(
            "getManagerClusterInfo",
            json!({}),
            json!({"self_node_id": "cases", "leader_node_id": "cases", "nodes": [{"role": "leader"}]}),
        ),
        ok(
            "checkHealth",
            json!({}),
            json!({"is_leader": true, "is_health": true}),
        ),
        refused(
            "leaderDemote",
            json!({"expected_epoch": 1}),
            INVALID,
            "expected_epoch is 1*nothing was done",
        ),
        // Whoever should lead does; nobody can take over from a lone node.
        ok("leaderDemote", json!({"transfer_to": "cases"}), json!({})),
        refused(
            "leaderDemote",
            json!({"transfer_to": "nobody"}),
            INVALID,
            "the successor cannot take over: *: nothing was done",
        ),
        refused(
            "leaderDemote",
            json!({"transfer_to": ""}),
            INVALID,
            "transfer_to: *",
        ),
        refused(
            "leaderDemote",
            json!({"transfer_to": "nobody", "pause": true}),
            INVALID,
            "pause: *SetCandidacy*",
        ),
        refused(
            "setCandidacy",
            json!({"paused": true}),
            INVALID,
            "this node leads in epoch *: demote it and pause it in one step",
        ),
        ok("setCandidacy", json!({"paused": false}), json!({})),
        ok("checkHealth", json!({}), json!({"is_leader": true})),
        refused(
            elector,
            json!({"campaign_delay_time_ms": -1}),
            INVALID,
            "*{campaign_delay_time_ms}*",
        ),
        ok(elector, json!({"campaign_delay_time_ms": "7"}), json!({})),
        ok(
            "getLeaderElectorConfig",
            json!({}),
            json!({"campaign_delay_time_ms": "7", "paused": false}),
        ),
        ok(elector, json!({}), json!({})),
        ok(
            "getLeaderElectorConfig",
            json!({}),
            json!({"campaign_delay_time_ms": "0"}),
        ),
        ok("trimCache", i(json!({"strategy": 1})), json!({})),
        ok("getMetrics", json!({}), json!({"extra_data": ""})),
        refused("updateLogger", json!({}), INVALID, "*{log_level}*"),
        refused(
            "updateLogger",
            json!({"log_level": "LOUD"}),
            INVALID,
            "*{log_level}: DEBUG, INFO, WARN or ERROR is needed",
        ),
        ok(
            "updateLogger",
            json!({"module_name": "x", "log_level": "DEBUG"}),
            json!({}),
        ),
        ok("updateLogger", json!({"log_level": "INFO"}), json!({})),
    ]
}
