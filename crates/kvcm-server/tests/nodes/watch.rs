//! WatchClusterInfo over both protocols.

use std::net::SocketAddr;

use kvcm_proto::{
    json::to_json,
    meta::{GetClusterInfoResponse, WatchClusterInfoRequest},
};
use kvcm_testkit::{NodeSpec, ServerProcess, http_get};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};
use tonic::Streaming;

use crate::support::{Nodes, call, code, message, meta_client, until};

/// A stream of either protocol, read as JSON.
enum Watch {
    Http(BufReader<TcpStream>),
    Grpc(Streaming<GetClusterInfoResponse>),
}

impl Watch {
    async fn http(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let body = "{\"trace_id\":\"w\"}";
        let length = body.len();
        let head = "POST /api/watchClusterInfo HTTP/1.1\r\nhost: x\r\ncontent-length: ";
        let request = format!("{head}{length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).await.unwrap(), 0, "{head}");
        }
        let head = head.to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(
            head.contains("content-type: application/x-ndjson"),
            "{head}"
        );
        Self::Http(reader)
    }

    async fn grpc(address: SocketAddr) -> Self {
        let mut client = meta_client(address).await;
        let request = WatchClusterInfoRequest {
            trace_id: "w".to_owned(),
        };
        let stream = client.watch_cluster_info(request).await.unwrap();
        Self::Grpc(stream.into_inner())
    }

    /// The next message; none at an orderly end.
    async fn next(&mut self) -> Option<Value> {
        match self {
            Self::Grpc(stream) => {
                let message = stream.message().await.unwrap()?;
                Some(serde_json::from_slice(&to_json(&message).unwrap()).unwrap())
            }
            Self::Http(reader) => loop {
                // Chunks: a line with the size, a line of JSON, an empty line; size 0 at the end.
                let mut line = String::new();
                assert_ne!(reader.read_line(&mut line).await.unwrap(), 0, "broken off");
                match line.trim_end() {
                    "0" => return None,
                    text if text.starts_with('{') => {
                        return Some(serde_json::from_str(text).unwrap());
                    }
                    _ => {}
                }
            },
        }
    }

    /// The first message of which something is true.
    async fn until(&mut self, what: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await.unwrap();
            if what(&message) {
                return message;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_the_present_then_repeats_it_and_ends_with_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new("lone", dir.path()).unwrap();
    let spec = spec.set("kvcm.service.watch_heartbeat_ms", "100");
    let mut node = ServerProcess::spawn(&spec).await.unwrap();
    let ports = *node.ports();
    let mut watches = [
        Watch::http(ports.http()).await,
        Watch::grpc(ports.rpc()).await,
    ];
    for watch in &mut watches {
        let leads = |message: &Value| message["self_role"] == "leader";
        let first = watch.until(leads).await;
        assert_eq!(first["leader_node_id"], "lone");
        let id = first["header"]["request_id"].as_str().unwrap();
        assert!(id.starts_with("w_"), "{first}");
        let again = watch.next().await.unwrap();
        assert_eq!(again["leader_epoch"], first["leader_epoch"]);
        assert_ne!(again["header"]["request_id"], id);
    }
    node.term().unwrap();
    for watch in &mut watches {
        while watch.next().await.is_some() {}
    }
    assert_eq!(node.wait().await.unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_leader_is_told_at_once_by_every_node() {
    // Leases and heartbeats are far longer than the limit of the test.
    let nodes = Nodes::start(2, 600_000).await;
    let first = nodes.leader(&[0, 1]).await;
    let (old, new) = (nodes.ports(first), nodes.ports(1 - first));
    let name = async |ports: kvcm_testkit::Ports| {
        let info = call(ports.http(), "getClusterInfo", json!({})).await;
        info["self_node_id"].as_str().unwrap().to_owned()
    };
    let (old_name, new_name) = (name(old).await, name(new).await);
    let mut watches = [Watch::http(old.http()).await, Watch::grpc(new.rpc()).await];
    for watch in &mut watches {
        let names = |message: &Value| message["leader_node_id"] == *old_name;
        watch.until(names).await;
    }
    let answer = call(old.admin_http(), "leaderDemote", json!({})).await;
    assert_eq!(code(&answer), "OK");
    for watch in &mut watches {
        let told = async || {
            let names = |message: &Value| message["leader_endpoint"]["node_id"] == *new_name;
            Some(watch.until(names).await)
        };
        until("the new leader is told", told).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_too_many_is_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new("lone", dir.path()).unwrap();
    let spec = spec.set("kvcm.service.max_watch_streams", "1");
    let node = ServerProcess::spawn(&spec).await.unwrap();
    let mut first = Watch::grpc(node.ports().rpc()).await;
    first.next().await.unwrap();
    let refusal = Watch::grpc(node.ports().rpc()).await.next().await.unwrap();
    assert_eq!(code(&refusal), "REACH_MAX_ENTITY_CAPACITY", "{refusal}");
    let said = message(&refusal);
    assert!(said.contains("kvcm.service.max_watch_streams"), "{said}");
    let page = http_get(node.ports().admin_http(), "/metrics")
        .await
        .unwrap();
    let page = String::from_utf8(page.body).unwrap();
    for line in ["kvcm_watch_streams 1", "kvcm_watch_streams_refused_total 1"] {
        assert!(page.contains(line), "{line} is missing:\n{page}");
    }
}
