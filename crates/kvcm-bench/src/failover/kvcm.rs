//! kvcm: three real servers.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use kvcm_testkit::{Cluster, ClusterSpec, RedisServer, http_post};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{
    Kind,
    setting::Setting,
    system::{System, Target},
};
use crate::{
    demo::cluster::{GROUP, startup_config},
    interrupt::Interrupt,
};

/// Whose blocks are written.
pub(super) const INSTANCE: &str = "failover";

const NODES: usize = 3;
/// How long anything may take that should take some leases.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// Three servers, with leader, registry and index on the local disk or on one Redis: a write that
/// was acknowledged outlives the leader.
pub(super) struct Kvcm {
    runtime: Runtime,
    cluster: Cluster,
    redis: Option<RedisServer>,
    lease: Duration,
    interrupt: Interrupt,
    _dir: TempDir,
}

impl Kvcm {
    pub(super) fn start(setting: &Setting, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let dir = TempDir::with_prefix("kvcm-failover-")?;
        let redis = match setting.kind {
            Kind::KvcmRedis => Some(RedisServer::start(&["--maxmemory-policy", "noeviction"])?),
            _ => None,
        };
        let (lock, kind, store) = match &redis {
            Some(server) => (
                server.uri(),
                "redis",
                format!("{}?cluster_name=failover", server.uri()),
            ),
            None => (
                format!("file://{}", dir.path().join("coordination").display()),
                "local",
                format!("local://{}", dir.path().join("store").display()),
            ),
        };
        let blocks = dir.path().join("blocks");
        fs::create_dir_all(&blocks)?;
        let startup = dir.path().join("startup.json");
        let index = json!({ "storage_type": kind, "storage_uri": store });
        fs::write(&startup, startup_config(&blocks, &index).to_string())?;
        let startup = startup.to_str().context("a folder whose name is no text")?;
        let mut spec = ClusterSpec::new(NODES, dir.path(), &lock, setting.lease)?
            .set("kvcm.startup_config", startup)
            .set("kvcm.registry_storage.uri", &store);
        if !setting.is_tuned() {
            // What is written into the configuration by hand is what it is by default.
            spec = spec
                .set("kvcm.leader_elector.lease_ms", "10000")
                .set("kvcm.leader_elector.loop_interval_ms", "100");
        }
        let cluster = runtime.block_on(interrupt.or(Cluster::start(spec)))?;
        let kvcm = Self {
            runtime,
            cluster,
            redis,
            lease: setting.lease,
            interrupt: interrupt.clone(),
            _dir: dir,
        };
        let nodes = kvcm.addresses();
        kvcm.runtime.block_on(interrupt.or(register(&nodes)))?;
        Ok(kvcm)
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let ports = self.cluster.ports();
        ports.iter().map(|ports| ports.http()).collect()
    }

    fn backend(&self) -> anyhow::Result<&RedisServer> {
        self.redis.as_ref().context("a folder cannot be stopped")
    }
}

impl System for Kvcm {
    fn targets(&self) -> Vec<Target> {
        self.addresses().into_iter().map(Target::Kvcm).collect()
    }

    fn granted(&self) -> Duration {
        self.lease
    }

    fn has_backend(&self) -> bool {
        self.redis.is_some()
    }

    /// What earlier rounds have written would be loaded by every new leader.
    fn wants_a_new_one(&self) -> bool {
        true
    }

    fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        // Not through `kill` of the node, which waits for its end.
        let node = self.cluster.node(node);
        Ok(node.signal(rustix::process::Signal::KILL)?)
    }

    fn hand_over(&mut self, node: usize) -> anyhow::Result<()> {
        Ok(self.cluster.node(node).term()?)
    }

    fn stop(&mut self, node: usize) -> anyhow::Result<()> {
        Ok(self.cluster.node(node).stop()?)
    }

    fn cont(&mut self, node: usize) -> anyhow::Result<()> {
        Ok(self.cluster.node(node).cont()?)
    }

    fn stop_backend(&mut self, _leader: usize) -> anyhow::Result<()> {
        self.backend()?.stop()
    }

    fn cont_backend(&mut self, _leader: usize) -> anyhow::Result<()> {
        self.backend()?.cont()
    }

    fn mend(&mut self) -> anyhow::Result<()> {
        let cluster = &mut self.cluster;
        let mended = self.interrupt.or(async {
            for node in 0..cluster.len() {
                if !cluster.node(node).is_running()? {
                    cluster.restart(node).await?;
                }
            }
            Ok(())
        });
        self.runtime.block_on(mended)
    }
}

/// Registers the instance at whoever leads first.
async fn register(nodes: &[SocketAddr]) -> anyhow::Result<()> {
    let body = json!({
        "trace_id": "failover",
        "instance_group": GROUP,
        "instance_id": INSTANCE,
        "block_size": 16,
        "location_spec_infos": [{ "name": "tp0", "size": 4096 }],
        "model_deployment": { "model_name": "failover-model", "dtype": "bf16" },
    });
    let body = body.to_string();
    let search = async {
        let mut last = Value::Null;
        loop {
            for node in nodes {
                let reply = http_post(*node, "/api/registerInstance", body.as_bytes()).await?;
                let reply = reply.json()?;
                match reply["header"]["status"]["code"].as_str() {
                    Some("OK") => return Ok(()),
                    Some("SERVER_NOT_LEADER") => {}
                    _ if last == reply => bail!("the instance is refused: {reply}"),
                    // Once may be the end of a reign.
                    _ => last = reply,
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let found = tokio::time::timeout(LIMIT, search).await;
    found.with_context(|| format!("no node leads within {LIMIT:?}"))?
}
