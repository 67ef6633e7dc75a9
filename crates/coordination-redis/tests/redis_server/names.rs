//! Names of keys.

use std::{collections::BTreeSet, net::TcpListener};

use coordination_core::{Backend, Expect};
use kvcm_testkit::RedisServer;

use crate::common::{
    LOCK, LONG, STATE, acquire, command, open, owner, patiently, request, until_answered, within,
};

#[tokio::test]
async fn keys_and_values_are_what_existing_deployments_read() {
    let server = RedisServer::start(&[]).unwrap();
    let uri = format!("{}?cluster_name=C&db=3", server.uri());
    let backend = open(&uri);
    acquire(&backend, &owner("node-1", 1), LONG).await;
    let set = backend.set_value("v", "{\"a\":1}", None, Expect::Any, patiently());
    set.await.unwrap();
    let selected = server.uri() + "3";
    let keys: BTreeSet<String> = command(&selected, &["KEYS", "*"]).await;
    let expected = [
        "kvcm_C_lock:_TAIR_KVCM_LEADER_KEY",
        "kvcm_C_lock:{kvcm_C_lock:_TAIR_KVCM_LEADER_KEY}:state",
        "kvcm_C_kv:v",
        "kvcm_C_kv:{kvcm_C_kv:v}:version",
    ];
    assert_eq!(keys, expected.map(str::to_owned).into());
    let node: String = command(&selected, &["GET", expected[0]]).await;
    assert_eq!(node, "node-1");
    let text: String = command(&selected, &["GET", expected[2]]).await;
    assert_eq!(text, "{\"a\":1}");
    let elsewhere: Vec<String> = command(&server.uri(), &["KEYS", "*"]).await;
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

#[tokio::test]
async fn keys_and_their_siblings_are_in_one_slot_and_scripts_declare_all_keys() {
    // By itself it would take its port + 10000, which may be too high or in use.
    let bus = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let bus = bus.unwrap().port().to_string();
    let args = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let server = RedisServer::start(&args).unwrap();
    let uri = server.uri();
    command::<()>(&uri, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    let backend = open(&uri.replace("redis://", "redis-cluster://"));
    let a = owner("a", 1);
    // The server needs a moment until its own cluster is well.
    until_answered(async || backend.try_lock(request(&a, LONG), within(1000)).await).await;
    let set = backend.set_value("{v}", "1", None, Expect::Absent, patiently());
    set.await.unwrap();
    let slot_of = async |key: &str| -> u32 { command(&uri, &["CLUSTER", "KEYSLOT", key]).await };
    assert_eq!(slot_of(LOCK).await, slot_of(STATE).await);
    let value = "kvcm_kv:%7Bv%7D";
    let version = format!("kvcm_kv:{{{value}}}:version");
    assert_eq!(slot_of(value).await, slot_of(&version).await);
    let listed = backend.list_values("{", patiently()).await.unwrap();
    assert_eq!(listed[0].0, "{v}");
}
