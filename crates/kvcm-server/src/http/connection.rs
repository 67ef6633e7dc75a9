//! One connection from its first byte to its end.

use std::{convert::Infallible, future::poll_fn, io, net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, body::Body};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tower::Service;
use tracing::debug;

use super::{Cause, Remote, Terms, head::Heads, prefixed::Prefixed, timed::Timed};
use crate::tls::Tls;

/// What an HTTP/2 client sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// What a client without TLS is told on a port with TLS.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    content-length: 21\r\nconnection: close\r\n\r\nthis port speaks TLS\n";

/// A reply of 1000 locations has 70 KB; smaller windows cost round trips.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How a connection ends early.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    /// Finish what is in flight, then close.
    pub(super) drain: CancellationToken,
    /// Close now.
    pub(super) cut: CancellationToken,
}

/// Serves one connection until it ends. Returns whether it was cut.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    terms: Terms,
    ends: Ends,
) -> bool {
    set_options(&stream, terms.limits.read_timeout);
    let connection = Connection {
        peer,
        router,
        head_by: Instant::now() + terms.limits.head_timeout,
        terms,
        ends,
    };
    match connection.terms.tls.clone() {
        None => connection.serve(stream).await,
        Some(tls) => match connection.handshake(&tls, stream).await {
            Some(stream) => connection.serve(stream).await,
            None => false,
        },
    }
}

struct Connection {
    peer: SocketAddr,
    router: Router,
    terms: Terms,
    ends: Ends,
    /// When the head of the first request must have come.
    head_by: Instant,
}

impl Connection {
    async fn handshake(
        &self,
        tls: &Tls,
        mut stream: TcpStream,
    ) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
        let peer = self.peer;
        let accepted = async {
            let mut first = [0];
            match stream.peek(&mut first).await? {
                0 => Ok(None),
                _ if first[0] == HANDSHAKE => tls.acceptor().accept(stream).await.map(Some),
                _ => {
                    let _ = stream.write_all(SPEAK_TLS).await;
                    Err(io::Error::other("the client does not speak TLS"))
                }
            }
        };
        let accepted = tokio::select! {
            biased;
            accepted = timeout_at(self.head_by, accepted) => accepted,
            () = self.ends.drain.cancelled() => return None,
        };
        match accepted {
            Ok(Ok(stream)) => return stream,
            Ok(Err(error)) => debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => debug!(%peer, "no TLS handshake in time"),
        }
        self.terms.refusals.count(Cause::Tls);
        None
    }

    async fn serve<S>(self, mut stream: S) -> bool
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self { peer, .. } = self;
        // The first bytes have their own limit, because hyper's starts once it knows the version.
        let first = tokio::select! {
            // A request that is here already is served, even in a drain.
            biased;
            first = timeout_at(self.head_by, first_bytes(&mut stream)) => first,
            () = self.ends.drain.cancelled() => return false,
        };
        let first = match first {
            Ok(Ok(first)) if !first.is_empty() => first,
            Ok(Ok(_)) => return false,
            Ok(Err(error)) => {
                debug!(%peer, %error, "connection broke before its first request");
                return false;
            }
            Err(_) => {
                debug!(%peer, "connection without a request is closed");
                self.terms.refusals.count(Cause::Head);
                return false;
            }
        };
        let is_http2 = first[..] == PREFACE[..];
        let limits = &self.terms.limits;
        let heads = Heads::new(self.head_by, limits.head_timeout);
        let io = TokioIo::new(Prefixed::new(first, stream, heads.clone()));
        let (router, terms) = (self.router.clone(), self.terms.clone());
        if is_http2 {
            // It may well be opened long before it is needed, and pings find out who is gone, also
            // one who does not end a head: a ping cannot be answered in the middle of it.
            heads.complete();
            let service =
                service_fn(move |request| call(router.clone(), peer, terms.clone(), request));
            let connection = self.http2().serve_connection(io, service);
            self.run(connection, &heads).await
        } else {
            let of_request = heads.clone();
            let service = service_fn(move |request| {
                of_request.complete();
                let (heads, answer) = (
                    of_request.clone(),
                    call(router.clone(), peer, terms.clone(), request),
                );
                async move { Ok::<_, Infallible>(answer.await?.map(|body| heads.idle_after(body))) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.read_timeout)
                .max_buf_size(limits.head_bytes as usize)
                .serve_connection(io, service);
            self.run(connection, &heads).await
        }
    }

    fn http2(&self) -> http2::Builder<TokioExecutor> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(self.terms.limits.streams)
            .max_header_list_size(self.terms.limits.head_bytes)
            // Finds out about peers that vanished without a word.
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL);
        builder
    }

    /// Polls a connection to its end, and tells it when to finish. Each head must come in time.
    async fn run<C>(&self, connection: C, heads: &Heads) -> bool
    where
        C: GracefulConnection<Error = hyper::Error>,
    {
        let (peer, ends) = (self.peer, &self.ends);
        let mut connection = pin!(connection);
        let mut timer = pin!(sleep_until(self.head_by));
        let mut draining = false;
        loop {
            tokio::select! {
                biased;
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        debug!(%peer, %error, "connection ended");
                        if error.is_parse_too_large() {
                            self.terms.refusals.count(Cause::Size);
                        }
                    }
                    return false;
                }
                () = poll_fn(|cx| heads.poll_late(timer.as_mut(), cx)) => {
                    debug!(%peer, "connection without a whole head is closed");
                    self.terms.refusals.count(Cause::Head);
                    return false;
                }
                () = ends.drain.cancelled(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = ends.cut.cancelled() => return true,
            }
        }
    }
}

