//! Against real servers: the whole API, pushes, TLS and credentials.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::{path::Path, time::Duration};

use futures_util::StreamExt;
use kvcm_client::{
    Blocks, Client, ClientBuilder, Credentials, Demotion, ErrorKind, InstanceSpec, LogLevel, Query,
    Role, Tls, WriteOptions, Written,
};
use kvcm_testkit::{Cluster, ClusterSpec};

fn startup_config(dir: &Path) -> String {
    let blocks = dir.join("blocks");
    std::fs::create_dir_all(&blocks).unwrap();
    let text = serde_json::json!({
        "storage_config": {
            "type": "file",
            "global_unique_name": "files",
            "storage_spec": { "root_path": blocks, "key_count_per_file": 8 },
        },
        "instance_group": {
            "name": "default",
            "storage_candidates": ["files"],
            "global_quota_group_name": "quota",
            "max_instance_count": 10,
            "quota": {
                "capacity": 1_000_000_000_000_u64,
                "quota_config": [{ "storage_type": "file", "capacity": 1_000_000_000_000_u64 }],
            },
            "cache_config": { "meta_indexer_config": { "max_key_count": 1_000_000 } },
        },
    });
    let file = dir.join("startup.json");
    std::fs::write(&file, text.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn cluster(nodes: usize, dir: &Path) -> ClusterSpec {
    let coordination = format!("file://{}", dir.join("coordination").display());
    let lease = Duration::from_millis(1000);
    ClusterSpec::new(nodes, dir, &coordination, lease)
        .unwrap()
        .set("kvcm.startup_config", &startup_config(dir))
        .set("kvcm.allow_private_stores", "true")
}

/// With a deadline for slow machines.
fn client(cluster: &Cluster) -> ClientBuilder {
    Client::builder()
        .endpoints(cluster.endpoints())
        .deadline(Duration::from_secs(60))
}

fn spec() -> InstanceSpec {
    InstanceSpec::new("default", "i", 4)
        .model("m", "bf16")
        .piece("tp0", 16)
}

#[tokio::test]
async fn every_call_of_an_engine_works() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(cluster(1, dir.path())).await.unwrap();
    let client = client(&cluster).connect().await.unwrap();
    let instance = client.register(spec()).await.unwrap();
    assert!(instance.storage_configs().contains("files"));
    let registered = instance.registered().await.unwrap();
    assert_eq!(
        (&registered.id, registered.block_size),
        (&"i".to_owned(), 4)
    );
    assert_eq!(registered.model, instance.spec().model);

    let tokens: Vec<i64> = (0..14).collect();
    let blocks = Blocks::tokens(&tokens);
    let options = WriteOptions::default();
    let report = instance
        .write_blocks(blocks, &options, |places| async move {
            assert_eq!(places.len(), 3, "whole blocks only");
            Written::Each(vec![true, true, false])
        })
        .await
        .unwrap();
    assert_eq!((report.blocks, report.written, report.known), (3, 2, 0));
    let found = instance.locate(blocks).await.unwrap();
    assert_eq!(found.hits(), 2);
    assert!(
        found
            .get(0)
            .unwrap()
            .uri("tp0")
            .unwrap()
            .starts_with("file://files/")
    );
    let len = instance.locate_len(blocks, &Query::prefix()).await.unwrap();
    assert_eq!(*len, 2);
    let states = instance.states(blocks).await.unwrap();
    assert_eq!(states.states().len(), states.locations().len());
    assert!(states.states()[0].contains("status"), "{states:?}");
    instance.remove(blocks).await.unwrap();
    assert_eq!(instance.locate(blocks).await.unwrap().hits(), 0);
    instance.trim().await.unwrap();
    assert!(client.close().await);
}

#[tokio::test]
async fn every_call_of_an_operator_follows_the_leader() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(cluster(2, dir.path())).await.unwrap();
    let client = client(&cluster).connect().await.unwrap();
    let mut changes = client.leader_changes();
    let first = changes.next().await.unwrap();
    let operator = client.operator();
    let storages = operator.storages().await.unwrap();
    assert_eq!(storages[0].global_unique_name, "files");
    let groups = operator.instance_groups().await.unwrap();
    assert_eq!(groups[0].name, "default");
    operator.enable_storage("files", false).await.unwrap();
    operator.enable_storage("files", true).await.unwrap();
    client.register(spec()).await.unwrap();
    assert_eq!(operator.instances(Some("default")).await.unwrap().len(), 1);
    operator.remove_instance("default", "i").await.unwrap();
    assert!(operator.instances(None).await.unwrap().is_empty());
    operator
        .add_account("ann", "secret", Role::User)
        .await
        .unwrap();
    operator.delete_account("ann").await.unwrap();
    let error = operator.delete_account("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let snapshot = operator.config_snapshot().await.unwrap();
    operator.load_config_snapshot(&snapshot).await.unwrap();

    let node = client.admin(&first.node.admin_endpoint).unwrap();
    assert!(node.check_health().await.unwrap().is_leader);
    let members = node.members().await.unwrap();
    assert_eq!(members.leader_epoch, Some(first.epoch));
    assert!(
        members
            .nodes
            .iter()
            .any(|member| member.node_id == first.node.id)
    );
    node.set_log_level(LogLevel::Info).await.unwrap();
    assert!(!node.metrics().await.unwrap().is_empty());
    node.set_campaign_delay(Duration::from_millis(10))
        .await
        .unwrap();
    let config = node.election_config().await.unwrap();
    assert_eq!(
        (config.campaign_delay, config.paused),
        (Duration::from_millis(10), false)
    );

    // The other node takes over, which is pushed; operators' calls go there.
    let demotion = Demotion::default().expecting(first.epoch).pausing();
    node.demote(&demotion).await.unwrap();
    let second = changes.next().await.unwrap();
    assert!(second.epoch > first.epoch && second.node.id != first.node.id);
    let groups = client.operator().instance_groups().await.unwrap();
    assert_eq!(groups.len(), 1);
    assert!(client.stats().pushes > 0, "{:?}", client.stats());
    node.set_candidacy(false).await.unwrap();
}

#[tokio::test]
async fn tls_and_credentials_are_what_the_server_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["kvcm.example".to_owned()]).unwrap();
    let (cert_file, key_file) = (dir.path().join("crt"), dir.path().join("key"));
    std::fs::write(&cert_file, cert.pem()).unwrap();
    std::fs::write(&key_file, signing_key.serialize_pem()).unwrap();
    let spec_of_nodes = cluster(1, dir.path())
        .set("kvcm.service.tls_cert_file", cert_file.to_str().unwrap())
        .set("kvcm.service.tls_key_file", key_file.to_str().unwrap())
        .set("kvcm.service.admin_auth_token", "for-operators")
        .set("kvcm.service.meta_auth_token", "for-engines");
    let cluster = Cluster::start(spec_of_nodes).await.unwrap();
    let tls = Tls::trusting(cert.pem()).unwrap();
    let named = tls.clone().domain("kvcm.example");
    let token = |token| Credentials::bearer(token).unwrap();

    let engine = client(&cluster)
        .tls(&named)
        .credentials(token("for-engines"));
    let engine = engine.connect().await.unwrap();
    let instance = engine.register(spec()).await.unwrap();
    assert!(instance.locate(&[1]).await.unwrap().is_empty());
    let error = engine.operator().storages().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    let operator = client(&cluster)
        .tls(&named)
        .credentials(token("for-operators"));
    let operator = operator.connect().await.unwrap();
    assert_eq!(operator.operator().storages().await.unwrap().len(), 1);

    let short = Duration::from_millis(500);
    let plain = client(&cluster)
        .deadline(short)
        .connect()
        .await
        .unwrap_err();
    assert_eq!(plain.kind(), ErrorKind::Transport, "{plain}");
    // The certificate is for a name, the address is none.
    let unnamed = client(&cluster).deadline(short).tls(&tls);
    let error = unnamed.connect().await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let stranger = client(&cluster).deadline(short).tls(&named);
    let error = stranger.connect().await.unwrap_err();
    assert!(error.to_string().contains("Unauthenticated"), "{error}");
}
