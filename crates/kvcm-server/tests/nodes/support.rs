//! What the tests share.

use std::{net::SocketAddr, path::Path, time::Duration};

use kvcm_proto::meta::{self, meta_service_client::MetaServiceClient};
use kvcm_testkit::{Cluster, ClusterSpec, Ports, http_post};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::transport::Channel;

/// Long for any machine, so that only a real fault reaches it.
const LIMIT: Duration = Duration::from_secs(60);

/// The JSON answer of a call; HTTP status 200 is a must.
pub(crate) async fn call(address: SocketAddr, rpc: &str, body: Value) -> Value {
    let reply = http_post(address, &format!("/api/{rpc}"), body.to_string().as_bytes()).await;
    let reply = reply.unwrap();
    assert_eq!(reply.status, 200, "{rpc}: {reply:?}");
    reply.json().unwrap()
}

/// The code in the header of an answer.
pub(crate) fn code(answer: &Value) -> &str {
    answer["header"]["status"]["code"]
        .as_str()
        .unwrap_or_default()
}

/// The text in the header of an answer.
pub(crate) fn message(answer: &Value) -> &str {
    answer["header"]["status"]["message"]
        .as_str()
        .unwrap_or_default()
}

/// A connection to a gRPC port.
pub(crate) async fn channel(address: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap()
}

/// A client of MetaService over gRPC.
pub(crate) async fn meta_client(address: SocketAddr) -> MetaServiceClient<Channel> {
    MetaServiceClient::new(channel(address).await)
}

/// A registration that the built-in startup configuration accepts.
pub(crate) fn registration(instance: &str) -> Value {
    json!({
        "trace_id": "t",
        "instance_group": "default",
        "instance_id": instance,
        "block_size": 16,
        "location_spec_infos": [{"name": "tp0", "size": 1024}],
        "model_deployment": {"model_name": "m", "dtype": "fp16"},
    })
}

/// The same over gRPC.
pub(crate) fn registration_message(instance: &str) -> meta::RegisterInstanceRequest {
    meta::RegisterInstanceRequest {
        trace_id: "t".to_owned(),
        instance_group: "default".to_owned(),
        instance_id: instance.to_owned(),
        block_size: 16,
        location_spec_infos: vec![meta::LocationSpecInfo {
            name: "tp0".to_owned(),
            size: 1024,
        }],
        model_deployment: Some(meta::ModelDeployment {
            model_name: "m".to_owned(),
            dtype: "fp16".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Asks until the answer is right. Polling a process of its own is not synchronisation by sleep:
/// only the limit could make this fail on a slow machine.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(LIMIT, asked).await {
        Ok(answer) => answer,
        Err(_) => panic!("not within {LIMIT:?}: {what}"),
    }
}

/// Some nodes on file coordination, with their folder.
pub(crate) struct Nodes {
    pub(crate) cluster: Cluster,
    pub(crate) dir: TempDir,
}

impl Nodes {
    /// A lease long enough that a noisy machine does not lose it by accident.
    pub(crate) async fn start(count: usize, lease_ms: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lock = format!("file://{}", dir.path().join("lock").display());
        let cluster = start_on(count, lease_ms, &lock, dir.path(), NO_SETTINGS).await;
        Self { cluster, dir }
    }

    pub(crate) fn ports(&self, index: usize) -> Ports {
        self.cluster.ports()[index]
    }

    /// The node that says of itself that it leads, as soon as exactly one does.
    pub(crate) async fn leader(&self, among: &[usize]) -> usize {
        leader_of(&self.cluster, among).await
    }

    /// The epoch that a node knows a leader of.
    pub(crate) async fn epoch(&self, index: usize) -> u64 {
        let info = call(self.ports(index).http(), "getClusterInfo", json!({})).await;
        info["leader_epoch"]
            .as_str()
            .and_then(|epoch| epoch.parse().ok())
            .unwrap_or(0)
    }
}

/// The node that says of itself that it leads, as soon as exactly one does.
pub(crate) async fn leader_of(cluster: &Cluster, among: &[usize]) -> usize {
    let ports = cluster.ports();
    let leads = async |index: usize| {
        let health = call(ports[index].admin_http(), "checkHealth", json!({})).await;
        health["is_leader"] == true
    };
    until("exactly one leader", async || {
        let mut leaders = Vec::new();
        for index in among {
            if leads(*index).await {
                leaders.push(*index);
            }
        }
        // The first may have ceased to lead before the second was asked.
        if let [first, second, ..] = leaders[..] {
            assert!(!leads(first).await, "{first} and {second} both lead");
            return None;
        }
        leaders.first().copied()
    })
    .await
}

/// Nothing beside what every test cluster has.
pub(crate) const NO_SETTINGS: &[(&str, &str)] = &[];

/// Starts nodes on some coordination.
pub(crate) async fn start_on(
    count: usize,
    lease_ms: u64,
    coordination: &str,
    dir: &Path,
    settings: &[(&str, impl AsRef<str>)],
) -> Cluster {
    let lease = Duration::from_millis(lease_ms);
    let mut spec = ClusterSpec::new(count, dir, coordination, lease).unwrap();
    for (key, value) in settings {
        spec = spec.set(key, value.as_ref());
    }
    Cluster::start(spec).await.unwrap()
}
