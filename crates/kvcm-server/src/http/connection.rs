//! One connection from its first byte to its end.

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, body::Body};
use bytes::Bytes;
use http::{Request, Response};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::debug;

use super::{ConnectionLimits, Remote, prefixed::Prefixed};

/// What an HTTP/2 client sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A reply of 1000 locations has 70 KB; smaller windows cost round trips.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const STREAMS_MAX: u32 = 1024;
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
    mut stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: ConnectionLimits,
    ends: Ends,
) -> bool {
    set_options(&stream, limits.read_timeout);
    // The first bytes have their own limit, because hyper's starts once it knows the version.
    let first = tokio::select! {
        // A request that is here already is served, even in a drain.
        biased;
        first = timeout(limits.read_timeout, first_bytes(&mut stream)) => first,
        () = ends.drain.cancelled() => return false,
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
            return false;
        }
    };
    let is_http2 = first[..] == PREFACE[..];
    let io = TokioIo::new(Prefixed::new(first, stream));
    let service = service_fn(move |request| call(router.clone(), peer, request));
    if is_http2 {
        let connection = http2_builder().serve_connection(io, service);
        run(connection, peer, ends).await
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.read_timeout)
            .serve_connection(io, service);
        run(connection, peer, ends).await
    }
}

fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS_MAX)
        // Finds out about peers that vanished without a word.
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL);
    builder
}

async fn call(
    mut router: Router,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    request.extensions_mut().insert(Remote(peer));
    // A router is always ready.
    router.call(request).await
}

/// Polls a connection to its end, and tells it when to finish.
async fn run<C>(connection: C, peer: SocketAddr, ends: Ends) -> bool
where
    C: GracefulConnection,
    C::Error: std::fmt::Display,
{
    let mut connection = pin!(connection);
    let mut draining = false;
    loop {
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    debug!(%peer, %error, "connection ended");
                }
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

/// Reads until it is clear whether the client speaks HTTP/2. Empty when it closes at once.
async fn first_bytes(stream: &mut TcpStream) -> io::Result<Bytes> {
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
