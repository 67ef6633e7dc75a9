//! What clients cost that do nothing.

use std::{fs, time::Duration};

use anyhow::Context;
use kvcm_testkit::Direction;

use super::{Options, site::Site};

/// Per client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) clients: u16,
    /// Of this process, bytes, while connected.
    pub(super) memory: u64,
    /// Round trips per second, over all its connections: keep-alive pings, heartbeats.
    pub(super) round_trips: f64,
    /// Bytes per second, both ways.
    pub(super) bytes: f64,
    pub(super) connections: f64,
}

pub(super) async fn measure(options: &Options) -> anyhow::Result<Idle> {
    let site = Site::start(None, options).await?;
    site.ready(options).await?;
    // The first client pays for what all share.
    let mut clients = vec![site.client(options).connect().await?];
    let before = resident()?;
    for _ in 0..options.idle_clients {
        clients.push(site.client(options).connect().await?);
    }
    // Standbys are connected to within some seconds.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let memory = resident()?.saturating_sub(before) / u64::from(options.idle_clients);
    let count = |site: &Site| {
        let proxies = site.proxies.iter();
        proxies.fold((0, 0), |(trips, bytes), proxy| {
            let both = proxy.bytes(Direction::ToServer) + proxy.bytes(Direction::ToClient);
            (trips + proxy.round_trips(), bytes + both)
        })
    };
    let (trips, bytes) = count(&site);
    let time = Duration::from_secs(options.idle_s);
    tokio::time::sleep(time).await;
    let (trips_after, bytes_after) = count(&site);
    let open: usize = site.proxies.iter().map(|proxy| proxy.connections()).sum();
    let all = clients.len() as f64;
    let per = |count: u64| count as f64 / all / time.as_secs_f64();
    Ok(Idle {
        clients: options.idle_clients,
        memory,
        round_trips: per(trips_after - trips),
        bytes: per(bytes_after - bytes),
        connections: open as f64 / all,
    })
}

/// Memory of this process, bytes.
fn resident() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Ok(kib.context("the machine does not tell how much memory this takes")? * 1024)
}
