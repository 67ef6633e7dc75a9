//! Indexes that outlive their leader, and all nodes.

use std::{net::SocketAddr, path::Path};

use kvcm_proto::meta::{self, block_mask::Info, meta_service_client::MetaServiceClient};
use kvcm_testkit::{Cluster, RedisServer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::{Request, transport::Channel};

use crate::support::{
    call, code, leader_of, message, meta_client, registration, registration_message, start_on,
    until,
};

/// Some nodes whose registry and index are where a test wants them.
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    dir: TempDir,
    settings: Vec<(&'static str, String)>,
    coordination: String,
}

impl Bench {
    /// Nodes on files; all that they keep is in `dir`.
    pub(crate) async fn on_files(count: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lock = format!("file://{}", dir.path().join("lock").display());
        let store = format!("local://{}", dir.path().join("store").display());
        let index = json!({"storage_type": "local", "storage_uri": store});
        Self::start(count, lock, store, &index, dir).await
    }

    /// The same at Redis.
    pub(crate) async fn on_redis(count: usize, redis: &RedisServer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = format!("{}?cluster_name=durable", redis.uri());
        let index = json!({"storage_type": "redis", "storage_uri": store});
        Self::start(count, redis.uri(), store, &index, dir).await
    }

    /// Nodes that elect their leader through files, and have registry and index at this Redis.
    pub(crate) async fn with_index_at(count: usize, redis: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lock = format!("file://{}", dir.path().join("lock").display());
        let store = format!(
            "{}/?cluster_name=d&timeout_ms=500",
            redis.trim_end_matches('/')
        );
        let index = json!({"storage_type": "redis"});
        Self::start(count, lock, store, &index, dir).await
    }

    async fn start(
        count: usize,
        coordination: String,
        registry: String,
        index: &Value,
        dir: TempDir,
    ) -> Self {
        let startup = dir.path().join("startup.json");
        let config = json!({
            "storage_config": {
                "type": "file",
                "global_unique_name": "files",
                "storage_spec": {"root_path": dir.path().join("blocks"), "key_count_per_file": 1},
            },
            "instance_group": group("default", index),
        });
        std::fs::write(&startup, config.to_string()).unwrap();
        let settings = vec![
            ("kvcm.registry_storage.uri", registry),
            ("kvcm.startup_config", startup.display().to_string()),
            ("kvcm.index.snapshot_log_bytes", "20000".to_owned()),
        ];
        let cluster = start_on(count, 1_000, &coordination, dir.path(), &settings).await;
        Self {
            cluster,
            dir,
            settings,
            coordination,
        }
    }

    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.cluster.len()).collect()
    }

    pub(crate) async fn leader(&self) -> SocketAddr {
        let alive: Vec<_> = self.all();
        let leader = leader_of(&self.cluster, &alive).await;
        self.cluster.ports()[leader].http()
    }

    /// kill -9 of the leader. Gives the HTTP address of the next one.
    pub(crate) async fn kill_leader(&mut self) -> SocketAddr {
        let dead = leader_of(&self.cluster, &self.all()).await;
        self.cluster.node(dead).kill().await.unwrap();
        let rest: Vec<_> = self.all().into_iter().filter(|n| *n != dead).collect();
        let leader = leader_of(&self.cluster, &rest).await;
        self.cluster.ports()[leader].http()
    }

    /// kill -9 of all nodes, something in between, and a start of as many on the same places.
    async fn restart(&mut self, meanwhile: impl FnOnce(&Path)) -> SocketAddr {
        for index in self.all() {
            // One may be dead already.
            let _ = self.cluster.node(index).kill().await;
        }
        meanwhile(self.dir.path());
        let count = self.cluster.len();
        self.cluster = start_on(
            count,
            1_000,
            &self.coordination,
            self.dir.path(),
            &self.settings,
        )
        .await;
        self.leader().await
    }
}

fn group(name: &str, index: &Value) -> Value {
    json!({
        "name": name,
        "storage_candidates": ["files"],
        "global_quota_group_name": "q",
        "quota": {"capacity": 1_000_000_000_000_i64},
        "cache_config": {
            "reclaim_strategy": {"storage_unique_name": "files"},
            "meta_indexer_config": {"max_key_count": 10_000_000, "meta_storage_backend_config": index},
        },
    })
}

/// The same as a call has it.
fn group_request(name: &str, index: &Value) -> Value {
    let mut group = group(name, index);
    group["cache_config"]["data_storage_strategy"] = json!("CPS_PREFER_3FS");
    group["cache_config"]["meta_indexer_config"]["meta_cache_policy_config"] =
        json!({"type": "lru"});
    json!({"trace_id": "t", "instance_group": group})
}

