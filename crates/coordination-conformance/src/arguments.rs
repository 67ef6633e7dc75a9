//! Arguments that cannot be meant, and deadlines that have passed.

use std::time::Duration;

use coordination_core::{Error, Expect, TryLock};
use kvcm_fence::Epoch;
use tokio::time::timeout;

use crate::{
    Subject,
    handle::{Handle, KEY, LONG, owner, request},
};

/// No retry mends a bad argument; the error says which it is.
pub async fn bad_arguments_are_fatal_and_named(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (a, end) = (owner("a", 1), one.deadline());
    let too_long = "k".repeat(256);
    for key in ["", "a\nb", "a\0", &too_long] {
        let request = TryLock {
            key,
            ..request(&a, LONG)
        };
        let b = &one.backend;
        fatal("key", one.ask(request).await);
        fatal(
            "key",
            b.renew_lock(key, &a, Epoch::ZERO, LONG, "", end).await,
        );
        fatal("key", b.unlock(key, &a, Epoch::ZERO, None, end).await);
        fatal("key", b.lock_holder(key, end).await);
        fatal("key", b.set_value(key, "", None, Expect::Any, end).await);
        fatal("key", b.get_value(key, end).await);
        fatal("key", b.delete_value(key, Expect::Any, end).await);
    }
    fatal("prefix", one.backend.list_values("a\n", end).await);
    for ttl in [Duration::ZERO, Duration::from_micros(1)] {
        let b = &one.backend;
        fatal("ttl", one.ask(request(&a, ttl)).await);
        fatal(
            "ttl",
            b.renew_lock(KEY, &a, Epoch::ZERO, ttl, "", end).await,
        );
        fatal(
            "ttl",
            b.set_value(KEY, "", Some(ttl), Expect::Any, end).await,
        );
    }
    let request = TryLock {
        floor: Epoch::MAX,
        ..request(&a, LONG)
    };
    fatal("floor", one.ask(request).await);
    assert_eq!(one.holder().await, None);
}

/// Whatever the answer is, it comes.
pub async fn a_past_deadline_returns_at_once(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    let past = subject.clock().now() - Duration::from_millis(1);
    let patience = Duration::from_secs(20);
    let hangs = "a call with a past deadline hangs";
    let b = &one.backend;
    let answer = timeout(patience, b.try_lock(request(&a, LONG), past)).await;
    if let Err(error) = answer.expect(hangs) {
        assert!(error.is_retryable(), "{error}");
    }
    let answer = timeout(patience, b.lock_holder(KEY, past)).await;
    if let Err(error) = answer.expect(hangs) {
        assert!(error.is_retryable(), "{error}");
    }
    let answer = timeout(patience, b.list_values("", past)).await;
    if let Err(error) = answer.expect(hangs) {
        assert!(error.is_retryable(), "{error}");
    }
    // And the backend has taken no harm.
    one.acquire(&a, LONG).await;
}

fn fatal<T: std::fmt::Debug>(name: &str, answer: Result<T, Error>) {
    match answer {
        Err(error @ Error::Fatal { .. }) => {
            assert!(error.to_string().contains(name), "{name}: {error}");
        }
        other => panic!("a bad {name} is {other:?}"),
    }
}
