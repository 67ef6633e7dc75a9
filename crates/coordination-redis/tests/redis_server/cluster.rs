//! A Redis Cluster.

use std::time::Duration;

use coordination_core::{
    Backend, Expect, Hint, LEADER_KEY, LockOutcome, Outcome, ReignEnd, RenewOutcome,
};
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::{RedisCluster, RedisServer};

use crate::common::{
    LOCK, LONG, STATE, acquire, open, outcome, owner, patiently, renew, request, until_answered,
    within,
};

/// The first node alone: the others are found through it.
fn uri(cluster: &RedisCluster) -> String {
    let first = cluster.nodes()[0].address();
    format!("redis-cluster://{first}/")
}

/// Moves the slot of the lock to another node, step by step.
struct Move<'a> {
    slot: String,
    from: &'a RedisServer,
    to: &'a RedisServer,
}

impl<'a> Move<'a> {
    fn of_lock(cluster: &'a RedisCluster, from: usize, to: usize) -> Self {
        let (from, to) = (&cluster.nodes()[from], &cluster.nodes()[to]);
        let slot = from.command(&["CLUSTER", "KEYSLOT", LOCK]).unwrap();
        Self { slot, from, to }
    }

    fn id(node: &RedisServer) -> String {
        node.command(&["CLUSTER", "MYID"]).unwrap()
    }

    fn begin(&self) {
        let (from, to) = (Self::id(self.from), Self::id(self.to));
        let set = |node: &RedisServer, what, id: &str| {
            let words = ["CLUSTER", "SETSLOT", &self.slot, what, id];
            node.command(&words).unwrap();
        };
        set(self.to, "IMPORTING", &from);
        set(self.from, "MIGRATING", &to);
    }

    fn carry(&self, key: &str) {
        let port = self.to.address().port().to_string();
        let words = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
        self.from.command(&words).unwrap();
    }

    fn end(&self) {
        let to = Self::id(self.to);
        for node in [self.to, self.from] {
            let words = ["CLUSTER", "SETSLOT", &self.slot, "NODE", &to];
            node.command(&words).unwrap();
        }
    }
}

