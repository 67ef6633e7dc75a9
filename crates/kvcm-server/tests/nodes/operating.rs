//! What operators see of a cluster.

use kvcm_testkit::http_get;
use serde_json::{Value, json};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::support::{Nodes, call, channel, leader_of, start_on, until};

/// Status and text of a page on the admin HTTP port.
async fn get(nodes: &Nodes, index: usize, path: &str) -> (u16, String) {
    let reply = http_get(nodes.ports(index).admin_http(), path).await;
    let reply = reply.unwrap();
    (reply.status, String::from_utf8(reply.body).unwrap())
}

/// Role and readiness of a node as another one tells them; none when it is not listed.
async fn seen(nodes: &Nodes, by: usize, name: &str) -> Option<(String, bool)> {
    let address = nodes.ports(by).admin_http();
    let info = call(address, "getManagerClusterInfo", json!({})).await;
    let node = info["nodes"]
        .as_array()?
        .iter()
        .find(|node| node["node_id"] == name)?;
    let role = node["role"].as_str()?.to_owned();
    Some((role, node["ready"].as_bool()?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_is_listed_as_expired_then_not_at_all_and_anew_when_it_returns() {
    let mut nodes = Nodes::start(2, 1_000).await;
    let leader = nodes.leader(&[0, 1]).await;
    let other = 1 - leader;
    let name = format!("node-{}", other + 1);
    let told = |role: &str, ready| Some((role.to_owned(), ready));
    until("the follower is a member", async || {
        (seen(&nodes, leader, &name).await == told("follower", true)).then_some(())
    })
    .await;
    let own = format!("node-{}", leader + 1);
    assert_eq!(seen(&nodes, leader, &own).await, told("leader", true));

    nodes.cluster.node(other).kill().await.unwrap();
    until("it is expired", async || {
        (seen(&nodes, leader, &name).await? == ("expired".to_owned(), false)).then_some(())
    })
    .await;
    until("it has disappeared", async || {
        seen(&nodes, leader, &name).await.is_none().then_some(())
    })
    .await;
    nodes.cluster.restart(other).await.unwrap();
    until("it is back", async || {
        let seen = seen(&nodes, leader, &name).await;
        seen.filter(|(role, ready)| role != "expired" && *ready)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_node_says_so_in_one_word_and_one_without_its_backend_says_why_not() {
    let mut nodes = Nodes::start(1, 1_000).await;
    nodes.leader(&[0]).await;
    let healthy = (200, r#"{"status":"OK"}"#.to_owned());
    until("healthy", async || {
        (get(&nodes, 0, "/api/healthy").await == healthy).then_some(())
    })
    .await;
    for probe in ["/livez", "/readyz", "/leaderz"] {
        assert_eq!(get(&nodes, 0, probe).await, (200, "ok\n".to_owned()));
    }
    // The directory of the locks turns into a file.
    let lock = nodes.dir.path().join("lock");
    std::fs::rename(&lock, nodes.dir.path().join("away")).unwrap();
    std::fs::write(&lock, "not a directory").unwrap();
    let body = until("not healthy", async || {
        let (status, body) = get(&nodes, 0, "/api/healthy").await;
        (status == 503).then_some(body)
    })
    .await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["is_health"], &body["is_leader"]),
        (&json!(false), &json!(false))
    );
    let (status, why) = until("not ready", async || {
        let reply = get(&nodes, 0, "/readyz").await;
        (reply.0 != 200).then_some(reply)
    })
    .await;
    assert_eq!(status, 503);
    assert!(why.contains("coordination backend"), "{why}");
    assert_eq!(get(&nodes, 0, "/livez").await.0, 200);
    assert_eq!(get(&nodes, 0, "/leaderz").await.0, 503);
    assert!(nodes.cluster.node(0).is_running().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_leader_explains_itself() {
    let mut nodes = Nodes::start(2, 1_000).await;
    let first = nodes.leader(&[0, 1]).await;
    let second = 1 - first;
    nodes.cluster.node(first).kill().await.unwrap();
    assert_eq!(nodes.leader(&[second]).await, second);
    let name = format!("node-{}", second + 1);
    let page = until("its own victory is the latest change", async || {
        let (status, page) = get(&nodes, second, "/debug/elections").await;
        assert_eq!(status, 200);
        let page: Value = serde_json::from_str(&page).unwrap();
        (page["history"][0]["result"] == "won").then_some(page)
    })
    .await;
    assert_eq!(
        (&page["node_id"], &page["role"]),
        (&json!(name), &json!("leader"))
    );
    let change = &page["history"][0];
    assert_eq!(change["node_id"], json!(name));
    assert_eq!(change["epoch"], nodes.epoch(second).await);
    assert_ne!(change["reason"], "", "{change}");
    assert_ne!(change["evidence"], "", "{change}");
    for part in ["win", "recover", "open"] {
        assert!(change["took_us"][part].is_u64(), "{part}: {change}");
    }
    assert_eq!(page["history"][1]["result"], "seen", "{page}");

    let address = nodes.ports(second).admin_http();
    let info = call(address, "getManagerClusterInfo", json!({})).await;
    let latest = info["history"].as_array().unwrap().last().unwrap();
    assert_eq!(latest["node_id"], json!(name));
    assert_eq!(latest["epoch"], change["epoch"].to_string());
    assert_eq!(latest["reason"], change["reason"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_health_knows_the_leader_and_grpc_reflection_the_services() {
    let mut nodes = Nodes::start(2, 1_000).await;
    let leader = nodes.leader(&[0, 1]).await;
    let status = async |index: usize, service: &str| {
        let mut client = HealthClient::new(channel(nodes.ports(index).rpc()).await);
        let service = service.to_owned();
        let answer = client.check(HealthCheckRequest { service }).await;
        answer.map(|answer| answer.into_inner().status())
    };
    let serving = async |index: usize, service: &str, expected: ServingStatus| {
        until(&format!("{service} is {expected:?}"), async || {
            let status = status(index, service).await.ok()?;
            (status == expected).then_some(())
        })
        .await;
    };
    for index in [0, 1] {
        serving(index, "", ServingStatus::Serving).await;
        serving(index, "kvcm.ready", ServingStatus::Serving).await;
    }
    serving(leader, "kvcm.leader", ServingStatus::Serving).await;
    serving(1 - leader, "kvcm.leader", ServingStatus::NotServing).await;
    let unknown = status(leader, "nobody").await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::NotFound);

    let admin = channel(nodes.ports(leader).admin_rpc()).await;
    let mut reflection = ServerReflectionClient::new(admin);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = reflection
        .server_reflection_info(futures_util::stream::iter([request]))
        .await;
    let answer = answers
        .unwrap()
        .into_inner()
        .message()
        .await
        .unwrap()
        .unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = list.service.iter().map(|service| &*service.name).collect();
    for name in [
        "kv_cache_manager.proto.meta.MetaService",
        "kv_cache_manager.proto.admin.AdminService",
        "grpc.health.v1.Health",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }

    // One who watches is told, and does not hold the node up when it stops.
    let ports = nodes.ports(leader);
    let mut watching = HealthClient::new(channel(ports.rpc()).await);
    let service = "kvcm.leader".to_owned();
    let watched = watching.watch(HealthCheckRequest { service }).await;
    let mut watched = watched.unwrap().into_inner();
    let first = watched.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    nodes.cluster.node(leader).term().unwrap();
    let next = watched.message().await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::NotServing);
    let mut end = watched.message().await;
    while matches!(end, Ok(Some(_))) {
        end = watched.message().await;
    }
    let status = nodes.cluster.node(leader).wait().await.unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_changes_are_logged_whatever_the_level_and_secrets_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("kvcm.logger.access_log", "true"),
        ("kvcm.logger.format", "json"),
        ("kvcm.logger.log_level", "2"),
    ];
    let mut cluster = start_on(1, 5_000, "memory://", dir.path(), &settings).await;
    leader_of(&cluster, &[0]).await;
    let ports = cluster.ports()[0];
    let lookup =
        json!({"trace_id": "t-7", "instance_id": "nobody", "query_type": 2, "block_keys": [1]});
    call(ports.http(), "getCacheLocation", lookup).await;
    let demote = json!({"trace_id": "t-8", "expected_epoch": "1"});
    call(ports.admin_http(), "leaderDemote", demote).await;
    let log_file = cluster.node(0).log_file().to_owned();
    let told = until("both calls are told", async || {
        let text = std::fs::read_to_string(&log_file).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let told: Vec<Value> = lines
            .filter(|line| {
                line["request_id"]
                    .as_str()
                    .is_some_and(|id| id.starts_with("t-"))
            })
            .collect();
        (told.len() >= 3).then_some(told)
    })
    .await;
    let seen: Vec<_> = told
        .iter()
        .map(|line| {
            (
                line["target"].as_str().unwrap(),
                line["method"].as_str().unwrap(),
                line["code"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("access", "GetCacheLocation", "INSTANCE_NOT_EXIST"),
            ("access", "LeaderDemote", "INVALID_ARGUMENT"),
            ("audit", "LeaderDemote", "INVALID_ARGUMENT"),
        ]
    );
    assert_eq!(told[2]["subject"], "expected_epoch=\"1\"");
    assert!(
        told[0]["peer"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{}",
        told[0]
    );
    assert_eq!(told[0]["transport"], "http");
    assert!(told[0]["us"].is_u64(), "{}", told[0]);
}
