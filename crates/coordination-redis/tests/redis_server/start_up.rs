//! What is said about servers that can be used but should not be used like that.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use coordination_core::{Backend, LEADER_KEY};
use kvcm_testkit::{Direction::ToClient, RedisServer, Rule};
use tracing::subscriber::DefaultGuard;

use crate::common::{LONG, acquire, open, owner, patiently, proxied, request};

/// What this thread logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(&self) -> DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn lines_with(&self, part: &str) -> Vec<String> {
        let bytes = self.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        let lines = text.lines().filter(|line| line.contains(part));
        lines.map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_eviction_policy_that_may_drop_the_lock_is_named_with_what_to_set() {
    for (policy, warnings) in [
        ("noeviction", 0),
        ("allkeys-lru", 1),
        ("volatile-ttl", 1),
        ("allkeys-random", 1),
    ] {
        let server = RedisServer::start(&["--maxmemory-policy", policy]).unwrap();
        let log = Log::default();
        let _listening = log.listen();
        acquire(&open(&server.uri()), &owner("a", 1), LONG).await;
        let lines = log.lines_with("maxmemory-policy");
        assert_eq!(lines.len(), warnings, "{lines:?}");
        for line in lines {
            assert!(line.contains("WARN") && line.contains(policy), "{line}");
            assert!(line.contains("set it to noeviction"), "{line}");
        }
    }
}

#[tokio::test]
async fn a_server_too_far_away_for_the_lease_is_warned_about_once() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let log = Log::default();
    let _listening = log.listen();
    let backend = open(&uri);
    let a = owner("a", 1);
    proxy.set(ToClient, Rule::delay(Duration::from_millis(100)));
    // A lookup knows no lease.
    backend.lock_holder(LEADER_KEY, patiently()).await.unwrap();
    assert_eq!(log.lines_with("lengthen the lease"), [] as [String; 0]);
    let lease = Duration::from_millis(1900);
    for _ in 0..2 {
        let attempt = backend.try_lock(request(&a, lease), patiently());
        attempt.await.unwrap();
    }
    let lines = log.lines_with("lengthen the lease");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("1.9s"), "{lines:?}");
}

#[tokio::test]
async fn missing_replicas_are_told_when_the_connection_is_opened() {
    let server = RedisServer::start(&[]).unwrap();
    let log = Log::default();
    let _listening = log.listen();
    let backend = open(&format!("{}?wait_replicas=2", server.uri()));
    backend.lock_holder(LEADER_KEY, patiently()).await.unwrap();
    let lines = log.lines_with("wait_replicas=2");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("replicas=0"), "{lines:?}");
}

#[tokio::test]
async fn why_there_is_no_connection_is_told_once_and_without_the_password() {
    let server = RedisServer::start(&["--requirepass", "right"]).unwrap();
    let log = Log::default();
    let _listening = log.listen();
    let backend = open(&server.uri().replace("://", "://:hunter2@"));
    for _ in 0..3 {
        let holder = backend.lock_holder(LEADER_KEY, patiently()).await;
        assert!(!holder.unwrap_err().is_retryable());
    }
    let lines = log.lines_with("cannot connect to redis");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(log.lines_with("hunter2").is_empty());
}
