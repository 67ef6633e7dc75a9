//! The rules of the protocol, one table that runs through gRPC and through HTTP on one node: both
//! must answer as the table says, and both the same.

mod administering;
mod debugging;
mod operating;
mod reading;
mod registering;
mod wire;
mod writing;

use std::path::Path;

use kvcm_testkit::{NodeSpec, ServerProcess, http_post};
use serde_json::{Value, json};

use self::{
    administering::{accounts, groups, instances, snapshots, storages},
    debugging::debugging,
    operating::operating,
    reading::{hashing, reading},
    registering::{registering, registration},
    writing::writing,
};
use crate::{
    both::{Caller, FILES, Kept, Service, check, fill, is_any_node, normal},
    golden,
    support::{call, code, message, until},
};

/// One call and what it has to answer.
struct Case {
    rpc: &'static str,
    body: Value,
    expected: Value,
    /// The name that later cases know the answer by.
    keep: Option<&'static str>,
}

fn ok(rpc: &'static str, body: Value, mut expected: Value) -> Case {
    expected["header"] = json!({"status": {"code": "OK", "message": ""}});
    Case {
        rpc,
        body,
        expected,
        keep: None,
    }
}

fn refused(rpc: &'static str, body: Value, code: &str, message: &str) -> Case {
    Case {
        rpc,
        body,
        expected: json!({"header": {"status": {"code": code, "message": message}}}),
        keep: None,
    }
}

impl Case {
    fn keep(mut self, name: &'static str) -> Self {
        self.keep = Some(name);
        self
    }
}

/// The members of both, for bodies that differ little.
fn with(base: &Value, more: Value) -> Value {
    let mut body = base.clone();
    for (name, value) in more.as_object().unwrap() {
        body[name.as_str()] = value.clone();
    }
    body
}

/// A request about the main instance.
fn i(more: Value) -> Value {
    with(&json!({"instance_id": "i-$p"}), more)
}

const INVALID: &str = "INVALID_ARGUMENT";
const INTERNAL: &str = "INTERNAL_ERROR";
const BLOCKS: &str = "missing or invalid fields: {block_keys or token_ids}";

/// A placeholder of the main instance.
fn hole() -> Value {
    json!({"type": "ST_UNSPECIFIED", "spec_size": 2, "location_specs": [
        {"name": "tp1", "uri": ""}, {"name": "tp0", "uri": ""},
    ]})
}

/// One group with room for little: the root lacks its slash, 32 keys, 100 kB of files.
fn startup_config() -> Value {
    json!({
        "storage_config": {"type": "file", "global_unique_name": "nfs_01",
            "storage_spec": {"root_path": format!("{FILES}/kv")}},
        "instance_group": {"name": "default", "storage_candidates": ["nfs_01"],
            "global_quota_group_name": "q", "version": 1,
            "quota": {"capacity": 1_000_000,
                "quota_config": [{"storage_type": "file", "capacity": 100_000}]},
            "cache_config": {"cache_prefer_strategy": 2,
                // What is removed shows as such for longer than a test takes.
                "reclaim_strategy": {"delay_before_delete_ms": 3_600_000},
                "meta_indexer_config": {"max_key_count": 32}}},
    })
}

async fn start(dir: &Path) -> ServerProcess {
    start_with(dir, &startup_config()).await
}

async fn start_with(dir: &Path, startup_config: &Value) -> ServerProcess {
    std::fs::create_dir_all(FILES).unwrap();
    let config = dir.join("startup.json");
    std::fs::write(&config, startup_config.to_string()).unwrap();
    let spec = NodeSpec::new("cases", dir).unwrap();
    let spec = spec
        .set("kvcm.startup_config", config.to_str().unwrap())
        .set("kvcm.service.max_keys_per_request", "100")
        .set("kvcm.service.enable_debug_service", "true")
        .set("kvcm.service.custom_info", "c");
    let node = ServerProcess::spawn(&spec).await.unwrap();
    until("it leads and is a member", async || {
        let info = call(
            node.ports().admin_http(),
            "getManagerClusterInfo",
            json!({}),
        )
        .await;
        (info["self_role"] == "leader" && info["nodes"] != json!([])).then_some(())
    })
    .await;
    node
}

/// What every answer has, whatever it says.
fn check_header(case: &Case, answer: &Value) -> Result<(), String> {
    let service = Service::of(case.rpc);
    let is_meta = service == Service::Meta;
    let header = &answer["header"];
    let trace = match service {
        Service::Debug => "_",
        _ => "t-1_",
    };
    let time = header["request_id"]
        .as_str()
        .and_then(|id| id.strip_prefix(trace));
    let is_time = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !time.is_some_and(is_time) {
        return Err(format!("request_id is {}", header["request_id"]));
    }
    if header.get("tracer_result") != is_meta.then(|| json!("")).as_ref() {
        return Err("tracer_result belongs to MetaService".to_owned());
    }
    let by_leader = !is_any_node(case.rpc);
    let epoch = header["epoch"].as_str().map(str::parse::<u64>);
    if by_leader && !(matches!(epoch, Some(Ok(_))) && header["cluster_id"].is_string()) {
        return Err("a leader's answer has epoch and cluster id".to_owned());
    }
    Ok(())
}

