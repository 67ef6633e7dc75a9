//! Real connections to real listeners: what clients see when things go right and wrong.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::Router;
use bytes::Bytes;
use kvcm_proto::meta::{
    CommonResponseHeader, ErrorCode, GetCacheLocationLenRequest, GetCacheLocationLenResponse,
    Status,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::*;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(100);
const PATH: &str = "/api/getCacheLocationLen";

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        connections: 100,
        peer_connections: 100,
        streams: 100,
        head_bytes: 65_536,
        head_timeout: LONG,
        read_timeout: LONG,
        drain: LONG,
    }
}

struct Server {
    address: SocketAddr,
    drain: CancellationToken,
    served: JoinHandle<Served>,
}

impl Server {
    async fn start(router: Router, terms: impl Into<Terms>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let drain = CancellationToken::new();
        let served = tokio::spawn(serve(
            listener,
            router,
            terms.into(),
            drain.clone(),
            Arc::default(),
        ));
        Self {
            address,
            drain,
            served,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends one request and reads until the server closes.
    async fn ask(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        Answer::read(&mut stream).await
    }
}

/// What comes until the server closes. A reset is as good as an end.
async fn read_rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let end = timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes));
    let _ = end.await.expect("the server closes the connection");
    bytes
}

/// An answer, read to the end of the connection.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    async fn read(stream: &mut TcpStream) -> Self {
        let bytes = read_rest(stream).await;
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        Self {
            status: head[9..12].parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    fn json(&self) -> Value {
        assert!(
            self.head.contains("content-type: application/json"),
            "{self:?}"
        );
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Code and message in the header of the body.
    fn refusal(&self) -> (String, String) {
        let status = &self.json()["header"]["status"];
        let text = |name: &str| status[name].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

fn routes(body_bytes: usize, read_timeout: Duration) -> JsonRoutes {
    JsonRoutes::new(BodyLimits {
        bytes: body_bytes,
        read_timeout,
    })
}

/// Counts the keys of a request, and tells its context in the message.
async fn count(
    context: CallContext,
    request: GetCacheLocationLenRequest,
) -> GetCacheLocationLenResponse {
    assert!(request.instance_id != "panic", "asked for");
    GetCacheLocationLenResponse {
        header: Some(CommonResponseHeader {
            status: Some(Status {
                code: ErrorCode::ServerNotLeader.into(),
                message: format!("{:?} {}", context.request_id, context.min_epoch),
            }),
            request_id: context.remote.unwrap().ip().to_string(),
            ..CommonResponseHeader::default()
        }),
        cache_location_len: i64::try_from(request.block_keys.len()).unwrap(),
    }
}

async fn counting(body_bytes: usize) -> Server {
    let router = routes(body_bytes, LONG)
        .call("GetCacheLocationLen", count)
        .finish();
    Server::start(router, limits()).await
}

#[tokio::test]
async fn a_call_is_answered_with_200_whatever_it_says() {
    let server = counting(1000).await;
    let headers = "x-kvcm-request-id: r1\r\nx-kvcm-min-epoch: 7\r\n";
    let body = r#"{"blockKeys":[1,"2"],"unknown":0}"#;
    let answer = server.ask(&request("POST", PATH, headers, body)).await;
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert_eq!(
        text,
        r#"{"header":{"status":{"code":"SERVER_NOT_LEADER","message":"Some(\"r1\") 7"},"request_id":"127.0.0.1","tracer_result":""},"cache_location_len":"2"}"#
    );
    answer.json();
}

#[tokio::test]
async fn what_cannot_be_understood_is_400_with_a_reason() {
    let server = counting(1000).await;
    for (headers, body, reason) in [
        ("", "", "empty"),
        ("", "{", "not JSON"),
        ("", "[]", "body"),
        ("", "{\"block_keys\":[\"x\"]}", "block_keys"),
        ("", "{} {}", "not JSON"),
        ("x-kvcm-min-epoch: x\r\n", "{}", "x-kvcm-min-epoch"),
        ("x-kvcm-request-id:\r\n", "{}", "x-kvcm-request-id"),
    ] {
        let answer = server.ask(&request("POST", PATH, headers, body)).await;
        assert_eq!(answer.status, 400, "{body}");
        let (code, message) = answer.refusal();
        assert_eq!(code, "INVALID_ARGUMENT");
        assert!(message.contains(reason), "{body}: {message}");
    }
}

#[tokio::test]
async fn other_paths_methods_and_encodings_are_refused_in_json() {
    let server = counting(1000).await;
    let answer = server
        .ask(&request("POST", "/api/nope?x=1", "", "{}"))
        .await;
    assert_eq!(answer.status, 404);
    assert!(answer.refusal().1.contains("/api/nope "), "{answer:?}");
    for method in ["GET", "PUT", "DELETE"] {
        let answer = server.ask(&request(method, PATH, "", "{}")).await;
        assert_eq!(answer.status, 405);
        assert!(answer.head.contains("allow: post"), "{answer:?}");
        assert!(answer.refusal().1.contains(PATH), "{answer:?}");
    }
    let gzip = "content-encoding: gzip\r\n";
    let answer = server.ask(&request("POST", PATH, gzip, "{}")).await;
    assert_eq!(answer.status, 415);
}

#[tokio::test]
async fn a_body_up_to_the_limit_is_read_and_a_larger_one_is_413() {
    let server = counting(100).await;
    let body = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
    let answer = server.ask(&request("POST", PATH, "", &body(100))).await;
    assert_eq!(answer.status, 200);
    let answer = server.ask(&request("POST", PATH, "", &body(101))).await;
    assert_eq!(answer.status, 413);
    let (code, message) = answer.refusal();
    assert_eq!(code, "INVALID_ARGUMENT");
    assert!(message.contains("of 101 bytes"), "{message}");
    assert!(message.contains("100 bytes, the limit that kvcm.service.max_request_bytes"));
    // A client that sends megabytes before it reads gets the answer too, not a reset.
    let answer = server
        .ask(&request("POST", PATH, "", &body(10 << 20)))
        .await;
    assert_eq!(answer.status, 413);
    // Nor does a length that is not announced help.
    let blanks = " ".repeat(64);
    let chunked = format!(
        "POST {PATH} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n\
         40\r\n{blanks}\r\n40\r\n{blanks}\r\n2\r\n{{}}\r\n0\r\n\r\n"
    );
    let answer = server.ask(chunked.as_bytes()).await;
    assert_eq!(answer.status, 413, "{answer:?}");
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_refused_at_once() {
    let server = counting(100).await;
    let head = "POST /api/getCacheLocationLen HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\
                expect: 100-continue\r\n\r\n";
    assert_eq!(server.ask(head.as_bytes()).await.status, 413);
}

#[tokio::test]
async fn a_body_in_many_parts_is_put_together() {
    let server = counting(1 << 20).await;
    let keys = vec!["7"; 10_000].join(",");
    let whole = request("POST", PATH, "", &format!("{{\"block_keys\":[{keys}]}}"));
    let mut stream = server.connect().await;
    for part in whole.chunks(1009) {
        stream.write_all(part).await.unwrap();
        stream.flush().await.unwrap();
    }
    let answer = Answer::read(&mut stream).await;
    assert_eq!(answer.json()["cache_location_len"], "10000");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let router = routes(1000, SHORT)
        .call("GetCacheLocationLen", count)
        .finish();
    let server = Server::start(router, limits()).await;
    let mut whole = request("POST", PATH, "", "{}");
    whole.pop();
    let answer = server.ask(&whole).await;
    assert_eq!(answer.status, 408);
    assert!(answer.refusal().1.contains("kvcm.service.read_timeout_ms"));
}

#[tokio::test]
async fn a_panic_is_500_and_the_connection_lives() {
    let server = counting(1000).await;
    let mut stream = server.connect().await;
    let body = r#"{"instance_id":"panic"}"#;
    let first = String::from_utf8(request("POST", PATH, "", body)).unwrap();
    let first = first.replace("connection: close\r\n", "");
    stream.write_all(first.as_bytes()).await.unwrap();
    stream
        .write_all(&request("POST", PATH, "", "{}"))
        .await
        .unwrap();
    let answer = Answer::read(&mut stream).await;
    assert_eq!(answer.status, 500);
    let rest = String::from_utf8(answer.body).unwrap();
    assert!(
        rest.contains("INTERNAL_ERROR") && rest.contains("200 OK"),
        "{rest}"
    );
}

#[tokio::test]
async fn silence_and_half_a_head_are_closed() {
    let limits = ConnectionLimits {
        head_timeout: SHORT,
        ..limits()
    };
    let router = routes(1000, LONG)
        .call("GetCacheLocationLen", count)
        .finish();
    let server = Server::start(router, limits).await;
    for start in [
        &b""[..],
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"POST / HTTP/1.1\r\nx-y: ",
    ] {
        let mut stream = server.connect().await;
        stream.write_all(start).await.unwrap();
        let rest = read_rest(&mut stream).await;
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{start:?}");
    }
}

#[tokio::test]
async fn http2_without_tls_is_spoken_on_the_same_port() {
    let server = counting(1000).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    // An empty SETTINGS frame.
    stream
        .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4, "a SETTINGS frame: {frame:?}");
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_until_one_ends() {
    let limits = ConnectionLimits {
        connections: 1,
        ..limits()
    };
    let router = routes(1000, LONG)
        .call("GetCacheLocationLen", count)
        .finish();
    let server = Server::start(router, limits).await;
    let first = server.connect().await;
    let mut second = server.connect().await;
    let rest = read_rest(&mut second).await;
    assert!(rest.is_empty());
    drop(first);
    loop {
        let mut stream = server.connect().await;
        let _ = stream.write_all(&request("POST", PATH, "", "{}")).await;
        let bytes = read_rest(&mut stream).await;
        if bytes.starts_with(b"HTTP/1.1 200") {
            break;
        }
    }
}

#[tokio::test]
async fn what_is_refused_is_counted_by_its_cause() {
    let terms = Terms::from(ConnectionLimits {
        connections: 2,
        peer_connections: 1,
        head_timeout: SHORT,
        ..limits()
    });
    let refusals = Arc::clone(&terms.refusals);
    let router = routes(10, SHORT)
        .call("GetCacheLocationLen", count)
        .finish();
    let server = Server::start(router, terms).await;
    let count = |cause| refusals.get(cause);

    // The head comes byte by byte, so that the connection is never silent for long.
    let mut slow = server.connect().await;
    let mut second = server.connect().await;
    assert!(read_rest(&mut second).await.is_empty());
    assert_eq!(
        (count(Cause::PeerConnections), count(Cause::Connections)),
        (1, 0)
    );
    while slow.write_all(b"x").await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(count(Cause::Head), 1);

    let answer = server
        .ask(&request("POST", PATH, "", &" ".repeat(11)))
        .await;
    assert_eq!((answer.status, count(Cause::Size)), (413, 1));
    let mut whole = request("POST", PATH, "", "{}");
    whole.pop();
    assert_eq!(
        (server.ask(&whole).await.status, count(Cause::Body)),
        (408, 1)
    );
}

/// One request and its answer on a connection that stays open.
async fn ask_on(stream: &mut TcpStream) {
    let request = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\"cache_location_len\":\"0\"}") {
        seen.push(stream.read_u8().await.unwrap());
    }
    assert!(seen.starts_with(b"HTTP/1.1 200"), "{seen:?}");
}

#[tokio::test]
async fn every_head_of_a_connection_has_to_come_in_time_once_it_has_begun() {
    let terms = Terms::from(ConnectionLimits {
        head_timeout: SHORT,
        ..limits()
    });
    let refusals = Arc::clone(&terms.refusals);
    let router = routes(1000, LONG)
        .call("GetCacheLocationLen", count)
        .finish();
    let server = Server::start(router, terms).await;
    let (mut slow, mut idle) = (server.connect().await, server.connect().await);
    ask_on(&mut idle).await;
    for _ in 0..3 {
        ask_on(&mut slow).await;
    }
    // Byte by byte, so that the connection is never silent for long.
    while slow.write_all(b"x").await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(refusals.get(Cause::Head), 1);
    // Idle for at least as long.
    ask_on(&mut idle).await;
    assert_eq!(refusals.get(Cause::Head), 1);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_431_also_on_a_connection_in_use() {
    let terms = Terms::from(ConnectionLimits {
        head_bytes: 8192,
        ..limits()
    });
    let refusals = Arc::clone(&terms.refusals);
    let router = routes(1000, LONG)
        .call("GetCacheLocationLen", count)
        .finish();
    let server = Server::start(router, terms).await;
    let header = |length| format!("x-large: {}\r\n", "x".repeat(length));
    let fits = server
        .ask(&request("POST", PATH, &header(7_000), "{}"))
        .await;
    assert_eq!(fits.status, 200);
    let large = request("POST", PATH, &header(9_000), "{}");
    assert_eq!(server.ask(&large).await.status, 431);
    let mut used = server.connect().await;
    ask_on(&mut used).await;
    used.write_all(&large).await.unwrap();
    assert_eq!(Answer::read(&mut used).await.status, 431);
    assert_eq!(refusals.get(Cause::Size), 2);
}

#[tokio::test]
async fn plain_text_on_a_port_with_tls_is_told_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let files = crate::tls::tests::issue(&crate::tls::tests::authority(), folder.path(), "a");
    let terms = Terms {
        tls: Some(crate::tls::Tls::load(files).unwrap()),
        ..Terms::from(ConnectionLimits {
            head_timeout: SHORT,
            ..limits()
        })
    };
    let refusals = Arc::clone(&terms.refusals);
    let server = Server::start(routes(10, LONG).finish(), terms).await;
    let answer = server.ask(&request("POST", PATH, "", "{}")).await;
    assert_eq!(
        (answer.status, &answer.body[..]),
        (400, &b"this port speaks TLS\n"[..])
    );
    // Neither does half a handshake last, nor silence.
    for start in [&b"\x16\x03\x01"[..], b""] {
        let mut stream = server.connect().await;
        stream.write_all(start).await.unwrap();
        read_rest(&mut stream).await;
    }
    assert_eq!(refusals.get(Cause::Tls), 3);
}

/// A server whose only call waits; how many wait, and what lets them go.
async fn waiting(drain: Duration) -> (Server, Arc<Notify>, Arc<Notify>) {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begin, wait) = (Arc::clone(&begun), Arc::clone(&go));
    let router = routes(1000, LONG)
        .raw("Wait", move |_, _| {
            let (begin, wait) = (Arc::clone(&begin), Arc::clone(&wait));
            async move {
                begin.notify_one();
                wait.notified().await;
                Ok(Bytes::from_static(b"{}"))
            }
        })
        .finish();
    let server = Server::start(router, ConnectionLimits { drain, ..limits() }).await;
    (server, begun, go)
}

#[tokio::test]
async fn a_drain_finishes_what_is_in_flight_and_refuses_the_rest() {
    let (server, begun, go) = waiting(LONG).await;
    let mut idle = server.connect().await;
    let mut busy = server.connect().await;
    let request = "POST /api/wait HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    busy.write_all(request.as_bytes()).await.unwrap();
    begun.notified().await;
    server.drain.cancel();
    let rest = read_rest(&mut idle).await;
    assert!(rest.is_empty(), "an idle connection is closed");
    while TcpStream::connect(server.address).await.is_ok() {}
    go.notify_one();
    let answer = Answer::read(&mut busy).await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("connection: close"), "{answer:?}");
    assert_eq!(server.served.await.unwrap(), Served { cut: 0 });
}

#[tokio::test]
async fn the_end_of_the_drain_cuts_connections() {
    let (server, begun, _go) = waiting(SHORT).await;
    let mut busy = server.connect().await;
    busy.write_all(&request("POST", "/api/wait", "", "{}"))
        .await
        .unwrap();
    begun.notified().await;
    server.drain.cancel();
    assert_eq!(server.served.await.unwrap(), Served { cut: 1 });
    let rest = read_rest(&mut busy).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_server_that_is_dropped_takes_its_connections_along() {
    let (server, begun, _go) = waiting(LONG).await;
    let mut busy = server.connect().await;
    busy.write_all(&request("POST", "/api/wait", "", "{}"))
        .await
        .unwrap();
    begun.notified().await;
    server.served.abort();
    let rest = read_rest(&mut busy).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn keep_alive_serves_many_requests_on_one_connection() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let router = routes(1000, LONG)
        .raw("Count", move |_, body| {
            counter.fetch_add(1, Ordering::Relaxed);
            async move { Ok(body) }
        })
        .finish();
    let server = Server::start(router, limits()).await;
    let mut stream = server.connect().await;
    for _ in 0..5 {
        let request = "POST /api/count HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n{}") {
            seen.push(stream.read_u8().await.unwrap());
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), 5);
}
