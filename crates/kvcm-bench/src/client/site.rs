//! A cluster whose clients talk to it through proxies.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use anyhow::{Context, bail};
use kvcm_client::Client;
use kvcm_testkit::{Cluster, ClusterSpec, Proxy, RedisServer};
use serde_json::json;
use tempfile::TempDir;

use super::{Fault, Options};

/// The instance group of all clients.
pub(super) const GROUP: &str = "default";

/// Nodes listen on 127.0.0.1 and advertise this address, where the proxies are.
const ADVERTISED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

pub(super) struct Site {
    pub(super) cluster: Cluster,
    /// One for each node, at the address that it advertises.
    pub(super) proxies: Vec<Proxy>,
    /// One for each node, between it and the coordination.
    pub(super) coordination: Vec<Proxy>,
    /// What clients are given.
    pub(super) endpoints: Vec<String>,
    /// Keeps the address ours at which nobody answers.
    _silent: TcpListener,
    _redis: RedisServer,
    _dir: TempDir,
}

impl Site {
    pub(super) async fn start(fault: Option<Fault>, options: &Options) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("kvcm-client-").tempdir()?;
        let redis = RedisServer::start(&[])?;
        let blocks = dir.path().join("blocks");
        fs::create_dir_all(&blocks)?;
        let startup = dir.path().join("startup.json");
        fs::write(&startup, startup_config(&blocks).to_string())?;
        let startup = startup
            .to_str()
            .context("a folder whose name is not text")?;
        let lease = Duration::from_millis(options.lease_ms);
        let mut spec = ClusterSpec::new(3, dir.path(), &redis.uri(), lease)?
            .set("kvcm.startup_config", startup)
            .set("kvcm.allow_private_stores", "true")
            .set("kvcm.service.advertised_host", &ADVERTISED.to_string());
        let mut coordination = Vec::new();
        for node in &mut spec.nodes {
            let proxy = Proxy::start(redis.address())?;
            let (direct, through) = (redis.address(), proxy.address());
            let uri = redis
                .uri()
                .replace(&direct.to_string(), &through.to_string());
            *node = node.clone().set("kvcm.coordination.uri", &uri);
            coordination.push(proxy);
        }
        let cluster = Cluster::start(spec).await?;
        let mut proxies = Vec::new();
        for ports in cluster.ports() {
            let at = SocketAddr::from((ADVERTISED, ports.rpc_port));
            proxies.push(Proxy::start_at(at, ports.rpc())?);
        }
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut endpoints: Vec<_> = proxies
            .iter()
            .map(|proxy| proxy.address().to_string())
            .collect();
        match fault {
            Some(Fault::WrongAddress) => {
                let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
                endpoints.insert(0, free.to_string());
            }
            Some(Fault::SilentAddress) => endpoints.insert(0, silent.local_addr()?.to_string()),
            _ => {}
        }
        Ok(Self {
            cluster,
            proxies,
            coordination,
            endpoints,
            _silent: silent,
            _redis: redis,
            _dir: dir,
        })
    }

    pub(super) fn client(&self, options: &Options) -> kvcm_client::ClientBuilder {
        Client::builder()
            .endpoints(&self.endpoints)
            .deadline(Duration::from_millis(options.deadline_ms))
    }

    /// The place of the node that leads.
    pub(super) async fn leader(&self) -> anyhow::Result<usize> {
        let client = Client::builder()
            .endpoints(self.cluster.endpoints())
            .deadline(Duration::from_secs(60))
            .pushes(false)
            .connect()
            .await?;
        let leader = client.leader().context("the leader came and went")?;
        let index = self.cluster.index_of(&leader.node.id);
        index.with_context(|| format!("no node is called {:?}", leader.node.id))
    }

    /// Waits until the cluster serves, so that no client has to.
    pub(super) async fn ready(&self, options: &Options) -> anyhow::Result<()> {
        let client = self.client(options).lazy()?;
        let limit = Duration::from_secs(60);
        let client = client.with_deadline(limit);
        if client.register(super::load::spec()).await.is_err() {
            bail!("the cluster does not serve within {limit:?}");
        }
        Ok(())
    }
}

fn startup_config(blocks: &std::path::Path) -> serde_json::Value {
    let unlimited = 1_000_000_000_000_000_u64;
    json!({
        "storage_config": {
            "type": "file",
            "global_unique_name": "files",
            "storage_spec": { "root_path": blocks, "key_count_per_file": 8 },
        },
        "instance_group": {
            "name": GROUP,
            "storage_candidates": ["files"],
            "global_quota_group_name": "quota",
            "max_instance_count": 10,
            "quota": {
                "capacity": unlimited,
                "quota_config": [{ "storage_type": "file", "capacity": unlimited }],
            },
            "cache_config": { "meta_indexer_config": { "max_key_count": 100_000_000 } },
        },
    })
}
