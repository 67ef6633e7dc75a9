//! Several nodes: one leads, the others say so and take over.

use std::{net::SocketAddr, time::Duration};

use kvcm_proto::{
    admin::{self, admin_service_client::AdminServiceClient},
    meta,
};
use kvcm_testkit::{RedisServer, http_get};
use serde_json::{Value, json};

use crate::{
    both::Caller,
    support::{
        NO_SETTINGS, Nodes, call, channel, code, message, meta_client, registration,
        registration_message, start_on, until,
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_refuses_every_leader_only_call_with_a_hint_on_both_protocols() {
    let nodes = Nodes::start(2, 5_000).await;
    let leader = nodes.leader(&[0, 1]).await;
    let follower = 1 - leader;
    let ports = nodes.ports(follower);
    let name = format!("node-{}", leader + 1);
    let calls = [
        ("registerInstance", registration("i")),
        ("getInstanceInfo", json!({"instance_id": "i"})),
        (
            "getCacheLocation",
            json!({"instance_id": "i", "query_type": 2, "block_keys": [1]}),
        ),
        (
            "getCacheLocationLen",
            json!({"instance_id": "i", "query_type": 2, "block_keys": [1]}),
        ),
        (
            "getCacheMeta",
            json!({"instance_id": "i", "block_keys": [1]}),
        ),
        (
            "startWriteCache",
            json!({"instance_id": "i", "block_keys": [1]}),
        ),
        ("finishWriteCache", json!({"instance_id": "i"})),
        ("removeCache", json!({})),
        ("trimCache", json!({})),
    ];
    // It first has to hear that the leader serves.
    until("the follower knows the leader's address", async || {
        let info = call(ports.http(), "getClusterInfo", json!({})).await;
        info.get("leader_endpoint").is_some().then_some(())
    })
    .await;
    let mut callers = [Caller::Http(ports), Caller::grpc(&ports).await];
    for (at, (rpc, body)) in calls.iter().chain(&calls).enumerate() {
        let answer = callers[at / calls.len()].call(rpc, body).await;
        assert_eq!(code(&answer), "SERVER_NOT_LEADER", "{rpc}: {answer}");
        let hint = &answer["header"]["leader_hint"];
        assert_eq!(hint["node_id"], name, "{rpc}: {answer}");
        let port = nodes.ports(leader).rpc_port;
        assert_eq!(hint["endpoint"]["meta_rpc_port"], port, "{rpc}: {answer}");
        assert_eq!(hint["reason"], "follower", "{rpc}: {answer}");
        assert_eq!(hint["retry_after_ms"], "0", "{rpc}: {answer}");
    }
    let mut grpc = meta_client(ports.rpc()).await;
    let refused = grpc
        .register_instance(registration_message("i"))
        .await
        .unwrap()
        .into_inner();
    let header = refused.header.unwrap();
    assert_eq!(
        header.status.unwrap().code(),
        meta::ErrorCode::ServerNotLeader
    );
    let hint = header.leader_hint.unwrap();
    assert_eq!(
        (hint.node_id, hint.phase.as_str()),
        (name.clone(), "serving")
    );
    assert_eq!(hint.epoch, nodes.epoch(leader).await);

    // What any node serves.
    let info = call(
        ports.http(),
        "getClusterInfo",
        json!({"instance_id": "nobody"}),
    )
    .await;
    assert_eq!((code(&info), &info["leader_node_id"]), ("OK", &json!(name)));
    assert_eq!(info["self_role"], "follower");
    let manager = until("both nodes are members", async || {
        let info = call(ports.admin_http(), "getManagerClusterInfo", json!({})).await;
        (info["nodes"].as_array().map(Vec::len) == Some(2)).then_some(info)
    })
    .await;
    assert_eq!(manager["self_leader_expiration_time"], "-1");
    assert_eq!(manager["leader_node_id"], json!(name));
    let demote = call(ports.admin_http(), "leaderDemote", json!({})).await;
    assert_eq!(code(&demote), "SERVER_NOT_LEADER");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_tells_clients_of_all_that_live() {
    let mut nodes = Nodes::start(2, 1_000).await;
    let leader = nodes.leader(&[0, 1]).await;
    let ports = [nodes.ports(0), nodes.ports(1)];
    let told = async |asked: usize| {
        let info = call(ports[asked].http(), "getClusterInfo", json!({})).await;
        let nodes = info["nodes"].as_array().cloned().unwrap_or_default();
        let mut told: Vec<_> = nodes
            .iter()
            .map(|node| node["meta_rpc_port"].clone())
            .collect();
        told.sort_by_key(serde_json::Value::as_i64);
        told
    };
    let mut both = ports.map(|ports| json!(ports.rpc_port)).to_vec();
    both.sort_by_key(serde_json::Value::as_i64);
    for asked in [0, 1] {
        until("both are told of", async || {
            (told(asked).await == both).then_some(())
        })
        .await;
    }
    nodes.cluster.node(1 - leader).kill().await.unwrap();
    let survivor = vec![json!(ports[leader].rpc_port)];
    until("only one is left", async || {
        (told(leader).await == survivor).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_followed_and_comes_back_as_a_follower() {
    let mut nodes = Nodes::start(2, 1_000).await;
    let first = nodes.leader(&[0, 1]).await;
    let second = 1 - first;
    let epoch = nodes.epoch(first).await;
    let answer = call(
        nodes.ports(first).http(),
        "registerInstance",
        registration("i"),
    )
    .await;
    assert_eq!(code(&answer), "OK", "{answer}");
    assert_eq!(answer["header"]["epoch"], epoch.to_string());
    let cluster_id = answer["header"]["cluster_id"].clone();

    nodes.cluster.node(first).kill().await.unwrap();
    assert_eq!(nodes.leader(&[second]).await, second);
    let risen = nodes.epoch(second).await;
    assert!(risen > epoch, "{risen} after {epoch}");
    // Volatile stores: the new leader knows nothing of the instance, and says so.
    let lookup = json!({"instance_id": "i", "query_type": 2, "block_keys": [1]});
    let answer = call(nodes.ports(second).http(), "getCacheLocation", lookup).await;
    assert_eq!(code(&answer), "INSTANCE_NOT_EXIST", "{answer}");
    assert_eq!(answer["header"]["cluster_id"], cluster_id);

    nodes.cluster.restart(first).await.unwrap();
    let port = nodes.ports(second).rpc_port;
    until("the restarted node names the leader", async || {
        let info = call(nodes.ports(first).http(), "getClusterInfo", json!({})).await;
        (info["leader_endpoint"]["meta_rpc_port"] == port).then_some(())
    })
    .await;
    assert_eq!(nodes.leader(&[0, 1]).await, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_leader_hands_over_and_stays_out_while_it_has_to() {
    let nodes = Nodes::start(2, 5_000).await;
    let first = nodes.leader(&[0, 1]).await;
    let (old, new) = (nodes.ports(first), nodes.ports(1 - first));
    let delay = json!({"campaign_delay_time_ms": 600_000});
    let answer = call(old.admin_http(), "updateLeaderElectorConfig", delay).await;
    assert_eq!(code(&answer), "OK");
    let config = call(old.admin_http(), "getLeaderElectorConfig", json!({})).await;
    assert_eq!(config["campaign_delay_time_ms"], "600000");
    let negative = json!({"campaign_delay_time_ms": -1});
    let answer = call(old.admin_http(), "updateLeaderElectorConfig", negative).await;
    assert_eq!(code(&answer), "INVALID_ARGUMENT");
    assert!(
        message(&answer).contains("campaign_delay_time_ms"),
        "{answer}"
    );

    let epoch = nodes.epoch(first).await;
    let wrong = json!({"expected_epoch": epoch - 1});
    let answer = call(old.admin_http(), "leaderDemote", wrong).await;
    assert_eq!(code(&answer), "INVALID_ARGUMENT", "{answer}");
    // Over gRPC this time.
    let mut grpc = AdminServiceClient::new(channel(old.admin_rpc()).await);
    let request = admin::LeaderDemoteRequest {
        expected_epoch: Some(epoch),
        ..Default::default()
    };
    let answer = grpc.leader_demote(request).await.unwrap().into_inner();
    let status = answer.header.unwrap().status.unwrap();
    assert_eq!(status.code(), admin::ErrorCode::Ok, "{status:?}");
    let health = call(old.admin_http(), "checkHealth", json!({})).await;
    assert_eq!(health["is_leader"], false);
    let info = call(old.admin_http(), "getManagerClusterInfo", json!({})).await;
    for node in info["nodes"].as_array().unwrap() {
        let is_other = node["node_id"] != info["self_node_id"];
        assert!(is_other || node["role"] == info["self_role"], "{info}");
    }
    assert_eq!(nodes.leader(&[0, 1]).await, 1 - first);
    // Killing the new leader leaves nobody: the other is out for ten minutes.
    assert!(nodes.epoch(1 - first).await > epoch);
    until("the old leader names the new one", async || {
        let info = call(old.http(), "getClusterInfo", json!({})).await;
        (info["leader_endpoint"]["meta_rpc_port"] == new.rpc_port).then_some(())
    })
    .await;
    let history = call(old.admin_http(), "getManagerClusterInfo", json!({})).await;
    let history = history["history"].as_array().unwrap().clone();
    assert_eq!(history[1]["reason"], "requested", "{history:?}");
    assert_eq!(history.len(), 2, "{history:?}");
}

/// Asks until the answer has this code: what a node knows of the others may be a moment old.
async fn answered(address: SocketAddr, rpc: &str, body: Value, expected: &str) -> Value {
    until("the expected code", async || {
        let answer = call(address, rpc, body.clone()).await;
        (code(&answer) == expected).then_some(answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_to_the_named_node_or_stays_where_it_is() {
    // The lease is far longer than the limit of the test: only a hand-over can pass it.
    let dir = tempfile::tempdir().unwrap();
    let lock = format!("file://{}", dir.path().join("lock").display());
    let often = [("kvcm.leader_elector.loop_interval_ms", "100")];
    let cluster = start_on(3, 600_000, &lock, dir.path(), &often).await;
    let mut nodes = Nodes { cluster, dir };
    let first = nodes.leader(&[0, 1, 2]).await;
    let (next, dead) = ((first + 1) % 3, (first + 2) % 3);
    let epoch = nodes.epoch(first).await;
    let ask = |to: usize| json!({"transfer_to": format!("node-{}", to + 1)});
    nodes.cluster.node(dead).kill().await.unwrap();
    let admin = nodes.ports(first).admin_http();
    until("the death is noticed", async || {
        let info = call(admin, "getManagerClusterInfo", json!({})).await;
        let nodes = info["nodes"].as_array().unwrap();
        nodes
            .iter()
            .any(|node| node["role"] == "expired")
            .then_some(())
    })
    .await;
    let answer = call(admin, "leaderDemote", ask(dead)).await;
    assert_eq!(code(&answer), "INVALID_ARGUMENT", "{answer}");
    assert!(message(&answer).contains("nothing was done"), "{answer}");
    assert_eq!(nodes.epoch(first).await, epoch);
    // A node that an operator keeps out of the race is no successor.
    let other = nodes.ports(next).admin_http();
    let paused = json!({"paused": true});
    assert_eq!(code(&call(other, "setCandidacy", paused).await), "OK");
    answered(admin, "leaderDemote", ask(next), "INVALID_ARGUMENT").await;
    // Asked before it had heard of the pause, it stepped down and came back.
    assert_eq!(nodes.leader(&[first, next]).await, first);
    let epoch = nodes.epoch(first).await;

    let resumed = json!({"paused": false});
    assert_eq!(code(&call(other, "setCandidacy", resumed).await), "OK");
    answered(admin, "leaderDemote", ask(next), "OK").await;
    assert_eq!(nodes.leader(&[first, next]).await, next);
    assert_eq!(nodes.epoch(next).await, epoch + 1);
    let info = call(admin, "getManagerClusterInfo", json!({})).await;
    let last = info["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["reason"], "transferred", "{info}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_is_taken_back_leaves_the_reign_as_it_was() {
    let redis = RedisServer::start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let lock = format!("file://{}", dir.path().join("lock").display());
    let registry = format!("{}/?cluster_name=c&timeout_ms=60000", redis.uri());
    let settings = [
        ("kvcm.allow_private_stores", "true"),
        ("kvcm.registry_storage.uri", registry.as_str()),
        ("kvcm.leader_elector.drain_ms", "50"),
    ];
    let cluster = start_on(2, 600_000, &lock, dir.path(), &settings).await;
    let nodes = Nodes { cluster, dir };
    let first = nodes.leader(&[0, 1]).await;
    let (http, admin) = (nodes.ports(first).http(), nodes.ports(first).admin_http());
    answered(http, "registerInstance", registration("i"), "OK").await;
    let epoch = nodes.epoch(first).await;

    // A registration that the store does not answer outlasts the drain.
    let mut round = 0;
    until("a hand-over is taken back", async || {
        round += 1;
        redis.stop().unwrap();
        let body = registration(&format!("n-{round}"));
        let registering = tokio::spawn(async move { call(http, "registerInstance", body).await });
        until("the registration is in flight", async || {
            let page = http_get(admin, "/metrics").await.unwrap();
            let page = String::from_utf8(page.body.to_vec()).unwrap();
            page.contains("\nkvcm_gate_in_flight 1").then_some(())
        })
        .await;
        let ask = json!({"transfer_to": format!("node-{}", 2 - first)});
        let answer = call(admin, "leaderDemote", ask).await;
        redis.cont().unwrap();
        let registered = registering.await.unwrap();
        assert_eq!(code(&registered), "OK", "{registered}");
        message(&answer)
            .contains("leads on in the same epoch")
            .then_some(())
    })
    .await;
    assert_eq!(nodes.leader(&[0, 1]).await, first);
    assert_eq!(nodes.epoch(first).await, epoch);

    // What no request waits for goes on as well: sessions expire.
    let start = json!({
        "trace_id": "t", "instance_id": "i", "block_keys": [1], "write_timeout_seconds": 1,
    });
    let granted = async || {
        let answer = call(http, "startWriteCache", start.clone()).await;
        assert_eq!(code(&answer), "OK", "{answer}");
        let locations = answer["locations"].as_array().unwrap().len();
        (locations == 1).then_some(())
    };
    granted().await.unwrap();
    until("the session expires", granted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_leader_hands_over_without_waiting_for_its_lease() {
    // The lease is far longer than the limit of the test: only a hand-over can pass it.
    let mut nodes = Nodes::start(2, 600_000).await;
    let first = nodes.leader(&[0, 1]).await;
    nodes.cluster.node(first).term().unwrap();
    let status = nodes.cluster.node(first).wait().await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(nodes.leader(&[1 - first]).await, 1 - first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_leader_answers_nothing_as_leader_after_it_wakes() {
    let mut nodes = Nodes::start(2, 1_000).await;
    let first = nodes.leader(&[0, 1]).await;
    let second = 1 - first;
    let body = registration("i");
    let answer = call(nodes.ports(first).http(), "registerInstance", body.clone()).await;
    assert_eq!(code(&answer), "OK");
    nodes.cluster.node(first).stop().unwrap();
    nodes.leader(&[second]).await;
    let answer = call(nodes.ports(second).http(), "registerInstance", body.clone()).await;
    assert_eq!(code(&answer), "OK");
    nodes.cluster.node(first).cont().unwrap();
    let answer = call(nodes.ports(first).http(), "registerInstance", body).await;
    assert_eq!(code(&answer), "SERVER_NOT_LEADER", "{answer}");
    assert_eq!(nodes.leader(&[0, 1]).await, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_with_the_same_node_id_is_refused() {
    let nodes = Nodes::start(1, 5_000).await;
    let lock = format!("file://{}", nodes.dir.path().join("lock").display());
    let other = tempfile::tempdir().unwrap();
    let mut twin = start_on(1, 5_000, &lock, other.path(), NO_SETTINGS).await;
    let status = twin.node(0).wait().await.unwrap();
    assert_eq!(status.code(), Some(1));
    let log = std::fs::read_to_string(twin.node(0).log_file()).unwrap();
    assert!(
        log.contains("node id `node-1` is in use by another live process"),
        "{log}"
    );
    let health = call(nodes.ports(0).admin_http(), "checkHealth", json!({})).await;
    assert_eq!(health["is_leader"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_redis_keeps_the_node_alive_and_explains_itself() {
    let port = {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        unused.local_addr().unwrap().port()
    };
    let dir = tempfile::tempdir().unwrap();
    let uri = format!("redis://:secret@127.0.0.1:{port}/?timeout_ms=100");
    let allow = [("kvcm.allow_private_stores", "true")];
    let mut cluster = start_on(1, 1_000, &uri, dir.path(), &allow).await;
    let ports = cluster.ports()[0];
    let answer = call(ports.http(), "registerInstance", registration("i")).await;
    assert_eq!(code(&answer), "SERVER_NOT_LEADER", "{answer}");
    let health = call(ports.admin_http(), "checkHealth", json!({})).await;
    assert_eq!(
        (&health["is_leader"], &health["is_health"]),
        (&json!(false), &json!(false))
    );
    let status = async |path| http_get(ports.admin_http(), path).await.unwrap().status;
    assert_eq!(
        (status("/livez").await, status("/readyz").await),
        (200, 503)
    );
    let limit = Duration::from_secs(60);
    cluster.node(0).term().unwrap();
    let status = tokio::time::timeout(limit, cluster.node(0).wait())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    let log = std::fs::read_to_string(cluster.node(0).log_file()).unwrap();
    assert!(log.contains("cannot write the node record yet"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}
