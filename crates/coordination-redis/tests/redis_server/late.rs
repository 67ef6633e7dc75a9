//! Commands that come late: nothing may happen for a call that has been given up.

use std::time::Duration;

use coordination_core::{Backend, Expect, LEADER_KEY, LockOutcome, Outcome, SetOutcome};
use coordination_redis::RedisBackend;
use kvcm_testkit::{Direction::ToServer, Proxy, RedisServer, Rule};

use crate::common::{
    LOCK, LONG, STATE, acquire, open, outcome, owner, patiently, proxied, renew, request,
    scripts_begun, teach_scripts, until_scripts_begun, within,
};

/// A server, a slow way to it, and a fast one.
struct Setup {
    server: RedisServer,
    proxy: Proxy,
    slow: RedisBackend,
    fast: RedisBackend,
}

async fn setup() -> Setup {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let (slow, fast) = (open(&uri), open(&server.uri()));
    teach_scripts(&slow).await;
    Setup {
        server,
        proxy,
        slow,
        fast,
    }
}

impl Setup {
    /// All that is stored, but for how long it still lives.
    fn stored(&self) -> String {
        let get = self.server.command(&["GET", LOCK]).unwrap();
        let state = self.server.command(&["HGETALL", STATE]).unwrap();
        let value = self.server.command(&["GET", "kvcm_kv:v"]).unwrap();
        format!("{get}\n{state}\n{value}")
    }

    /// Lets the held command go on, and waits until it has been done or refused.
    async fn release(&self) {
        let begun = scripts_begun(&self.server);
        self.proxy.release();
        until_scripts_begun(&self.server, begun + 1).await;
    }
}

/// Starts a call whose command is held on its way, and drops it, as a process does that dies.
async fn held_and_dropped<T>(proxy: &Proxy, call: impl Future<Output = T>) {
    proxy.set(ToServer, Rule::hold_containing("kvcm_"));
    tokio::select! {
        _ = call => panic!("it is held"),
        () = proxy.until_held() => {}
    }
}

#[tokio::test]
async fn a_late_unlock_of_a_superseded_owner_changes_nothing() {
    let all = setup().await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = acquire(&all.slow, &a, LONG).await.epoch;
    // Within the deadline: only the epoch protects the next owner.
    let unlock = all.slow.unlock(LEADER_KEY, &a, epoch, None, patiently());
    held_and_dropped(&all.proxy, unlock).await;
    let unlock = all.fast.unlock(LEADER_KEY, &a, epoch, None, patiently());
    unlock.await.unwrap();
    acquire(&all.fast, &b, LONG).await;
    let before = all.stored();
    all.release().await;
    assert_eq!(all.stored(), before);
}

#[tokio::test]
async fn a_late_unlock_and_renewal_of_the_same_node_in_an_earlier_epoch_change_nothing() {
    let all = setup().await;
    let a = owner("a", 1);
    for is_renewal in [false, true] {
        let epoch = acquire(&all.slow, &a, LONG).await.epoch;
        if is_renewal {
            held_and_dropped(&all.proxy, renew(&all.slow, &a, epoch, patiently())).await;
        } else {
            let unlock = all.slow.unlock(LEADER_KEY, &a, epoch, None, patiently());
            held_and_dropped(&all.proxy, unlock).await;
        }
        let unlock = all.fast.unlock(LEADER_KEY, &a, epoch, None, patiently());
        unlock.await.unwrap();
        assert!(acquire(&all.fast, &a, LONG).await.epoch > epoch);
        let before = all.stored();
        all.release().await;
        assert_eq!(all.stored(), before);
    }
}

#[tokio::test]
async fn a_late_attempt_of_a_superseded_owner_changes_nothing_while_the_lock_is_held() {
    let all = setup().await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    held_and_dropped(
        &all.proxy,
        all.slow.try_lock(request(&a, LONG), patiently()),
    )
    .await;
    acquire(&all.fast, &b, LONG).await;
    let before = all.stored();
    all.release().await;
    assert_eq!(all.stored(), before);
}

