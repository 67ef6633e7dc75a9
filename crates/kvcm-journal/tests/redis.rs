//! The Redis journal against real servers.

#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_clock::BootClock;
use kvcm_fence::{Claim, Epoch, Fenced, Incarnation};
use kvcm_journal::{
    AppendError, Batch, ClaimError, Journal, LoadSink, Loaded, Record, RedisJournal, Snapshot,
    Source, Writer, conformance,
};
use kvcm_redis::Config;
use kvcm_testkit::{Direction, Proxy, RedisCluster, RedisServer, Rule, start_sentinels};

/// Long, because it only bounds a failure.
const TIMEOUT: Duration = Duration::from_secs(60);

fn journal(uri: &str) -> RedisJournal {
    let (config, _) = Config::from_uri(&kvcm_uri::Uri::parse(uri).unwrap()).unwrap();
    RedisJournal::open(config, "registry", Arc::new(BootClock)).unwrap()
}

fn claim_of(epoch: u64) -> Claim {
    Claim {
        cluster: "c".parse().unwrap(),
        epoch: Epoch::new(epoch).unwrap(),
        incarnation: Incarnation::from_bits(u128::from(epoch)),
    }
}

fn batch(text: &str) -> Batch {
    Batch::new(1, 1, Bytes::copy_from_slice(text.as_bytes()))
}

#[derive(Debug, Default)]
struct Texts(Vec<String>);

impl LoadSink for Texts {
    fn snapshot(&mut self, _: u16, chunk: Bytes) -> Result<(), Source> {
        self.0.push(String::from_utf8(chunk.to_vec())?);
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), Source> {
        self.0
            .push(String::from_utf8(record.batch.operations.to_vec())?);
        Ok(())
    }
}

async fn open(journal: &RedisJournal, epoch: u64) -> (Box<dyn Writer>, Loaded, Vec<String>) {
    let mut writer = journal.claim(claim_of(epoch), TIMEOUT).await.unwrap();
    let mut texts = Texts::default();
    let loaded = writer.load(&mut texts).await.unwrap();
    (writer, loaded, texts.0)
}

async fn append(writer: &dyn Writer, text: &str) -> u64 {
    writer.append(batch(text), TIMEOUT).await.unwrap()
}

fn snapshot(through: u64, text: &'static str) -> Snapshot {
    Snapshot::new(through, 1, [Bytes::from_static(text.as_bytes())])
}

fn keys(redis: &RedisServer) -> Vec<String> {
    let keys = redis.command(&["KEYS", "*"]).unwrap();
    keys.lines().map(str::to_owned).collect()
}

