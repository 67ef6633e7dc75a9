//! The cluster under torment, and all that belongs to it.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::Context;
use kvcm_testkit::{Cluster, ClusterSpec, NodeSpec, http_get};
use serde_json::json;

use super::{
    Options, Store,
    backend::Redis,
    disk::Disk,
    links::{End, Links},
    options::Backend,
};

/// How many nodes there are.
pub(super) const NODES: usize = 3;
/// The instance group that clients register with.
pub(super) const GROUP: &str = "default";
/// The instance whose blocks are read and written.
pub(super) const INSTANCE: &str = "chaos";
/// The one piece of a block.
pub(super) const PIECE: &str = "tp0";

/// Names of folders on the disk.
pub(super) const COORDINATION: &str = "coordination";
pub(super) const STORE: &str = "store";

/// Two looks at who leads.
const LOOK: Duration = Duration::from_millis(10);
const PROBE: Duration = Duration::from_millis(500);

/// Nodes, links, servers, disk.
#[derive(Debug)]
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) links: Links,
    pub(super) redis: Option<Redis>,
    pub(super) disk: Disk,
}

impl World {
    /// Starts everything, with the nodes' logs in `folder`.
    pub(super) async fn start(options: &Options, folder: &Path) -> anyhow::Result<Self> {
        let disk = Disk::create(&folder.join("disk"))?;
        let mut redis = options.has_redis().then(Redis::start).transpose()?;
        let mut links = Links::default();
        let startup = folder.join("startup.json");
        let blocks = folder.join("blocks");
        fs::create_dir_all(&blocks)?;
        let path = |path: &Path| {
            path.to_str()
                .map(str::to_owned)
                .context("a path that is no text")
        };
        let index = match options.store() {
            Store::Memory => json!({ "storage_type": "local", "storage_uri": "" }),
            Store::Local => {
                let folder = path(&disk.folder().join(STORE).join("index"))?;
                json!({ "storage_type": "local", "storage_uri": format!("local://{folder}") })
            }
            // Where the registry is, which each node reaches through its own proxy.
            Store::Redis => json!({ "storage_type": "redis", "storage_uri": "" }),
        };
        fs::write(&startup, startup_config(&blocks, &index).to_string())?;

        let lease = Duration::from_millis(options.lease_ms);
        let mut spec = ClusterSpec::new(NODES, folder, "", lease)?
            .set("kvcm.startup_config", &path(&startup)?)
            .set("kvcm.allow_private_stores", "true")
            .set("kvcm.logger.format", "json");
        let mut nodes = Vec::new();
        for (node, spec) in spec.nodes.into_iter().enumerate() {
            let mut place = |end, name: &str, scheme: &str| -> anyhow::Result<String> {
                if let Some(redis) = redis.as_mut().filter(|_| scheme == "redis") {
                    let server = links.add_server(node, end, redis.primary().address())?;
                    let replicas = options.wait_replicas;
                    let options = format!("cluster_name=chaos&wait_replicas={replicas}");
                    return Ok(format!("redis://{server}/?{options}"));
                }
                Ok(format!("{scheme}://{}", path(&disk.folder().join(name))?))
            };
            let coordination = match options.backend {
                Backend::File => place(End::Coordination, COORDINATION, "file")?,
                Backend::Redis => place(End::Coordination, COORDINATION, "redis")?,
            };
            let store = match options.store() {
                Store::Memory => String::new(),
                Store::Local => place(End::Store, STORE, "local")?,
                Store::Redis => place(End::Store, STORE, "redis")?,
            };
            nodes.push(configured(spec, node, &coordination, &store));
        }
        spec = ClusterSpec { nodes };
        let cluster = Cluster::start(spec).await?;
        for (node, ports) in cluster.ports().iter().enumerate() {
            links.add_node(node, ports)?;
        }
        Ok(Self {
            cluster,
            links,
            redis,
            disk,
        })
    }

    /// Where clients reach the nodes.
    pub(super) fn addresses(&self, end: End) -> Vec<SocketAddr> {
        let nodes = 0..NODES;
        nodes
            .filter_map(|node| self.links.address(node, end))
            .collect()
    }

    /// Who serves as leader now, as it says itself.
    pub(super) async fn leader(&self) -> Option<usize> {
        for (node, ports) in self.cluster.ports().iter().enumerate() {
            let asked = tokio::time::timeout(PROBE, http_get(ports.admin_http(), "/leaderz"));
            // A node that is dead or stopped does not lead.
            if let Ok(Ok(reply)) = asked.await
                && reply.status == 200
            {
                return Some(node);
            }
        }
        None
    }

    /// Waits until somebody serves as leader, up to `limit`.
    pub(super) async fn wait_for_leader(&self, limit: Duration) -> Option<usize> {
        let search = async {
            loop {
                if let Some(leader) = self.leader().await {
                    return leader;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(limit, search).await.ok()
    }
}

/// The name of node number `node`, as its log has it.
pub(super) fn node_name(node: usize) -> String {
    format!("node-{}", node + 1)
}

/// The node at an address that clients use.
pub(super) fn node_at(address: &str) -> Option<String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let is_it = |node: &usize| Links::host(*node).to_string() == host;
    (0..NODES).find(is_it).map(node_name)
}

fn configured(spec: NodeSpec, node: usize, coordination: &str, store: &str) -> NodeSpec {
    spec.set(
        "kvcm.service.advertised_host",
        &Links::host(node).to_string(),
    )
    .set("kvcm.coordination.uri", coordination)
    .set("kvcm.registry_storage.uri", store)
}

/// A storage inside the run's folder, and limits that are not reached: what is evicted cannot be
/// told from what is lost.
fn startup_config(blocks: &Path, index: &serde_json::Value) -> serde_json::Value {
    let unlimited = 1_000_000_000_000_000_u64;
    json!({
        "storage_config": {
            "type": "file",
            "global_unique_name": "chaos_files",
            "storage_spec": { "root_path": blocks, "key_count_per_file": 8 },
        },
        "instance_group": {
            "name": GROUP,
            "storage_candidates": ["chaos_files"],
            "global_quota_group_name": "chaos_quota",
            "max_instance_count": 1_000_000,
            "quota": {
                "capacity": unlimited,
                "quota_config": [{ "storage_type": "file", "capacity": unlimited }],
            },
            "cache_config": {
                "meta_indexer_config": {
                    "max_key_count": 100_000_000,
                    "meta_storage_backend_config": index,
                },
            },
        },
    })
}
