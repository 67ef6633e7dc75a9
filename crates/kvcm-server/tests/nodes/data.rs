//! The data calls of a leader, over both protocols.

use kvcm_proto::meta::{self, block_mask::Info};
use kvcm_testkit::{NodeSpec, ServerProcess};
use serde_json::json;
use tempfile::TempDir;
use tonic::Request;

use crate::support::{call, code, message, meta_client, registration, until};

async fn leader() -> (TempDir, ServerProcess) {
    let dir = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new("data", dir.path()).unwrap();
    let node = ServerProcess::spawn(&spec).await.unwrap();
    let http = node.ports().http();
    until("it leads", async || {
        let answer = call(http, "registerInstance", registration("i")).await;
        (code(&answer) == "OK").then_some(())
    })
    .await;
    (dir, node)
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_written_in_two_phases_and_found_again() {
    let (_dir, node) = leader().await;
    let http = node.ports().http();
    let start = json!({"instance_id": "i", "block_keys": ["1", 2, 3], "write_timeout_seconds": 60});
    let started = call(http, "startWriteCache", start.clone()).await;
    assert_eq!(code(&started), "OK", "{started}");
    assert_eq!(started["block_mask"], json!({"offset": 0}));
    assert_eq!(started["locations"].as_array().unwrap().len(), 3);
    let session = started["write_session_id"].as_str().unwrap();
    assert_eq!(session.len(), 32);
    // Being written is not readable, and nobody else may write it.
    let lookup =
        json!({"instance_id": "i", "query_type": "QT_PREFIX_MATCH", "block_keys": [1, 2, 3]});
    let found = call(http, "getCacheLocation", lookup.clone()).await;
    assert_eq!(found["locations"], json!([]));
    let second = call(http, "startWriteCache", start).await;
    assert_eq!(second["block_mask"], json!({"offset": 3}), "{second}");
    assert_eq!(second["locations"], json!([]));

    let finish = json!({
        "instance_id": "i", "write_session_id": session, "success_blocks": {"offset": 2},
    });
    let finished = call(http, "finishWriteCache", finish.clone()).await;
    assert_eq!(code(&finished), "OK", "{finished}");
    let found = call(http, "getCacheLocation", lookup.clone()).await;
    assert_eq!(
        found["locations"].as_array().unwrap()[..],
        started["locations"].as_array().unwrap()[..2]
    );
    let length = call(http, "getCacheLocationLen", lookup).await;
    assert_eq!(length["cache_location_len"], "2");
    let batch = json!({"instance_id": "i", "query_type": 1, "block_keys": [3, 2]});
    let batch = call(http, "getCacheLocation", batch).await;
    assert_eq!(batch["locations"][0]["type"], "ST_UNSPECIFIED");
    assert_eq!(batch["locations"][1], started["locations"][1]);
    let metas = json!({"instance_id": "i", "block_keys": [1, 9]});
    let metas = call(http, "getCacheMeta", metas).await;
    assert!(
        metas["metas"][0].as_str().unwrap().contains("CLS_SERVING"),
        "{metas}"
    );
    assert!(
        metas["metas"][1]
            .as_str()
            .unwrap()
            .contains("CLS_NOT_FOUND"),
        "{metas}"
    );

    // The same over gRPC, byte for byte the same locations.
    let mut grpc = meta_client(node.ports().rpc()).await;
    let reply = grpc
        .get_cache_location(meta::GetCacheLocationRequest {
            instance_id: "i".to_owned(),
            query_type: meta::QueryType::QtPrefixMatch.into(),
            block_keys: vec![1, 2, 3],
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner();
    let uris: Vec<_> = reply
        .locations
        .iter()
        .map(|l| l.location_specs[0].uri.clone())
        .collect();
    assert_eq!(
        json!(uris[0]),
        started["locations"][0]["location_specs"][0]["uri"]
    );
    assert_eq!(uris.len(), 2);

    let remove = json!({"instance_id": "i", "block_keys": [1]});
    assert_eq!(code(&call(http, "removeCache", remove).await), "OK");
    let trim = json!({"instance_id": "i", "strategy": "TS_REMOVE_ALL_CACHE"});
    assert_eq!(code(&call(http, "trimCache", trim).await), "OK");
    let batch = json!({"instance_id": "i", "query_type": 1, "block_keys": [1, 2]});
    let batch = call(http, "getCacheLocation", batch).await;
    assert!(
        batch["locations"]
            .as_array()
            .unwrap()
            .iter()
            .all(|l| l["type"] == "ST_UNSPECIFIED")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_with_the_same_request_id_has_one_effect_and_one_answer() {
    let (_dir, node) = leader().await;
    let mut grpc = meta_client(node.ports().rpc()).await;
    let start = |keys: &[i64], id: &'static str| {
        let mut request = Request::new(meta::StartWriteCacheRequest {
            instance_id: "i".to_owned(),
            block_keys: keys.to_vec(),
            ..Default::default()
        });
        request
            .metadata_mut()
            .insert("x-kvcm-request-id", id.parse().unwrap());
        request
    };
    let first = grpc
        .start_write_cache(start(&[1, 2], "a"))
        .await
        .unwrap()
        .into_inner();
    let mut again = grpc
        .start_write_cache(start(&[1, 2], "a"))
        .await
        .unwrap()
        .into_inner();
    // When it was answered is all that may differ.
    again.header.clone_from(&first.header);
    assert_eq!(first, again);
    assert_eq!(first.locations.len(), 2);
    let other = grpc
        .start_write_cache(start(&[1, 2], "b"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(other.block_mask.unwrap().info, Some(Info::Offset(2)));
    let misused = grpc
        .start_write_cache(start(&[3], "a"))
        .await
        .unwrap()
        .into_inner();
    let status = misused.header.unwrap().status.unwrap();
    assert_eq!(status.code(), meta::ErrorCode::InvalidArgument);
    assert!(
        status.message.contains("request id `a`"),
        "{}",
        status.message
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_seen_a_later_leader_is_refused() {
    let (_dir, node) = leader().await;
    let mut grpc = meta_client(node.ports().rpc()).await;
    let info = |epoch: u64| {
        let request = meta::GetInstanceInfoRequest {
            instance_id: "i".to_owned(),
            ..Default::default()
        };
        let mut request = Request::new(request);
        request
            .metadata_mut()
            .insert("x-kvcm-min-epoch", epoch.to_string().parse().unwrap());
        request
    };
    let header = grpc
        .get_instance_info(info(0))
        .await
        .unwrap()
        .into_inner()
        .header
        .unwrap();
    let epoch = header.epoch.unwrap();
    let header = grpc
        .get_instance_info(info(epoch))
        .await
        .unwrap()
        .into_inner()
        .header
        .unwrap();
    assert_eq!(header.status.unwrap().code(), meta::ErrorCode::Ok);
    let header = grpc
        .get_instance_info(info(epoch + 5))
        .await
        .unwrap()
        .into_inner()
        .header
        .unwrap();
    assert_eq!(
        header.status.unwrap().code(),
        meta::ErrorCode::ServerNotLeader
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_is_identified_by_its_content() {
    let (_dir, node) = leader().await;
    let http = node.ports().http();
    let mut groups = registration("g");
    groups["location_spec_infos"] = json!([{"name": "a", "size": 1}, {"name": "b", "size": 2}]);
    groups["location_spec_groups"] =
        json!([{"name": "B", "spec_names": ["b"]}, {"name": "A", "spec_names": ["a"]}]);
    assert_eq!(
        code(&call(http, "registerInstance", groups.clone()).await),
        "OK"
    );
    assert_eq!(
        code(&call(http, "registerInstance", groups.clone()).await),
        "OK"
    );
    groups["block_size"] = json!(64);
    let answer = call(http, "registerInstance", groups).await;
    assert_eq!(code(&answer), "DUPLICATE_ENTITY");
    assert!(message(&answer).contains("block_size") && message(&answer).contains("`g`"));
    assert_eq!(answer["storage_configs"], "");
    let mut nowhere = registration("n");
    nowhere["instance_group"] = json!("nowhere");
    let answer = call(http, "registerInstance", nowhere).await;
    assert_eq!(code(&answer), "INTERNAL_ERROR");
    assert!(message(&answer).contains("nowhere"), "{answer}");
    let info = call(http, "getInstanceInfo", json!({"instance_id": "g"})).await;
    assert_eq!(info["instance_info"]["block_size"], 16);
    assert_eq!(info["instance_group"], "default");
    let info = call(http, "getInstanceInfo", json!({"instance_id": "n"})).await;
    assert_eq!(code(&info), "INSTANCE_NOT_EXIST");
    assert!(info.get("instance_info").is_none(), "{info}");
}
