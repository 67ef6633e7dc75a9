//! Starting, signalling and ending processes, with a script in the server's place.

use std::{fs, os::unix::process::ExitStatusExt, path::Path, time::Duration};

use kvcm_testkit::{Cluster, ClusterSpec, NodeSpec, ServerProcess};

fn spec(name: &str, dir: &Path) -> NodeSpec {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-server.sh");
    NodeSpec::with_program(name, dir, ["sh".into(), script.into()])
}

/// The letter that Linux gives: S sleeps, T is stopped, Z is dead.
fn state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit(") ").next()?.chars().next()
}

/// A signal takes a moment until it shows.
async fn until_state(pid: u32, wanted: Option<char>) -> bool {
    let wait = async {
        while state(pid) != wanted {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait)
        .await
        .is_ok()
}

#[tokio::test]
async fn a_node_serves_stops_goes_on_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = ServerProcess::spawn(&spec("a", dir.path())).await.unwrap();
    assert_eq!(node.ports().rpc().to_string(), "127.0.0.1:4001");
    assert_eq!(node.ports().admin_http().port(), 4004);
    assert!(node.is_running().unwrap());
    node.stop().unwrap();
    assert!(until_state(node.pid(), Some('T')).await);
    node.cont().unwrap();
    assert!(until_state(node.pid(), Some('S')).await);
    node.term().unwrap();
    assert_eq!(node.wait().await.unwrap().signal(), Some(15));
    assert!(!node.is_running().unwrap());
    assert!(
        node.cont()
            .unwrap_err()
            .to_string()
            .contains("node a has ended")
    );
    assert_eq!(node.kill().await.unwrap().signal(), Some(15));
}

#[tokio::test]
async fn a_failed_start_shows_the_status_and_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let failed = ServerProcess::spawn(&spec("a", dir.path()).set("fake", "exit")).await;
    let error = format!("{:#}", failed.unwrap_err());
    assert!(error.contains("exit status: 2"), "{error}");
    assert!(error.contains("started with exit\nbad value"), "{error}");
}

#[tokio::test]
async fn a_node_that_never_serves_is_given_up_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mute = spec("a", dir.path())
        .set("fake", "mute")
        .ready_within(Duration::from_millis(50));
    let error = format!("{:#}", ServerProcess::spawn(&mute).await.unwrap_err());
    assert!(error.contains("does not serve after 50ms"), "{error}");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let spec = NodeSpec::with_program("a", dir.path(), ["no-such-program-here".into()]);
    let error = format!("{:#}", ServerProcess::spawn(&spec).await.unwrap_err());
    assert!(error.contains("no-such-program-here"), "{error}");
}

#[tokio::test]
async fn a_dropped_node_is_gone_even_when_it_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = ServerProcess::spawn(&spec("a", dir.path())).await.unwrap();
    node.stop().unwrap();
    let pid = node.pid();
    assert!(until_state(pid, Some('T')).await);
    drop(node);
    assert_eq!(state(pid), None);
}

#[tokio::test]
async fn a_node_comes_back_at_its_old_address() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = vec![spec("a", dir.path()), spec("b", dir.path())];
    let mut cluster = Cluster::start(ClusterSpec { nodes }.set("fake", "x"))
        .await
        .unwrap();
    assert_eq!((cluster.len(), cluster.index_of("b")), (2, Some(1)));
    let before = cluster.ports();
    let error = cluster.restart(1).await.unwrap_err();
    assert_eq!(error.to_string(), "node b still runs");
    let status = cluster.node(1).kill().await.unwrap();
    assert_eq!(status.signal(), Some(9));
    cluster.restart(1).await.unwrap();
    assert!(cluster.node(1).is_running().unwrap());
    assert_eq!(cluster.ports(), before);
    assert_eq!(cluster.endpoints(), ["127.0.0.1:4001", "127.0.0.1:4001"]);
    let log = fs::read_to_string(dir.path().join("b.log")).unwrap();
    assert_eq!(log, "started with x\nstarted with x\n");
}