async fn call(
    mut router: Router,
    peer: SocketAddr,
    terms: Terms,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    request.extensions_mut().insert(Remote(peer));
    // JSON bodies are timed where they are read, to be answered; calls over gRPC are not.
    let is_grpc = is_grpc(request.headers());
    // A router is always ready.
    let response = if is_grpc && !is_stream(request.uri().path()) {
        let limit = terms.limits.read_timeout;
        router
            .call(request.map(|body| Timed::new(body, limit)))
            .await?
    } else {
        router.call(request).await?
    };
    if let Some(cause) = refused(&response, is_grpc) {
        terms.refusals.count(cause);
    }
    Ok(response)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Reflection is the only service whose requests are streams, which may stay open.
fn is_stream(path: &str) -> bool {
    path.starts_with("/grpc.reflection.")
}

/// Why a request was refused, if it was. What a service itself refuses is told in its answer, with
/// 200 or OK.
fn refused(response: &Response<Body>, is_grpc: bool) -> Option<Cause> {
    if !is_grpc {
        return match response.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Some(Cause::Size),
            StatusCode::REQUEST_TIMEOUT => Some(Cause::Body),
            StatusCode::UNAUTHORIZED => Some(Cause::Unauthenticated),
            StatusCode::FORBIDDEN => Some(Cause::Forbidden),
            _ => None,
        };
    }
    let code = response.headers().get("grpc-status")?;
    match Code::from_bytes(code.as_bytes()) {
        Code::OutOfRange => Some(Cause::Size),
        Code::DeadlineExceeded => Some(Cause::Body),
        Code::Unauthenticated => Some(Cause::Unauthenticated),
        Code::PermissionDenied => Some(Cause::Forbidden),
        _ => None,
    }
}

/// Reads until it is clear whether the client speaks HTTP/2. Empty when it closes at once.
async fn first_bytes(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    let mut buffer = [0; PREFACE.len()];
    let mut filled = 0;
    while filled < buffer.len() && buffer[..filled] == PREFACE[..filled] {
        match stream.read(&mut buffer[filled..]).await? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(Bytes::copy_from_slice(&buffer[..filled]))
}

/// A socket that refuses an option works without it.
fn set_options(stream: &TcpStream, unacknowledged: Duration) {
    let _ = stream.set_nodelay(true);
    // Ends the connection of a peer that is gone or takes nothing, which a reply would wait for.
    #[cfg(target_os = "linux")]
    {
        let limit = u32::try_from(unacknowledged.as_millis()).unwrap_or(u32::MAX);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, limit);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = unacknowledged;
}
