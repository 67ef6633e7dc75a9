//! Real files of blocks that are removed or evicted.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use kvcm_testkit::{Cluster, http_get};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    exposition::Page,
    support::{call, code, leader_of, registration, start_on, until},
};

/// Nodes whose blocks are files below a directory.
struct Bench {
    cluster: Cluster,
    dir: TempDir,
}

impl Bench {
    /// The group's mark, and the delay before bytes are deleted.
    async fn start(count: usize, used_percentage: f64, delay_ms: u64) -> Self {
        Self::with_index(count, used_percentage, delay_ms, false).await
    }

    /// The same with an index that outlives its leader, or not.
    async fn with_index(
        count: usize,
        used_percentage: f64,
        delay_ms: u64,
        is_durable: bool,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let index = match is_durable {
            true => format!("local://{}", dir.path().join("index").display()),
            false => String::new(),
        };
        let blocks = dir.path().join("blocks");
        std::fs::create_dir(&blocks).unwrap();
        let startup = json!({
            "storage_config": {"type": "file", "global_unique_name": "nfs_01",
                "storage_spec": {"root_path": blocks}},
            "instance_group": {"name": "default", "storage_candidates": ["nfs_01"],
                "global_quota_group_name": "q", "version": 1,
                "quota": {"capacity": 1_i64 << 40},
                "cache_config": {"cache_prefer_strategy": 2,
                    "reclaim_strategy": {"storage_unique_name": "nfs_01", "reclaim_policy": 1,
                        "trigger_strategy": {"used_percentage": used_percentage},
                        "delay_before_delete_ms": delay_ms},
                    "meta_indexer_config": {"max_key_count": 16,
                        "meta_storage_backend_config":
                            {"storage_type": "local", "storage_uri": index}}}},
        });
        let config = dir.path().join("startup.json");
        std::fs::write(&config, startup.to_string()).unwrap();
        let registry = format!("local://{}", dir.path().join("registry").display());
        let settings = [
            ("kvcm.startup_config", config.to_str().unwrap()),
            ("kvcm.registry_storage.uri", registry.as_str()),
            ("kvcm.allow_private_stores", "true"),
        ];
        let lock = format!("file://{}", dir.path().join("lock").display());
        let cluster = start_on(count, 1_000, &lock, dir.path(), &settings).await;
        Self { cluster, dir }
    }

    fn http(&self, index: usize) -> SocketAddr {
        self.cluster.ports()[index].http()
    }

    async fn register(&self, index: usize) {
        let answer = call(self.http(index), "registerInstance", registration("i")).await;
        assert_eq!(code(&answer), "OK", "{answer}");
    }

    /// Starts a write of these keys and creates the files that it names.
    async fn begin(&self, index: usize, keys: &[i64]) -> (Value, Vec<PathBuf>) {
        let start = json!({"instance_id": "i", "block_keys": keys, "write_timeout_seconds": 60});
        let started = call(self.http(index), "startWriteCache", start).await;
        assert_eq!(code(&started), "OK", "{started}");
        let locations = started["locations"].as_array().unwrap();
        let uris = locations.iter().map(|l| &l["location_specs"][0]["uri"]);
        let paths: Vec<_> = uris.map(|uri| path(uri.as_str().unwrap())).collect();
        assert_eq!(paths.len(), keys.len());
        for path in &paths {
            assert!(path.starts_with(self.dir.path()), "{path:?}");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"block").unwrap();
        }
        (started["write_session_id"].clone(), paths)
    }

    async fn finish(&self, index: usize, id: &Value, count: usize) {
        let finish = json!({"instance_id": "i", "write_session_id": id,
            "success_blocks": {"offset": count}});
        let finished = call(self.http(index), "finishWriteCache", finish).await;
        assert_eq!(code(&finished), "OK", "{finished}");
    }

    async fn write(&self, index: usize, keys: &[i64]) -> Vec<PathBuf> {
        let (id, paths) = self.begin(index, keys).await;
        self.finish(index, &id, keys.len()).await;
        paths
    }

    async fn page(&self, index: usize) -> Page {
        let reply = http_get(self.cluster.ports()[index].admin_http(), "/metrics").await;
        Page::parse(&String::from_utf8(reply.unwrap().body).unwrap())
    }
}

fn path(uri: &str) -> PathBuf {
    let path = uri.strip_prefix("file://nfs_01").unwrap();
    PathBuf::from(path.split_once('?').unwrap().0)
}

