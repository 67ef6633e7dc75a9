//! Several nodes on one Redis, which fails in its own ways.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use kvcm_testkit::{Cluster, RedisServer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::metadata::MetadataValue;

use crate::support::{
    call, code, leader_of, meta_client, registration, registration_message, start_on, until,
};

/// Nodes on a Redis of their own.
struct Bench {
    cluster: Cluster,
    redis: RedisServer,
    _dir: TempDir,
}

impl Bench {
    async fn start(count: usize, lease_ms: u64) -> Self {
        let redis = RedisServer::start(&[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let allow = [("kvcm.allow_private_stores", "true")];
        let uri = redis.uri();
        let cluster = start_on(count, lease_ms, &uri, dir.path(), &allow).await;
        Self {
            cluster,
            redis,
            _dir: dir,
        }
    }

    fn http(&self, index: usize) -> SocketAddr {
        self.cluster.ports()[index].http()
    }

    async fn leader(&self, among: &[usize]) -> usize {
        leader_of(&self.cluster, among).await
    }

    /// What the leader answers to a registration: its epoch and the id of its cluster.
    async fn serves(&self, index: usize) -> (u64, Value) {
        let http = self.http(index);
        let answer = until("the leader serves", async || {
            let answer = call(http, "registerInstance", registration("i")).await;
            (code(&answer) == "OK").then_some(answer)
        })
        .await;
        let epoch = answer["header"]["epoch"].as_str().unwrap().parse().unwrap();
        (epoch, answer["header"]["cluster_id"].clone())
    }

    async fn demote(&self, index: usize) {
        let admin = self.cluster.ports()[index].admin_http();
        let answer = call(admin, "leaderDemote", json!({})).await;
        assert_eq!(code(&answer), "OK", "{answer}");
    }

    /// Waits until some node serves in a later epoch.
    async fn next_reign(&self, after: u64) -> (usize, u64, Value) {
        let all: Vec<usize> = (0..self.cluster.len()).collect();
        until("a later reign", async || {
            let leader = self.leader(&all).await;
            let answer = call(self.http(leader), "registerInstance", registration("i")).await;
            let epoch: u64 = answer["header"]["epoch"].as_str()?.parse().ok()?;
            let id = answer["header"]["cluster_id"].clone();
            (code(&answer) == "OK" && epoch > after).then_some((leader, epoch, id))
        })
        .await
    }
}

fn flush(redis: &RedisServer) {
    let mut stream = TcpStream::connect(redis.address()).unwrap();
    stream.write_all(b"FLUSHALL\r\n").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_cluster_hands_over_on_request_and_follows_a_kill() {
    let mut bench = Bench::start(3, 1_000).await;
    let first = bench.leader(&[0, 1, 2]).await;
    let (epoch, id) = bench.serves(first).await;
    bench.demote(first).await;
    let (second, second_epoch, same) = bench.next_reign(epoch).await;
    assert_eq!(same, id);
    // The one that was asked to go tells where to go.
    let port = bench.cluster.ports()[second].rpc_port;
    until("the former leader names the new one", async || {
        let answer = call(bench.http(first), "registerInstance", registration("i")).await;
        let hint = &answer["header"]["leader_hint"];
        (hint["endpoint"]["meta_rpc_port"] == port).then_some(())
    })
    .await;

    bench.cluster.node(second).kill().await.unwrap();
    let rest: Vec<usize> = (0..3).filter(|index| *index != second).collect();
    let third = bench.leader(&rest).await;
    let (third_epoch, same) = bench.serves(third).await;
    assert_eq!(same, id);
    assert!(third_epoch > second_epoch, "{third_epoch}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_outlives_the_loss_of_its_coordination_data() {
    let mut bench = Bench::start(2, 1_000).await;
    let first = bench.leader(&[0, 1]).await;
    let (epoch, id) = bench.serves(first).await;
    // Both nodes have led: both have stores that belong to the cluster.
    bench.demote(first).await;
    let (_, epoch, _) = bench.next_reign(epoch).await;

    flush(&bench.redis);
    let (_, epoch, same) = bench.next_reign(epoch).await;
    assert_eq!(same, id, "after FLUSHALL");

    bench.redis.restart().unwrap();
    let (leader, epoch, same) = bench.next_reign(epoch).await;
    assert_eq!(same, id, "after a restart of Redis without its data");

    // And whoever leads next is as good.
    bench.demote(leader).await;
    let (_, _, same) = bench.next_reign(epoch).await;
    assert_eq!(same, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_can_use_up_all_epochs() {
    let bench = Bench::start(2, 1_000).await;
    let leader = bench.leader(&[0, 1]).await;
    let (epoch, _) = bench.serves(leader).await;
    let mut request = tonic::Request::new(registration_message("i"));
    let highest = MetadataValue::from((1_u64 << 53) - 1);
    request.metadata_mut().insert("x-kvcm-min-epoch", highest);
    let mut grpc = meta_client(bench.cluster.ports()[leader].rpc()).await;
    let answer = grpc.register_instance(request).await.unwrap().into_inner();
    let hint = answer.header.unwrap().leader_hint.unwrap();
    assert_eq!(hint.reason, "epoch_below_minimum");
    // The node's next reign is an ordinary one.
    bench.demote(leader).await;
    let (_, next, _) = bench.next_reign(epoch).await;
    bench.demote(bench.leader(&[0, 1]).await).await;
    let (_, last, _) = bench.next_reign(next).await;
    assert!(last < epoch + 1_000, "{epoch}, {next}, {last}");
}
