//! Versioned values.

use std::time::Duration;

use coordination_core::{DeleteOutcome, Expect, NODE_KEY_PREFIX, SetOutcome};

use crate::{
    Subject,
    handle::{Handle, KEY, LONG, SHORT, eventually, owner},
};

/// What one process sets, another gets.
pub async fn set_get_and_delete(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    assert_eq!(two.get("k").await, None);
    assert_eq!(two.delete("k", Expect::Any).await, DeleteOutcome::Absent);
    let version = one.store("k", "text").await;
    let value = two.get("k").await.unwrap();
    assert_eq!((value.text.as_str(), value.version), ("text", version));
    assert_eq!(value.remaining, None);
    assert_eq!(two.delete("k", Expect::Any).await, DeleteOutcome::Deleted);
    assert_eq!(one.get("k").await, None);
    assert_eq!(one.delete("k", Expect::Any).await, DeleteOutcome::Absent);
}

/// Changes happen only to what the caller has seen, and a refusal tells what is there.
pub async fn versions_rise_and_are_expected(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let stored = one.set("k", "1", None, Expect::Version(1)).await;
    assert_eq!(stored, SetOutcome::Conflict(None));
    let SetOutcome::Stored(first) = one.set("k", "1", None, Expect::Absent).await else {
        panic!("nothing is there, as was expected");
    };
    let stored = one.set("k", "2", None, Expect::Absent).await;
    assert_eq!(stored, SetOutcome::Conflict(Some(first)));
    let SetOutcome::Stored(second) = one.set("k", "2", None, Expect::Version(first)).await else {
        panic!("version {first} is there, as was expected");
    };
    assert!(second > first);
    let stored = one.set("k", "3", None, Expect::Version(first)).await;
    assert_eq!(stored, SetOutcome::Conflict(Some(second)));
    assert_eq!(one.get("k").await.unwrap().text, "2");
    let deleted = one.delete("k", Expect::Version(first)).await;
    assert_eq!(deleted, DeleteOutcome::Conflict(second));
    let deleted = one.delete("k", Expect::Absent).await;
    assert_eq!(deleted, DeleteOutcome::Conflict(second));
    let deleted = one.delete("k", Expect::Version(second)).await;
    assert_eq!(deleted, DeleteOutcome::Deleted);
    let deleted = one.delete("k", Expect::Version(second)).await;
    assert_eq!(deleted, DeleteOutcome::Absent);
    let third = one.store("k", "3").await;
    assert!(
        third != first && third != second,
        "{third} stood for another text"
    );
    let stored = one.set("k", "4", None, Expect::Version(second)).await;
    assert_eq!(stored, SetOutcome::Conflict(Some(third)));
}

/// A node record vanishes with its node.
pub async fn a_value_expires_unless_it_is_set_again(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    one.set("gone", "", Some(SHORT), Expect::Any).await;
    one.set("kept", "1", Some(SHORT), Expect::Any).await;
    one.set("kept", "2", Some(LONG), Expect::Any).await;
    eventually(subject, "the value expires", || async {
        one.get("gone").await.is_none().then_some(())
    })
    .await;
    subject.elapse(SHORT).await;
    let kept = one.get("kept").await.unwrap();
    assert_eq!(kept.text, "2");
    let remaining = kept.remaining.unwrap();
    assert!(remaining <= LONG && remaining > Duration::ZERO);
    let listed: Vec<_> = one.list("").await.into_iter().map(|(key, _)| key).collect();
    assert_eq!(listed, ["kept"]);
    let deleted = one.delete("gone", Expect::Any).await;
    assert_eq!(deleted, DeleteOutcome::Absent);
    let stored = one.set("gone", "3", None, Expect::Absent).await;
    assert!(matches!(stored, SetOutcome::Stored(_)), "{stored:?}");
}

/// A time to live belongs to the text it was set with.
pub async fn setting_without_ttl_keeps_the_value(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    one.set("k", "1", Some(SHORT), Expect::Any).await;
    one.store("k", "2").await;
    subject.elapse(SHORT * 2).await;
    assert_eq!(one.get("k").await.unwrap().remaining, None);
}

/// The list is what the keys start with, and nothing else.
pub async fn lists_come_by_prefix_in_order(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    for node in ["n2", "n10", "n1", "N1", "ü"] {
        one.store(&format!("{NODE_KEY_PREFIX}{node}"), node).await;
    }
    one.store("_TAIR_KVCM_NODE_INF", "no").await;
    one.store("x_TAIR_KVCM_NODE_INFO_n1", "no").await;
    let listed = two.list(NODE_KEY_PREFIX).await;
    let texts: Vec<_> = listed
        .iter()
        .map(|(_, value)| value.text.as_str())
        .collect();
    assert_eq!(texts, ["N1", "n1", "n10", "n2", "ü"]);
    for (key, value) in &listed {
        assert_eq!(*key, format!("{NODE_KEY_PREFIX}{}", value.text));
        assert_eq!(two.get(key).await.as_ref(), Some(value));
    }
    assert_eq!(two.list("").await.len(), 7);
    assert_eq!(two.list("absent").await, []);
}

/// Signs that mean something to a pattern, a path or a format are only signs here.
pub async fn a_prefix_is_no_pattern(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let keys = ["a*", "a[b]", "a?", "a\\b", "a/b", "a%s", "a^", "a-", "{a}"];
    for key in keys.into_iter().chain(["ab", "aab"]) {
        one.store(key, key).await;
    }
    for key in keys {
        let listed: Vec<_> = one
            .list(key)
            .await
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(listed, [key]);
    }
}

/// A value under the name of a lock is not the lock.
pub async fn locks_and_values_are_apart(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    one.store(KEY, "text").await;
    assert_eq!(one.holder().await, None);
    let epoch = one.acquire(&a, LONG).await.epoch;
    assert_eq!(one.get(KEY).await.unwrap().text, "text");
    assert_eq!(one.list("").await.len(), 1);
    assert_eq!(one.delete(KEY, Expect::Any).await, DeleteOutcome::Deleted);
    assert_eq!(one.holder().await.unwrap().epoch, epoch);
}

/// Whatever a text holds, it comes back so; an empty text is a value.
pub async fn texts_come_back_as_they_were(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let long = "x".repeat(100_000);
    for text in ["", " ", "\0\n\r\"\\'%{}", "ключ 鍵 🔑", &long] {
        one.store("k", text).await;
        assert_eq!(one.get("k").await.unwrap().text, text);
    }
}
