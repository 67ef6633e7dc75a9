//! Lookups, by keys and by tokens.

use serde_json::{Value, json};

use super::{BLOCKS, Case, INVALID, hole, i, ok, refused, with};

pub(super) fn reading() -> Vec<Case> {
    let (get, len) = ("getCacheLocation", "getCacheLocationLen");
    let batch = |more| i(with(&json!({"query_type": "QT_BATCH_GET"}), more));
    let prefix = |more| i(with(&json!({"query_type": "QT_PREFIX_MATCH"}), more));
    let window = |more| {
        i(with(
            &json!({"query_type": "QT_REVERSE_ROLL_SW_MATCH"}),
            more,
        ))
    };
    let found = |locations: Value| json!({"locations": locations});
    let (one, two, eight) = ("$r/locations/0", "$r/locations/1", "$r/locations/2");
    let one_spec = json!({"type": "ST_NFS", "spec_size": 1,
        "location_specs": ["$r/locations/0/location_specs/1"]});
    let spec_hole = json!({"type": "ST_UNSPECIFIED", "spec_size": 1,
        "location_specs": [{"name": "tp0", "uri": ""}]});
    let mut cases = vec![
        ok(
            "trimCache",
            i(json!({"strategy": "TS_REMOVE_ALL_CACHE"})),
            json!({}),
        ),
        ok(
            "startWriteCache",
            i(json!({"block_keys": [1, 2, 8]})),
            json!({"block_mask": {"offset": 0}}),
        )
        .keep("r"),
        ok(
            "finishWriteCache",
            i(json!({"write_session_id": "$r/write_session_id",
            "success_blocks": {"offset": 3}})),
            json!({}),
        ),
        // Being written is nothing to read.
        ok("startWriteCache", i(json!({"block_keys": [3]})), json!({})),
        ok(
            get,
            batch(json!({"block_keys": [3, 1, 77, 1], "block_mask": {"offset": -7}})),
            found(json!([hole(), one, hole(), one])),
        ),
        ok(
            get,
            batch(json!({"block_keys": [1, 77], "location_spec_names": ["tp0", "x"]})),
            found(json!([one_spec, spec_hole])),
        ),
        ok(
            get,
            batch(json!({"block_keys": [1, 77], "location_spec_names": ["x"]})),
            found(
                json!([{"type": "ST_NFS", "spec_size": 0, "location_specs": []},
                {"type": "ST_UNSPECIFIED", "spec_size": 0, "location_specs": []}]),
            ),
        ),
        ok(
            get,
            batch(json!({"token_ids": [1, 2, 3, 4, 5]})),
            found(json!([hole()])),
        ),
        ok(
            get,
            prefix(json!({"block_keys": [1, 2, 3, 8]})),
            found(json!([one, two])),
        ),
        ok(
            get,
            prefix(json!({"block_keys": [77, 1, 2], "block_mask": {"offset": 1}})),
            found(json!([one, two])),
        ),
        ok(
            get,
            prefix(
                json!({"block_keys": [77, 1, 2], "block_mask": {"bool_masks": {"values": [true]}}}),
            ),
            found(json!([one, two])),
        ),
        ok(
            get,
            prefix(json!({"block_keys": [1, 77, 2],
            "block_mask": {"bool_masks": {"values": [false, true, false, true]}}})),
            found(json!([one, two])),
        ),
        ok(
            get,
            prefix(json!({"block_keys": [1, 2], "block_mask": {"offset": 9}})),
            found(json!([])),
        ),
        ok(
            get,
            prefix(json!({"block_keys": [1], "block_mask": {}})),
            found(json!([one])),
        ),
        ok(
            get,
            prefix(json!({"token_ids": [1, 2, 3]})),
            found(json!([])),
        ),
        refused(
            get,
            prefix(json!({"block_keys": [1], "block_mask": {"offset": -1}})),
            INVALID,
            "block_mask.offset is -1*",
        ),
        ok(
            get,
            window(json!({"block_keys": [1, 2, 3, 1, 2, 8, 9], "sw_size": 2})),
            found(json!([hole(), hole(), hole(), hole(), two, eight, hole()])),
        ),
        ok(
            get,
            window(json!({"block_keys": [1, 3, 2], "sw_size": 2})),
            found(json!([hole(), hole(), hole()])),
        ),
        ok(
            get,
            window(json!({"token_ids": [1, 2, 3], "sw_size": 2})),
            found(json!([])),
        ),
        ok(
            len,
            batch(json!({"block_keys": [1, 3, 8]})),
            json!({"cache_location_len": "2"}),
        ),
        ok(
            len,
            prefix(json!({"block_keys": [1, 3, 8]})),
            json!({"cache_location_len": "1"}),
        ),
        ok(
            len,
            window(json!({"block_keys": [1, 3, 8, 2], "sw_size": 2})),
            json!({"cache_location_len": "2"}),
        ),
        ok(
            len,
            prefix(json!({"token_ids": [1]})),
            json!({"cache_location_len": "0"}),
        ),
    ];
    let empty = "missing or invalid fields: {instance_id, query_type, block_keys or token_ids}";
    for rpc in [get, len] {
        for size in [0, -1, 2, i32::MIN] {
            let body = window(json!({"block_keys": [1], "sw_size": size}));
            cases.push(refused(rpc, body, INVALID, &format!("sw_size is {size}*")));
        }
        for number in [0, 77, -1] {
            let body = i(json!({"query_type": number, "block_keys": [1]}));
            let text = format!("*{{query_type}}*QT_BATCH_GET*is {number})");
            cases.push(refused(rpc, body, INVALID, &text));
        }
        cases.push(refused(rpc, json!({}), INVALID, empty));
        cases.push(refused(rpc, batch(json!({})), INVALID, BLOCKS));
        let nobody = json!({"instance_id": "nobody", "query_type": 1, "block_keys": [1]});
        cases.push(refused(rpc, nobody, "INSTANCE_NOT_EXIST", "*`nobody`*"));
        let mamba = i(json!({"query_type": 4, "block_keys": [1]}));
        cases.push(refused(
            rpc,
            mamba,
            "UNSUPPORTED",
            "*QT_PREFIX_MATCH_WITH_MAMBA*",
        ));
    }
    cases
}

/// What the public servers make of tokens is found under their keys.
pub(super) fn hashing() -> Vec<Case> {
    let tokens: Vec<i64> = (1..=9).collect();
    let keys = ["455111481605203084", "6902853672176602142"];
    vec![
        ok(
            "startWriteCache",
            i(json!({"token_ids": tokens})),
            json!({"locations": [{}, {}]}),
        )
        .keep("h"),
        ok(
            "finishWriteCache",
            i(json!({"write_session_id": "$h/write_session_id",
            "success_blocks": {"offset": 2}})),
            json!({}),
        ),
        ok(
            "getCacheLocation",
            i(json!({"query_type": 2, "block_keys": keys})),
            json!({"locations": "$h/locations"}),
        ),
        ok(
            "getCacheLocation",
            i(json!({"query_type": 2, "block_keys": keys, "token_ids": [1]})),
            json!({"locations": "$h/locations"}),
        ),
        ok(
            "removeCache",
            i(json!({"token_ids": [1, 2, 3, 4], "block_mask": {"offset": -1}})),
            json!({}),
        ),
        ok(
            "getCacheLocationLen",
            i(json!({"query_type": 1, "block_keys": keys})),
            json!({"cache_location_len": "1"}),
        ),
    ]
}
