//! Several Redis servers that know each other.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use anyhow::{bail, ensure};

use crate::RedisServer;

const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: u32 = 3000;
const SLOTS: usize = 16384;

/// A Redis Cluster whose primaries share the hash slots evenly.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts `primaries` nodes with slots, and then `replicas` of the first of them, each with
    /// `args`, and waits until all of them find the cluster well.
    ///
    /// # Errors
    /// Those of [`RedisServer::start`], and when the nodes do not come together.
    pub fn start(primaries: usize, replicas: usize, args: &[&str]) -> anyhow::Result<Self> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self::start_each(primaries, replicas, || args.clone())
    }

    /// The same with arguments of its own for each node.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn start_each(
        primaries: usize,
        replicas: usize,
        args: impl Fn() -> Vec<String>,
    ) -> anyhow::Result<Self> {
        ensure!(primaries > 0, "a cluster without primaries");
        let nodes: anyhow::Result<Vec<_>> = (0..primaries + replicas)
            .map(|_| start_node(&args))
            .collect();
        let cluster = Self { nodes: nodes? };
        let first = &cluster.nodes[0];
        for (index, node) in cluster.nodes[..primaries].iter().enumerate() {
            let start = (SLOTS * index / primaries).to_string();
            let end = (SLOTS * (index + 1) / primaries - 1).to_string();
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &start, &end])?;
            // Each its own, or they would have to agree on it first.
            let epoch = (index + 1).to_string();
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        }
        for node in &cluster.nodes[1..] {
            let [port, bus] = [first.address().port(), bus_port(first)?].map(|n| n.to_string());
            node.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
        cluster.until(|node| {
            let known = node.command(&["CLUSTER", "NODES"])?;
            Ok(known.lines().count() == primaries + replicas && !known.contains("handshake"))
        })?;
        let id = first.command(&["CLUSTER", "MYID"])?;
        for replica in &cluster.nodes[primaries..] {
            replica.command(&["CLUSTER", "REPLICATE", &id])?;
        }
        cluster.until(|node| {
            let state = node.command(&["CLUSTER", "INFO"])?;
            let known = node.command(&["CLUSTER", "NODES"])?;
            let synced = node.command(&["INFO", "replication"])?;
            Ok(state.contains("cluster_state:ok")
                && known.matches("slave").count() == replicas
                && !synced.contains("master_link_status:down"))
        })?;
        Ok(cluster)
    }

    /// Its nodes: first the primaries of the start, then the replicas.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The same, to be killed and restarted.
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// `redis-cluster://` with all nodes, without credentials.
    pub fn uri(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|n| n.address().to_string()).collect();
        format!("redis-cluster://{}/", hosts.join(","))
    }

    /// The index of the node that serves the slot of `key`, as the first one sees it.
    ///
    /// # Errors
    /// When it does not answer, or no node of ours serves it.
    pub fn owner(&self, key: &str) -> anyhow::Result<usize> {
        let first = &self.nodes[0];
        let slot: usize = first.command(&["CLUSTER", "KEYSLOT", key])?.parse()?;
        for (index, node) in self.nodes.iter().enumerate() {
            let known = node.command(&["CLUSTER", "NODES"])?;
            let Some(own) = known.lines().find(|line| line.contains("myself,master")) else {
                continue;
            };
            let mut ranges = own.split(' ').skip(8).filter_map(|range| {
                let (start, end) = range.split_once('-').unwrap_or((range, range));
                Some(start.parse::<usize>().ok()?..=end.parse().ok()?)
            });
            if ranges.any(|range| range.contains(&slot)) {
                return Ok(index);
            }
        }
        bail!("no node serves slot {slot}")
    }

    fn until(&self, is_so: impl Fn(&RedisServer) -> anyhow::Result<bool>) -> anyhow::Result<()> {
        for node in &self.nodes {
            wait_until(|| is_so(node))?;
        }
        Ok(())
    }
}

/// Starts sentinels that know the primary at `primary` as `name`, with more lines of configuration
/// for each, and waits until each knows all others. The smallest majority of them decides.
///
/// # Errors
/// Those of [`RedisServer::start`], and when the sentinels do not come together.
pub fn start_sentinels(
    count: usize,
    name: &str,
    primary: SocketAddr,
    config: &str,
) -> anyhow::Result<Vec<RedisServer>> {
    let quorum = count / 2 + 1;
    let (ip, port) = (primary.ip(), primary.port());
    let config = format!(
        "sentinel monitor {name} {ip} {port} {quorum}\n\
         sentinel down-after-milliseconds {name} 1000\n\
         sentinel failover-timeout {name} 4000\n\
         {config}\n"
    );
    let sentinels: anyhow::Result<Vec<_>> = (0..count)
        .map(|_| RedisServer::start_sentinel(&config))
        .collect();
    let sentinels = sentinels?;
    for sentinel in &sentinels {
        wait_until(|| {
            let known = sentinel.command(&["SENTINEL", "SENTINELS", name])?;
            Ok(known.lines().filter(|line| *line == "runid").count() + 1 == count)
        })?;
    }
    Ok(sentinels)
}

fn wait_until(is_so: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    for _ in 0..LOOKS_MAX {
        if is_so()? {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    bail!("not so after {:?}", LOOK * LOOKS_MAX)
}

fn start_node(args: impl Fn() -> Vec<String>) -> anyhow::Result<RedisServer> {
    let mut last = None;
    for _ in 0..5 {
        // By itself it would take its port + 10000, which may be too high or in use.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let bus = free.local_addr()?.port().to_string();
        drop(free);
        let mut all = vec!["--cluster-enabled", "yes", "--cluster-port", &bus];
        let args = args();
        all.extend(args.iter().map(String::as_str));
        match RedisServer::start(&all) {
            Ok(server) => return Ok(server),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("no free port")))
}

fn bus_port(node: &RedisServer) -> anyhow::Result<u16> {
    let port = node.command(&["CONFIG", "GET", "cluster-port"])?;
    let port = port.lines().nth(1).unwrap_or_default();
    Ok(port.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_comes_together() {
        let cluster = RedisCluster::start(2, 1, &[]).unwrap();
        assert_eq!(cluster.nodes().len(), 3);
        // Its slot is 12182.
        assert_eq!(cluster.owner("foo").unwrap(), 1);
        let role = cluster.nodes()[2].command(&["ROLE"]).unwrap();
        assert!(role.starts_with("slave"), "{role}");
    }

    #[test]
    fn sentinels_come_together() {
        let primary = RedisServer::start(&[]).unwrap();
        let sentinels = start_sentinels(3, "m", primary.address(), "").unwrap();
        let asked = sentinels[0].command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"]);
        let port = primary.address().port();
        assert_eq!(asked.unwrap(), format!("127.0.0.1\n{port}"));
    }
}
