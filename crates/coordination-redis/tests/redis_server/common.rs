//! A backend and a second way to its server.

use std::{sync::Arc, time::Duration};

use coordination_core::{
    Acquired, Backend, Error, Expect, LEADER_KEY, LockOutcome, Outcome, Owner, RenewOutcome,
    TryLock, UnlockOutcome,
};
use coordination_redis::RedisBackend;
use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_fence::{Epoch, Incarnation};
use kvcm_redis::Config;
use kvcm_testkit::{Proxy, RedisServer};
use kvcm_uri::Uri;
use redis::FromRedisValue;

/// The key of the leader's lock without a cluster name.
pub(crate) const LOCK: &str = "kvcm_lock:_TAIR_KVCM_LEADER_KEY";
/// Its record.
pub(crate) const STATE: &str = "kvcm_lock:{kvcm_lock:_TAIR_KVCM_LEADER_KEY}:state";
/// Of a lease that must not end during a test.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn open(uri: &str) -> RedisBackend {
    let (config, _) = Config::from_uri(&Uri::parse(uri).unwrap()).unwrap();
    RedisBackend::open(config, Arc::new(BootClock)).unwrap()
}

pub(crate) fn within(ms: u64) -> Moment {
    BootClock.now() + Duration::from_millis(ms)
}

/// Long enough for the slowest machine.
pub(crate) fn patiently() -> Moment {
    within(30_000)
}

pub(crate) fn owner(node: &str, incarnation: u128) -> Owner {
    Owner {
        node: node.parse().unwrap(),
        incarnation: Incarnation::from_bits(incarnation),
    }
}

pub(crate) fn request(owner: &Owner, ttl: Duration) -> TryLock<'_> {
    TryLock {
        key: LEADER_KEY,
        owner,
        ttl,
        floor: Epoch::ZERO,
        info: "",
        presumed_dead: None,
    }
}

pub(crate) async fn acquire(backend: &RedisBackend, owner: &Owner, ttl: Duration) -> Acquired {
    let outcome = backend.try_lock(request(owner, ttl), patiently()).await;
    match outcome.unwrap() {
        LockOutcome::Acquired(acquired) => acquired,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn renew(
    backend: &RedisBackend,
    owner: &Owner,
    epoch: Epoch,
    deadline: Moment,
) -> Result<RenewOutcome, Error> {
    backend
        .renew_lock(LEADER_KEY, owner, epoch, LONG, "", deadline)
        .await
}

/// Repeats a call until it is answered: while a server comes back, single calls may fail at once.
pub(crate) async fn until_answered<T>(mut call: impl AsyncFnMut() -> Result<T, Error>) -> T {
    let end = patiently();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(BootClock.now() < end, "{error}"),
        }
    }
}

/// Runs a command at the server, as an operator does.
pub(crate) async fn command<T: FromRedisValue>(uri: &str, words: &[&str]) -> T {
    let client = redis::Client::open(uri).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connection).await.unwrap()
}

/// A proxy in front of a server, and its URI.
pub(crate) fn proxied(server: &RedisServer) -> (Proxy, String) {
    let proxy = Proxy::start(server.address()).unwrap();
    let uri = format!("redis://{}/", proxy.address());
    (proxy, uri)
}

/// Acquires, renews and releases the lock: afterwards the server knows the scripts, so that one
/// call is one command.
pub(crate) async fn teach_scripts(backend: &RedisBackend) {
    let first = owner("first", 99);
    let epoch = acquire(backend, &first, LONG).await.epoch;
    renew(backend, &first, epoch, patiently()).await.unwrap();
    let unlocked = backend.unlock(LEADER_KEY, &first, epoch, None, patiently());
    assert_eq!(unlocked.await.unwrap(), UnlockOutcome::Unlocked);
    let set = backend.set_value("v", "first", None, Expect::Any, patiently());
    set.await.unwrap();
    let delete = backend.delete_value("v", Expect::Any, patiently());
    delete.await.unwrap();
}

/// How many scripts the server has begun.
pub(crate) fn scripts_begun(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let calls = |name: &str| -> u64 {
        let line = stats.lines().find(|line| line.contains(name));
        let calls = line.and_then(|line| line.split(['=', ',']).nth(1));
        calls.map_or(0, |calls| calls.parse().unwrap())
    };
    calls("cmdstat_evalsha:") + calls("cmdstat_eval:")
}

/// Waits until the server has begun so many.
pub(crate) async fn until_scripts_begun(server: &RedisServer, count: u64) {
    let end = patiently();
    while scripts_begun(server) < count {
        assert!(BootClock.now() < end, "the command never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What an unavailable backend says of the call; none for a fatal error.
pub(crate) fn outcome(error: &Error) -> Option<Outcome> {
    match error {
        Error::Unavailable { outcome, .. } => Some(*outcome),
        Error::Fatal { .. } => None,
    }
}