#[tokio::test]
async fn a_late_attempt_takes_no_free_lock_after_its_deadline() {
    let all = setup().await;
    let a = owner("a", 1);
    let before = all.stored();
    all.proxy.set(ToServer, Rule::hold_containing("kvcm_"));
    let attempt = all.slow.try_lock(request(&a, LONG), within(100)).await;
    assert_eq!(outcome(&attempt.unwrap_err()), Some(Outcome::Unknown));
    assert_eq!(all.proxy.held(), 1);
    all.release().await;
    assert_eq!(all.stored(), before);
    // The connection was given up with the call; the next one takes the lock.
    acquire(&all.slow, &a, LONG).await;
}

#[tokio::test]
async fn a_late_renewal_lengthens_no_lease_after_its_deadline() {
    let all = setup().await;
    let a = owner("a", 1);
    let epoch = acquire(&all.slow, &a, Duration::from_secs(30)).await.epoch;
    all.proxy.set(ToServer, Rule::hold_containing("kvcm_"));
    let late = renew(&all.slow, &a, epoch, within(100)).await;
    assert_eq!(outcome(&late.unwrap_err()), Some(Outcome::Unknown));
    all.release().await;
    // It would have made them 60.
    let left: i64 = all
        .server
        .command(&["PTTL", LOCK])
        .unwrap()
        .parse()
        .unwrap();
    assert!(left <= 30_000, "{left}");
}

#[tokio::test]
async fn a_late_unconditional_write_does_not_replace_a_newer_value() {
    let all = setup().await;
    for is_deletion in [false, true] {
        all.proxy.set(ToServer, Rule::hold_containing("kvcm_"));
        let error = if is_deletion {
            let delete = all.slow.delete_value("v", Expect::Any, within(100));
            delete.await.unwrap_err()
        } else {
            let set = all
                .slow
                .set_value("v", "late", None, Expect::Any, within(100));
            set.await.unwrap_err()
        };
        assert_eq!(outcome(&error), Some(Outcome::Unknown), "{error}");
        let set = all
            .fast
            .set_value("v", "new", None, Expect::Any, patiently());
        assert!(matches!(set.await.unwrap(), SetOutcome::Stored(_)));
        all.release().await;
        let value = all.fast.get_value("v", patiently()).await.unwrap();
        assert_eq!(value.unwrap().text, "new");
    }
}

#[tokio::test]
async fn what_a_stopped_server_has_received_is_lost_when_it_goes_on_after_the_deadline() {
    let all = setup().await;
    let (a, begun) = (owner("a", 1), scripts_begun(&all.server));
    let before = all.stored();
    all.server.stop().unwrap();
    let attempt = all.slow.try_lock(request(&a, LONG), within(100)).await;
    assert_eq!(outcome(&attempt.unwrap_err()), Some(Outcome::Unknown));
    all.server.cont().unwrap();
    until_scripts_begun(&all.server, begun + 1).await;
    assert_eq!(all.stored(), before);
    let holder = all.slow.lock_holder(LEADER_KEY, patiently()).await.unwrap();
    assert_eq!(holder, None);
}

#[tokio::test]
async fn a_server_whose_clock_seems_to_jump_is_looked_at_anew_within_the_same_call() {
    // A delay that ends makes the first look at the clock too early, as a clock does that is set
    // forward: the server seems to be behind by as much.
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let delay = Duration::from_millis(600);
    let backend = open(&uri);
    let a = owner("a", 1);
    proxy.set(kvcm_testkit::Direction::ToClient, Rule::delay(delay));
    let holder = backend.lock_holder(LEADER_KEY, patiently()).await.unwrap();
    assert_eq!(holder, None);
    proxy.set(kvcm_testkit::Direction::ToClient, Rule::Pass);
    let accepted = proxy.accepted();
    let locked = backend.try_lock(request(&a, LONG), within(400)).await;
    assert!(matches!(locked.unwrap(), LockOutcome::Acquired(_)));
    assert_eq!(proxy.accepted(), accepted + 1);
}
