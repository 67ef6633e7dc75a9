//! The server that is measured: one node that leads, everything in memory.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, ensure};
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::{NodeSpec, ServerProcess, http_get, http_post};
use serde_json::{Value, json};

use crate::serve::Over;

const GROUP: &str = "default";
const STORAGE: &str = "bench_files";
/// Bytes of a block.
const BLOCK: u64 = 1024;
/// How long it may take to lead.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// Blocks that are on their way out.
const PENDING: &str = "kvcm_cache_deletions_pending ";

/// The running server. Dropping it kills its process.
#[derive(Debug)]
pub(super) struct Server(ServerProcess);

impl Server {
    /// Starts it with all its files in `dir`.
    pub(super) async fn start(dir: &Path) -> anyhow::Result<Self> {
        let blocks = dir.join("blocks");
        fs::create_dir_all(&blocks)?;
        let startup = dir.join("startup.json");
        fs::write(&startup, startup_config(&blocks).to_string())?;
        let spec = NodeSpec::new("serve", dir)?
            .set("kvcm.startup_config", startup.to_str().context("not text")?);
        let server = Self(ServerProcess::spawn(&spec).await?);
        let end = BootClock.now() + LIMIT;
        loop {
            let info = server.ask("getClusterInfo", json!({})).await?;
            if info["self_role"] == "leader" {
                return Ok(server);
            }
            ensure!(BootClock.now() < end, "no leader after {LIMIT:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    pub(super) fn address(&self, over: Over) -> SocketAddr {
        match over {
            Over::Grpc => self.0.ports().rpc(),
            Over::Http => self.0.ports().http(),
        }
    }

    /// Registers an instance of one spec, in the group that has room for everything.
    pub(super) async fn register(&self, instance_id: &str) -> anyhow::Result<()> {
        self.register_in(GROUP, instance_id).await
    }

    /// Adds a group that keeps so many blocks, and has room for as many that wait for eviction.
    pub(super) async fn add_group(&self, name: &str, blocks: u64) -> anyhow::Result<()> {
        let body = json!({
            "instance_group": {
                "name": name,
                "storage_candidates": [STORAGE],
                "global_quota_group_name": "bench_quota",
                "max_instance_count": 1000,
                "version": 1,
                "quota": { "capacity": 2 * blocks * BLOCK },
                "cache_config": {
                    "data_storage_strategy": "CPS_PREFER_3FS",
                    "reclaim_strategy": {
                        "storage_unique_name": STORAGE,
                        "reclaim_policy": "POLICY_LRU",
                        "trigger_strategy": { "used_percentage": 0.5 },
                    },
                    "meta_indexer_config": {
                        "max_key_count": 500_000_000,
                        "meta_storage_backend_config": { "storage_type": "local" },
                        "meta_cache_policy_config": { "type": "lru" },
                    },
                },
            },
        });
        let path = "/api/createInstanceGroup";
        let body = body.to_string();
        let admin = self.0.ports().admin_http();
        let answer = http_post(admin, path, body.as_bytes()).await?.json()?;
        let is_ok = answer["header"]["status"]["code"] == "OK";
        ensure!(is_ok, "{path}: {answer}");
        Ok(())
    }

    /// Registers an instance of one spec in this group.
    pub(super) async fn register_in(&self, group: &str, instance_id: &str) -> anyhow::Result<()> {
        let body = json!({
            "instance_group": group,
            "instance_id": instance_id,
            "block_size": 16,
            "location_spec_infos": [{ "name": "tp0", "size": BLOCK }],
            "model_deployment": {
                "model_name": "model", "dtype": "fp8", "tp_size": 1, "dp_size": 1, "pp_size": 1,
            },
        });
        self.done("registerInstance", body).await
    }

    /// Removes all blocks of an instance, and waits until their bytes have gone, which would be
    /// counted as work of the next turn.
    pub(super) async fn trim(&self, instance_id: &str) -> anyhow::Result<()> {
        let body = json!({ "instance_id": instance_id, "strategy": "TS_REMOVE_ALL_CACHE" });
        self.done("trimCache", body).await?;
        let end = BootClock.now() + LIMIT;
        loop {
            let page = http_get(self.0.ports().admin_http(), "/metrics").await?;
            let page = String::from_utf8_lossy(&page.body);
            let pending = page.lines().find_map(|line| line.strip_prefix(PENDING));
            let pending: f64 = pending.context("no metric of pending deletions")?.parse()?;
            if pending == 0.0 {
                return Ok(());
            }
            ensure!(BootClock.now() < end, "not deleted after {LIMIT:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn done(&self, rpc: &str, body: Value) -> anyhow::Result<()> {
        let answer = self.ask(rpc, body).await?;
        let is_ok = answer["header"]["status"]["code"] == "OK";
        ensure!(is_ok, "{rpc}: {answer}");
        Ok(())
    }

    async fn ask(&self, rpc: &str, body: Value) -> anyhow::Result<Value> {
        let path = format!("/api/{rpc}");
        let body = body.to_string();
        http_post(self.0.ports().http(), &path, body.as_bytes())
            .await?
            .json()
    }
}

/// One storage and one group, with room for all that turns write.
fn startup_config(blocks: &Path) -> Value {
    json!({
        "storage_config": {
            "type": "file",
            "global_unique_name": STORAGE,
            "storage_spec": { "root_path": blocks, "key_count_per_file": 1 },
        },
        "instance_group": {
            "name": GROUP,
            "storage_candidates": [STORAGE],
            "global_quota_group_name": "bench_quota",
            "max_instance_count": 1000,
            "quota": {
                "capacity": 1_000_000_000_000_000_i64,
                "quota_config": [
                    { "storage_type": "file", "capacity": 1_000_000_000_000_000_i64 },
                ],
            },
            "cache_config": { "meta_indexer_config": { "max_key_count": 500_000_000 } },
        },
    })
}
