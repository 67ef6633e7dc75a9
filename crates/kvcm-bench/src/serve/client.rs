//! Clients as light as can be, for they share the processors with what is measured.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::serve::Over;

/// As large as those of the server, so that no answer waits for a window.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// One client on a connection of its own: it waits for an answer before it calls again.
#[derive(Debug)]
pub(super) enum Client {
    Grpc(http2::SendRequest<Full<Bytes>>, SocketAddr),
    Http(http1::SendRequest<Full<Bytes>>, HeaderValue),
    Redis(TcpStream, Vec<u8>),
}

/// An answer in the pieces that it came in.
#[derive(Debug, Default)]
pub(super) struct Answer(Vec<Bytes>);

impl Client {
    pub(super) async fn connect(over: Over, address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let io = TokioIo::new(stream);
        Ok(match over {
            Over::Grpc => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW);
                let (sender, connection) = builder.handshake(io).await?;
                // Ends with its sender; what breaks it is the error of a call.
                tokio::spawn(connection);
                Self::Grpc(sender, address)
            }
            Over::Http => {
                let (sender, connection) = http1::handshake(io).await?;
                tokio::spawn(connection);
                Self::Http(sender, HeaderValue::from_str(&address.to_string())?)
            }
        })
    }

    pub(super) async fn redis(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::Redis(stream, Vec::new()))
    }

    /// Calls `rpc` of MetaService; Redis knows by the request what to do. An answer of `expected`
    /// bytes is whole.
    pub(super) async fn call(
        &mut self,
        rpc: Rpc,
        request: Bytes,
        expected: usize,
    ) -> anyhow::Result<Answer> {
        match self {
            Self::Grpc(sender, address) => {
                let uri = Uri::builder()
                    .scheme("http")
                    .authority(address.to_string())
                    .path_and_query(rpc.grpc())
                    .build()?;
                let request = Request::builder()
                    .method(Method::POST)
                    .uri(uri)
                    .header(header::CONTENT_TYPE, "application/grpc")
                    .header(header::TE, "trailers")
                    .body(Full::new(request))?;
                sender.ready().await.context("the connection is lost")?;
                let response = sender.send_request(request).await?;
                let status = response.headers().get("grpc-status").cloned();
                let (answer, trailer) = collect(response.into_body()).await?;
                let status = trailer.or(status);
                ensure!(
                    status.as_ref().is_some_and(|status| status == "0"),
                    "grpc-status {status:?}"
                );
                Ok(answer)
            }
            Self::Http(sender, host) => {
                let request = Request::builder()
                    .method(Method::POST)
                    .uri(rpc.http())
                    .header(header::HOST, host.clone())
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Full::new(request))?;
                sender.ready().await.context("the connection is lost")?;
                let response = sender.send_request(request).await?;
                let status = response.status();
                let (answer, _) = collect(response.into_body()).await?;
                ensure!(status.is_success(), "answered with {status}");
                Ok(answer)
            }
            Self::Redis(stream, buffer) => {
                stream.write_all(&request).await?;
                buffer.clear();
                buffer.reserve(expected.max(4096));
                // Nobody expects nothing: then the answer itself tells where it ends.
                while expected == 0 || buffer.len() != expected {
                    let is_due = buffer.len() > expected;
                    if is_due && let Some(length) = resp_length(buffer)? {
                        ensure!(length == buffer.len(), "Redis says more than it was asked");
                        break;
                    }
                    ensure!(stream.read_buf(buffer).await? > 0, "Redis hung up");
                }
                Ok(Answer(vec![Bytes::from(std::mem::take(buffer))]))
            }
        }
    }
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rpc {
    Locate,
    Start,
    Finish,
}

impl Rpc {
    pub(super) const fn grpc(self) -> &'static str {
        match self {
            Self::Locate => "/kv_cache_manager.proto.meta.MetaService/GetCacheLocation",
            Self::Start => "/kv_cache_manager.proto.meta.MetaService/StartWriteCache",
            Self::Finish => "/kv_cache_manager.proto.meta.MetaService/FinishWriteCache",
        }
    }

    pub(super) const fn http(self) -> &'static str {
        match self {
            Self::Locate => "/api/getCacheLocation",
            Self::Start => "/api/startWriteCache",
            Self::Finish => "/api/finishWriteCache",
        }
    }
}

impl Answer {
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    pub(super) fn concat(&self) -> Bytes {
        match &self.0[..] {
            [only] => only.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

async fn collect(mut body: Incoming) -> anyhow::Result<(Answer, Option<HeaderValue>)> {
    let mut answer = Answer::default();
    let mut status = None;
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) => answer.0.push(data),
            Err(frame) => {
                let trailers = frame.into_trailers().ok();
                status = trailers.and_then(|mut trailers| trailers.remove("grpc-status"));
            }
        }
    }
    Ok((answer, status))
}

/// Bytes of the answer at the front of `bytes`; none while it is not whole.
fn resp_length(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let mut at = 0;
    let mut left = 1_i64;
    while left > 0 {
        let Some(end) = bytes[at..].windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(None);
        };
        let line = &bytes[at..at + end];
        at += end + 2;
        left -= 1;
        let number = || -> anyhow::Result<i64> { Ok(std::str::from_utf8(&line[1..])?.parse()?) };
        match line.first() {
            Some(b'*') => left += number()?.max(0),
            Some(b'$') => {
                if let Ok(length) = usize::try_from(number()?) {
                    at += length + 2;
                }
            }
            Some(b'+' | b':') => {}
            _ => bail!("Redis says {}", String::from_utf8_lossy(line)),
        }
        if at > bytes.len() {
            return Ok(None);
        }
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_redis_is_whole_when_all_its_parts_are_there() {
        for whole in ["+OK\r\n", "*2\r\n$3\r\nabc\r\n$-1\r\n", ":7\r\n", "*0\r\n"] {
            for cut in 0..whole.len() {
                assert_eq!(
                    resp_length(&whole.as_bytes()[..cut]).unwrap(),
                    None,
                    "{whole:?} {cut}"
                );
            }
            let more = format!("{whole}+");
            assert_eq!(resp_length(more.as_bytes()).unwrap(), Some(whole.len()));
        }
        assert!(resp_length(b"-ERR no\r\n").is_err());
    }
}