#[tokio::test]
async fn every_key_is_at_its_own_node_and_hints_come_from_all() {
    let cluster = RedisCluster::start(3, 0, &[]).unwrap();
    let backend = open(&uri(&cluster));
    let a = owner("a", 1);
    let mut hints = backend.watch(LEADER_KEY);
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
    assert_eq!(renewed, RenewOutcome::Renewed);
    let owner = &cluster.nodes()[cluster.owner(LOCK).unwrap()];
    assert_eq!(owner.command(&["GET", LOCK]).unwrap(), "a");
    let names: Vec<_> = (0..50).map(|n| format!("v{n:02}")).collect();
    for name in &names {
        let set = backend.set_value(name, name, None, Expect::Absent, patiently());
        set.await.unwrap();
    }
    for node in cluster.nodes() {
        assert_ne!(node.command(&["DBSIZE"]).unwrap(), "0");
    }
    let listed = backend.list_values("v", patiently()).await.unwrap();
    let found: Vec<_> = listed
        .iter()
        .map(|(name, value)| (name, &value.text))
        .collect();
    let expected: Vec<_> = names.iter().map(|name| (name, name)).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_slot_that_moves_costs_its_holder_nothing() {
    let cluster = RedisCluster::start(2, 0, &[]).unwrap();
    let backend = open(&uri(&cluster));
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    let from = cluster.owner(LOCK).unwrap();
    let moving = Move::of_lock(&cluster, from, 1 - from);
    let renew = async || renew(&backend, &a, epoch, patiently()).await;
    moving.begin();
    assert_eq!(renew().await.unwrap(), RenewOutcome::Renewed);
    moving.carry(LOCK);
    // Half of it is there, half is here: a moment in which nobody can do anything.
    let error = renew().await.unwrap_err();
    assert_eq!(outcome(&error), Some(Outcome::NotDone), "{error}");
    moving.carry(STATE);
    // Now the old node says to ask the new one.
    assert_eq!(renew().await.unwrap(), RenewOutcome::Renewed);
    let held = open(&uri(&cluster))
        .try_lock(request(&b, LONG), patiently())
        .await;
    assert!(matches!(held.unwrap(), LockOutcome::Held(_)));
    moving.end();
    assert_eq!(renew().await.unwrap(), RenewOutcome::Renewed);
    // And back, which the new node tells.
    let back = Move::of_lock(&cluster, 1 - from, from);
    back.begin();
    back.carry(LOCK);
    back.carry(STATE);
    back.end();
    assert_eq!(renew().await.unwrap(), RenewOutcome::Renewed);
    let unlock = backend.unlock(LEADER_KEY, &a, epoch, None, patiently());
    unlock.await.unwrap();
    assert!(acquire(&backend, &b, LONG).await.epoch > epoch);
}

#[tokio::test]
async fn values_whose_slot_moves_are_found_with_no_more_rights_than_documented() {
    let cluster = RedisCluster::start(2, 0, &[]).unwrap();
    let rules = "ACL SETUSER kvcm on >pw ~kvcm_* &kvcm_* -@all +@read +@write +@scripting \
                 +@connection +@pubsub +info +time +cluster";
    let words: Vec<_> = rules.split_whitespace().collect();
    for node in cluster.nodes() {
        node.command(&words).unwrap();
    }
    let backend = open(&uri(&cluster).replace("://", "://kvcm:pw@"));
    acquire(&backend, &owner("a", 1), LONG).await;
    let set = async |text: &str| {
        let set = backend.set_value("v", text, None, Expect::Any, patiently());
        set.await.unwrap();
    };
    set("1").await;
    let (key, sibling) = ("kvcm_kv:v", "kvcm_kv:{kvcm_kv:v}:version");
    let from = cluster.owner(key).unwrap();
    let slot = cluster.nodes()[0]
        .command(&["CLUSTER", "KEYSLOT", key])
        .unwrap();
    let moving = Move {
        slot,
        ..Move::of_lock(&cluster, from, 1 - from)
    };
    moving.begin();
    moving.carry(key);
    moving.carry(sibling);
    set("2").await;
    moving.end();
    set("3").await;
    let value = backend.get_value("v", patiently()).await.unwrap().unwrap();
    assert_eq!(value.text, "3");
    let listed = backend.list_values("", patiently()).await.unwrap();
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn a_node_that_dies_is_replaced_by_its_replica() {
    let args = [
        "--cluster-node-timeout",
        "2000",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let mut cluster = RedisCluster::start(3, 1, &args).unwrap();
    // Its slots are those of the only node with a replica.
    let name = "name-7";
    let key = format!("kvcm_{name}_lock:_TAIR_KVCM_LEADER_KEY");
    let name = (0..)
        .map(|n| format!("c{n}"))
        .find(|name| {
            let key = key.replace("name-7", name);
            cluster.owner(&key).unwrap() == 0
        })
        .unwrap();
    let others: Vec<_> = cluster.nodes()[1..]
        .iter()
        .map(|n| n.address().to_string())
        .collect();
    let query = format!("?cluster_name={name}&wait_replicas=1");
    let uri = format!("redis-cluster://{}/{query}", others.join(","));
    let backend = open(&uri);
    let a = owner("a", 1);
    let lock = async || backend.try_lock(request(&a, LONG), within(2000)).await;
    let LockOutcome::Acquired(first) = until_answered(lock).await else {
        panic!("it was free");
    };
    cluster.nodes_mut()[0].kill().unwrap();
    let other = open(&uri.replace("&wait_replicas=1", ""));
    let end = within(90_000);
    let renewed = loop {
        match renew(&other, &a, first.epoch, within(500)).await {
            Ok(renewed) => break renewed,
            Err(error) => assert!(error.is_retryable() && BootClock.now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(renewed, RenewOutcome::Renewed);
    let replica = &cluster.nodes()[3];
    assert!(replica.command(&["ROLE"]).unwrap().starts_with("master"));
    // A lock that vanishes here has not been seen to end: the promotion changed the history.
    let unlock = other.unlock(LEADER_KEY, &a, first.epoch, None, patiently());
    unlock.await.unwrap();
    let next = acquire(&other, &owner("b", 2), LONG).await;
    assert!(next.epoch > first.epoch);
    assert_eq!(next.previous.unwrap().end, ReignEnd::Released);
}

#[tokio::test]
async fn a_cluster_that_is_down_is_worth_another_try_and_other_servers_are_not() {
    let args = ["--cluster-node-timeout", "1000"];
    let mut cluster = RedisCluster::start(2, 0, &args).unwrap();
    let backend = open(&uri(&cluster).replace("/?", "/"));
    let a = owner("a", 1);
    let lock_node = cluster.owner(LOCK).unwrap();
    acquire(&backend, &a, LONG).await;
    cluster.nodes_mut()[1 - lock_node].kill().unwrap();
    let end = within(90_000);
    let error = loop {
        match backend.try_lock(request(&a, LONG), within(500)).await {
            Ok(_) => assert!(BootClock.now() < end, "it never noticed"),
            Err(error) => break error,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(error.is_retryable(), "{error}");
    let alone = RedisServer::start(&[]).unwrap();
    let standalone_as_cluster = open(&format!("redis-cluster://{}", alone.address()));
    let error = standalone_as_cluster
        .lock_holder(LEADER_KEY, patiently())
        .await;
    let error = error.unwrap_err();
    assert!(
        !error.is_retryable() && error.to_string().contains("redis://"),
        "{error}"
    );
    let node = cluster.nodes()[lock_node].address();
    let cluster_as_standalone = open(&format!("redis://{node}"));
    let error = cluster_as_standalone
        .lock_holder(LEADER_KEY, patiently())
        .await;
    let error = error.unwrap_err();
    assert!(
        !error.is_retryable() && error.to_string().contains("redis-cluster://"),
        "{error}"
    );
}
