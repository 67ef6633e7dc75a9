//! The servers that are measured.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::{Cluster, ClusterSpec};
use serde_json::{Value, json};

use crate::api::{
    call::{Call, Transport},
    caller::Caller,
    cost::{ACCOUNT, Access},
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
    access: Access,
}

impl Nodes {
    /// Starts `count` nodes with `settings`, with all their files in `dir`; `access` is what their
    /// clients must know then.
    pub(super) async fn start(
        dir: &Path,
        count: usize,
        settings: &[(&'static str, String)],
        access: Access,
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
        let mut nodes = Self {
            cluster: Cluster::start(spec).await?,
            leader: 0,
            access,
        };
        nodes.agree().await?;
        if nodes.access.has_account {
            let (user_name, password) = ACCOUNT;
            nodes.add_account(user_name, password).await?;
        }
        Ok(nodes)
    }

    /// Where a call goes to; the only node of one is leader and follower.
    pub(super) fn target(&mut self, call: Call, transport: Transport) -> Target {
        let index = match call.is_of_leader() {
            true => self.leader,
            false => (self.leader + 1) % self.cluster.len(),
        };
        let authorization = match call.is_of_admin() {
            true => self.access.admin,
            false => self.access.engine,
        };
        self.target_at(index, call, transport, authorization)
    }

    fn target_at(
        &mut self,
        index: usize,
        call: Call,
        transport: Transport,
        authorization: Option<&'static str>,
    ) -> Target {
        let node = self.cluster.node(index);
        Target {
            call,
            transport,
            address: call.port(transport, node.ports()),
            pid: node.pid(),
            tls: self.access.tls.clone(),
            authorization: authorization.map(str::to_owned),
        }
    }

    /// Waits until all nodes name the same leader and that one serves.
    async fn agree(&mut self) -> anyhow::Result<()> {
        let end = BootClock.now() + LIMIT;
        while !self.is_agreed().await? {
            if BootClock.now() > end {
                bail!("no leader after {LIMIT:?}");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Whether all nodes name the same leader and that one serves; then it is remembered.
    async fn is_agreed(&mut self) -> anyhow::Result<bool> {
        let mut all: Option<usize> = None;
        for index in 0..self.cluster.len() {
            let info = self.ask(index, Call::ClusterInfo).await?;
            let named = info["leader_node_id"].as_str().unwrap_or_default();
            let named = self.cluster.index_of(named);
            if named.is_none() || (all.is_some() && all != named) {
                return Ok(false);
            }
            all = named;
        }
        let Some(leader) = all else {
            return Ok(false);
        };
        self.leader = leader;
        let reply = self.ask(leader, Call::Register).await?;
        match reply["header"]["status"]["code"].as_str() {
            Some("OK") => Ok(true),
            Some("SERVER_NOT_LEADER") => Ok(false),
            _ => bail!("the bench's instance is refused: {reply}"),
        }
    }

    /// A call of the set-up, as an administrator: accounts are there only later.
    async fn ask(&mut self, index: usize, call: Call) -> anyhow::Result<Value> {
        let target = self.target_at(index, call, Transport::Http, self.access.admin);
        post(&target, target.path(), call.request(Transport::Http)).await
    }

    /// A target whose client is one more account, which the leader has not seen yet.
    pub(super) async fn with_new_account(&mut self, number: usize) -> anyhow::Result<Target> {
        let (user_name, password) = (format!("bench-{number}"), "password-of-the-bench");
        self.add_account(&user_name, password).await?;
        let shown = BASE64_STANDARD.encode(format!("{user_name}:{password}"));
        Ok(Target {
            authorization: Some(format!("Basic {shown}")),
            ..self.target(Call::ClusterInfo, Transport::Http)
        })
    }

    /// Has the leader know an account that clients use.
    async fn add_account(&mut self, user_name: &str, password: &str) -> anyhow::Result<()> {
        let body = json!({ "user_name": user_name, "password": password, "role": "ROLE_USER" });
        let target = self.target(Call::ListStorage, Transport::Http);
        let reply = post(&target, "/api/addAccount", body.to_string().into()).await?;
        let is_added = reply["header"]["status"]["code"] == "OK";
        ensure!(is_added, "the bench's account is refused: {reply}");
        Ok(())
    }
}

/// Posts to where `target` is, on a connection of its own, within the limit.
async fn post(target: &Target, path: &'static str, body: Bytes) -> anyhow::Result<Value> {
    let exchange = async { Caller::http(target, path, body).await?.call().await };
    let answer = tokio::time::timeout(LIMIT, exchange).await;
    let answer = answer
        .with_context(|| format!("no answer within {LIMIT:?}"))
        .flatten()
        .with_context(|| format!("POST {path}"))?;
    serde_json::from_slice(&answer).context("not JSON")
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
