//! TLS, to one server, to what sentinels name, and to all nodes of a cluster.

use std::net::TcpListener;

use coordination_core::{Backend, Expect, Hint, LEADER_KEY, RenewOutcome, UnlockOutcome};
use futures_util::StreamExt;
use kvcm_testkit::{RedisCluster, RedisServer};

use crate::common::{LONG, acquire, open, owner, patiently, renew};

/// An authority, and a certificate of 127.0.0.1 from it.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kvcm-redis/tests/tls");

/// What a server needs to speak TLS on a port of its own.
fn settings() -> Vec<(&'static str, String)> {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    vec![
        ("tls-port", free.unwrap().port().to_string()),
        ("tls-cert-file", format!("{FILES}/cert.pem")),
        ("tls-key-file", format!("{FILES}/key.pem")),
        ("tls-ca-cert-file", format!("{FILES}/ca.pem")),
        ("tls-auth-clients", "no".to_owned()),
    ]
}

fn arguments() -> Vec<String> {
    let settings = settings().into_iter();
    settings
        .flat_map(|(name, value)| [format!("--{name}"), value])
        .collect()
}

fn start() -> RedisServer {
    let arguments = arguments();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    RedisServer::start(&arguments).unwrap()
}

fn tls_port(server: &RedisServer) -> String {
    let found = server.command(&["CONFIG", "GET", "tls-port"]).unwrap();
    found.lines().nth(1).unwrap().to_owned()
}

/// Everything goes over TLS; and nothing goes to a server whose certificate nobody vouches for.
async fn serves(uri: &str) {
    let trusting = format!("{uri}tls_ca_file={FILES}/ca.pem");
    let backend = open(&trusting);
    let a = owner("a", 1);
    let mut hints = backend.watch(LEADER_KEY);
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
    assert_eq!(renewed, RenewOutcome::Renewed);
    for key in ["v1", "v2", "v3", "v4"] {
        let set = backend.set_value(key, "1", Some(LONG), Expect::Any, patiently());
        set.await.unwrap();
    }
    let listed = backend.list_values("v", patiently()).await.unwrap();
    assert_eq!(listed.len(), 4);
    let unlocked = backend.unlock(LEADER_KEY, &a, epoch, None, patiently());
    assert_eq!(unlocked.await.unwrap(), UnlockOutcome::Unlocked);

    let distrusting = open(uri);
    let lease = distrusting.lock_holder(LEADER_KEY, patiently()).await;
    let value = distrusting.get_value("v1", patiently()).await;
    for error in [lease.unwrap_err(), value.unwrap_err()] {
        assert!(!error.is_retryable(), "{error}");
        assert!(error.to_string().contains("tls_ca_file"), "{error}");
    }
}

#[tokio::test]
async fn a_server_is_spoken_to_over_tls() {
    let server = start();
    serves(&format!("rediss://127.0.0.1:{}/?", tls_port(&server))).await;
}

#[tokio::test]
async fn sentinels_and_the_primary_that_they_name_are_spoken_to_over_tls() {
    let primary = start();
    let mut config = format!("sentinel monitor m 127.0.0.1 {} 1\n", tls_port(&primary));
    let settings = settings();
    for (name, value) in &settings {
        config += &format!("{name} {value}\n");
    }
    config += "tls-replication yes\n";
    let _sentinel = RedisServer::start_sentinel(&config).unwrap();
    let port = &settings[0].1;
    serves(&format!("rediss-sentinel://127.0.0.1:{port}/?master=m&")).await;
}

#[tokio::test]
async fn all_nodes_of_a_cluster_are_spoken_to_over_tls() {
    // The nodes talk plainly among each other, and tell clients the ports on which they speak TLS.
    let cluster = RedisCluster::start_each(3, 0, || {
        let mut arguments = arguments();
        arguments.extend(["--cluster-announce-port".to_owned(), arguments[1].clone()]);
        arguments
    });
    let cluster = cluster.unwrap();
    // The others are learned.
    let port = tls_port(&cluster.nodes()[0]);
    serves(&format!("rediss-cluster://127.0.0.1:{port}/?")).await;
}
