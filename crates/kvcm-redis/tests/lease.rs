//! The lease's connection against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::{sync::Arc, time::Duration};

use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_redis::{Class, Config, Failure, Lease, Locator, Outcome, Repeat, Route};
use kvcm_testkit::RedisServer;
use kvcm_uri::Uri;
use redis::RedisResult;

const NOT_DONE: Class = Class::Retryable {
    outcome: Outcome::NotDone,
};
const UNKNOWN: Class = Class::Retryable {
    outcome: Outcome::Unknown,
};

fn config(uri: &str) -> Config {
    Config::from_uri(&Uri::parse(uri).unwrap()).unwrap().0
}

fn lease(uri: &str) -> Lease {
    let locator = Arc::new(Locator::new(config(uri)));
    Lease::new(locator, Route::Primary, Arc::new(BootClock))
}

fn within(ms: u64) -> Moment {
    BootClock.now() + Duration::from_millis(ms)
}

/// Long enough for the slowest machine.
fn patiently() -> Moment {
    within(30_000)
}

async fn ping(lease: &Lease, deadline: Moment) -> Result<String, Failure> {
    lease
        .run(Repeat::Safe, deadline, |mut link, _| async move {
            redis::cmd("PING").query_async(&mut link.connection).await
        })
        .await
}

/// Calls until it answers: while a server comes back, single calls may fail at once.
async fn ping_until_answered(lease: &Lease) {
    let end = patiently();
    while ping(lease, patiently()).await.is_err() {
        assert!(BootClock.now() < end, "never answered");
    }
}

#[tokio::test]
async fn connects_on_the_first_call_and_tells_what_the_server_is() {
    let server = RedisServer::start(&[]).unwrap();
    let lease = lease(&server.uri());
    assert_eq!(lease.server(), None);
    assert_eq!(ping(&lease, patiently()).await.unwrap(), "PONG");
    let facts = lease.server().unwrap();
    assert!(facts.is_primary && !facts.is_cluster && !facts.run_id.is_empty());
}

#[tokio::test]
async fn a_stopped_server_costs_a_call_its_deadline_and_nothing_more() {
    let server = RedisServer::start(&[]).unwrap();
    let lease = lease(&server.uri());
    ping(&lease, patiently()).await.unwrap();
    server.stop().unwrap();
    // Sent over the open connection: nobody knows.
    let failure = ping(&lease, within(100)).await.unwrap_err();
    assert_eq!(failure.class, UNKNOWN);
    // The next one finds no connection: the one that timed out is closed.
    assert_eq!(lease.server(), None);
    let failure = ping(&lease, within(100)).await.unwrap_err();
    assert_eq!(failure.class, NOT_DONE);
    server.cont().unwrap();
    ping_until_answered(&lease).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let server = RedisServer::start(&[]).unwrap();
    let lease = lease(&server.uri());
    ping(&lease, patiently()).await.unwrap();
    server.stop().unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(50), ping(&lease, patiently()));
    assert!(dropped.await.is_err());
    assert_eq!(lease.server(), None);
}

#[tokio::test]
async fn a_restarted_server_is_found_again_within_one_safe_call() {
    let mut server = RedisServer::start(&[]).unwrap();
    let lease = lease(&server.uri());
    ping(&lease, patiently()).await.unwrap();
    let first = lease.server().unwrap().run_id.clone();
    server.restart().unwrap();
    ping(&lease, patiently()).await.unwrap();
    assert_ne!(lease.server().unwrap().run_id, first);
}