fn meta(redis: &RedisServer) -> String {
    let found = keys(redis);
    found
        .into_iter()
        .find(|key| key.ends_with(":meta"))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms() {
    let redis = RedisServer::start(&[]).unwrap();
    let mut count = 0;
    let fresh = || -> Arc<dyn Journal> {
        count += 1;
        Arc::new(journal(&format!("{}?cluster_name=c{count}", redis.uri())))
    };
    conformance::all(fresh).await;
    assert!(
        keys(&redis).iter().all(|key| key.starts_with("kvcm_c")),
        "{:?}",
        keys(&redis)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms_in_a_redis_cluster() {
    let cluster = RedisCluster::start(3, 0, &[]).unwrap();
    let mut count = 0;
    let fresh = || -> Arc<dyn Journal> {
        count += 1;
        Arc::new(journal(&format!("{}?cluster_name=c{count}", cluster.uri())))
    };
    conformance::all(fresh).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_process_finds_everything_and_learns_who_led() {
    let redis = RedisServer::start(&[]).unwrap();
    let (writer, ..) = open(&journal(&redis.uri()), 3).await;
    assert_eq!(writer.former(), None);
    append(&*writer, "a").await;
    writer.snapshot(snapshot(1, "A"), TIMEOUT).await.unwrap();
    append(&*writer, "b").await;
    let (writer, loaded, texts) = open(&journal(&redis.uri()), 9).await;
    assert_eq!(writer.former(), Some(&claim_of(3)));
    assert_eq!(
        (texts, loaded.last_seq),
        (vec!["A".to_owned(), "b".to_owned()], 2)
    );
    assert_eq!(writer.log_size().records, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_batches_share_a_round_trip_and_snapshots_bound_the_log() {
    let redis = RedisServer::start(&[]).unwrap();
    let proxy = Proxy::start(redis.address()).unwrap();
    let journal = journal(&format!("redis://{}/", proxy.address()));
    let (writer, ..) = open(&journal, 1).await;
    append(&*writer, "first").await;
    let before = proxy.round_trips();
    let last = (0..1000).map(|_| writer.submit(batch("x")).unwrap()).last();
    writer.committed(last.unwrap(), TIMEOUT).await.unwrap();
    let trips = proxy.round_trips() - before;
    assert!(trips < 100, "{trips} round trips");
    let length = |list: &str| {
        let key = meta(&redis).replace(":meta", list);
        redis
            .command(&["LLEN", &key])
            .unwrap()
            .trim()
            .parse::<u64>()
            .unwrap()
    };
    assert!(length(":log") > 1);
    assert_eq!(length(":log"), length(":ends"));
    for text in ["S", "T"] {
        writer
            .snapshot(snapshot(1001, text), TIMEOUT)
            .await
            .unwrap();
        assert_eq!((length(":log"), length(":ends")), (0, 0));
    }
    // Of two snapshots one is left, and it does not expire.
    let snapshots: Vec<_> = keys(&redis)
        .into_iter()
        .filter(|k| k.contains("snapshot"))
        .collect();
    assert_eq!(snapshots.len(), 1, "{snapshots:?}");
    assert_eq!(redis.command(&["TTL", &snapshots[0]]).unwrap().trim(), "-1");
    let (_, loaded, texts) = open(&journal, 2).await;
    assert_eq!((texts, loaded.last_seq), (vec!["T".to_owned()], 1001));
}

/// The packet of an append is held in the network until the next leader has claimed.
/// How often the server ran a script.
fn scripts(redis: &RedisServer) -> u64 {
    let info = redis.command(&["INFO", "commandstats"]).unwrap();
    let calls = |line: &str| {
        let calls = line.strip_prefix("cmdstat_evalsha:calls=")?;
        calls.split(',').next()?.parse::<u64>().ok()
    };
    info.lines().find_map(calls).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_takes_a_round_trip_for_each_mebibyte_however_small_the_groups_are() {
    let redis = RedisServer::start(&[]).unwrap();
    let journal = journal(&redis.uri());
    let (writer, ..) = open(&journal, 1).await;
    for _ in 0..300 {
        append(&*writer, "small").await;
    }
    let load = async |epoch| {
        let mut writer = journal.claim(claim_of(epoch), TIMEOUT).await.unwrap();
        let before = scripts(&redis);
        let loaded = writer.load(&mut Texts::default()).await.unwrap();
        (writer, loaded.records, scripts(&redis) - before)
    };
    let (writer, records, count) = load(2).await;
    assert_eq!((records, count), (300, 1));
    let large = "x".repeat(300 << 10);
    for _ in 0..60 {
        append(&*writer, &large).await;
    }
    // That they get so large is seen when some of them have been read.
    let (_, records, count) = load(3).await;
    assert_eq!(records, 360);
    assert!((7..=16).contains(&count), "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_beside_each_other_share_connections_and_nothing_else() {
    let redis = RedisServer::start(&[]).unwrap();
    let first = journal(&redis.uri());
    let (writer, ..) = open(&first, 3).await;
    append(&*writer, "a").await;
    let opened = || -> u64 {
        let info = redis.command(&["INFO", "stats"]).unwrap();
        let count = |line: &str| {
            line.strip_prefix("total_connections_received:")?
                .parse()
                .ok()
        };
        info.lines().find_map(count).unwrap()
    };
    let before = opened();
    let second = first.beside("other");
    assert_ne!(first.describe(), second.describe());
    // A lower epoch: it is another journal.
    let (other, _, texts) = open(&second, 2).await;
    assert_eq!(texts, Vec::<String>::new());
    append(&*other, "b").await;
    append(&*writer, "c").await;
    // This look is one of its own.
    assert_eq!(opened(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_append_of_a_superseded_leader_is_refused() {
    let redis = RedisServer::start(&[]).unwrap();
    let proxy = Proxy::start(redis.address()).unwrap();
    let (old, ..) = open(
        &journal(&format!("redis://{}/?timeout_ms=60000", proxy.address())),
        1,
    )
    .await;
    append(&*old, "before").await;
    proxy.set(Direction::ToServer, Rule::hold_containing("the late one"));
    let seq = old.submit(batch("the late one")).unwrap();
    proxy.until_held().await;
    let (new, _, texts) = open(&journal(&redis.uri()), 2).await;
    assert_eq!(texts, ["before"]);
    append(&*new, "after").await;
    proxy.release();
    let refused = old.committed(seq, TIMEOUT).await;
    assert!(
        matches!(&refused, Err(AppendError::Fenced(Fenced::By { by })) if *by == claim_of(2)),
        "{refused:?}"
    );
    let (_, _, texts) = open(&journal(&redis.uri()), 3).await;
    assert_eq!(texts, ["before", "after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_answer_is_lost_is_there_once() {
    let redis = RedisServer::start(&[]).unwrap();
    let proxy = Proxy::start(redis.address()).unwrap();
    let (writer, ..) = open(&journal(&format!("redis://{}/", proxy.address())), 1).await;
    for round in 0..10 {
        proxy.set(Direction::ToClient, Rule::Reset);
        let text = format!("{round}");
        let (appended, ()) = tokio::join!(append(&*writer, &text), async {
            // The first answer is lost with its connection.
            proxy.until_connections(0).await;
            proxy.set(Direction::ToClient, Rule::Pass);
        });
        assert_eq!(appended, round + 1);
    }
    let (_, loaded, texts) = open(&journal(&redis.uri()), 2).await;
    assert_eq!(texts.concat(), "0123456789");
    assert_eq!(loaded.skipped, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_flushed_takes_no_write() {
    let redis = RedisServer::start(&[]).unwrap();
    let (writer, ..) = open(&journal(&redis.uri()), 1).await;
    append(&*writer, "a").await;
    redis.command(&["FLUSHALL"]).unwrap();
    let refused = writer.append(batch("b"), TIMEOUT).await;
    assert!(
        matches!(refused, Err(AppendError::Fenced(Fenced::Missing))),
        "{refused:?}"
    );
    let (_, _, texts) = open(&journal(&redis.uri()), 2).await;
    assert_eq!(texts, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_without_a_fence_is_refused() {
    let redis = RedisServer::start(&[]).unwrap();
    let journal = journal(&redis.uri());
    let (writer, ..) = open(&journal, 1).await;
    append(&*writer, "a").await;
    redis.command(&["DEL", &meta(&redis)]).unwrap();
    let refused = journal.claim(claim_of(2), TIMEOUT).await;
    assert!(
        matches!(refused, Err(ClaimError::Fatal { .. })),
        "{refused:?}"
    );
}

/// A fail-over to a replica that lags: the fence is there, and some acknowledged batches are not.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_went_back_in_time_is_reseeded_from_memory() {
    let redis = RedisServer::start(&[]).unwrap();
    let journal = journal(&redis.uri());
    let (writer, ..) = open(&journal, 1).await;
    append(&*writer, "a").await;
    append(&*writer, "b").await;
    let meta = meta(&redis);
    let back = |seq: &str| {
        redis
            .command(&["RPOP", &meta.replace(":meta", ":log")])
            .unwrap();
        redis
            .command(&["RPOP", &meta.replace(":meta", ":ends")])
            .unwrap();
        redis.command(&["HSET", &meta, "seq", seq]).unwrap();
    };
    back("1");
    let seq = writer.submit(batch("c")).unwrap();
    match writer.committed(seq, TIMEOUT).await {
        Err(AppendError::WentBack { has: 1, had: 2 }) => {}
        other => panic!("{other:?}"),
    }
    writer.snapshot(snapshot(2, "AB"), TIMEOUT).await.unwrap();
    writer.committed(seq, TIMEOUT).await.unwrap();
    let (_, loaded, texts) = open(&journal, 2).await;
    assert_eq!((texts.concat(), loaded.last_seq), ("ABc".to_owned(), 3));
    assert_eq!(loaded.skipped, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_memory_refuses_and_goes_on() {
    let redis = RedisServer::start(&[]).unwrap();
    let (writer, ..) = open(&journal(&redis.uri()), 1).await;
    append(&*writer, "a").await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let error = writer.append(batch("b"), TIMEOUT).await.unwrap_err();
    assert!(
        error.is_unknown() && error.to_string().contains("OOM"),
        "{error}"
    );
    let error = writer
        .snapshot(snapshot(1, "A"), TIMEOUT)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("OOM"), "{error}");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    writer.committed(2, TIMEOUT).await.unwrap();
    writer.snapshot(snapshot(2, "AB"), TIMEOUT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_counts_that_too_few_replicas_have() {
    let redis = RedisServer::start(&[]).unwrap();
    let alone = journal(&format!("{}?wait_replicas=1&timeout_ms=300", redis.uri()));
    let refused = alone.claim(claim_of(1), TIMEOUT).await;
    assert!(
        matches!(refused, Err(ClaimError::Unavailable { .. })),
        "{refused:?}"
    );
    let port = redis.address().port().to_string();
    let mut replica = RedisServer::start(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let journal = journal(&format!("{}?wait_replicas=1&timeout_ms=2000", redis.uri()));
    let mut epoch = 2;
    let mut writer = loop {
        // Until the replica has synchronised.
        match journal.claim(claim_of(epoch), TIMEOUT).await {
            Ok(writer) => break writer,
            Err(ClaimError::Unavailable { .. }) => epoch += 1,
            Err(error) => panic!("{error}"),
        }
    };
    writer.load(&mut Texts::default()).await.unwrap();
    append(&*writer, "a").await;
    replica.kill().unwrap();
    let error = writer
        .append(batch("b"), Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(error.is_unknown(), "{error}");
    replica.restart().unwrap();
    writer.committed(2, TIMEOUT).await.unwrap();
    let (_, _, texts) = open(&self::journal(&redis.uri()), epoch + 1).await;
    assert_eq!(texts, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_holds_nobody_up() {
    let redis = RedisServer::start(&[]).unwrap();
    let journal = journal(&format!("{}?timeout_ms=100", redis.uri()));
    let (writer, ..) = open(&journal, 1).await;
    redis.stop().unwrap();
    let error = writer
        .append(batch("a"), Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(error.is_unknown(), "{error}");
    let refused = journal.claim(claim_of(2), Duration::from_millis(50)).await;
    assert!(
        matches!(refused, Err(ClaimError::Unavailable { .. })),
        "{refused:?}"
    );
    redis.cont().unwrap();
    writer.committed(1, TIMEOUT).await.unwrap();
    // The claim that was given up does not come late.
    append(&*writer, "b").await;
}

/// An authority, and a certificate of 127.0.0.1 from it.
const TLS_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kvcm-redis/tests/tls");

#[tokio::test(flavor = "multi_thread")]
async fn conforms_over_tls_and_trusts_nobody_unknown() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let file = |name: &str| format!("{TLS_FILES}/{name}");
    let (cert, key, ca) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
    let _redis = RedisServer::start(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
    ])
    .unwrap();
    let uri = format!("rediss://127.0.0.1:{port}/?cluster_name=c");
    let mut count = 0;
    let fresh = || -> Arc<dyn Journal> {
        count += 1;
        Arc::new(journal(&format!("{uri}{count}&tls_ca_file={ca}")))
    };
    conformance::all(fresh).await;
    match journal(&uri).claim(claim_of(1), TIMEOUT).await {
        Err(ClaimError::Fatal { hint, .. }) => assert!(hint.contains("tls_ca_file"), "{hint}"),
        other => panic!("a server that nobody vouches for: {other:?}"),
    }
}

/// The one who led goes on at the new primary, until the next one claims there.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_sentinels_make_is_followed() {
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let mut primary = RedisServer::start(&at_once).unwrap();
    let replica = RedisServer::start(&at_once).unwrap();
    let port = primary.address().port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let sentinels = start_sentinels(3, "m", primary.address(), "").unwrap();
    for sentinel in &sentinels {
        until("the sentinels know the replica", || {
            let known = sentinel.command(&["SENTINEL", "REPLICAS", "m"]).unwrap();
            known.contains("master-link-status\nok")
        })
        .await;
    }
    let hosts: Vec<_> = sentinels.iter().map(|s| s.address().to_string()).collect();
    let hosts = hosts.join(",");
    let journal = journal(&format!(
        "redis-sentinel://{hosts}/?master=m&timeout_ms=2000"
    ));
    let (old, ..) = open(&journal, 1).await;
    append(&*old, "a").await;
    let log = meta(&primary).replace(":meta", ":log");
    until("the replica has it", || {
        replica.command(&["LLEN", &log]).unwrap().trim() == "1"
    })
    .await;
    primary.kill().unwrap();
    let seq = old.submit(batch("b")).unwrap();
    loop {
        // Goes on being tried; an unknown outcome is no end.
        match old.committed(seq, TIMEOUT).await {
            Ok(()) => break,
            Err(error) => assert!(error.is_unknown(), "{error}"),
        }
    }
    assert_eq!(replica.command(&["LLEN", &log]).unwrap().trim(), "2");
    let (new, loaded, texts) = open(&journal, 2).await;
    assert_eq!(texts, ["a", "b"]);
    assert_eq!(loaded.skipped, []);
    append(&*new, "c").await;
    let refused = old.append(batch("late"), TIMEOUT).await;
    assert!(
        matches!(&refused, Err(AppendError::Fenced(Fenced::By { by })) if *by == claim_of(2)),
        "{refused:?}"
    );
}

/// Polling servers of its own; only the limit could make this fail on a slow machine.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, wait).await;
    assert!(waited.is_ok(), "not within {TIMEOUT:?}: {what}");
}
