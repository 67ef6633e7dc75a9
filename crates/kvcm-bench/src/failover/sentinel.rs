//! Redis Sentinel: a master, two replicas, three sentinels.

use std::time::Duration;

use anyhow::bail;
use kvcm_testkit::{RedisServer, start_sentinels};

use super::{
    setting::Setting,
    system::{System, Target},
};
use crate::interrupt::Interrupt;

/// What the sentinels call it.
pub(super) const MASTER: &str = "bench";
const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: u32 = 3000;

/// A group that is used for one fault: after a failover the sentinels may not do another for a
/// while, which is theirs and not part of the gap.
pub(super) struct SentinelGroup {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    down_after: Duration,
}

impl SentinelGroup {
    pub(super) fn start(setting: &Setting, interrupt: &Interrupt) -> anyhow::Result<Self> {
        // A replica's first copy is not to wait for others; it has nothing to do with a failover.
        let common = ["--repl-diskless-sync-delay", "0"];
        let master = RedisServer::start(&common)?;
        let of = format!("127.0.0.1 {}", master.address().port());
        let mut servers = vec![master];
        for _ in 0..2 {
            let args = [&common[..], &["--replicaof", &of]].concat();
            servers.push(RedisServer::start(&args)?);
        }
        wait_until("replicas have no copy", interrupt, || {
            for replica in &servers[1..] {
                let info = replica.command(&["INFO", "replication"])?;
                if !info.contains("master_link_status:up") {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        let failover = match setting.is_tuned() {
            true => (2 * setting.lease_ms()).max(4000),
            false => 180_000,
        };
        let config = format!(
            "sentinel down-after-milliseconds {MASTER} {}\n\
             sentinel failover-timeout {MASTER} {failover}",
            setting.lease_ms()
        );
        let sentinels = start_sentinels(3, MASTER, servers[0].address(), &config)?;
        wait_until("sentinels do not know the replicas", interrupt, || {
            for sentinel in &sentinels {
                let known = sentinel.command(&["SENTINEL", "REPLICAS", MASTER])?;
                if known.lines().filter(|line| *line == "runid").count() != 2 {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(Self {
            servers,
            sentinels,
            down_after: setting.lease,
        })
    }
}

impl System for SentinelGroup {
    fn targets(&self) -> Vec<Target> {
        let sentinel = self.sentinels[0].address();
        let all = self.servers.iter().map(RedisServer::address);
        all.map(|server| Target::Redis { server, sentinel })
            .collect()
    }

    fn granted(&self) -> Duration {
        self.down_after
    }

    fn has_backend(&self) -> bool {
        true
    }

    fn wants_a_new_one(&self) -> bool {
        true
    }

    fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        self.servers[node].kill()
    }

    fn hand_over(&mut self, _node: usize) -> anyhow::Result<()> {
        self.sentinels[0].command(&["SENTINEL", "FAILOVER", MASTER])?;
        Ok(())
    }

    fn stop(&mut self, node: usize) -> anyhow::Result<()> {
        self.servers[node].stop()
    }

    fn cont(&mut self, node: usize) -> anyhow::Result<()> {
        self.servers[node].cont()
    }

    fn stop_backend(&mut self, leader: usize) -> anyhow::Result<()> {
        self.stop(leader)
    }

    fn cont_backend(&mut self, leader: usize) -> anyhow::Result<()> {
        self.cont(leader)
    }

    fn mend(&mut self) -> anyhow::Result<()> {
        // A new group takes its place.
        Ok(())
    }
}

fn wait_until(
    not_yet: &str,
    interrupt: &Interrupt,
    is_so: impl Fn() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    for _ in 0..LOOKS_MAX {
        if is_so()? {
            return Ok(());
        }
        interrupt.sleep(LOOK)?;
    }
    bail!("{not_yet} after {:?}", LOOK * LOOKS_MAX)
}
