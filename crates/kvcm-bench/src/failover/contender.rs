//! A node of a system that knows only elections: it campaigns as that system's own clients do, and
//! takes writes while it leads.
//!
//! A write is one in the store that elects, so that it outlives the leader as one of kvcm does, and
//! under the leadership's own fence where the store has such a thing: etcd by a transaction that
//! compares the revision of the leader's key, ZooKeeper by one that checks that the leader's node
//! is there. It goes over a connection of its own and, with ZooKeeper, a session of its own, since
//! writes would renew the lease of the session that they come from and make a crash slower.

mod etcd;
mod http;
mod jute;
mod lead;
mod plain;
mod zookeeper;

use std::{io::Write, net::SocketAddr, time::Duration};

use anyhow::Context;
use clap::Parser;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use super::Kind;
use lead::Lead;

/// Between two campaigns, when the first has broken off.
const AGAIN: Duration = Duration::from_millis(20);

/// Which leadership is contended for.
#[derive(Clone, Debug, Parser)]
#[command(name = "contend")]
pub struct ContenderOptions {
    /// The system
    #[arg(value_enum)]
    pub kind: Kind,

    /// Its server
    #[arg(long)]
    pub backend: SocketAddr,

    /// The lease to ask for
    #[arg(long)]
    pub lease_ms: u64,

    /// Who this is
    #[arg(long)]
    pub name: String,
}

impl ContenderOptions {
    fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}

/// Tells once, on standard output, where writes are taken and which lease was granted.
#[derive(Debug)]
struct Ready {
    address: SocketAddr,
    is_told: bool,
}

impl Ready {
    /// To be called when the campaign goes.
    #[expect(clippy::print_stdout, reason = "the bench reads it")]
    fn tell(&mut self, granted: Duration) -> anyhow::Result<()> {
        if !self.is_told {
            self.is_told = true;
            println!("{} {}", self.address, granted.as_millis());
            std::io::stdout().flush()?;
        }
        Ok(())
    }
}

/// Contends until SIGTERM, which makes it resign and end.
///
/// # Errors
/// When no port is free.
pub async fn contend(options: &ContenderOptions) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut ready = Ready {
        address: listener.local_addr()?,
        is_told: false,
    };
    let lead = Lead::default();
    tokio::spawn(serve(listener, options.clone(), lead.clone()));
    let resign = CancellationToken::new();
    let mut term = signal(SignalKind::terminate())?;
    let told = resign.clone();
    tokio::spawn(async move {
        term.recv().await;
        told.cancel();
    });
    while !resign.is_cancelled() {
        let campaign = async {
            match options.kind {
                Kind::Etcd => etcd::campaign(options, &lead, &resign, &mut ready).await,
                Kind::Zookeeper => zookeeper::campaign(options, &lead, &resign, &mut ready).await,
                _ => plain::campaign(options, &lead, &resign, &mut ready).await,
            }
        };
        if let Err(error) = campaign.await {
            eprintln!("{}: {error:#}", options.name);
        }
        lead.end();
        tokio::select! {
            () = resign.cancelled() => {}
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
    Ok(())
}

/// Takes writes, a byte each: `w`, answered with `y`es, `n`o or `u`nknown.
async fn serve(listener: TcpListener, options: ContenderOptions, lead: Lead) {
    while let Ok((stream, _)) = listener.accept().await {
        let (options, lead) = (options.clone(), lead.clone());
        tokio::spawn(async move {
            // An end of the connection is the bench's, or is told to it by the end.
            let _ended = take_writes(stream, &options, &lead).await;
        });
    }
}

async fn take_writes(
    mut stream: TcpStream,
    options: &ContenderOptions,
    lead: &Lead,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut store = None;
    let mut number = 0_u64;
    loop {
        let mut order = [0];
        stream.read_exact(&mut order).await?;
        number += 1;
        let answer = match lead.token() {
            None => b"n",
            Some(token) => {
                let write = async {
                    if store.is_none() {
                        store = Some(Store::connect(options).await?);
                    }
                    let store = store.as_mut().context("no store")?;
                    store.write(&token, number).await
                };
                match write.await {
                    Ok(true) => b"y",
                    Ok(false) => b"n",
                    Err(error) => {
                        eprintln!("{}: a write: {error:#}", options.name);
                        store = None;
                        b"u"
                    }
                }
            }
        };
        stream.write_all(answer).await?;
    }
}

/// A connection for writes.
enum Store {
    Etcd(etcd::Store),
    Zookeeper(zookeeper::Store),
    Plain(plain::Store),
}

impl Store {
    async fn connect(options: &ContenderOptions) -> anyhow::Result<Self> {
        Ok(match options.kind {
            Kind::Etcd => Self::Etcd(etcd::Store::connect(options).await?),
            Kind::Zookeeper => Self::Zookeeper(zookeeper::Store::connect(options).await?),
            _ => Self::Plain(plain::Store::connect(options).await?),
        })
    }

    /// False when the leadership that `token` stands for has ended.
    async fn write(&mut self, token: &str, number: u64) -> anyhow::Result<bool> {
        match self {
            Self::Etcd(store) => store.write(token, number).await,
            Self::Zookeeper(store) => store.write(token, number).await,
            Self::Plain(store) => store.write(number).await,
        }
    }
}
