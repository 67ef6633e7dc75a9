//! A registry that outlives its leader, and all nodes.

use std::{net::SocketAddr, time::Duration};

use kvcm_testkit::{Cluster, ClusterSpec, Direction, Proxy, RedisServer, Rule};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    raw::ask,
    support::{call, code, leader_of, message, registration, start_on, until},
};

/// Some nodes with a folder of their own.
struct Bench {
    cluster: Cluster,
    dir: TempDir,
    coordination: String,
    settings: Vec<(&'static str, String)>,
}

impl Bench {
    async fn start(count: usize, coordination: String, registry: String, dir: TempDir) -> Self {
        let settings = vec![
            ("kvcm.allow_private_stores", "true".to_owned()),
            ("kvcm.registry_storage.uri", registry),
        ];
        let cluster = start_on(count, 1_000, &coordination, dir.path(), &settings).await;
        Self {
            cluster,
            dir,
            coordination,
            settings,
        }
    }

    fn all(&self) -> Vec<usize> {
        (0..self.cluster.len()).collect()
    }

    fn http(&self, index: usize) -> SocketAddr {
        self.cluster.ports()[index].http()
    }

    async fn register(&self, index: usize, instance: &str) {
        let http = self.http(index);
        until("an instance is registered", async || {
            let answer = call(http, "registerInstance", registration(instance)).await;
            (code(&answer) == "OK").then_some(())
        })
        .await;
    }

    async fn knows(&self, index: usize, instance: &str) -> Value {
        until("the leader serves", async || {
            let answer = self.ask(index, instance).await;
            (code(&answer) != "SERVER_NOT_LEADER").then_some(answer)
        })
        .await
    }

    async fn ask(&self, index: usize, instance: &str) -> Value {
        let request = json!({"trace_id": "t", "instance_id": instance});
        call(self.http(index), "getInstanceInfo", request).await
    }

