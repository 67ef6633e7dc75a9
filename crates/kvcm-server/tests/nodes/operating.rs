//! What operators see of a cluster.

use kvcm_testkit::http_get;
use serde_json::{Value, json};

use crate::support::{Nodes, call, until};

/// Status and text of a page on the admin HTTP port.
async fn get(nodes: &Nodes, index: usize, path: &str) -> (u16, String) {
    let reply = http_get(nodes.ports(index).admin_http(), path).await;
    let reply = reply.unwrap();
    (reply.status, String::from_utf8(reply.body).unwrap())
}

/// Role and readiness of a node as another one tells them; none when it is not listed.
async fn seen(nodes: &Nodes, by: usize, name: &str) -> Option<(String, bool)> {
    let address = nodes.ports(by).admin_http();
    let info = call(address, "getManagerClusterInfo", json!({})).await;
    let node = info["nodes"]
        .as_array()?
        .iter()
        .find(|node| node["node_id"] == name)?;
    let role = node["role"].as_str()?.to_owned();
    Some((role, node["ready"].as_bool()?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_is_listed_as_expired_then_not_at_all_and_anew_when_it_returns() {
    let mut nodes = Nodes::start(2, 1_000).await;
    let leader = nodes.leader(&[0, 1]).await;
    let other = 1 - leader;
    let name = format!("node-{}", other + 1);
    let told = |role: &str, ready| Some((role.to_owned(), ready));
    until("the follower is a member", async || {
        (seen(&nodes, leader, &name).await == told("follower", true)).then_some(())
    })
    .await;
    let own = format!("node-{}", leader + 1);
    assert_eq!(seen(&nodes, leader, &own).await, told("leader", true));

    nodes.cluster.node(other).kill().await.unwrap();
    until("it is expired", async || {
        (seen(&nodes, leader, &name).await? == ("expired".to_owned(), false)).then_some(())
    })
    .await;
    until("it has disappeared", async || {
        seen(&nodes, leader, &name).await.is_none().then_some(())
    })
    .await;
    nodes.cluster.restart(other).await.unwrap();
    until("it is back", async || {
        let seen = seen(&nodes, leader, &name).await;
        seen.filter(|(role, ready)| role != "expired" && *ready)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_node_says_so_in_one_word_and_one_without_its_backend_says_why_not() {
    let mut nodes = Nodes::start(1, 1_000).await;
    nodes.leader(&[0]).await;
    let healthy = (200, r#"{"status":"OK"}"#.to_owned());
    until("healthy", async || {
        (get(&nodes, 0, "/api/healthy").await == healthy).then_some(())
    })
    .await;
    for probe in ["/livez", "/readyz", "/leaderz"] {
        assert_eq!(get(&nodes, 0, probe).await, (200, "ok\n".to_owned()));
    }
    // The directory of the locks turns into a file.
    let lock = nodes.dir.path().join("lock");
    std::fs::rename(&lock, nodes.dir.path().join("away")).unwrap();
    std::fs::write(&lock, "not a directory").unwrap();
    let body = until("not healthy", async || {
        let (status, body) = get(&nodes, 0, "/api/healthy").await;
        (status == 503).then_some(body)
    })
    .await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["is_health"], &body["is_leader"]),
        (&json!(false), &json!(false))
    );
    let (status, why) = until("not ready", async || {
        let reply = get(&nodes, 0, "/readyz").await;
        (reply.0 != 200).then_some(reply)
    })
    .await;
    assert_eq!(status, 503);
    assert!(why.contains("coordination backend"), "{why}");
    assert_eq!(get(&nodes, 0, "/livez").await.0, 200);
    assert_eq!(get(&nodes, 0, "/leaderz").await.0, 503);
    assert!(nodes.cluster.node(0).is_running().unwrap());
}