#[tokio::test]
async fn an_unsafe_call_is_not_repeated_after_it_was_sent() {
    let mut server = RedisServer::start(&[]).unwrap();
    let lease = lease(&server.uri());
    ping(&lease, patiently()).await.unwrap();
    server.restart().unwrap();
    let mut calls = 0;
    let result = lease
        .run(Repeat::Unsafe, patiently(), |mut link, _| {
            calls += 1;
            async move {
                let text: RedisResult<String> =
                    redis::cmd("PING").query_async(&mut link.connection).await;
                text
            }
        })
        .await;
    assert_eq!(result.unwrap_err().class, UNKNOWN);
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_the_call_long_before_its_deadline() {
    let mut server = RedisServer::start(&[]).unwrap();
    server.kill().unwrap();
    let lease = lease(&server.uri());
    let deadline = patiently();
    let failure = ping(&lease, deadline).await.unwrap_err();
    assert_eq!(failure.class, NOT_DONE);
    assert!(BootClock.now() < deadline);
}

#[tokio::test]
async fn a_past_deadline_does_nothing() {
    let lease = lease("redis://127.0.0.1:1/");
    let failure = ping(&lease, BootClock.now()).await.unwrap_err();
    assert_eq!(failure.class, NOT_DONE);
}

#[tokio::test]
async fn wrong_and_missing_passwords_are_fatal_and_not_printed() {
    let server = RedisServer::start(&["--requirepass", "right"]).unwrap();
    for login in ["", "wrong1@", ":wrong1@", "nobody:wrong1@"] {
        let uri = server.uri().replace("://", &format!("://{login}"));
        let failure = ping(&lease(&uri), patiently()).await.unwrap_err();
        let Class::Fatal { hint } = failure.class else {
            panic!("{login}: {failure:?}");
        };
        assert!(hint.contains("credentials"), "{hint}");
        assert!(
            !format!("{failure:?}{failure}").contains("wrong1"),
            "{failure:?}"
        );
    }
    for login in ["right@", ":right@", "default:right@"] {
        let uri = server.uri().replace("://", &format!("://{login}"));
        ping(&lease(&uri), patiently()).await.unwrap();
    }
}

#[tokio::test]
async fn a_password_for_a_server_without_one_is_fatal() {
    let server = RedisServer::start(&[]).unwrap();
    let uri = server.uri().replace("://", "://secret@");
    let failure = ping(&lease(&uri), patiently()).await.unwrap_err();
    assert!(matches!(failure.class, Class::Fatal { .. }), "{failure:?}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_fatal() {
    let server = RedisServer::start(&["--databases", "2"]).unwrap();
    let failure = ping(&lease(&format!("{}?db=2", server.uri())), patiently()).await;
    assert!(matches!(failure.unwrap_err().class, Class::Fatal { .. }));
    ping(&lease(&format!("{}?db=1", server.uri())), patiently())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_replica_is_refused_until_it_is_promoted() {
    let primary = RedisServer::start(&[]).unwrap();
    let replica = RedisServer::start(&[]).unwrap();
    let lease = lease(&replica.uri());
    let client = redis::Client::open(replica.uri()).unwrap();
    let mut admin = client.get_multiplexed_async_connection().await.unwrap();
    let mut replica_of = redis::cmd("REPLICAOF");
    replica_of.arg("127.0.0.1").arg(primary.address().port());
    replica_of.exec_async(&mut admin).await.unwrap();
    let failure = ping(&lease, patiently()).await.unwrap_err();
    assert_eq!(failure.class, NOT_DONE);
    assert!(failure.reason.contains("replica"), "{failure}");
    let mut promote = redis::cmd("REPLICAOF");
    promote.arg("NO").arg("ONE");
    promote.exec_async(&mut admin).await.unwrap();
    ping_until_answered(&lease).await;
}

#[tokio::test]
async fn a_server_with_all_its_connections_in_use_is_worth_another_try() {
    let server = RedisServer::start(&["--maxclients", "1", "--requirepass", "x"]).unwrap();
    let uri = server.uri().replace("://", "://x@");
    let first = lease(&uri);
    // The probe of the test kit may still be there.
    ping_until_answered(&first).await;
    let failure = ping(&lease(&uri), patiently()).await.unwrap_err();
    assert_eq!(failure.class, NOT_DONE, "{failure}");
}
