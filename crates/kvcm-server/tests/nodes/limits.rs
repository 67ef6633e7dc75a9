//! What a node does about clients that are slow, many, or send too much.

use std::time::Duration;

use kvcm_proto::meta::{
    GetCacheLocationRequest, GetClusterInfoResponse, meta_service_client::MetaServiceClient,
};
use kvcm_testkit::{NodeSpec, ServerProcess};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::{Code, Request, client::Grpc};
use tonic_prost::ProstCodec;

use crate::support::channel;

#[tokio::test(flavor = "multi_thread")]
async fn grpc_requests_that_are_too_large_or_too_slow_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new("limits", dir.path())
        .unwrap()
        .set("kvcm.service.max_request_bytes", "4096")
        .set("kvcm.service.read_timeout_ms", "200");
    let node = ServerProcess::spawn(&spec).await.unwrap();
    let channel = channel(node.ports().rpc()).await;

    let request = GetCacheLocationRequest {
        trace_id: "x".repeat(5000),
        ..Default::default()
    };
    let mut client = MetaServiceClient::new(channel.clone());
    let status = client.get_cache_location(request).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert!(status.message().contains("4096"), "{status:?}");

    // Headers, and then nothing.
    let mut slow = Grpc::new(channel);
    slow.ready().await.unwrap();
    let nothing = futures_util::stream::pending::<GetCacheLocationRequest>();
    let path = "/kv_cache_manager.proto.meta.MetaService/GetClusterInfo";
    let answer = slow.client_streaming(
        Request::new(nothing),
        path.parse().unwrap(),
        ProstCodec::<GetCacheLocationRequest, GetClusterInfoResponse>::default(),
    );
    let status = answer.await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert!(
        status.message().contains("kvcm.service.read_timeout_ms"),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_trickles_in_is_cut_and_so_are_too_many_connections() {
    let dir = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new("limits", dir.path())
        .unwrap()
        .set("kvcm.service.head_timeout_ms", "500")
        .set("kvcm.service.max_connections_per_peer", "2");
    let node = ServerProcess::spawn(&spec).await.unwrap();
    let http = node.ports().http();

    let mut trickle = TcpStream::connect(http).await.unwrap();
    let mut idle = TcpStream::connect(http).await.unwrap();
    let mut third = TcpStream::connect(http).await.unwrap();
    assert_eq!(
        third.read(&mut [0; 1]).await.unwrap_or(0),
        0,
        "one more is closed at once"
    );
    let trickling = async {
        // A byte now and then would be enough for a limit on silence.
        while trickle.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), trickling)
        .await
        .unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap_or(0), 0);

    // Their places are free again.
    crate::support::until("a place is free", async || {
        let answer = kvcm_testkit::http_post(http, "/api/getClusterInfo", b"{}").await;
        answer.ok().filter(|answer| answer.status == 200)
    })
    .await;
}