    /// kill -9 of all nodes, and a start of as many on the same places.
    async fn restart(&mut self) {
        for index in self.all() {
            self.cluster.node(index).kill().await.unwrap();
        }
        let count = self.cluster.len();
        self.cluster = start_on(
            count,
            1_000,
            &self.coordination,
            self.dir.path(),
            &self.settings,
        )
        .await;
    }
}

/// What was registered is there after the death of its leader and after that of all nodes.
async fn outlives(mut bench: Bench) {
    let first = bench.cluster_leader(&bench.all()).await;
    bench.register(first, "a").await;
    bench.cluster.node(first).kill().await.unwrap();
    let rest: Vec<usize> = bench
        .all()
        .into_iter()
        .filter(|node| *node != first)
        .collect();
    let second = bench.cluster_leader(&rest).await;
    let found = bench.knows(second, "a").await;
    assert_eq!(code(&found), "OK", "after the death of the leader: {found}");
    bench.register(second, "b").await;

    bench.restart().await;
    let leader = bench.cluster_leader(&bench.all()).await;
    for instance in ["a", "b"] {
        let found = bench.knows(leader, instance).await;
        assert_eq!(code(&found), "OK", "after the death of all: {found}");
    }
    let found = bench.knows(leader, "c").await;
    assert_ne!(code(&found), "OK");
}

impl Bench {
    async fn cluster_leader(&self, among: &[usize]) -> usize {
        leader_of(&self.cluster, among).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_in_a_directory_outlives_its_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let lock = format!("file://{}", dir.path().join("lock").display());
    let registry = format!("local://{}", dir.path().join("store").display());
    outlives(Bench::start(3, lock, registry, dir).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_on_redis_outlives_its_nodes() {
    let redis = RedisServer::start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let registry = format!("{}?cluster_name=durable", redis.uri());
    outlives(Bench::start(3, redis.uri(), registry, dir).await).await;
}

/// The cluster stays the same when the place of coordination loses everything: under nodes that run,
/// with one that starts just then and knows nothing, and when all nodes start anew.
async fn outlives_lost_coordination(mut bench: Bench, lose: impl Fn()) {
    let first = bench.cluster_leader(&bench.all()).await;
    bench.register(first, "a").await;
    let before = bench.knows(first, "a").await;
    let newcomer = (first + 1) % bench.cluster.len();
    bench.cluster.node(newcomer).kill().await.unwrap();
    lose();
    bench.cluster.restart(newcomer).await.unwrap();
    let epoch = |answer: &Value| {
        let epoch = answer["header"]["epoch"].as_str();
        epoch.and_then(|epoch| epoch.parse::<u64>().ok())
    };
    let after = until("a leader of the next epoch", async || {
        // The first leader may still be one when it is asked, and then never again.
        let leader = bench.cluster_leader(&bench.all()).await;
        let found = bench.ask(leader, "a").await;
        (epoch(&found) > epoch(&before)).then_some(found)
    })
    .await;
    assert_eq!(code(&after), "OK", "{after}");
    assert_eq!(
        after["header"]["cluster_id"],
        before["header"]["cluster_id"]
    );

    for index in bench.all() {
        bench.cluster.node(index).kill().await.unwrap();
    }
    lose();
    bench.restart().await;
    let leader = bench.cluster_leader(&bench.all()).await;
    let found = bench.knows(leader, "a").await;
    assert_eq!(code(&found), "OK", "{found}");
    assert_eq!(
        found["header"]["cluster_id"],
        before["header"]["cluster_id"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_outlives_the_removal_of_its_folder_of_coordination() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("lock");
    let registry = format!("local://{}", dir.path().join("store").display());
    let uri = format!("file://{}", lock.display());
    let bench = Bench::start(3, uri, registry, dir).await;
    // Until it is empty for a moment: nodes go on writing into it.
    let lose = || while std::fs::remove_dir_all(&lock).is_err() {};
    outlives_lost_coordination(bench, lose).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_outlives_the_flushing_of_its_redis_of_coordination() {
    let redis = RedisServer::start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let registry = format!("local://{}", dir.path().join("store").display());
    let bench = Bench::start(3, redis.uri(), registry, dir).await;
    outlives_lost_coordination(bench, || drop(redis.command(&["FLUSHALL"]).unwrap())).await;
}

/// Nobody has to be elected for it.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_put_the_id_of_their_cluster_back() {
    let redis = RedisServer::start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let registry = format!("local://{}", dir.path().join("store").display());
    let bench = Bench::start(1, redis.uri(), registry, dir).await;
    let leader = bench.cluster_leader(&bench.all()).await;
    bench.register(leader, "a").await;
    let before = bench.knows(leader, "a").await;
    let key = "kvcm_kv:_KVCM_CLUSTER_ID";
    assert_eq!(redis.command(&["DEL", key]).unwrap(), "1");
    until("the id is there again", async || {
        (redis.command(&["EXISTS", key]).unwrap() == "1").then_some(())
    })
    .await;
    let after = bench.knows(leader, "a").await;
    for field in ["epoch", "cluster_id"] {
        assert_eq!(after["header"][field], before["header"][field]);
    }
}

/// A lone node coordinates in its memory, which forgets the cluster's id with each start.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_finds_its_registry_again() {
    let dir = tempfile::tempdir().unwrap();
    let registry = format!("local://{}", dir.path().join("store").display());
    let mut bench = Bench::start(1, String::new(), registry, dir).await;
    bench.register(0, "a").await;
    for _ in 0..2 {
        bench.restart().await;
        let found = bench.knows(0, "a").await;
        assert_eq!(code(&found), "OK", "{found}");
    }
}

/// A registry that another cluster owns is left alone, and the log says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn the_registry_of_another_cluster_is_refused() {
    let redis = RedisServer::start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = format!("local://{}", dir.path().join("store").display());
    let lock = format!("file://{}", dir.path().join("lock").display());
    let bench = Bench::start(1, lock, store.clone(), dir).await;
    bench.register(0, "a").await;
    let other = tempfile::tempdir().unwrap();
    let mut other = Bench::start(1, redis.uri(), store, other).await;
    let log_file = other.cluster.node(0).log_file().to_owned();
    until("the refusal is logged", async || {
        let log = std::fs::read_to_string(&log_file).unwrap();
        log.contains("the store belongs to cluster").then_some(())
    })
    .await;
    let answer = call(other.http(0), "registerInstance", registration("b")).await;
    assert_eq!(code(&answer), "SERVER_NOT_LEADER", "{}", message(&answer));
    bench.register(0, "c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_comes_back_is_used_without_a_restart() {
    let mut redis =
        RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let lock = format!("file://{}", dir.path().join("lock").display());
    let registry = format!("{}?cluster_name=durable", redis.uri());
    let bench = Bench::start(1, lock, registry, dir).await;
    bench.register(0, "a").await;
    redis.kill().unwrap();
    let answer = call(bench.http(0), "registerInstance", registration("b")).await;
    assert_ne!(code(&answer), "OK", "{answer}");
    redis.restart().unwrap();
    bench.register(0, "c").await;
    let found = bench.knows(0, "a").await;
    assert_eq!(code(&found), "OK", "{found}");
}

/// The packet of a write is held in the network until the next leader has claimed the registry.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_of_a_superseded_leader_is_refused() {
    let redis = RedisServer::start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    // Not in a directory: who stands still there may do so with the guard.
    let lock = redis.uri();
    let spec = ClusterSpec::new(2, dir.path(), &lock, Duration::from_secs(1)).unwrap();
    let mut spec = spec.set("kvcm.allow_private_stores", "true");
    let proxies = [(); 2].map(|()| Proxy::start(redis.address()).unwrap());
    let nodes = spec.nodes.into_iter().zip(&proxies);
    let registry = |proxy: &Proxy| {
        let address = proxy.address();
        format!("redis://{address}/?cluster_name=held&timeout_ms=60000")
    };
    spec.nodes = nodes
        .map(|(node, proxy)| node.set("kvcm.registry_storage.uri", &registry(proxy)))
        .collect();
    let cluster = Cluster::start(spec).await.unwrap();
    let mut bench = Bench {
        cluster,
        dir,
        coordination: lock,
        settings: Vec::new(),
    };
    let old = bench.cluster_leader(&[0, 1]).await;
    let new = 1 - old;
    bench.register(old, "early").await;
    proxies[old].set(Direction::ToServer, Rule::hold_containing("late"));
    let late = {
        let (http, body) = (bench.http(old), registration("late").to_string());
        tokio::spawn(async move { ask(http, "POST", "/api/registerInstance", "", &body).await })
    };
    proxies[old].until_held().await;
    bench.cluster.node(old).stop().unwrap();
    assert_eq!(bench.cluster_leader(&[new]).await, new);
    bench.register(new, "next").await;
    proxies[old].release();
    bench.cluster.node(old).cont().unwrap();
    let answer: Value = serde_json::from_str(&late.await.unwrap().body).unwrap();
    assert_eq!(code(&answer), "IO_ERROR", "{answer}");
    // The one who leads does not know it, nor whoever reads the registry next.
    let mut leader = new;
    for _ in 0..2 {
        for (instance, expected) in [
            ("early", "OK"),
            ("next", "OK"),
            ("late", "INSTANCE_NOT_EXIST"),
        ] {
            let found = bench.knows(leader, instance).await;
            assert_eq!(code(&found), expected, "{instance}: {found}");
        }
        bench.cluster.node(new).kill().await.unwrap();
        leader = bench.cluster_leader(&[old]).await;
    }
}
