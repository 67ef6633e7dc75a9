//! The cluster that is demonstrated.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, bail};
use kvcm_testkit::{Cluster, ClusterSpec, RedisServer};
use serde_json::json;

use super::{Coordination, Options};

/// The instance group that engines register with.
pub(crate) const GROUP: &str = "default";

/// Starts what the nodes elect their leader through, where that is a server.
pub(crate) fn coordination(options: &Options) -> anyhow::Result<Option<RedisServer>> {
    match options.coordination {
        Coordination::File => Ok(None),
        Coordination::Redis => RedisServer::start(&[])
            .map(Some)
            .context("--coordination redis"),
    }
}

/// Starts the nodes, with all their files in `dir`.
pub(crate) async fn start(
    options: &Options,
    redis: Option<&RedisServer>,
    dir: &Path,
) -> anyhow::Result<Cluster> {
    let (uri, kind, store) = match redis {
        Some(server) => {
            let store = format!("{}?cluster_name=demo", server.uri());
            (server.uri(), "redis", store)
        }
        None => {
            let store = format!("local://{}", dir.join("store").display());
            let lock = format!("file://{}", dir.join("coordination").display());
            (lock, "local", store)
        }
    };
    let index = json!({ "storage_type": kind, "storage_uri": store });
    let startup = dir.join("startup.json");
    let blocks = dir.join("blocks");
    fs::create_dir_all(&blocks)?;
    fs::write(&startup, startup_config(&blocks, &index).to_string())?;
    let Some(startup) = startup.to_str() else {
        bail!(
            "the temporary directory {} has a name that is not text",
            dir.display()
        );
    };
    let lease = Duration::from_millis(options.lease_ms);
    let spec = ClusterSpec::new(options.nodes.into(), dir, &uri, lease)?
        .set("kvcm.startup_config", startup)
        .set("kvcm.registry_storage.uri", &store)
        // The longest prompt of today's traces at one token a block.
        .set("kvcm.service.max_keys_per_request", "1000000");
    Cluster::start(spec).await
}

/// A storage inside the run's directory, and limits that no trace reaches: what is evicted cannot
/// be told from what is lost.
pub(crate) fn startup_config(blocks: &Path, index: &serde_json::Value) -> serde_json::Value {
    let unlimited = 1_000_000_000_000_000_u64;
    json!({
        "storage_config": {
            "type": "file",
            "global_unique_name": "demo_files",
            "storage_spec": { "root_path": blocks, "key_count_per_file": 8 },
        },
        "instance_group": {
            "name": GROUP,
            "storage_candidates": ["demo_files"],
            "global_quota_group_name": "demo_quota",
            "max_instance_count": 10,
            "quota": {
                "capacity": unlimited,
                "quota_config": [{ "storage_type": "file", "capacity": unlimited }],
            },
            "cache_config": { "meta_indexer_config": {
                "max_key_count": 100_000_000,
                "meta_storage_backend_config": index,
            } },
        },
    })
}
