//! The pool and scripts against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::{sync::Arc, time::Duration};

use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_redis::{
    Class, Config, Failure, Link, Locator, Outcome, Pool, Repeat, Replicas, Route, Script,
};
use kvcm_testkit::RedisServer;
use kvcm_uri::Uri;
use redis::aio::MultiplexedConnection;

fn pool(uri: &str) -> Pool {
    let (config, _) = Config::from_uri(&Uri::parse(uri).unwrap()).unwrap();
    Pool::new(Arc::new(Locator::new(config)), Arc::new(BootClock)).unwrap()
}

fn within(ms: u64) -> Moment {
    BootClock.now() + Duration::from_millis(ms)
}

fn patiently() -> Moment {
    within(30_000)
}

async fn ping(pool: &Pool, deadline: Moment) -> Result<String, Failure> {
    let ping = |mut link: Link, _| async move {
        redis::cmd("PING").query_async(&mut link.connection).await
    };
    pool.run(&Route::Primary, Repeat::Safe, deadline, ping)
        .await
}

async fn link(pool: &Pool) -> Link {
    let lend = |link: Link, _| async move { Ok(link) };
    let lent = pool.run(&Route::Primary, Repeat::Safe, patiently(), lend);
    lent.await.unwrap()
}

async fn connection(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.uri()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn clients(server: &RedisServer) -> usize {
    let mut connection = connection(server).await;
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut connection)
        .await
        .unwrap();
    // Without the one that asks.
    list.lines().count() - 1
}

#[tokio::test]
async fn warming_up_opens_the_smallest_number_of_connections() {
    let server = RedisServer::start(&[]).unwrap();
    let pool = pool(&format!("{}?client_min_pool_size=3", server.uri()));
    let before = clients(&server).await;
    pool.warm_up().await;
    assert!(clients(&server).await >= 3, "{before}");
    ping(&pool, patiently()).await.unwrap();
}

#[tokio::test]
async fn a_full_pool_ends_the_call_at_its_deadline_without_doing_it() {
    let server = RedisServer::start(&[]).unwrap();
    let pool = pool(&format!("{}?client_max_pool_size=1", server.uri()));
    ping(&pool, patiently()).await.unwrap();
    server.stop().unwrap();
    let (first, second) = tokio::join!(ping(&pool, within(400)), ping(&pool, within(100)));
    let class = |outcome| Class::Retryable { outcome };
    assert_eq!(second.unwrap_err().class, class(Outcome::NotDone));
    // It was sent, over a connection that had answered a moment ago.
    assert_eq!(first.unwrap_err().class, class(Outcome::Unknown));
    server.cont().unwrap();
    ping(&pool, patiently()).await.unwrap();
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let mut server = RedisServer::start(&[]).unwrap();
    let pool = pool(&server.uri());
    ping(&pool, patiently()).await.unwrap();
    server.restart().unwrap();
    ping(&pool, patiently()).await.unwrap();
}

/// How often the server was asked for its time.
async fn looks(server: &RedisServer) -> usize {
    let mut connection = connection(server).await;
    let mut info = redis::cmd("INFO");
    let info = info.arg("commandstats").query_async(&mut connection);
    let info: String = info.await.unwrap();
    let time = info.lines().find_map(|line| {
        let calls = line.strip_prefix("cmdstat_time:calls=")?;
        calls.split(',').next()?.parse().ok()
    });
    time.unwrap_or(0)
}

async fn ping_once(pool: &Pool) -> Result<String, Failure> {
    let ping = |mut link: Link, _| async move {
        redis::cmd("PING").query_async(&mut link.connection).await
    };
    pool.run(&Route::Primary, Repeat::Unsafe, patiently(), ping)
        .await
}

#[tokio::test]
async fn only_calls_that_cannot_be_repeated_ask_whether_a_connection_in_use_lives() {
    let server = RedisServer::start(&[]).unwrap();
    let pool = pool(&server.uri());
    ping_once(&pool).await.unwrap();
    let opened = looks(&server).await;
    assert_eq!(opened, 1, "the first call opens a connection");
    for _ in 0..3 {
        ping(&pool, patiently()).await.unwrap();
    }
    assert_eq!(looks(&server).await, opened);
    ping_once(&pool).await.unwrap();
    assert_eq!(looks(&server).await, opened + 1);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_fails_no_call() {
    let server = RedisServer::start(&[]).unwrap();
    let pool = pool(&server.uri());
    for is_repeatable in [true, false] {
        ping(&pool, patiently()).await.unwrap();
        server
            .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            .unwrap();
        match is_repeatable {
            true => ping(&pool, patiently()).await.unwrap(),
            false => ping_once(&pool).await.unwrap(),
        };
    }
}

#[tokio::test]
async fn a_wrong_password_is_fatal() {
    let server = RedisServer::start(&["--requirepass", "right"]).unwrap();
    let pool = pool(&server.uri().replace("://", "://wrong1@"));
    let failure = ping(&pool, patiently()).await.unwrap_err();
    assert!(matches!(failure.class, Class::Fatal { .. }), "{failure:?}");
    assert!(!format!("{failure:?}").contains("wrong1"));
}

#[tokio::test]
async fn a_script_is_sent_with_its_text_whenever_the_server_does_not_know_it() {
    let server = RedisServer::start(&[]).unwrap();
    let mut link = link(&pool(&server.uri())).await;
    let script = Script::new(&["local a = ARGV[1]\n", "return {KEYS[1], a}"]);
    for _ in 0..3 {
        let answer = script
            .run::<Vec<String>>(&mut link, &["k"], &["x"], None)
            .await
            .unwrap();
        assert_eq!(answer.value, ["k", "x"]);
        assert_eq!(answer.acknowledged, None);
        redis::cmd("SCRIPT")
            .arg("FLUSH")
            .exec_async(&mut link.connection)
            .await
            .unwrap();
    }
    let keys = [vec!["a"], vec!["b"]];
    let answers: Vec<Vec<String>> = script.run_each(&mut link, &keys, &["y"]).await.unwrap();
    assert_eq!(answers, [["a", "y"], ["b", "y"]]);
}

#[tokio::test]
async fn replicas_are_counted_in_the_same_call() {
    let server = RedisServer::start(&[]).unwrap();
    let mut link = link(&pool(&server.uri())).await;
    let script = Script::new(&["redis.call('SET', KEYS[1], 1) return 1"]);
    let replicas = Some(Replicas {
        count: 1,
        timeout_ms: 10,
    });
    let answer = script
        .run::<u32>(&mut link, &["k"], &[], replicas)
        .await
        .unwrap();
    assert_eq!((answer.value, answer.acknowledged), (1, Some(0)));
}
