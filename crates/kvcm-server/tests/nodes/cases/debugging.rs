//! Faults on demand.

use serde_json::json;

use super::{Case, INTERNAL, INVALID, i, ok, refused};

pub(super) fn debugging() -> Vec<Case> {
    let (inject, remove) = ("injectFault", "removeFault");
    let lookup = "getCacheLocationLen";
    let keys = || i(json!({"block_keys": [1], "query_type": 2}));
    let text = "a fault was injected into GetCacheLocationLen (DebugService)";
    let struck = || refused(lookup, keys(), INTERNAL, text);
    let works = || ok(lookup, keys(), json!({}));
    let fault = "GetCacheLocationLen";
    vec![
        refused(inject, json!({}), INVALID, "*{api_name}*"),
        refused(
            inject,
            json!({"api_name": "Nothing"}),
            INVALID,
            "*{api_name}*`Nothing`*",
        ),
        refused(
            inject,
            json!({"api_name": fault, "fault_trigger_strategy": 7}),
            INVALID,
            "*{fault_trigger_strategy}*",
        ),
        // A name that no fault type has is the first type.
        ok(
            inject,
            json!({"api_name": fault, "fault_type": "INTERNAL_ERROR", "fault_trigger_strategy": "ALWAYS"}),
            json!({}),
        ),
        struck(),
        struck(),
        // A fault is looked at before the fields are.
        refused(lookup, json!({}), INTERNAL, text),
        ok(remove, json!({"api_name": fault}), json!({})),
        works(),
        ok(remove, json!({"api_name": fault}), json!({})),
        ok(
            inject,
            json!({"api_name": fault, "fault_trigger_strategy": 1, "trigger_at_call": 2}),
            json!({}),
        ),
        works(),
        struck(),
        works(),
        // Any other code, on calls that change something and on those that any node answers.
        ok(
            inject,
            json!({"api_name": "StartWriteCache", "error_code": 7}),
            json!({}),
        ),
        ok(
            inject,
            json!({"api_name": "checkHealth", "error_code": "3"}),
            json!({}),
        ),
        ok(
            inject,
            json!({"api_name": "addStorage", "latency_ms": 1, "error_code": 1}),
            json!({}),
        ),
        refused(
            "startWriteCache",
            i(json!({"block_keys": [1]})),
            "REACH_MAX_ENTITY_CAPACITY",
            "*StartWriteCache*",
        ),
        refused("checkHealth", json!({}), INTERNAL, "*CheckHealth*"),
        refused("addStorage", json!({}), INVALID, "*{storage}"),
        ok("clearFaults", json!({}), json!({})),
        ok("checkHealth", json!({}), json!({})),
        ok(
            "startWriteCache",
            i(json!({"block_keys": [2], "write_timeout_seconds": 1})),
            json!({}),
        ),
    ]
}