async fn gone(path: &Path) {
    until("a file is deleted", async || (!path.exists()).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_removed_blocks_go_and_those_of_the_others_stay() {
    let bench = Bench::start(1, 3.2, 100).await;
    let leader = leader_of(&bench.cluster, &[0]).await;
    bench.register(leader).await;
    let paths = bench.write(leader, &[1, 2, 3]).await;
    let remove = json!({"instance_id": "i", "block_keys": [1]});
    let removed = call(bench.http(leader), "removeCache", remove).await;
    assert_eq!(code(&removed), "OK", "{removed}");
    let lookup = json!({"instance_id": "i", "query_type": 2, "block_keys": [1]});
    let found = call(bench.http(leader), "getCacheLocation", lookup).await;
    assert_eq!(found["locations"], json!([]), "{found}");
    gone(&paths[0]).await;
    assert!(paths[1].exists() && paths[2].exists());
    let (id, failed) = bench.begin(leader, &[4]).await;
    bench.finish(leader, &id, 0).await;
    gone(&failed[0]).await;

    until("the counters tell of it", async || {
        let page = bench.page(leader).await;
        let done = page.value("kvcm_cache_deletions_total{result=\"deleted\"}")?;
        (done == 2.0).then_some(())
    })
    .await;
    let page = bench.page(leader).await;
    for (series, value) in [
        (
            "kvcm_cache_keys{instance_group=\"default\",instance_id=\"i\"}",
            2.0,
        ),
        (
            "kvcm_cache_bytes{instance_group=\"default\",storage_type=\"file\",state=\"staying\"}",
            2048.0,
        ),
        (
            "kvcm_cache_bytes{instance_group=\"default\",storage_type=\"file\",state=\"leaving\"}",
            0.0,
        ),
        ("kvcm_cache_deletions_pending", 0.0),
        ("kvcm_cache_blocks_added_total", 3.0),
        ("kvcm_cache_blocks_removed_total", 1.0),
        ("kvcm_cache_blocks_unwritten_total", 1.0),
        ("kvcm_cache_sessions_total{event=\"finished\"}", 2.0),
    ] {
        assert_eq!(page.value(series), Some(value), "{series}");
    }

    // A removed instance leaves neither files nor series.
    let remove = json!({"instance_id": "i", "instance_group": "default"});
    let admin = bench.cluster.ports()[leader].admin_http();
    let removed = call(admin, "removeInstance", remove).await;
    assert_eq!(code(&removed), "OK", "{removed}");
    gone(&paths[1]).await;
    gone(&paths[2]).await;
    let page = bench.page(leader).await;
    assert_eq!(page.starting("kvcm_cache_keys").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn room_is_made_when_the_mark_is_reached_but_not_while_all_is_being_written() {
    let bench = Bench::start(1, 0.1, 0).await;
    let leader = leader_of(&bench.cluster, &[0]).await;
    bench.register(leader).await;
    let keys: Vec<i64> = (0..16).collect();
    let (id, paths) = bench.begin(leader, &keys).await;
    let more = json!({"instance_id": "i", "block_keys": [99]});
    let refused = call(bench.http(leader), "startWriteCache", more.clone()).await;
    assert_eq!(code(&refused), "REACH_MAX_ENTITY_CAPACITY", "{refused}");
    bench.finish(leader, &id, 16).await;
    until("there is room", async || {
        let started = call(bench.http(leader), "startWriteCache", more.clone()).await;
        (code(&started) == "OK").then_some(())
    })
    .await;
    until("the evicted files are gone", async || {
        let left = paths.iter().filter(|path| path.exists()).count();
        (left <= 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_deletes_what_the_dead_one_had_still_to_delete() {
    let mut bench = Bench::with_index(2, 3.2, 1_000, true).await;
    let old = leader_of(&bench.cluster, &[0, 1]).await;
    bench.register(old).await;
    let paths = bench.write(old, &[1, 2, 3]).await;
    let (_, open) = bench.begin(old, &[4]).await;
    let remove = json!({"instance_id": "i", "block_keys": [1, 2]});
    let removed = call(bench.http(old), "removeCache", remove).await;
    assert_eq!(code(&removed), "OK", "{removed}");
    bench.cluster.node(old).kill().await.unwrap();
    let new = leader_of(&bench.cluster, &[1 - old]).await;
    gone(&paths[0]).await;
    gone(&paths[1]).await;
    let lookup = json!({"instance_id": "i", "query_type": 2, "block_keys": [3]});
    let found = call(bench.http(new), "getCacheLocation", lookup).await;
    assert_eq!(
        found["locations"].as_array().map(Vec::len),
        Some(1),
        "{found}"
    );
    assert!(paths[2].exists() && open[0].exists());
}

/// A leader that is stopped while deletions are due, and goes on when another leads, deletes
/// nothing any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_stopped_for_longer_than_its_lease_deletes_nothing() {
    let mut bench = Bench::start(2, 3.2, 4_000).await;
    let old = leader_of(&bench.cluster, &[0, 1]).await;
    bench.register(old).await;
    let paths = bench.write(old, &[1, 2, 3]).await;
    let trim = json!({"instance_id": "i", "strategy": 1});
    let trimmed = call(bench.http(old), "trimCache", trim).await;
    assert_eq!(code(&trimmed), "OK", "{trimmed}");
    bench.cluster.node(old).stop().unwrap();
    let new = leader_of(&bench.cluster, &[1 - old]).await;
    // Long after its deletions were due.
    tokio::time::sleep(Duration::from_secs(4)).await;
    bench.cluster.node(old).cont().unwrap();
    until("the old leader knows the new one", async || {
        let info = call(bench.http(old), "getClusterInfo", json!({})).await;
        let is_follower = info["self_role"] == "follower";
        (is_follower && info["leader_node_id"] != "").then_some(())
    })
    .await;
    let before: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
    assert_eq!(before, [true; 3]);
    // The new one has an index in memory and does not know of these blocks.
    bench.register(new).await;
    let lookup = json!({"instance_id": "i", "query_type": 2, "block_keys": [1]});
    let found = call(bench.http(new), "getCacheLocation", lookup).await;
    assert_eq!(found["locations"], json!([]));
}
