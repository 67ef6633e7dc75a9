//! One client: it waits for an answer before it calls again.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Uri, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::{
    client::Grpc,
    transport::{Channel, Endpoint},
};

use crate::api::{CONNECTIONS, call::Transport, codec::Raw, load::Target};

/// How a client reaches its server.
#[derive(Debug)]
enum Way {
    /// A share of a connection.
    Grpc(Grpc<Channel>, PathAndQuery),
    /// A connection of its own: HTTP/1.1 carries one call at a time.
    Http(http1::SendRequest<Full<Bytes>>, Uri),
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
        let host = target.address.to_string();
        let mut channels = Vec::new();
        let mut callers = Vec::with_capacity(clients);
        for client in 0..clients {
            let way = match target.transport {
                Transport::Grpc => {
                    if channels.len() < CONNECTIONS {
                        let endpoint = Endpoint::from_shared(format!("http://{host}"))?;
                        channels.push(endpoint.tcp_nodelay(true).connect().await?);
                    }
                    let channel: Channel = channels[client % CONNECTIONS].clone();
                    Way::Grpc(Grpc::new(channel), PathAndQuery::from_static(target.path()))
                }
                Transport::Http => {
                    let stream = TcpStream::connect(target.address).await?;
                    stream.set_nodelay(true)?;
                    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                    // Ends with its sender; what breaks it is the error of a call.
                    tokio::spawn(connection);
                    Way::Http(sender, Uri::from_static(target.path()))
                }
            };
            callers.push(Self {
                way,
                host: host.clone(),
                request: target.call.request(target.transport),
            });
        }
        Ok(callers)
    }

    /// Calls once; the message or the body of the answer.
    pub(super) async fn call(&mut self) -> anyhow::Result<Bytes> {
        match &mut self.way {
            Way::Grpc(grpc, path) => {
                grpc.ready().await.context("the connection is lost")?;
                let request = tonic::Request::new(self.request.clone());
                let answer = grpc.unary(request, path.clone(), Raw).await?;
                Ok(answer.into_inner())
            }
            Way::Http(sender, uri) => {
                let request = http::Request::builder()
                    .method(Method::POST)
                    .uri(uri.clone())
                    .header(header::HOST, &self.host)
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Full::new(self.request.clone()))?;
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
