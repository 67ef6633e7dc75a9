//! What the JSON mapping accepts, refuses and prints, beyond the recorded messages.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use kvcm_proto::{admin, json, meta};
use meta::block_mask::Info;
use prost::{Message, Name};

fn parse(body: &str) -> Result<meta::GetCacheLocationRequest, json::Error> {
    json::from_json(body.as_bytes())
}

fn print<M: Message + Name>(message: &M) -> String {
    String::from_utf8(json::to_json(message).unwrap()).unwrap()
}

/// A request with one thing changed.
fn request(
    change: impl FnOnce(&mut meta::GetCacheLocationRequest),
) -> meta::GetCacheLocationRequest {
    let mut request = meta::GetCacheLocationRequest::default();
    change(&mut request);
    request
}

fn mask(info: Info) -> Option<meta::BlockMask> {
    Some(meta::BlockMask { info: Some(info) })
}

#[test]
fn odd_but_valid_input_is_accepted() {
    let default = || request(|_| {});
    let keys = |keys: &[i64]| request(|r| r.block_keys = keys.to_vec());
    let trace = |id: &str| request(|r| r.trace_id = id.to_owned());
    let query = |number| request(|r| r.query_type = number);
    let masked = |info| request(|r| r.block_mask = mask(info));
    let bools = |values: &[bool]| {
        Info::BoolMasks(meta::BoolMasksType {
            values: values.to_vec(),
        })
    };
    let cases = [
        ("no fields", r#"{}"#, default()),
        ("white space around", " \n{ }\t", default()),
        ("snake_case", r#"{"trace_id":"t"}"#, trace("t")),
        ("camelCase", r#"{"traceId":"t"}"#, trace("t")),
        ("escapes", r#"{"trace_id":"\u00e9\n"}"#, trace("é\n")),
        (
            "64-bit integers as strings and as numbers",
            r#"{"block_keys":["9007199254740993",-2,"-9223372036854775808",9223372036854775807]}"#,
            keys(&[9_007_199_254_740_993, -2, i64::MIN, i64::MAX]),
        ),
        (
            "whole floats",
            r#"{"blockKeys":[1e2,3.0]}"#,
            keys(&[100, 3]),
        ),
        (
            "32-bit string",
            r#"{"sw_size":"4"}"#,
            request(|r| r.sw_size = 4),
        ),
        ("enum name", r#"{"query_type":"QT_BATCH_GET"}"#, query(1)),
        ("enum number", r#"{"query_type":2}"#, query(2)),
        ("unknown enum number", r#"{"query_type":263}"#, query(263)),
        ("negative enum number", r#"{"query_type":-1}"#, query(-1)),
        (
            "unknown enum name",
            r#"{"query_type":"QT_NOPE","trace_id":"t"}"#,
            trace("t"),
        ),
        (
            "enum name in lower case",
            r#"{"query_type":"qt_batch_get"}"#,
            default(),
        ),
        (
            "unknown fields",
            r#"{"nope":{"a":[1,{"b":null}]},"trace_id":"t","":0}"#,
            trace("t"),
        ),
        ("null text", r#"{"trace_id":null}"#, default()),
        ("null integer", r#"{"sw_size":null}"#, default()),
        ("null enum", r#"{"query_type":null}"#, default()),
        ("null list", r#"{"block_keys":null}"#, default()),
        ("null message", r#"{"block_mask":null}"#, default()),
        (
            "null oneof member",
            r#"{"block_mask":{"offset":null}}"#,
            request(|r| r.block_mask = Some(meta::BlockMask::default())),
        ),
        (
            "oneof member at 0",
            r#"{"block_mask":{"offset":0}}"#,
            masked(Info::Offset(0)),
        ),
        (
            "oneof member",
            r#"{"blockMask":{"offset":"5"}}"#,
            masked(Info::Offset(5)),
        ),
        (
            "oneof message",
            r#"{"blockMask":{"boolMasks":{"values":[true,false]}}}"#,
            masked(bools(&[true, false])),
        ),
        (
            "one oneof member null, the other set",
            r#"{"block_mask":{"offset":null,"bool_masks":{}}}"#,
            masked(bools(&[])),
        ),
        (
            "repeated name: the last wins",
            r#"{"trace_id":"a","traceId":"b"}"#,
            trace("b"),
        ),
        (
            "repeated name, the same spelling",
            r#"{"trace_id":"a","trace_id":"b"}"#,
            trace("b"),
        ),
        (
            "repeated list: the last wins, they are not joined",
            r#"{"block_keys":[1,2],"blockKeys":[3]}"#,
            keys(&[3]),
        ),
        (
            "unknown enum name in a message that is kept",
            r#"{"query_type":"","sw_size":-0}"#,
            default(),
        ),
        (
            "escaped surrogates",
            r#"{"trace_id":"\ud83d\ude00"}"#,
            trace("😀"),
        ),
        (
            "a NUL in a text",
            r#"{"trace_id":"a\u0000b"}"#,
            trace("a\0b"),
        ),
        (
            "numbers of the wrong size for what is unknown",
            r#"{"nope":1e400,"nope2":-99999999999999999999999}"#,
            default(),
        ),
    ];
    for (what, body, expected) in cases {
        match parse(body) {
            Ok(parsed) => assert_eq!(parsed, expected, "{what}: {body}"),
            Err(error) => panic!("{what}: {body}: {error}"),
        }
    }
}

#[test]
fn bad_input_is_refused_with_what_and_where() {
    let cases = [
        ("", "the body is empty"),
        (" \n", "the body is empty"),
        (
            "{",
            "not JSON: EOF while parsing an object at line 1 column 1",
        ),
        ("nope", "not JSON: expected ident at line 1 column 2"),
        (
            r#"{"trace_id":"a"} x"#,
            "not JSON: trailing characters at line 1 column 18",
        ),
        (r#"{"trace_id":"a"}{}"#, "not JSON: trailing characters"),
        (
            r#"{"trace_id":"a",}"#,
            "not JSON: trailing comma at line 1 column 17",
        ),
        (r#"{"nope":[1,}"#, "not JSON:"),
        ("\u{feff}{}", "not JSON: expected value at line 1 column 1"),
        ("null", "the body: invalid type: null"),
        ("[]", "the body: invalid type: sequence"),
        ("7", "the body: invalid type: integer `7`"),
        (
            r#"{"trace_id":7}"#,
            "trace_id: invalid type: integer `7`, expected a string at line 1",
        ),
        (r#"{"traceId":{}}"#, "traceId: invalid type: map"),
        (
            r#"{"block_keys":1}"#,
            "block_keys: invalid type: integer `1`, expected a list",
        ),
        (
            r#"{"block_keys":[1,2,"x"]}"#,
            "block_keys[2]: invalid digit found in string",
        ),
        (
            r#"{"block_keys":[1.5]}"#,
            "block_keys[0]: expected integer value",
        ),
        (
            r#"{"block_keys":[null]}"#,
            "block_keys[0]: invalid type: null",
        ),
        (
            r#"{"block_keys":[true]}"#,
            "block_keys[0]: invalid type: boolean `true`",
        ),
        (
            r#"{"block_keys":["9223372036854775808"]}"#,
            "block_keys[0]: number too large",
        ),
        (
            r#"{"block_keys":[9223372036854775808]}"#,
            "block_keys[0]: out of range",
        ),
        (r#"{"sw_size":2147483648}"#, "sw_size: out of range"),
        (r#"{"sw_size":-2147483649}"#, "sw_size: out of range"),
        (r#"{"sw_size":1e400}"#, "number out of range"),
        (r#"{"sw_size":"NaN"}"#, "sw_size:"),
        (r#"{"sw_size":""}"#, "sw_size:"),
        (r#"{"sw_size":" 1"}"#, "sw_size:"),
        (r#"{"sw_size":NaN}"#, "not JSON:"),
        (r#"{"sw_size":Infinity}"#, "not JSON:"),
        (r#"{"sw_size":0x10}"#, "not JSON:"),
        (r#"{"sw_size":01}"#, "not JSON:"),
        (r#"{"sw_size":+1}"#, "not JSON:"),
        (r#"{sw_size:1}"#, "not JSON:"),
        (r#"{'sw_size':1}"#, "not JSON:"),
        (r#"{"trace_id":"\ud800"}"#, "not JSON:"),
        ("{\"trace_id\":\"a\nb\"}", "not JSON: control character"),
        (
            r#"{"trace_id":"a"} // why"#,
            "not JSON: trailing characters",
        ),
        (r#"{"trace_id":"a"#, "not JSON: EOF"),
        (
            r#"{"block_mask":{"bool_masks":{"values":["true"]}}}"#,
            "block_mask.bool_masks.values[0]: invalid type: string",
        ),
        (
            r#"{"query_type":true}"#,
            "query_type: invalid type: boolean `true`",
        ),
        (r#"{"query_type":4294967296}"#, "query_type: out of range"),
        (r#"{"block_mask":[]}"#, "block_mask: invalid type: sequence"),
        (
            r#"{"block_mask":{"offset":1,"bool_masks":{}}}"#,
            "multiple fields provided for oneof 'info'",
        ),
        (
            r#"{"block_mask":{"bool_masks":{"values":[true,0]}}}"#,
            "block_mask.bool_masks.values[1]: invalid type: integer `0`, expected a boolean",
        ),
    ];
    for (body, expected) in cases {
        match parse(body) {
            Ok(parsed) => panic!("{body}: accepted as {parsed:?}"),
            Err(error) => assert!(error.to_string().contains(expected), "{body}: {error}"),
        }
    }
    let bytes: Result<meta::GetCacheLocationRequest, _> =
        json::from_json(b"{\"trace_id\":\"\xff\"}");
    let error = bytes.unwrap_err().to_string();
    assert!(error.contains("invalid unicode"), "{error}");
}

#[test]
fn a_deep_unknown_field_costs_no_stack() {
    let deep = |closed| {
        format!(
            "{{\"nope\":{}{}}}",
            "[".repeat(1_000_000),
            "]".repeat(closed)
        )
    };
    assert_eq!(parse(&deep(1_000_000)).unwrap(), request(|_| {}));
    assert!(parse(&deep(999_999)).is_err());
}

#[test]
fn a_nesting_bomb_in_a_known_field_is_refused() {
    let bomb = format!("{{\"block_mask\":{}", "{\"a\":".repeat(100_000));
    assert!(parse(&bomb).is_err());
    let bomb = format!(
        "{{\"block_keys\":{}1{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let error = parse(&bomb).unwrap_err().to_string();
    assert!(
        error.contains("block_keys[0]: invalid type: sequence"),
        "{error}"
    );
}

#[test]
fn a_long_text_is_taken_whole_and_not_repeated_in_errors() {
    let long = "x".repeat(4 << 20);
    let parsed = parse(&format!("{{\"trace_id\":\"{long}\"}}")).unwrap();
    assert_eq!(parsed.trace_id.len(), long.len());
    let error = parse(&format!("{{\"sw_size\":\"{long}\"}}")).unwrap_err();
    assert!(
        error.to_string().len() < 1000,
        "{} bytes",
        error.to_string().len()
    );
}

#[test]
fn unset_messages_oneof_members_and_extensions_are_not_printed() {
    assert_eq!(
        print(&meta::GetClusterInfoResponse::default()),
        r#"{"self_node_id":"","leader_node_id":""}"#
    );
    assert_eq!(
        print(&admin::GetManagerClusterInfoResponse {
            header: Some(admin::CommonResponseHeader::default()),
            ..Default::default()
        }),
        concat!(
            r#"{"header":{"request_id":""},"info_updated_time":"0","#,
            r#""self_leader_expiration_time":"0","self_node_id":"","leader_node_id":""}"#
        )
    );
}

#[test]
fn extensions_are_printed_when_set_even_at_their_default() {
    let response = meta::CommonResponse {
        header: Some(meta::CommonResponseHeader {
            status: Some(meta::Status {
                code: meta::ErrorCode::ServerNotLeader.into(),
                message: "ask n1".to_owned(),
            }),
            leader_hint: Some(meta::LeaderHint {
                node_id: "n1".to_owned(),
                endpoint: Some(meta::NodeEndpoint {
                    meta_rpc_port: 6381,
                    ..Default::default()
                }),
                epoch: 7,
                ..Default::default()
            }),
            epoch: Some(0),
            cluster_id: Some(String::new()),
            ..Default::default()
        }),
    };
    let text = concat!(
        r#"{"header":{"status":{"code":"SERVER_NOT_LEADER","message":"ask n1"},"#,
        r#""request_id":"","tracer_result":"","leader_hint":{"node_id":"n1","endpoint":"#,
        r#"{"node_id":"","host":"","meta_rpc_port":6381,"meta_http_port":0,"#,
        r#""admin_rpc_port":0,"admin_http_port":0,"custom_info":""},"epoch":"7","#,
        r#""retry_after_ms":"0","reason":"","phase":"","age_ms":"0"},"#,
        r#""epoch":"0","cluster_id":""}}"#
    );
    assert_eq!(print(&response), text);
    let parsed: meta::CommonResponse = json::from_json(text.as_bytes()).unwrap();
    assert_eq!(parsed, response);
}

#[test]
fn unknown_enum_numbers_are_printed_as_numbers() {
    let location = meta::CacheLocation {
        r#type: 77,
        ..Default::default()
    };
    assert_eq!(
        print(&location),
        r#"{"type":77,"spec_size":0,"location_specs":[]}"#
    );
}

#[test]
fn doubles_that_are_not_finite_are_printed_as_text_and_read_back() {
    for (value, text) in [
        (f64::INFINITY, r#"{"float_value":"Infinity"}"#),
        (f64::NEG_INFINITY, r#"{"float_value":"-Infinity"}"#),
        (f64::NAN, r#"{"float_value":"NaN"}"#),
        (0.25, r#"{"float_value":0.25}"#),
    ] {
        let value = admin::metric_value::Value::FloatValue(value);
        let metric = admin::MetricValue { value: Some(value) };
        assert_eq!(print(&metric), text);
        let parsed: admin::MetricValue = json::from_json(text.as_bytes()).unwrap();
        assert_eq!(print(&parsed), text);
    }
}

#[test]
fn wrappers_are_plain_values() {
    let text = concat!(
        r#"{"max_key_count":"0","mutex_shard_num":"0","batch_key_size":"0","#,
        r#""persist_metadata_interval_time_ms":"30000","mutex_enabled":false}"#
    );
    let config: admin::MetaIndexerConfig = json::from_json(text.as_bytes()).unwrap();
    assert_eq!(config.persist_metadata_interval_time_ms, Some(30_000));
    assert_eq!(config.mutex_enabled, Some(false));
    assert_eq!(print(&config), text);
}

#[test]
fn a_type_from_elsewhere_is_refused_by_name() {
    #[derive(Clone, PartialEq, Message)]
    struct Elsewhere {}
    impl Name for Elsewhere {
        const NAME: &'static str = "Elsewhere";
        const PACKAGE: &'static str = "other";
    }
    let error = json::to_json(&Elsewhere {}).unwrap_err();
    assert!(error.to_string().contains("other.Elsewhere"), "{error}");
}
