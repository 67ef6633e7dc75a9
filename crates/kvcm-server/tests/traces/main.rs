//! Spans of a real `kvcm-server` process, sent to a collector of our own.
#![expect(clippy::unwrap_used, reason = "tests")]

mod collector;

use std::{net::SocketAddr, time::Duration};

use kvcm_proto::meta::{GetClusterInfoRequest, meta_service_client::MetaServiceClient};
use kvcm_testkit::{NodeSpec, ServerProcess, http_get, http_post};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tonic::{Request, transport::Channel};

use crate::collector::Collector;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
/// Long for any machine.
const LIMIT: Duration = Duration::from_secs(60);

async fn node(dir: &TempDir, collector: SocketAddr, settings: &[(&str, &str)]) -> ServerProcess {
    let program = [env!("CARGO_BIN_EXE_kvcm-server").into()];
    let endpoint = format!("http://{collector}");
    let mut spec = NodeSpec::with_program("traced", dir.path(), program)
        .set("kvcm.tracing.otlp_endpoint", &endpoint);
    for (key, value) in settings {
        spec = spec.set(key, value);
    }
    ServerProcess::spawn(&spec).await.unwrap()
}

async fn client(node: &ServerProcess) -> MetaServiceClient<Channel> {
    let url = format!("http://{}", node.ports().rpc());
    let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
    MetaServiceClient::new(channel)
}

/// Ends the node in good order.
async fn stop(node: &mut ServerProcess) {
    node.term().unwrap();
    let status = tokio::time::timeout(LIMIT, node.wait()).await;
    let status = status.expect("the node ends").unwrap();
    assert!(status.success(), "{status:?}");
}

/// Makes a call over gRPC with the flags of its caller's span.
async fn call_from(client: &mut MetaServiceClient<Channel>, id: &str, flags: &str) {
    let mut request = Request::new(GetClusterInfoRequest {
        trace_id: id.to_owned(),
        ..Default::default()
    });
    let parent = format!("00-{TRACE}-{SPAN}-{flags}");
    request
        .metadata_mut()
        .insert("traceparent", parent.parse().unwrap());
    client.get_cluster_info(request).await.unwrap();
}

/// Makes a call over HTTP whose caller's span is sampled.
async fn http_call(address: SocketAddr, path: &str, body: &str) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\
         traceparent: 00-{TRACE}-{SPAN}-01\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_span_of_its_caller_and_sent_before_the_node_ends() {
    let collector = Collector::start().await;
    let dir = tempfile::tempdir().unwrap();
    let settings = [("kvcm.tracing.sample_ratio", "0")];
    let mut node = node(&dir, collector.address(), &settings).await;

    let mut client = client(&node).await;
    call_from(&mut client, "sampled", "01").await;
    call_from(&mut client, "not-sampled", "00").await;
    let http = node.ports().http();
    let body = br#"{"trace_id": "no-parent"}"#;
    http_post(http, "/api/getClusterInfo", body).await.unwrap();
    http_call(
        http,
        "/api/getInstanceInfo",
        r#"{"trace_id": "over-http", "instance_id": "nobody"}"#,
    )
    .await;
    drop(client);
    stop(&mut node).await;

    let resource = collector.resource();
    for (name, value) in [
        ("service.name", "kvcm-server"),
        ("service.instance.id", "traced"),
    ] {
        assert_eq!(collector::text(&resource, name), value, "{name}");
    }
    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    let expected = ["MetaService/GetClusterInfo", "MetaService/GetInstanceInfo"];
    assert_eq!(names, expected, "{spans:#?}");
    let told = |span: &Span, name: &str| collector::text(&span.attributes, name).to_owned();
    for (span, method, transport, code, id) in [
        (&spans[0], "GetClusterInfo", "grpc", "OK", "sampled_"),
        (
            &spans[1],
            "GetInstanceInfo",
            "http",
            "INSTANCE_NOT_EXIST",
            "over-http_",
        ),
    ] {
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(hex(&span.parent_span_id), SPAN);
        assert_eq!(span.kind, SpanKind::Server as i32);
        assert_eq!(told(span, "rpc.service"), "MetaService");
        assert_eq!(told(span, "rpc.method"), method);
        assert_eq!(told(span, "kvcm.transport"), transport);
        assert_eq!(told(span, "kvcm.code"), code);
        assert!(told(span, "kvcm.request_id").starts_with(id), "{span:?}");
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ratio_decides_for_calls_without_a_parent() {
    let collector = Collector::start().await;
    let dir = tempfile::tempdir().unwrap();
    let settings = [("kvcm.tracing.sample_ratio", "1")];
    let mut node = node(&dir, collector.address(), &settings).await;
    let mut client = client(&node).await;
    let request = GetClusterInfoRequest::default();
    client.get_cluster_info(request).await.unwrap();
    call_from(&mut client, "not-sampled", "00").await;
    drop(client);
    stop(&mut node).await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:#?}");
    assert_eq!(spans[0].parent_span_id, [0; 0]);
}

/// More calls than the queue holds are answered, the node ends in good order, and the log stays
/// short.
async fn is_not_disturbed_by(collector: SocketAddr) {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("kvcm.tracing.sample_ratio", "1"),
        ("kvcm.service.drain_ms", "500"),
    ];
    let mut node = node(&dir, collector, &settings).await;
    let client = client(&node).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let mut client = client.clone();
        callers.spawn(async move {
            for _ in 0..400 {
                let request = GetClusterInfoRequest::default();
                client.get_cluster_info(request).await.unwrap();
            }
        });
    }
    let called = tokio::time::timeout(LIMIT, callers.join_all()).await;
    called.expect("calls are answered");
    // All that do not wait in the queue are counted, as dropped or as refused by the collector.
    let page = http_get(node.ports().admin_http(), "/metrics")
        .await
        .unwrap();
    let page = String::from_utf8(page.body).unwrap();
    let lost: f64 = ["dropped", "failed"]
        .map(|outcome| {
            let series = format!("kvcm_spans_total{{outcome=\"{outcome}\"}} ");
            let line = page.lines().find_map(|line| line.strip_prefix(&series));
            line.unwrap_or_else(|| panic!("no {series}"))
                .parse::<f64>()
                .unwrap()
        })
        .iter()
        .sum();
    assert!(lost >= f64::from(16 * 400 - 4096), "{lost}");
    drop(client);
    stop(&mut node).await;
    let log = std::fs::read_to_string(node.log_file()).unwrap();
    let lines = log.lines().filter(|line| line.contains("export"));
    let lines: Vec<_> = lines.collect();
    // One while it runs, one when it ends; one more on a machine that takes minutes for all this.
    assert!((1..=3).contains(&lines.len()), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_down_disturbs_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    is_not_disturbed_by(address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_disturbs_nothing() {
    // Connections are made, by the system, and nobody reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    is_not_disturbed_by(listener.local_addr().unwrap()).await;
}
