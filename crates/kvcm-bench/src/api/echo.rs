//! The servers to compare with: tonic and axum as they come, that answer each path with the bytes
//! that kvcm-server answered it with. They are a process of their own, like kvcm-server.

use std::{
    collections::BTreeMap, convert::Infallible, fs, future::Ready, net::SocketAddr, path::Path,
    process::Stdio, task,
};

use anyhow::Context;
use axum::{Router, response::IntoResponse, routing};
use bytes::Bytes;
use http::header;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
};
use tonic::{
    Status,
    server::{Grpc, UnaryService},
    service::Routes,
    transport::{Server, server::TcpIncoming},
};

use crate::api::{call::Transport, codec::Raw, load::Target};

/// Paths with the answers to send.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Answers(BTreeMap<String, Vec<u8>>);

/// The running servers. Dropping them kills their process.
#[derive(Debug)]
pub(super) struct Echo {
    grpc: SocketAddr,
    http: SocketAddr,
    pid: u32,
    _child: Child,
}

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
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--echo")
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the echo")?;
        let stdout = child.stdout.take().context("the echo has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let (grpc, http) = line.trim().split_once(' ').context("the echo has ended")?;
        Ok(Self {
            grpc: grpc.parse()?,
            http: http.parse()?,
            pid: child.id().context("the echo has ended")?,
            _child: child,
        })
    }

    /// The same call, answered by an echo.
    pub(super) fn target(&self, like: &Target) -> Target {
        let address = match like.transport {
            Transport::Grpc => self.grpc,
            Transport::Http => self.http,
        };
        Target {
            address,
            pid: self.pid,
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
    let http_listener = TcpListener::bind("127.0.0.1:0").await?;
    let grpc_listener = TcpListener::bind("127.0.0.1:0").await?;
    ready(grpc_listener.local_addr()?, http_listener.local_addr()?);
    let incoming = TcpIncoming::from(grpc_listener).with_nodelay(Some(true));
    let mut tonic = Server::builder();
    let tonic = tonic.add_routes(Routes::from(grpc).prepare());
    let http_listener = axum::serve::ListenerExt::tap_io(http_listener, |stream| {
        // Where it cannot be set, answers are late: that is seen in the table.
        let _set = stream.set_nodelay(true);
    });
    let mut orphaned = tokio::task::spawn_blocking(|| {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())
    });
    tokio::select! {
        ended = tonic.serve_with_incoming(incoming) => ended?,
        ended = axum::serve(http_listener, http) => ended?,
        ended = &mut orphaned => { ended??; }
    }
    Ok(())
}

fn json(answer: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], answer)
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
