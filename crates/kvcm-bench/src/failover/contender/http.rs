//! One HTTP/1.1 connection that JSON is posted over.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// No answer here is longer.
const BODY_MAX: usize = 1 << 20;

/// A connection. Dropping it closes it, with whatever was asked.
pub(super) struct Http {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    task: tokio::task::JoinHandle<()>,
}

impl Http {
    pub(super) async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let task = tokio::spawn(async move {
            // Its end is the end of the request that is under way.
            let _ended = connection.await;
        });
        let host = address.to_string();
        Ok(Self { sender, host, task })
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.sender.ready().await?;
        let request = http::Request::post(path)
            .header(http::header::HOST, &self.host)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::from(body.to_string()))?;
        let reply = self.sender.send_request(request).await?;
        let status = reply.status();
        let body = Limited::new(reply.into_body(), BODY_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
        let body = body.to_bytes();
        let text = String::from_utf8_lossy(&body);
        ensure!(status.is_success(), "{path}: {status}: {text}");
        serde_json::from_slice(&body).with_context(|| format!("{path}: not JSON: {text}"))
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.task.abort();
    }
}
