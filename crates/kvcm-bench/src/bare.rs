//! A process of its own that answers without work, on a gRPC and an HTTP port: what servers are
//! compared with.

use std::{net::SocketAddr, path::Path, process::Stdio};

use anyhow::Context;
use axum::{Router, response::IntoResponse};
use bytes::Bytes;
use http::header;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
};
use tonic::{
    service::Routes,
    transport::{Server, server::TcpIncoming},
};

/// The running process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Bare {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) pid: u32,
    _child: Child,
}

impl Bare {
    /// Starts this program with `flag` and the answers in `file`, with which it has to call
    /// [`serve`] and print the two addresses.
    pub(crate) async fn start(flag: &str, file: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(flag)
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the bare server")?;
        let stdout = child
            .stdout
            .take()
            .context("the bare server has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let ended = "the bare server has ended";
        let (grpc, http) = line.trim().split_once(' ').context(ended)?;
        Ok(Self {
            grpc: grpc.parse()?,
            http: http.parse()?,
            pid: child.id().context(ended)?,
            _child: child,
        })
    }
}

/// Serves both on free ports, tells their addresses to `ready`, and ends when standard input does.
pub(crate) async fn serve(
    mut tonic: Server,
    grpc: Router,
    http: Router,
    ready: impl FnOnce(SocketAddr, SocketAddr),
) -> anyhow::Result<()> {
    let http_listener = TcpListener::bind("127.0.0.1:0").await?;
    let grpc_listener = TcpListener::bind("127.0.0.1:0").await?;
    ready(grpc_listener.local_addr()?, http_listener.local_addr()?);
    let incoming = TcpIncoming::from(grpc_listener).with_nodelay(Some(true));
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

/// An answer over HTTP.
pub(crate) fn json(answer: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], answer)
}
