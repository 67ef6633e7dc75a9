//! Values.

use coordination_core::{Backend, Expect, SetOutcome};
use kvcm_testkit::RedisServer;

use crate::common::{command, open, patiently};

#[tokio::test]
async fn a_value_written_by_other_hands_gets_a_version_of_its_own() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    command::<()>(&server.uri(), &["SET", "kvcm_kv:v", "theirs"]).await;
    let first = backend.get_value("v", patiently()).await.unwrap().unwrap();
    assert_eq!((first.text.as_str(), first.remaining), ("theirs", None));
    let again = backend.get_value("v", patiently()).await.unwrap().unwrap();
    assert_eq!(again, first);
    command::<()>(&server.uri(), &["SET", "kvcm_kv:v", "changed"]).await;
    let stale = Expect::Version(first.version);
    let set = backend.set_value("v", "ours", None, stale, patiently());
    assert!(matches!(
        set.await.unwrap(),
        SetOutcome::Conflict(Some(version)) if version > first.version
    ));
}

#[tokio::test]
async fn many_values_are_listed() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let seed: String = (0..3000).map(|n| format!("kvcm_kv:k{n:04}\nx\n")).collect();
    let words: Vec<_> = std::iter::once("MSET").chain(seed.lines()).collect();
    command::<()>(&server.uri(), &words).await;
    let listed = backend.list_values("k0", patiently()).await.unwrap();
    assert_eq!(listed.len(), 1000);
    assert!(listed.is_sorted_by_key(|(name, _)| name.clone()));
}