pub(crate) async fn register(http: SocketAddr, instance: &str, group: &str) {
    let mut request = registration(instance);
    request["instance_group"] = group.into();
    let answer = call(http, "registerInstance", request).await;
    assert_eq!(code(&answer), "OK", "{answer}");
}

/// Begins to write the keys; gives the session and the locations.
pub(crate) async fn begin(http: SocketAddr, instance: &str, keys: &[i64]) -> (String, Value) {
    let request = json!({
        "instance_id": instance, "block_keys": keys, "write_timeout_seconds": 600,
    });
    let started = call(http, "startWriteCache", request).await;
    assert_eq!(code(&started), "OK", "{started}");
    let session = started["write_session_id"].as_str().unwrap().to_owned();
    (session, started["locations"].clone())
}

pub(crate) async fn finish(http: SocketAddr, instance: &str, session: &str, keys: usize) {
    let request = json!({
        "instance_id": instance, "write_session_id": session, "success_blocks": {"offset": keys},
    });
    let finished = call(http, "finishWriteCache", request).await;
    assert_eq!(code(&finished), "OK", "{finished}");
}

pub(crate) async fn locations(http: SocketAddr, instance: &str, keys: &[i64]) -> Value {
    let request = json!({
        "instance_id": instance, "query_type": "QT_PREFIX_MATCH", "block_keys": keys,
    });
    let found = call(http, "getCacheLocation", request).await;
    assert_eq!(code(&found), "OK", "{found}");
    found["locations"].clone()
}

/// Blocks and open sessions are there after the death of the leader, and of all nodes.
async fn outlives(mut bench: Bench) {
    let http = bench.leader().await;
    register(http, "i", "default").await;
    let (session, first) = begin(http, "i", &[1, 2, 3]).await;
    finish(http, "i", &session, 3).await;
    let (open, second) = begin(http, "i", &[4, 5]).await;
    let (never, _) = begin(http, "i", &[6]).await;
    let removed = call(
        http,
        "removeCache",
        json!({"instance_id": "i", "block_keys": [3]}),
    )
    .await;
    assert_eq!(code(&removed), "OK", "{removed}");
    let two = json!([first[0], first[1]]);

    let http = bench.kill_leader().await;
    assert_eq!(locations(http, "i", &[1, 2, 3]).await, two);
    // Being written is not readable, and belongs to the session of the dead leader's time.
    assert_eq!(locations(http, "i", &[4]).await, json!([]));
    let (_, again) = begin(http, "i", &[4, 5, 6]).await;
    assert_eq!(again, json!([]));
    finish(http, "i", &open, 2).await;
    assert_eq!(locations(http, "i", &[4, 5]).await, second);

    let http = bench.restart(|_| {}).await;
    assert_eq!(locations(http, "i", &[1, 2]).await, two);
    assert_eq!(locations(http, "i", &[4, 5]).await, second);
    assert_eq!(locations(http, "i", &[6]).await, json!([]));
    finish(http, "i", &never, 1).await;
    assert_eq!(
        locations(http, "i", &[6]).await.as_array().unwrap().len(),
        1
    );
}

fn named<T>(message: T, id: &'static str) -> Request<T> {
    let mut request = Request::new(message);
    let id = id.parse().unwrap();
    request.metadata_mut().insert("x-kvcm-request-id", id);
    request
}

/// Starts a write as the request `start`, skipping key 1, which is there.
async fn start_named(grpc: &mut MetaServiceClient<Channel>) -> meta::StartWriteCacheResponse {
    let start = meta::StartWriteCacheRequest {
        instance_id: "i".to_owned(),
        block_keys: vec![12, 1, 11],
        write_timeout_seconds: 600,
        ..Default::default()
    };
    let started = grpc.start_write_cache(named(start, "start")).await.unwrap();
    started.into_inner()
}

fn said(header: Option<meta::CommonResponseHeader>) -> (meta::ErrorCode, String) {
    let status = header.unwrap().status.unwrap();
    (status.code(), status.message)
}

