//! One node: its command line, its configuration, and what it says to odd input.

use std::process::{Command, Output};

use kvcm_testkit::{NodeSpec, ServerProcess, http_get, http_post};
use serde_json::json;

use crate::support::{call, code, message, until};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kvcm-server"))
        .args(args)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_mistake_is_named_at_once_and_nothing_listens() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kvcm.conf");
    let text = "kvcm.service.rpc_port=99999\nno equals sign\n";
    std::fs::write(&file, text).unwrap();
    let output = run(&[
        "-c",
        file.to_str().unwrap(),
        "-e",
        "kvcm.leader_elector.lease_ms=ten",
        "-e",
        "kvcm.coordination.uri=redis://:secret@h/?db=x&timeout_ms=0",
        "-e",
        "kvcm.startup_config=/does/not/exist",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    for part in [
        "kvcm.service.rpc_port = `99999`",
        "line 2",
        "kvcm.leader_elector.lease_ms = `ten`",
        "parameter `db` is `x`",
        "parameter `timeout_ms` is `0`",
        "/does/not/exist",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn redis_with_private_stores_has_to_be_allowed() {
    let output = run(&[
        "--check-config",
        "-e",
        "kvcm.coordination.uri=redis://127.0.0.1:1/",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("kvcm.allow_private_stores"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = run(&[
        "-e",
        "kvcm.service.bind_address=127.0.0.1",
        "-e",
        &format!("kvcm.service.http_port={port}"),
        "-e",
        "kvcm.service.rpc_port=0",
        "-e",
        "kvcm.service.admin_rpc_port=0",
        "-e",
        "kvcm.service.admin_http_port=0",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let expected = format!("kvcm.service.http_port = `{port}` (option -e): cannot listen");
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}

#[test]
fn unknown_keys_are_warned_about_with_the_nearest_one_and_refused_by_a_check() {
    let setting = "kvcm.leader_elector.leese_ms=5000";
    let output = run(&["--print-config", "-e", setting]);
    assert_eq!(output.status.code(), Some(0));
    let output = run(&["--check-config", "-e", setting]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("kvcm.leader_elector.lease_ms"),
        "{}",
        stderr(&output)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_leads_at_once_with_the_default_group_and_ends_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new("lone", dir.path()).unwrap();
    let mut node = ServerProcess::spawn(&spec).await.unwrap();
    let ports = *node.ports();
    until("the lone node leads", async || {
        let health = call(ports.admin_http(), "checkHealth", json!({})).await;
        (health["is_leader"] == true && health["is_health"] == true).then_some(())
    })
    .await;
    for path in ["/livez", "/readyz", "/leaderz"] {
        assert_eq!(
            http_get(ports.admin_http(), path).await.unwrap().status,
            200,
            "{path}"
        );
    }
    let answer = call(
        ports.http(),
        "registerInstance",
        crate::support::registration("i"),
    )
    .await;
    assert_eq!(code(&answer), "OK");
    assert!(
        answer["storage_configs"]
            .as_str()
            .unwrap()
            .contains("nfs_01"),
        "{answer}"
    );
    // A lone node has nobody to yield to: it leads again, in a higher epoch, with what it knew.
    let epoch = answer["header"]["epoch"]
        .as_str()
        .unwrap()
        .parse::<u64>()
        .unwrap();
    assert_eq!(
        code(&call(ports.admin_http(), "leaderDemote", json!({})).await),
        "OK"
    );
    let again = until("the lone node leads again", async || {
        let info = call(ports.http(), "getInstanceInfo", json!({"instance_id": "i"})).await;
        (code(&info) == "OK").then_some(info)
    })
    .await;
    assert_eq!(again["header"]["epoch"], (epoch + 1).to_string());
    node.term().unwrap();
    assert_eq!(node.wait().await.unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_requests_get_clear_answers() {
    let dir = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new("odd", dir.path()).unwrap();
    let spec = spec.set("kvcm.service.max_request_bytes", "4096");
    let node = ServerProcess::spawn(&spec).await.unwrap();
    let http = node.ports().http();
    until("it leads", async || {
        let answer = call(http, "registerInstance", crate::support::registration("i")).await;
        (code(&answer) == "OK").then_some(())
    })
    .await;
    for (path, body, status, part) in [
        ("/api/registerInstance", "", 400, "empty"),
        ("/api/registerInstance", "{", 400, "line 1"),
        (
            "/api/registerInstance",
            "{\"block_size\":\"x\"}",
            400,
            "block_size",
        ),
        ("/api/noSuchCall", "{}", 404, "/api/noSuchCall"),
        ("/", "{}", 404, "/"),
    ] {
        let reply = http_post(http, path, body.as_bytes()).await.unwrap();
        assert_eq!(reply.status, status, "{path} {body}: {reply:?}");
        let json = reply.json().unwrap();
        assert!(message(&json).contains(part), "{path} {body}: {json}");
    }
    let large = format!("{{\"trace_id\":\"{}\"}}", "x".repeat(5000));
    let reply = http_post(http, "/api/registerInstance", large.as_bytes())
        .await
        .unwrap();
    assert_eq!(reply.status, 413);
    assert!(
        message(&reply.json().unwrap()).contains("4096"),
        "{reply:?}"
    );
    assert_eq!(
        http_get(http, "/api/getClusterInfo").await.unwrap().status,
        405
    );

    for (rpc, body, expected, part) in [
        (
            "registerInstance",
            json!({}),
            "INVALID_ARGUMENT",
            "instance_group",
        ),
        (
            "getCacheLocation",
            json!({"instance_id": "i"}),
            "INVALID_ARGUMENT",
            "query_type",
        ),
        (
            "getCacheLocation",
            json!({"instance_id": "i", "query_type": 77, "block_keys": [1]}),
            "INVALID_ARGUMENT",
            "77",
        ),
        (
            "getCacheLocation",
            json!({"query_type": "QT_PREFIX_MATCH", "block_keys": [1]}),
            "INVALID_ARGUMENT",
            "instance_id",
        ),
        (
            "getCacheLocation",
            json!({"instance_id": "i", "query_type": 3, "block_keys": [1], "sw_size": 0}),
            "INVALID_ARGUMENT",
            "sw_size",
        ),
        (
            "startWriteCache",
            json!({"instance_id": "nobody", "block_keys": [1]}),
            "INSTANCE_NOT_EXIST",
            "nobody",
        ),
        (
            "getInstanceInfo",
            json!({}),
            "INVALID_ARGUMENT",
            "instance_id",
        ),
        (
            "trimCache",
            json!({"instance_id": "i", "strategy": 3}),
            "UNSUPPORTED",
            "TS_TIMESTAMP",
        ),
        (
            "trimCache",
            json!({"instance_id": "i"}),
            "INVALID_ARGUMENT",
            "strategy",
        ),
        (
            "finishWriteCache",
            json!({"instance_id": "i"}),
            "INVALID_ARGUMENT",
            "success_blocks",
        ),
        (
            "finishWriteCache",
            json!({"instance_id": "i", "write_session_id": "x", "success_blocks": {"offset": 0}}),
            "INTERNAL_ERROR",
            "write_session_id has been deleted",
        ),
    ] {
        let answer = call(http, rpc, body.clone()).await;
        assert_eq!(code(&answer), expected, "{rpc} {body}: {answer}");
        assert!(message(&answer).contains(part), "{rpc} {body}: {answer}");
    }
}
