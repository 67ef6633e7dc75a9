//! The servers that are measured.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, bail};
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::{Cluster, ClusterSpec, http_post};
use serde_json::{Value, json};

use crate::api::{
    call::{Call, Transport},
    load::Target,
};

/// The instance group that is registered with.
pub(super) const GROUP: &str = "default";
/// Long, so that a busy machine does not change the leader in the middle of a line.
const LEASE: Duration = Duration::from_secs(30);
/// How long nodes may take to agree on a leader.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// A cluster whose leader is known to every node.
#[derive(Debug)]
pub(super) struct Nodes {
    cluster: Cluster,
    leader: usize,
}

impl Nodes {
    /// Starts `count` nodes with `settings`, with all their files in `dir`.
    pub(super) async fn start(
        dir: &Path,
        count: usize,
        settings: &[(&'static str, &'static str)],
    ) -> anyhow::Result<Self> {
        let blocks = dir.join("blocks");
        fs::create_dir_all(&blocks)?;
        let startup = dir.join("startup.json");
        fs::write(&startup, startup_config(&blocks).to_string())?;
        let startup = startup.to_str().context("a folder's name is not text")?;
        let uri = format!("file://{}", dir.join("coordination").display());
        let mut spec = ClusterSpec::new(count, dir, &uri, LEASE)?
            .set("kvcm.startup_config", startup)
            // What stores cost is another bench's matter.
            .set("kvcm.allow_private_stores", "true");
        for (key, value) in settings {
            spec = spec.set(key, value);
        }
        let cluster = Cluster::start(spec).await?;
        let leader = agreed(&cluster).await?;
        Ok(Self { cluster, leader })
    }

    /// Where a call goes to; the only node of one is leader and follower.
    pub(super) fn target(&mut self, call: Call, transport: Transport) -> Target {
        let index = match call.is_of_leader() {
            true => self.leader,
            false => (self.leader + 1) % self.cluster.len(),
        };
        let node = self.cluster.node(index);
        Target {
            call,
            transport,
            address: call.port(transport, node.ports()),
            pid: node.pid(),
        }
    }
}

/// Waits until all nodes name the same leader and that one serves.
async fn agreed(cluster: &Cluster) -> anyhow::Result<usize> {
    let end = BootClock.now() + LIMIT;
    loop {
        if let Some(leader) = leader(cluster).await? {
            return Ok(leader);
        }
        if BootClock.now() > end {
            bail!("no leader after {LIMIT:?}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn leader(cluster: &Cluster) -> anyhow::Result<Option<usize>> {
    let ports = cluster.ports();
    let mut all: Option<usize> = None;
    for node in &ports {
        let reply = http_post(node.http(), "/api/getClusterInfo", b"{}").await?;
        let info = reply.json()?;
        let named = cluster.index_of(info["leader_node_id"].as_str().unwrap_or_default());
        if named.is_none() || (all.is_some() && all != named) {
            return Ok(None);
        }
        all = named;
    }
    let Some(leader) = all.and_then(|index| Some((index, ports.get(index)?))) else {
        return Ok(None);
    };
    let body = Call::Register.request(Transport::Http);
    let path = Call::Register.path(Transport::Http);
    let reply = http_post(leader.1.http(), path, &body).await?.json()?;
    match reply["header"]["status"]["code"].as_str() {
        Some("OK") => Ok(Some(leader.0)),
        Some("SERVER_NOT_LEADER") => Ok(None),
        _ => bail!("the bench's instance is refused: {reply}"),
    }
}

/// One storage and one group.
fn startup_config(blocks: &Path) -> Value {
    json!({
        "storage_config": {
            "type": "file",
            "global_unique_name": "bench_files",
            "storage_spec": { "root_path": blocks, "key_count_per_file": 8 },
        },
        "instance_group": {
            "name": GROUP,
            "storage_candidates": ["bench_files"],
            "global_quota_group_name": "bench_quota",
            "max_instance_count": 10,
            "quota": {
                "capacity": 1_000_000_000,
                "quota_config": [{ "storage_type": "file", "capacity": 1_000_000_000 }],
            },
            "cache_config": { "meta_indexer_config": { "max_key_count": 1_000_000 } },
        },
    })
}
