//! The page for Prometheus, as real nodes serve it.

use std::net::SocketAddr;

use kvcm_testkit::http_get;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    exposition::Page,
    support::{
        NO_SETTINGS, Nodes, call, code, leader_of, meta_client, registration, registration_message,
        start_on, until,
    },
};

async fn page(nodes: &Nodes, index: usize) -> Page {
    let reply = http_get(nodes.ports(index).admin_http(), "/metrics").await;
    let reply = reply.unwrap();
    assert_eq!(reply.status, 200);
    Page::parse(&String::from_utf8(reply.body).unwrap())
}

async fn content_type(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let mut headers = answer.lines();
    let header = headers.find_map(|line| line.strip_prefix("content-type: "));
    header.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_shows_on_the_page_of_the_node_that_answered_it() {
    let nodes = Nodes::start(2, 5_000).await;
    let leader = nodes.leader(&[0, 1]).await;
    let follower = 1 - leader;
    let http = nodes.ports(leader).http();
    let answer = call(http, "registerInstance", registration("i")).await;
    assert_eq!(code(&answer), "OK", "{answer}");
    let refused = call(
        nodes.ports(follower).http(),
        "registerInstance",
        registration("i"),
    )
    .await;
    assert_eq!(code(&refused), "SERVER_NOT_LEADER");
    let mut grpc = meta_client(nodes.ports(leader).rpc()).await;
    grpc.register_instance(registration_message("i"))
        .await
        .unwrap();
    let start = json!({"instance_id": "i", "block_keys": [1, 2], "write_timeout_seconds": 60});
    let started = call(http, "startWriteCache", start).await;
    assert_eq!(code(&started), "OK", "{started}");
    let lookup = json!({"instance_id": "i", "query_type": 2, "block_keys": [1, 2, 3]});
    call(http, "getCacheLocation", lookup.clone()).await;
    let finish = json!({
        "instance_id": "i", "write_session_id": started["write_session_id"],
        "success_blocks": {"bool_masks": {"values": [true, true]}},
    });
    let finished = call(http, "finishWriteCache", finish).await;
    assert_eq!(code(&finished), "OK", "{finished}");
    call(http, "getCacheLocation", lookup).await;
    // What is no call at all.
    let address = nodes.ports(leader).http();
    let bad = kvcm_testkit::http_post(address, "/api/removeCache", b"{")
        .await
        .unwrap();
    assert_eq!(bad.status, 400);

    let page = page(&nodes, leader).await;
    let calls = |method: &str, transport: &str, code: &str| {
        page.value(&format!(
            "kvcm_calls_total{{service=\"MetaService\",method=\"{method}\",\
             transport=\"{transport}\",code=\"{code}\"}}"
        ))
    };
    assert_eq!(calls("RegisterInstance", "http", "OK"), Some(1.0));
    assert_eq!(calls("RegisterInstance", "grpc", "OK"), Some(1.0));
    assert_eq!(calls("RemoveCache", "http", "HTTP_400"), Some(1.0));
    assert_eq!(calls("TrimCache", "grpc", "OK"), Some(0.0));
    let expected = [
        ("kvcm_lookup_keys_total", 6.0),
        ("kvcm_lookup_hits_total", 2.0),
        ("kvcm_index_keys", 2.0),
        ("kvcm_index_bytes", 2048.0),
        ("kvcm_write_sessions", 0.0),
        ("kvcm_storage_available{storage=\"nfs_01\"}", 1.0),
        (
            "kvcm_storage_problem{storage=\"nfs_01\",reason=\"full\"}",
            0.0,
        ),
        ("kvcm_leader", 1.0),
        ("kvcm_role{role=\"leader\"}", 1.0),
        ("kvcm_role{role=\"follower\"}", 0.0),
        ("kvcm_backend_up", 1.0),
        ("kvcm_ready", 1.0),
        ("kvcm_epoch", nodes.epoch(leader).await as f64),
        (
            "kvcm_call_duration_seconds_count{service=\"MetaService\",method=\"FinishWriteCache\",\
          transport=\"http\"}",
            1.0,
        ),
    ];
    for (series, value) in expected {
        assert_eq!(page.value(series), Some(value), "{series}");
    }
    assert!(
        page.value("kvcm_connections_accepted_total{listener=\"http\"}")
            .unwrap()
            >= 6.0
    );
    let left = page.value("kvcm_lease_remaining_seconds").unwrap();
    assert!(left > 0.0 && left <= 5.0, "{left}");
    let won: f64 = page
        .starting("kvcm_elections_total{result=\"won\"")
        .map(|(_, n)| n)
        .sum();
    assert_eq!(won, 1.0);
    assert!(page.value("kvcm_renew_duration_seconds_count").unwrap() >= 1.0);

    let other = self::page(&nodes, follower).await;
    assert_eq!(other.value("kvcm_leader"), Some(0.0));
    assert_eq!(
        other.value("kvcm_index_keys"),
        None,
        "only a leader has an index"
    );
    let refusals: f64 = other
        .starting("kvcm_gate_refusals_total")
        .map(|(_, n)| n)
        .sum();
    assert_eq!(refusals, 1.0);
    until("both nodes are members and ready", async || {
        let page = self::page(&nodes, follower).await;
        (page.value("kvcm_members{state=\"ready\"}") == Some(2.0)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_has_the_configured_prefix_and_type_and_can_be_switched_off() {
    let dir = TempDir::new().unwrap();
    let settings = [("kvcm.metrics.prometheus_prefix", "site_7")];
    let cluster = start_on(1, 5_000, "memory://", dir.path(), &settings).await;
    leader_of(&cluster, &[0]).await;
    let address = cluster.ports()[0].admin_http();
    let reply = http_get(address, "/metrics").await.unwrap();
    assert_eq!(
        content_type(address, "/metrics").await,
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let page = Page::parse(&String::from_utf8(reply.body).unwrap());
    assert_eq!(page.value("site_7_leader"), Some(1.0));
    assert_eq!(page.starting("kvcm").count(), 0);

    let dir = TempDir::new().unwrap();
    let settings = [("kvcm.metrics.enable_prometheus", "false")];
    let cluster = start_on(1, 5_000, "memory://", dir.path(), &settings).await;
    let reply = http_get(cluster.ports()[0].admin_http(), "/metrics")
        .await
        .unwrap();
    assert_eq!(reply.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn get_metrics_tells_calls_by_the_names_that_public_tools_look_for() {
    let dir = TempDir::new().unwrap();
    let cluster = start_on(1, 5_000, "memory://", dir.path(), NO_SETTINGS).await;
    leader_of(&cluster, &[0]).await;
    let address = cluster.ports()[0].admin_http();
    for _ in 0..2 {
        call(address, "listStorage", json!({})).await;
    }
    let answer = call(address, "getMetrics", json!({})).await;
    assert_eq!(code(&answer), "OK", "{answer}");
    let metrics = answer["metrics"].as_array().unwrap();
    let tag = json!([{"tag_key": "api_name", "tag_value": "ListStorage"}]);
    let value = |name: &str| {
        let mut metrics = metrics.iter();
        let found =
            metrics.find(|metric| metric["metric_name"] == name && metric["metric_tags"] == tag);
        found.map(|metric| metric["metric_value"].clone()).unwrap()
    };
    assert_eq!(value("service.query_counter"), json!({"int_value": "2"}));
    let mean = value("service.query_rt_us")["float_value"]
        .as_f64()
        .unwrap();
    assert!(mean > 1.0, "{mean}");
    let leader = metrics
        .iter()
        .find(|metric| metric["metric_name"] == "leader");
    assert_eq!(leader.unwrap()["metric_value"], json!({"float_value": 1.0}));
}
