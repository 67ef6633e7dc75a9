//! The servers to compare with: tonic and axum as they come, that answer each path with the bytes
//! that kvcm-server answered it with. They are a process of their own, like kvcm-server.

use std::{
    collections::BTreeMap, convert::Infallible, fs, future::Ready, net::SocketAddr, path::Path,
    task,
};

use axum::{Router, routing};
use bytes::Bytes;
use tonic::{
    Status,
    server::{Grpc, UnaryService},
    transport::Server,
};

use crate::{
    api::{call::Transport, codec::Raw, load::Target},
    bare::{self, json},
};

/// Paths with the answers to send.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Answers(BTreeMap<String, Vec<u8>>);

/// The running servers. Dropping them kills their process.
#[derive(Debug)]
pub(super) struct Echo(bare::Bare);

impl Answers {
    pub(super) fn insert(&mut self, path: &str, answer: &[u8]) {
        self.0.insert(path.to_owned(), answer.to_vec());
    }
}

impl Echo {
    /// Starts this program as the servers that answer so.
    pub(super) async fn start(dir: &Path, answers: &Answers) -> anyhow::Result<Self> {
        let file = dir.join("answers.json");
        fs::write(&file, serde_json::to_vec(answers)?)?;
        Ok(Self(bare::Bare::start("--echo", &file).await?))
    }

    /// The same call, answered by an echo.
    pub(super) fn target(&self, like: &Target) -> Target {
        let address = match like.transport {
            Transport::Grpc => self.0.grpc,
            Transport::Http => self.0.http,
        };
        Target {
            address,
            pid: self.0.pid,
            tls: None,
            authorization: None,
            ..like.clone()
        }
    }
}

/// Is the servers that answer with the bytes of `file`: tells their two addresses to `ready`, and
/// serves until standard input ends.
///
/// # Errors
/// When the file is not one of the bench, or no port can be had.
pub async fn serve(file: &Path, ready: impl FnOnce(SocketAddr, SocketAddr)) -> anyhow::Result<()> {
    let answers: Answers = serde_json::from_slice(&fs::read(file)?)?;
    let (mut grpc, mut http) = (Router::new(), Router::new());
    for (path, answer) in answers.0 {
        let answer = Bytes::from(answer);
        if path.starts_with("/api/") {
            let answer = move || std::future::ready(json(answer.clone()));
            http = http.route(&path, routing::post(answer));
        } else {
            grpc = grpc.route_service(&path, Bare(answer));
        }
    }
    bare::serve(Server::builder(), grpc, http, ready).await
}

/// A gRPC method that always answers the same.
#[derive(Clone, Debug)]
struct Bare(Bytes);

impl UnaryService<Bytes> for Bare {
    type Response = Bytes;
    type Future = Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, _request: tonic::Request<Bytes>) -> Self::Future {
        std::future::ready(Ok(tonic::Response::new(self.0.clone())))
    }
}

impl tower::Service<http::Request<axum::body::Body>> for Bare {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = futures_util::future::BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<axum::body::Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move { Ok(Grpc::new(Raw).unary(method, request).await) })
    }
}
