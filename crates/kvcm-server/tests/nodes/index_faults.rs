//! Indexes whose Redis is slow, away, full, or empty again, while writes are in flight.

use kvcm_testkit::{Direction, Proxy, RedisServer, Rule};
use serde_json::json;

use crate::{
    index::{Bench, begin, finish, locations, register},
    support::{call, code, message, registration, until},
};

const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn finish_request(session: &str, keys: usize) -> serde_json::Value {
    json!({
        "instance_id": "i", "write_session_id": session, "success_blocks": {"offset": keys},
    })
}

/// The answer of the store to a finish is lost on its way, and the connection with it: the same
/// number is tried again, and found to be there.
#[tokio::test(flavor = "multi_thread")]
async fn a_finish_whose_acknowledgement_is_lost_counts_once() {
    let redis = RedisServer::start(&ALWAYS).unwrap();
    let proxy = Proxy::start(redis.address()).unwrap();
    let mut bench = Bench::with_index_at(2, &format!("redis://{}", proxy.address())).await;
    let http = bench.leader().await;
    register(http, "i", "default").await;
    let (session, blocks) = begin(http, "i", &[1, 2]).await;
    proxy.set(Direction::ToClient, Rule::hold_containing("ok"));
    let finishing =
        tokio::spawn(
            async move { call(http, "finishWriteCache", finish_request(&session, 2)).await },
        );
    // The store has it, and the node does not know.
    proxy.until_held().await;
    let seq = redis.command(&["HGET", "kvcm_d_journal:{d:cache}:meta", "seq"]);
    assert_eq!(seq.unwrap(), "2");
    proxy.cut_all();
    let finished = finishing.await.unwrap();
    assert_eq!(code(&finished), "OK", "{finished}");
    assert_eq!(locations(http, "i", &[1, 2]).await, blocks);
    let http = bench.kill_leader().await;
    assert_eq!(locations(http, "i", &[1, 2]).await, blocks);
}

/// A server without room refuses; what is there is served, and all goes on when there is room.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_clearly_and_takes_writes_again() {
    let redis = RedisServer::start(&ALWAYS).unwrap();
    let bench = Bench::with_index_at(1, &redis.uri()).await;
    let http = bench.leader().await;
    register(http, "i", "default").await;
    let (session, blocks) = begin(http, "i", &[1]).await;
    finish(http, "i", &session, 1).await;
    let (open, later) = begin(http, "i", &[2]).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let refused = until("a write is refused with the reason", async || {
        let answer = call(http, "finishWriteCache", finish_request(&open, 1)).await;
        assert_ne!(code(&answer), "OK", "{answer}");
        message(&answer).contains("maxmemory").then_some(answer)
    })
    .await;
    assert!(
        ["IO_ERROR", "INTERNAL_ERROR"].contains(&code(&refused)),
        "{refused}"
    );
    assert_eq!(locations(http, "i", &[1]).await, blocks);
    assert_eq!(locations(http, "i", &[2]).await, json!([]));
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    until("the write is taken", async || {
        let answer = call(http, "finishWriteCache", finish_request(&open, 1)).await;
        (code(&answer) == "OK").then_some(())
    })
    .await;
    assert_eq!(locations(http, "i", &[2]).await, later);
    let (session, _) = begin(http, "i", &[3]).await;
    finish(http, "i", &session, 1).await;
}

/// A store that stands still for a while: nothing is acknowledged that it does not have, and
/// nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stands_still_loses_nothing() {
    let redis = RedisServer::start(&ALWAYS).unwrap();
    let mut bench = Bench::with_index_at(2, &redis.uri()).await;
    let http = bench.leader().await;
    register(http, "i", "default").await;
    let (session, blocks) = begin(http, "i", &[1]).await;
    redis.stop().unwrap();
    let answer = call(http, "finishWriteCache", finish_request(&session, 1)).await;
    assert_eq!(code(&answer), "IO_ERROR", "{answer}");
    redis.cont().unwrap();
    // Whoever leads now: the leader may have handed over meanwhile.
    until("the same finish tells what became of it", async || {
        let http = bench.leader().await;
        let answer = call(http, "finishWriteCache", finish_request(&session, 1)).await;
        (code(&answer) == "OK").then_some(())
    })
    .await;
    let http = bench.kill_leader().await;
    assert_eq!(locations(http, "i", &[1]).await, blocks);
}

/// A store that comes back empty has lost its claim: nothing is written to it under the old one, the
/// log says so, and the next reign begins with what is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_comes_back_empty_is_noticed() {
    let mut redis = RedisServer::start(&["--save", ""]).unwrap();
    let mut bench = Bench::with_index_at(1, &redis.uri()).await;
    let http = bench.leader().await;
    register(http, "i", "default").await;
    let (session, _) = begin(http, "i", &[1]).await;
    let again = call(http, "registerInstance", registration("i")).await;
    let reign = &again["header"]["epoch"];
    redis.kill().unwrap();
    redis.restart().unwrap();
    let answer = call(http, "finishWriteCache", finish_request(&session, 1)).await;
    assert_ne!(code(&answer), "OK", "{answer}");
    let log = bench.cluster.node(0).log_file().to_owned();
    until("the loss is told", async || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains("a store has lost the claim of this reign")
            .then_some(())
    })
    .await;
    until("a new reign begins", async || {
        let answer = call(http, "registerInstance", registration("i")).await;
        // The old one knows the instance, and says so until its gate is shut.
        (code(&answer) == "OK" && answer["header"]["epoch"] != *reign).then_some(())
    })
    .await;
    assert_eq!(locations(http, "i", &[1]).await, json!([]));
    let (session, _) = begin(http, "i", &[1]).await;
    finish(http, "i", &session, 1).await;
}

/// A fail-over to a replica that lags, as the store shows it: the claim is there, and the last
/// changes are not. The leader writes everything again before it acknowledges more.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_went_back_in_time_gets_everything_again() {
    let redis = RedisServer::start(&ALWAYS).unwrap();
    let mut bench = Bench::with_index_at(2, &redis.uri()).await;
    let http = bench.leader().await;
    register(http, "i", "default").await;
    let mut all = Vec::new();
    for key in 0..5 {
        let (session, blocks) = begin(http, "i", &[key]).await;
        finish(http, "i", &session, 1).await;
        all.push(blocks[0].clone());
    }
    // Each call had a group of its own.
    for list in ["log", "ends"] {
        let key = format!("kvcm_d_journal:{{d:cache}}:{list}");
        for _ in 0..4 {
            redis.command(&["RPOP", &key]).unwrap();
        }
    }
    let meta = "kvcm_d_journal:{d:cache}:meta";
    assert_eq!(redis.command(&["HGET", meta, "seq"]).unwrap(), "10");
    redis.command(&["HSET", meta, "seq", "6"]).unwrap();
    let (session, blocks) = begin(http, "i", &[5]).await;
    finish(http, "i", &session, 1).await;
    all.push(blocks[0].clone());
    let http = bench.kill_leader().await;
    let found = locations(http, "i", &[0, 1, 2, 3, 4, 5]).await;
    assert_eq!(found, serde_json::Value::from(all));
}
