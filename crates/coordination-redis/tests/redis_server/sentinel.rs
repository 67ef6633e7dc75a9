//! A primary that sentinels watch.

use std::time::Duration;

use coordination_core::{Backend, Expect, Hint, LEADER_KEY, LockOutcome, Outcome, RenewOutcome};
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::{Direction::ToClient, Proxy, RedisServer, Rule, start_sentinels};

use crate::common::{
    LONG, acquire, open, outcome, owner, patiently, renew, request, until_answered, within,
};

const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// A primary with a replica, and who watches them.
struct Watched {
    primary: RedisServer,
    replica: RedisServer,
    sentinels: Vec<RedisServer>,
}

impl Watched {
    fn start(config: &str) -> Self {
        let primary = RedisServer::start(&AT_ONCE).unwrap();
        let replica = RedisServer::start(&AT_ONCE).unwrap();
        let port = primary.address().port().to_string();
        replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
        let sentinels = start_sentinels(3, "m", primary.address(), config).unwrap();
        Self {
            primary,
            replica,
            sentinels,
        }
    }

    fn uri(&self, query: &str) -> String {
        uri(&self.sentinels, query)
    }

    /// Waits until all sentinels know the replica, without which there is no failover.
    async fn until_replica_known(&self) {
        let end = patiently();
        for sentinel in &self.sentinels {
            let ask = ["SENTINEL", "REPLICAS", "m"];
            while !sentinel
                .command(&ask)
                .unwrap()
                .contains("master-link-status\nok")
            {
                assert!(BootClock.now() < end, "the replica is not known");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn uri(sentinels: &[RedisServer], query: &str) -> String {
    let hosts: Vec<_> = sentinels.iter().map(|s| s.address().to_string()).collect();
    format!("redis-sentinel://{}/?master=m{query}", hosts.join(","))
}

/// Repeats for as long as a failover takes on a slow machine.
async fn until_failed_over<T>(mut call: impl AsyncFnMut() -> Option<T>) -> T {
    let end = within(90_000);
    loop {
        if let Some(result) = call().await {
            return result;
        }
        assert!(BootClock.now() < end, "no failover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn locks_values_and_hints_are_those_of_the_primary_that_the_sentinels_name() {
    let all = Watched::start("");
    let backend = open(&all.uri("&cluster_name=C"));
    let a = owner("a", 1);
    let mut hints = backend.watch(LEADER_KEY);
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
    assert_eq!(renewed, RenewOutcome::Renewed);
    let set = backend.set_value("v", "1", Some(LONG), Expect::Any, patiently());
    set.await.unwrap();
    let listed = backend.list_values("", patiently()).await.unwrap();
    assert_eq!(listed.len(), 1);
    let key = "kvcm_C_lock:_TAIR_KVCM_LEADER_KEY";
    assert_eq!(all.primary.command(&["GET", key]).unwrap(), "a");
    let name = backend.describe();
    assert!(
        name.starts_with("redis-sentinel://") && name.contains("master=m"),
        "{name}"
    );
}

#[tokio::test]
async fn a_failover_is_followed_and_its_new_reign_is_above_the_old_one() {
    let mut all = Watched::start("");
    all.until_replica_known().await;
    let backend = open(&all.uri("&wait_replicas=1"));
    let (a, b) = (owner("a", 1), owner("b", 2));
    let lock = async || backend.try_lock(request(&a, LONG), within(2000)).await;
    let LockOutcome::Acquired(first) = until_answered(lock).await else {
        panic!("it was free");
    };
    backend.get_value("v", patiently()).await.unwrap();
    let mut hints = backend.watch(LEADER_KEY);
    assert_eq!(hints.next().await, Some(Hint::Changed));
    all.primary.kill().unwrap();
    // Another node, which knows the sentinels only; the replica has the reign.
    let other = open(&all.uri(""));
    let holder = until_failed_over(async || {
        let holder = other.lock_holder(LEADER_KEY, within(500)).await;
        holder.ok().flatten()
    });
    let holder = holder.await;
    assert_eq!((holder.owner, holder.epoch), (a.clone(), first.epoch));
    // The only replica is the primary now.
    let end = patiently();
    loop {
        let alone = renew(&backend, &a, first.epoch, within(1000)).await;
        let error = alone.unwrap_err();
        if error.to_string().contains("wait_replicas") {
            break;
        }
        assert!(error.is_retryable() && BootClock.now() < end, "{error}");
    }
    let renewed = renew(&other, &a, first.epoch, patiently()).await.unwrap();
    assert_eq!(renewed, RenewOutcome::Renewed);
    until_answered(async || backend.get_value("v", within(1000)).await).await;
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let unlock = other.unlock(LEADER_KEY, &a, first.epoch, None, patiently());
    unlock.await.unwrap();
    assert!(acquire(&other, &b, LONG).await.epoch > first.epoch);
    // The former primary comes back as a replica, which is never used.
    all.primary.restart().unwrap();
    let end = within(90_000);
    // Sentinel closes the connections of a server that it gives another role.
    let role = async || all.primary.command(&["ROLE"]).unwrap_or_default();
    while !role().await.starts_with("slave") {
        assert!(BootClock.now() < end, "it stays a primary");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let third = open(&all.uri(""));
    let holder = third.lock_holder(LEADER_KEY, patiently()).await;
    assert_eq!(holder.unwrap().unwrap().owner, b);
}

#[tokio::test]
async fn a_demoted_primary_is_left_within_the_call() {
    let all = Watched::start("");
    all.until_replica_known().await;
    let backend = open(&all.uri(""));
    acquire(&backend, &owner("a", 1), LONG).await;
    all.sentinels[0]
        .command(&["SENTINEL", "FAILOVER", "m"])
        .unwrap();
    until_failed_over(async || {
        // Sentinel closes the connections of a server that it gives another role.
        let role = all.replica.command(&["ROLE"]).ok()?;
        role.starts_with("master").then_some(())
    })
    .await;
    until_failed_over(async || {
        let role = all.primary.command(&["ROLE"]).ok()?;
        role.starts_with("slave").then_some(())
    })
    .await;
    let holder = until_answered(async || backend.lock_holder(LEADER_KEY, within(5000)).await);
    // Asynchronous replication may have lost it; what matters is who answers.
    holder.await;
    let set = async || {
        backend
            .set_value("v", "1", None, Expect::Any, within(1000))
            .await
    };
    until_answered(set).await;
    assert_eq!(all.replica.command(&["GET", "kvcm_kv:v"]).unwrap(), "1");
}

#[tokio::test]
async fn sentinels_that_are_gone_or_silent_do_not_hold_a_connection_up() {
    let primary = RedisServer::start(&[]).unwrap();
    let mut sentinels = start_sentinels(3, "m", primary.address(), "").unwrap();
    let silent = Proxy::start(sentinels[0].address()).unwrap();
    silent.set(ToClient, Rule::Stall);
    sentinels[1].kill().unwrap();
    let hosts = [
        silent.address(),
        sentinels[1].address(),
        sentinels[2].address(),
    ];
    let hosts = hosts.map(|host| host.to_string()).join(",");
    let backend = open(&format!("redis-sentinel://{hosts}/?master=m"));
    let a = owner("a", 1);
    let lock = async || backend.try_lock(request(&a, LONG), within(1000)).await;
    assert!(matches!(
        until_answered(lock).await,
        LockOutcome::Acquired(_)
    ));
    backend.get_value("v", patiently()).await.unwrap();
    sentinels[2].kill().unwrap();
    // They are needed only to find the primary.
    assert!(
        backend
            .lock_holder(LEADER_KEY, patiently())
            .await
            .unwrap()
            .is_some()
    );
    let error = open(&format!("redis-sentinel://{hosts}/?master=m"))
        .lock_holder(LEADER_KEY, within(500))
        .await
        .unwrap_err();
    assert_eq!(outcome(&error), Some(Outcome::NotDone), "{error}");
}

#[tokio::test]
async fn wrong_names_and_logins_are_fatal_and_say_which_ones() {
    let primary = RedisServer::start(&["--requirepass", "data"]).unwrap();
    let port = primary.address().port();
    let sentinel = RedisServer::start_sentinel(&format!(
        "sentinel monitor m 127.0.0.1 {port} 1\nsentinel auth-pass m data\nrequirepass watch\n"
    ));
    let sentinels = [sentinel.unwrap()];
    let right = uri(&sentinels, "&sentinel_password=watch").replace("://", "://:data@");
    let backend = open(&right);
    acquire(&backend, &owner("a", 1), LONG).await;
    for (wrong, part) in [
        (right.replace("watch", "hunter2"), "sentinel_password="),
        (
            right.replace("&sentinel_password=watch", ""),
            "sentinel_password=",
        ),
        (
            right.replace(":data@", ":hunter2@"),
            "redis://user:password@host",
        ),
        (right.replace("master=m", "master=other"), "`other`"),
    ] {
        let backend = open(&wrong);
        let error = backend.lock_holder(LEADER_KEY, patiently()).await;
        let error = error.unwrap_err();
        let text = format!("{error} {error:?} {}", backend.describe());
        assert!(!error.is_retryable() && text.contains(part), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        let value = backend.get_value("v", patiently()).await.unwrap_err();
        assert!(!value.is_retryable(), "{value}");
    }
}
