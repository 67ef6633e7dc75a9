//! Users and passwords.

use coordination_core::{Backend, Expect, Hint, LEADER_KEY, RenewOutcome, UnlockOutcome};
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::RedisServer;

use crate::common::{LONG, acquire, command, open, owner, patiently, renew, request};

#[tokio::test]
async fn bad_credentials_are_fatal_and_named_without_being_printed() {
    let server = RedisServer::start(&["--requirepass", "right"]).unwrap();
    let backend = open(&server.uri().replace("://", "://user:hunter2@"));
    let a = owner("a", 1);
    let lock = backend.try_lock(request(&a, LONG), patiently());
    let value = backend.get_value("v", patiently());
    for error in [lock.await.unwrap_err(), value.await.unwrap_err()] {
        let text = format!("{error} {error:?} {}", backend.describe());
        assert!(
            !error.is_retryable() && text.contains("credentials"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn a_password_that_is_changed_under_a_leader_does_not_cost_its_lock() {
    let server = RedisServer::start(&["--requirepass", "one"]).unwrap();
    let uri = server.uri().replace("://", "://:one@");
    let backend = open(&uri);
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    command::<()>(&uri, &["CONFIG", "SET", "requirepass", "two"]).await;
    for _ in 0..5 {
        let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
        assert_eq!(renewed, RenewOutcome::Renewed);
    }
}

#[tokio::test]
async fn an_acl_user_with_our_keys_alone_can_do_everything() {
    let server = RedisServer::start(&[]).unwrap();
    let rules = "ACL SETUSER kvcm on >pw ~kvcm_* &kvcm_* -@all +@read +@write +@scripting \
                 +@connection +@pubsub +info +time";
    let words: Vec<_> = rules.split_whitespace().collect();
    command::<()>(&server.uri(), &words).await;
    let backend = open(&server.uri().replace("://", "://kvcm:pw@"));
    let a = owner("a", 1);
    let mut hints = backend.watch(LEADER_KEY);
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    renew(&backend, &a, epoch, patiently()).await.unwrap();
    let set = backend.set_value("v", "1", Some(LONG), Expect::Any, patiently());
    set.await.unwrap();
    assert_eq!(backend.list_values("", patiently()).await.unwrap().len(), 1);
    assert_eq!(hints.next().await, Some(Hint::Changed));
}

#[tokio::test]
async fn a_user_who_may_not_publish_still_has_locks() {
    let server = RedisServer::start(&[]).unwrap();
    let rules = "ACL SETUSER kvcm on >pw ~kvcm_* resetchannels +@all";
    let words: Vec<_> = rules.split_whitespace().collect();
    command::<()>(&server.uri(), &words).await;
    let backend = open(&server.uri().replace("://", "://kvcm:pw@"));
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    let unlocked = backend.unlock(LEADER_KEY, &a, epoch, None, patiently());
    assert_eq!(unlocked.await.unwrap(), UnlockOutcome::Unlocked);
}

#[tokio::test]
async fn a_new_password_in_the_file_is_used_for_the_next_connection() {
    let server = RedisServer::start(&["--requirepass", "one"]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "one\n").unwrap();
    let backend = open(&format!(
        "{}?password_file={}",
        server.uri(),
        file.display()
    ));
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    backend.get_value("v", patiently()).await.unwrap();
    let admin = |password: &str| server.uri().replace("://", &format!("://:{password}@"));
    command::<()>(&admin("one"), &["CONFIG", "SET", "requirepass", "two"]).await;
    // Whoever is connected stays.
    let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
    assert_eq!(renewed, RenewOutcome::Renewed);
    let cut = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
    command::<()>(&admin("two"), &cut).await;
    let error = renew(&backend, &a, epoch, patiently()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        !error.is_retryable() && text.contains("credentials"),
        "{text}"
    );
    std::fs::write(&file, "two\n").unwrap();
    // It has never stopped trying.
    let end = patiently();
    while renew(&backend, &a, epoch, patiently()).await.is_err() {
        assert!(BootClock.now() < end, "never connected again");
    }
    while backend.get_value("v", patiently()).await.is_err() {
        assert!(BootClock.now() < end, "never connected again");
    }
}

#[tokio::test]
async fn a_user_who_is_removed_is_named_as_the_reason() {
    let server = RedisServer::start(&[]).unwrap();
    let rules = "ACL SETUSER kvcm on >pw ~* &* +@all";
    let words: Vec<_> = rules.split_whitespace().collect();
    server.command(&words).unwrap();
    let backend = open(&server.uri().replace("://", "://kvcm:pw@"));
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    server.command(&["ACL", "DELUSER", "kvcm"]).unwrap();
    let error = renew(&backend, &a, epoch, patiently()).await.unwrap_err();
    assert!(error.to_string().contains("credentials"), "{error}");
    server.command(&words).unwrap();
    let end = patiently();
    while renew(&backend, &a, epoch, patiently()).await.is_err() {
        assert!(BootClock.now() < end, "never connected again");
    }
}
