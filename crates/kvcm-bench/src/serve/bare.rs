//! The server to compare with: tonic and axum that do nothing but send what kvcm-server answered
//! to the same request, tonic's through a body that copies nothing. A process of its own, like
//! kvcm-server.

use std::{convert::Infallible, fs, net::SocketAddr, path::Path, sync::Arc, task};

use axum::{Router, routing};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::StreamBody;
use hyper::body::Frame;
use prost::Message;
use tonic::{
    Status,
    body::Body,
    server::{Grpc, UnaryService},
    transport::Server,
};

use crate::{
    api::Raw,
    bare::{self, json},
    serve::{Over, body, client::Rpc},
};

/// What is answered, in the order of the numbers in the requests' trace ids.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Answers {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    locate: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    start: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    finish: Vec<Bytes>,
}

impl Answers {
    pub(super) fn of(&mut self, rpc: Rpc) -> &mut Vec<Bytes> {
        match rpc {
            Rpc::Locate => &mut self.locate,
            Rpc::Start => &mut self.start,
            Rpc::Finish => &mut self.finish,
        }
    }
}

/// The running server. Dropping it kills its process.
#[derive(Debug)]
pub(super) struct Bare(bare::Bare);

impl Bare {
    /// Starts this program as the server that answers so.
    pub(super) async fn start(dir: &Path, answers: &Answers) -> anyhow::Result<Self> {
        let file = dir.join("answers");
        fs::write(&file, answers.encode_to_vec())?;
        Ok(Self(bare::Bare::start("--bare", &file).await?))
    }

    pub(super) const fn pid(&self) -> u32 {
        self.0.pid
    }

    pub(super) fn address(&self, over: Over) -> SocketAddr {
        match over {
            Over::Grpc => self.0.grpc,
            Over::Http => self.0.http,
        }
    }
}

/// Is the bare server of `file`: tells its two addresses to `ready`, and serves until standard
/// input ends.
///
/// # Errors
/// When the file is not one of the bench, or no port can be had.
pub async fn serve(file: &Path, ready: impl FnOnce(SocketAddr, SocketAddr)) -> anyhow::Result<()> {
    let mut answers = Answers::decode(&fs::read(file)?[..])?;
    let (mut grpc, mut http) = (Router::new(), Router::new());
    for rpc in [Rpc::Locate, Rpc::Start, Rpc::Finish] {
        let answers: Arc<[Bytes]> = std::mem::take(answers.of(rpc)).into();
        grpc = grpc.route_service(rpc.grpc(), Sender(answers.clone()));
        let send = move |request: Bytes| {
            let answer = chosen(Over::Http, &answers, &request);
            std::future::ready(json(answer))
        };
        http = http.route(rpc.http(), routing::post(send));
    }
    // The windows of kvcm-server.
    let tonic = Server::builder()
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    bare::serve(tonic, grpc, http, ready).await
}

/// The answer with the request's number, or the only one there is.
fn chosen(over: Over, answers: &[Bytes], request: &[u8]) -> Bytes {
    let number = body::number(over, request).filter(|number| *number < answers.len());
    answers
        .get(number.unwrap_or(0))
        .cloned()
        .unwrap_or_default()
}

/// A gRPC method that sends one of these, frame and all.
#[derive(Clone, Debug)]
struct Sender(Arc<[Bytes]>);

impl UnaryService<Bytes> for Sender {
    type Response = Bytes;
    type Future = std::future::Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let answer = chosen(Over::Grpc, &self.0, request.get_ref());
        // The message of the response is not looked at.
        let mut response = tonic::Response::new(Bytes::new());
        response.extensions_mut().insert(answer);
        std::future::ready(Ok(response))
    }
}

impl tower::Service<http::Request<axum::body::Body>> for Sender {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<axum::body::Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(Raw).max_decoding_message_size(usize::MAX);
            let mut response = grpc.unary(method, request).await;
            if let Some(answer) = response.extensions_mut().remove::<Bytes>() {
                let ok = (
                    header::HeaderName::from_static("grpc-status"),
                    HeaderValue::from_static("0"),
                );
                let trailers = HeaderMap::from_iter([ok]);
                let frames = [Frame::data(answer), Frame::trailers(trailers)];
                let frames = stream::iter(frames).map(Ok::<_, Infallible>);
                *response.body_mut() = Body::new(StreamBody::new(frames));
            }
            Ok(response)
        })
    }
}
