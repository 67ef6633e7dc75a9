//! One client: it waits for an answer before it calls again.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{HeaderValue, Method, Uri, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tonic::{
    client::Grpc,
    metadata::AsciiMetadataValue,
    transport::{Channel, Endpoint},
};

use crate::api::{CONNECTIONS, call::Transport, codec::Raw, load::Target, tls};

/// How a client reaches its server.
#[derive(Debug)]
enum Way {
    /// A share of a connection.
    Grpc(Grpc<Channel>, PathAndQuery, Option<AsciiMetadataValue>),
    /// A connection of its own: HTTP/1.1 carries one call at a time.
    Http(http1::SendRequest<Full<Bytes>>, Uri, Option<HeaderValue>),
}

/// A client of one target.
#[derive(Debug)]
pub(super) struct Caller {
    way: Way,
    host: String,
    request: Bytes,
}

impl Caller {
    /// So many clients, connected.
    pub(super) async fn connect(target: &Target, clients: usize) -> anyhow::Result<Vec<Self>> {
        let request = target.call.request(target.transport);
        let mut channels = Vec::new();
        let mut callers = Vec::with_capacity(clients);
        for client in 0..clients {
            callers.push(match target.transport {
                Transport::Grpc => {
                    if channels.len() < CONNECTIONS {
                        channels.push(channel(target).await?);
                    }
                    let channel: Channel = channels[client % CONNECTIONS].clone();
                    let path = PathAndQuery::from_static(target.path());
                    let shown = target.authorization.as_deref();
                    let shown = shown.map(AsciiMetadataValue::try_from).transpose()?;
                    Self {
                        way: Way::Grpc(Grpc::new(channel), path, shown),
                        host: target.address.to_string(),
                        request: request.clone(),
                    }
                }
                Transport::Http => Self::http(target, target.path(), request.clone()).await?,
            });
        }
        Ok(callers)
    }

    /// A client that sends `body` to `path` where the target is, over HTTP.
    pub(super) async fn http(
        target: &Target,
        path: &'static str,
        body: Bytes,
    ) -> anyhow::Result<Self> {
        let tls = target.tls.as_ref();
        let stream = tls::open(target.address, Transport::Http, tls).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends with its sender; what breaks it is the error of a call.
        tokio::spawn(connection);
        let shown = target.authorization.as_deref();
        let shown = shown.map(HeaderValue::from_str).transpose()?;
        Ok(Self {
            way: Way::Http(sender, Uri::from_static(path), shown),
            host: target.address.to_string(),
            request: body,
        })
    }

    /// Calls once; the message or the body of the answer.
    pub(super) async fn call(&mut self) -> anyhow::Result<Bytes> {
        match &mut self.way {
            Way::Grpc(grpc, path, shown) => {
                grpc.ready().await.context("the connection is lost")?;
                let mut request = tonic::Request::new(self.request.clone());
                if let Some(shown) = shown {
                    let name = header::AUTHORIZATION.as_str();
                    request.metadata_mut().insert(name, shown.clone());
                }
                let answer = grpc.unary(request, path.clone(), Raw).await?;
                Ok(answer.into_inner())
            }
            Way::Http(sender, uri, shown) => {
                let mut request = http::Request::builder()
                    .method(Method::POST)
                    .uri(uri.clone())
                    .header(header::HOST, &self.host)
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Full::new(self.request.clone()))?;
                if let Some(shown) = shown {
                    let headers = request.headers_mut();
                    headers.insert(header::AUTHORIZATION, shown.clone());
                }
                sender.ready().await.context("the connection is lost")?;
                let answer = sender.send_request(request).await?;
                let status = answer.status();
                let body = answer.into_body().collect().await?.to_bytes();
                ensure!(status.is_success(), "answered with {status}: {body:?}");
                Ok(body)
            }
        }
    }
}

/// A connection for gRPC. Its scheme is never https: TLS is below what tonic sees.
async fn channel(target: &Target) -> anyhow::Result<Channel> {
    let (address, tls) = (target.address, target.tls.clone());
    let connector = tower::service_fn(move |_: Uri| {
        let tls = tls.clone();
        async move {
            let stream = tls::open(address, Transport::Grpc, tls.as_ref()).await;
            stream.map(TokioIo::new)
        }
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    Ok(endpoint.connect_with_connector(connector).await?)
}