/// A repeat of a request gets the same answer from the next leader, and has no second effect.
async fn repeats(mut bench: Bench) {
    let http = bench.leader().await;
    let index = leader_of(&bench.cluster, &bench.all()).await;
    let mut grpc = meta_client(bench.cluster.ports()[index].rpc()).await;
    register(http, "i", "default").await;
    let (session, _) = begin(http, "i", &[1]).await;
    finish(http, "i", &session, 1).await;
    let (bad, _) = begin(http, "i", &[2]).await;
    let first = start_named(&mut grpc).await;
    assert_eq!(first.locations.len(), 2);
    let finish_bad = |session: &str| meta::FinishWriteCacheRequest {
        instance_id: "i".to_owned(),
        write_session_id: session.to_owned(),
        success_blocks: Some(meta::BlockMask {
            info: Some(Info::Offset(7)),
        }),
        ..Default::default()
    };
    let refused = grpc
        .finish_write_cache(named(finish_bad(&bad), "bad"))
        .await
        .unwrap();
    let refused = said(refused.into_inner().header);
    assert_eq!(refused.0, meta::ErrorCode::InvalidArgument);
    let remove = || meta::RemoveCacheRequest {
        instance_id: "i".to_owned(),
        block_keys: vec![3],
        ..Default::default()
    };
    let removed = grpc.remove_cache(named(remove(), "remove")).await.unwrap();
    assert_eq!(said(removed.into_inner().header).0, meta::ErrorCode::Ok);
    let mut other = registration_message("other");
    other.location_spec_infos[0].size = 7;
    let registered = grpc
        .register_instance(named(other.clone(), "register"))
        .await
        .unwrap();
    let registered = registered.into_inner();

    let http = bench.kill_leader().await;
    let ports = bench.cluster.ports();
    let next = ports.iter().find(|ports| ports.http() == http).unwrap();
    let mut grpc = meta_client(next.rpc()).await;
    // Between the first call and its repeat.
    let (session, third) = begin(http, "i", &[3]).await;
    finish(http, "i", &session, 1).await;
    let again = start_named(&mut grpc).await;
    assert_eq!(again.write_session_id, first.write_session_id);
    assert_eq!(again.block_mask, first.block_mask);
    assert_eq!(again.locations, first.locations);
    let repeat = grpc
        .finish_write_cache(named(finish_bad(&bad), "bad"))
        .await
        .unwrap();
    assert_eq!(said(repeat.into_inner().header), refused);
    let repeat = grpc.remove_cache(named(remove(), "remove")).await.unwrap();
    assert_eq!(said(repeat.into_inner().header).0, meta::ErrorCode::Ok);
    assert_eq!(locations(http, "i", &[3]).await, third, "removed twice");
    let repeat = grpc
        .register_instance(named(other, "register"))
        .await
        .unwrap();
    assert_eq!(
        repeat.into_inner().storage_configs,
        registered.storage_configs
    );
    for id in ["start", "register", "remove"] {
        let misused = grpc
            .finish_write_cache(named(finish_bad("x"), id))
            .await
            .unwrap();
        let (code, message) = said(misused.into_inner().header);
        assert_eq!(code, meta::ErrorCode::InvalidArgument, "{message}");
        assert!(message.contains(&format!("`{id}`")), "{message}");
    }
    finish(http, "i", &first.write_session_id, 2).await;
    assert_eq!(
        locations(http, "i", &[12, 1, 11])
            .await
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_known_to_the_next_leader() {
    repeats(Bench::on_files(2).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_in_a_directory_outlives_its_nodes() {
    outlives(Bench::on_files(2).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_on_redis_outlives_its_nodes() {
    let redis = RedisServer::start(&[]).unwrap();
    outlives(Bench::on_redis(2, &redis).await).await;
}

/// A group whose store cannot be opened is not created, and the answer says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_created_only_with_its_store() {
    let bench = Bench::on_files(1).await;
    let http = bench.leader().await;
    let admin = bench.cluster.ports()[0].admin_http();
    std::fs::write(bench.dir.path().join("file"), "x").unwrap();
    let in_file = format!("local://{}", bench.dir.path().join("file/index").display());
    let file = format!("local://{}", bench.dir.path().join("file").display());
    for (index, expected, part) in [
        (
            json!({"storage_type": "local", "storage_uri": in_file}),
            "INTERNAL_ERROR",
            "nothing was changed",
        ),
        (
            json!({"storage_type": "local", "storage_uri": file}),
            "INTERNAL_ERROR",
            "name a directory",
        ),
        (
            json!({"storage_type": "redis", "storage_uri": "redis://127.0.0.1:1/?cluster_name=c&timeout_ms=200"}),
            "INTERNAL_ERROR",
            "127.0.0.1:1",
        ),
        (
            json!({"storage_type": "redis", "storage_uri": "redis://127.0.0.1:1/"}),
            "INVALID_ARGUMENT",
            "cluster_name",
        ),
        (
            json!({"storage_type": "dummy"}),
            "INVALID_ARGUMENT",
            "dummy",
        ),
    ] {
        let created = call(admin, "createInstanceGroup", group_request("g", &index)).await;
        assert_eq!(code(&created), expected, "{created}");
        assert!(message(&created).contains(part), "{created}");
        let found = call(admin, "getInstanceGroup", json!({"name": "g"})).await;
        assert_ne!(code(&found), "OK", "{found}");
    }
    let other = format!("local://{}", bench.dir.path().join("other").display());
    let index = json!({"storage_type": "local", "storage_uri": other});
    let created = call(admin, "createInstanceGroup", group_request("g", &index)).await;
    assert_eq!(code(&created), "OK", "{created}");
    register(http, "g-1", "g").await;
    let (session, blocks) = begin(http, "g-1", &[1]).await;
    finish(http, "g-1", &session, 1).await;
    assert_eq!(locations(http, "g-1", &[1]).await, blocks);
    assert!(bench.dir.path().join("other/cache").is_dir());
}

/// Blocks stay where they are: a group with instances keeps its store.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_instances_keeps_its_store() {
    let bench = Bench::on_files(1).await;
    let http = bench.leader().await;
    let admin = bench.cluster.ports()[0].admin_http();
    let memory = json!({"storage_type": "local"});
    let mut request = group_request("default", &memory);
    let found = call(admin, "getInstanceGroup", json!({"name": "default"})).await;
    let version: i64 = found["instance_group"]["version"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    request["current_version"] = version.into();
    request["instance_group"]["version"] = (version + 1).into();
    register(http, "i", "default").await;
    let updated = call(admin, "updateInstanceGroup", request.clone()).await;
    assert_eq!(code(&updated), "INVALID_ARGUMENT", "{updated}");
    assert!(message(&updated).contains("new group"), "{updated}");
    let removed = call(
        admin,
        "removeInstance",
        json!({"instance_group": "default", "instance_id": "i"}),
    )
    .await;
    assert_eq!(code(&removed), "OK", "{removed}");
    let updated = call(admin, "updateInstanceGroup", request).await;
    assert_eq!(code(&updated), "OK", "{updated}");
    register(http, "i", "default").await;
    begin(http, "i", &[1]).await;
}

/// The store of one group is broken: the others serve, and it is used once it is whole again.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_store_costs_its_own_group_only() {
    let mut bench = Bench::on_files(1).await;
    let http = bench.leader().await;
    let admin = bench.cluster.ports()[0].admin_http();
    let other = bench.dir.path().join("other");
    let index =
        json!({"storage_type": "local", "storage_uri": format!("local://{}", other.display())});
    let created = call(admin, "createInstanceGroup", group_request("g", &index)).await;
    assert_eq!(code(&created), "OK", "{created}");
    for (instance, group) in [("i", "default"), ("g-1", "g")] {
        register(http, instance, group).await;
        let (session, _) = begin(http, instance, &[1]).await;
        finish(http, instance, &session, 1).await;
    }
    let away = bench.dir.path().join("away");
    let http = bench
        .restart(|_| {
            std::fs::rename(&other, &away).unwrap();
            std::fs::write(&other, "no directory").unwrap();
        })
        .await;
    assert_eq!(
        locations(http, "i", &[1]).await.as_array().unwrap().len(),
        1
    );
    let lookup = json!({"instance_id": "g-1", "query_type": "QT_PREFIX_MATCH", "block_keys": [1]});
    let refused = call(http, "getCacheLocation", lookup.clone()).await;
    assert_eq!(code(&refused), "INTERNAL_ERROR", "{refused}");
    assert!(message(&refused).contains("`g` is not open"), "{refused}");
    std::fs::remove_file(&other).unwrap();
    std::fs::rename(&away, &other).unwrap();
    let found = until("the store is used again", async || {
        let found = call(http, "getCacheLocation", lookup.clone()).await;
        (code(&found) == "OK").then_some(found)
    })
    .await;
    assert_eq!(found["locations"].as_array().unwrap().len(), 1, "{found}");
}

/// The nodes of several hosts share an index or are told not to.
#[tokio::test(flavor = "multi_thread")]
async fn a_private_index_is_refused_on_several_hosts() {
    let redis = RedisServer::start(&[]).unwrap();
    let bench = Bench::on_redis(1, &redis).await;
    bench.leader().await;
    let admin = bench.cluster.ports()[0].admin_http();
    let memory = json!({"storage_type": "local"});
    let created = call(admin, "createInstanceGroup", group_request("g", &memory)).await;
    assert_eq!(code(&created), "INVALID_ARGUMENT", "{created}");
    assert!(
        message(&created).contains("kvcm.allow_private_stores"),
        "{created}"
    );
}