async fn run(caller: &mut Caller, cases: &[Case], faults: &mut Vec<String>) -> Vec<Value> {
    let protocol = caller.name();
    let mut kept = Kept::new();
    let mut answers = Vec::new();
    for case in cases {
        let body = fill(&case.body, protocol, &kept);
        let body = with(&body, json!({"trace_id": "t-1"}));
        let answer = caller.call(case.rpc, &body).await;
        let expected = fill(&case.expected, protocol, &kept);
        let checked = check(&expected, &answer, "").and_then(|()| check_header(case, &answer));
        if let Err(fault) = checked {
            faults.push(format!(
                "{protocol} {} {body}: {fault}\n    {answer}",
                case.rpc
            ));
        }
        answers.push(normal(&answer, protocol));
        if let Some(name) = case.keep {
            kept.insert(name, answer);
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_follow_the_table_and_agree() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let groups = [
        registering(),
        writing(),
        reading(),
        hashing(),
        operating(),
        storages(),
        groups(),
        instances(),
        accounts(),
        debugging(),
        snapshots(),
    ];
    let cases: Vec<Case> = groups.into_iter().flatten().collect();
    let mut faults = Vec::new();
    let mut http = Caller::Http(*node.ports());
    let over_http = run(&mut http, &cases, &mut faults).await;
    golden::check(
        cases.iter().map(|case| case.rpc).zip(&over_http),
        &mut faults,
    );
    // A node of its own, for what was removed takes room until its bytes are deleted.
    drop(node);
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let mut grpc = Caller::grpc(node.ports()).await;
    let over_grpc = run(&mut grpc, &cases, &mut faults).await;
    for ((case, http), grpc) in cases.iter().zip(over_http).zip(over_grpc) {
        if golden::fixed(&http) != golden::fixed(&grpc) {
            faults.push(format!(
                "{} {}: HTTP {http}\n    gRPC {grpc}",
                case.rpc, case.body
            ));
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_can_take_no_blocks_says_why() {
    let lookup = || {
        let body = i(json!({"query_type": 1, "block_keys": [1]}));
        ok("getCacheLocation", body, json!({"locations": [hole()]}))
    };
    let no_lookup = |text| {
        let body = i(json!({"query_type": 1, "block_keys": [1]}));
        refused("getCacheLocation", body, INTERNAL, text)
    };
    let disabled = "all storages are unavailable for instance group `default` (nfs_01)*";
    let full = "REACH_MAX_ENTITY_CAPACITY";
    let groups = [
        (
            "/storage_config/is_available",
            json!(false),
            INTERNAL,
            disabled,
            no_lookup(disabled),
        ),
        (
            "/instance_group/quota/capacity",
            json!(0),
            full,
            "quota.capacity*`default`*set it above 0*",
            lookup(),
        ),
        (
            "/instance_group/quota/quota_config",
            json!([{"storage_type": "file", "capacity": 1123}]),
            full,
            "*type file*`default`*0 of 1123 bytes used, 1124 more*",
            lookup(),
        ),
    ];
    for (place, value, code, text, lookup) in groups {
        let mut config = startup_config();
        config["storage_config"]["is_available"] = json!(true);
        *config.pointer_mut(place).unwrap() = value;
        let dir = tempfile::tempdir().unwrap();
        let node = start_with(dir.path(), &config).await;
        let cases = [
            ok("registerInstance", registration(), json!({})),
            refused("startWriteCache", i(json!({"block_keys": [1]})), code, text),
            lookup,
            // What needs no storage works.
            ok(
                "getCacheMeta",
                i(json!({"block_keys": [1]})),
                json!({"locations": [hole()]}),
            ),
            ok("removeCache", i(json!({"block_keys": [1]})), json!({})),
        ];
        let mut faults = Vec::new();
        run(&mut Caller::Http(*node.ports()), &cases, &mut faults).await;
        run(&mut Caller::grpc(node.ports()).await, &cases, &mut faults).await;
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_does_not_work_is_not_available_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = startup_config();
    let absent = dir.path().join("absent/kv");
    config["storage_config"]["storage_spec"]["root_path"] = json!(absent);
    let node = start_with(dir.path(), &config).await;
    until("it is found to be missing", async || {
        let listed = call(node.ports().admin_http(), "listStorage", json!({})).await;
        (listed["storage"][0]["is_available"] == json!(false)).then_some(())
    })
    .await;
    let configs = "[{\"type\":\"file\",\"is_available\":false,*";
    let missing = "all storages are unavailable for instance group `default` (nfs_01); enable one, \
                   or repair what is missing: *; make it, or mount what belongs there";
    let unchecked = json!({"global_unique_name": "s", "check_storage_available_when_open": true,
        "nfs": {"root_path": absent}});
    let cases = [
        ok(
            "registerInstance",
            registration(),
            json!({"storage_configs": configs}),
        ),
        refused(
            "startWriteCache",
            i(json!({"block_keys": [1]})),
            INTERNAL,
            missing,
        ),
        ok(
            "getCacheLocation",
            i(json!({"query_type": 2, "block_keys": [1]})),
            json!({"locations": []}),
        ),
        refused(
            "addStorage",
            json!({"storage": unchecked}),
            INTERNAL,
            "storage `s` does not work (missing: *leave check_storage_available_when_open out",
        ),
    ];
    let mut faults = Vec::new();
    run(&mut Caller::Http(*node.ports()), &cases, &mut faults).await;
    run(&mut Caller::grpc(node.ports()).await, &cases, &mut faults).await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    std::fs::create_dir(dir.path().join("absent")).unwrap();
    until("it is found to work", async || {
        let started = call(
            node.ports().http(),
            "startWriteCache",
            json!({"instance_id": "i-http", "block_keys": [1]}),
        )
        .await;
        (started["header"]["status"]["code"] == "OK").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_ids_tell_requests_apart() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let mut times = Vec::new();
    for _ in 0..50 {
        let answer = call(node.ports().http(), "getClusterInfo", json!({})).await;
        let id = answer["header"]["request_id"].as_str().unwrap().to_owned();
        times.push(id.trim_start_matches('_').parse::<u64>().unwrap());
    }
    assert!(
        times.iter().any(|time| time % 1000 != 0),
        "{times:?} are milliseconds"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_read_as_the_public_servers_read_them() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let http = node.ports().http();
    let registration = fill(&registration(), "x", &Kept::new());
    assert_eq!(
        code(&call(http, "registerInstance", registration).await),
        "OK"
    );
    let lookups = [
        // Either spelling of names, numbers as texts, what is unknown is ignored, null is nothing.
        (
            r#"{"instanceId":"i-x","queryType":"QT_BATCH_GET","blockKeys":["1",2,"-1"]}"#,
            200,
            "OK",
            "",
        ),
        (
            r#"{"instance_id":"i-x","query_type":1,"block_keys":[1],"x":[{"y":null}]}"#,
            200,
            "OK",
            "",
        ),
        (
            r#"{"instance_id":"i-x","query_type":1,"block_keys":null,"token_ids":[1,2,3,4],"block_mask":null}"#,
            200,
            "OK",
            "",
        ),
        (
            r#"{"instance_id":"i-x","query_type":1,"block_keys":["9223372036854775807",-9223372036854775808]}"#,
            200,
            "OK",
            "",
        ),
        // An unknown name is as good as none, an unknown number is kept; case matters.
        (
            r#"{"instance_id":"i-x","query_type":"QT_NEW","block_keys":[1]}"#,
            200,
            INVALID,
            "is 0",
        ),
        (
            r#"{"instance_id":"i-x","query_type":"qt_batch_get","block_keys":[1]}"#,
            200,
            INVALID,
            "is 0",
        ),
        (
            r#"{"instance_id":"i-x","query_type":null,"block_keys":[1]}"#,
            200,
            INVALID,
            "is 0",
        ),
        (
            r#"{"instance_id":"i-x","query_type":77,"block_keys":[1]}"#,
            200,
            INVALID,
            "is 77",
        ),
        // What fits no field is told with its place.
        (
            r#"{"block_keys":[1,9223372036854775808]}"#,
            400,
            INVALID,
            "block_keys[1]",
        ),
        (r#"{"block_keys":[1.5]}"#, 400, INVALID, "block_keys[0]"),
        (r#"{"block_keys":7}"#, 400, INVALID, "block_keys"),
        (r#"{"instance_id":5}"#, 400, INVALID, "instance_id"),
        (r#"{"sw_size":99999999999}"#, 400, INVALID, "sw_size"),
        (
            r#"{"block_mask":{"offset":1,"bool_masks":{}}}"#,
            400,
            INVALID,
            "block_mask",
        ),
        ("", 400, INVALID, "empty"),
        (" \n", 400, INVALID, "empty"),
        ("null", 400, INVALID, "null"),
        ("[]", 400, INVALID, "sequence"),
        ("{} {}", 400, INVALID, "line 1"),
        ("{\"instance_id\":\"\\ud800\"}", 400, INVALID, "line 1"),
    ];
    for (body, status, expected, part) in lookups {
        let reply = http_post(http, "/api/getCacheLocation", body.as_bytes())
            .await
            .unwrap();
        let answer = reply.json().unwrap();
        assert_eq!(
            (reply.status, code(&answer)),
            (status, expected),
            "{body}: {answer}"
        );
        assert!(message(&answer).contains(part), "{body}: {answer}");
    }
}
