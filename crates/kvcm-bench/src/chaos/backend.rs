//! A redis-server with a replica, as an operator has it.

use anyhow::Context;
use kvcm_testkit::RedisServer;

/// Two servers, one of which is the primary. Each writes a log of its commands, so that a restart
/// loses nothing.
#[derive(Debug)]
pub(super) struct Redis {
    servers: [RedisServer; 2],
    primary: usize,
}

impl Redis {
    pub(super) fn start() -> anyhow::Result<Self> {
        // Nothing is synced, which would stall it on a busy disk: what a killed process has written
        // is not lost. A new replica is not to wait five seconds for others to come: with
        // `wait_replicas` nobody leads without it.
        let args = [
            "--appendonly",
            "yes",
            "--appendfsync",
            "no",
            "--repl-diskless-sync-delay",
            "0",
        ];
        let start = || RedisServer::start(&args).context("the run needs redis-server");
        let redis = Self {
            servers: [start()?, start()?],
            primary: 0,
        };
        redis.replicate()?;
        Ok(redis)
    }

    pub(super) fn primary(&mut self) -> &mut RedisServer {
        &mut self.servers[self.primary]
    }

    pub(super) fn replica(&mut self) -> &mut RedisServer {
        &mut self.servers[1 - self.primary]
    }

    /// Kills the primary and starts it with what it had.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.primary().restart()
    }

    /// Loses everything.
    pub(super) fn empty(&mut self) -> anyhow::Result<()> {
        self.primary().command(&["FLUSHALL"])?;
        self.restart()
    }

    /// The primary dies, the replica takes over. The dead one comes back as its replica with
    /// [`mend`](Self::mend). What the replica has not got is lost.
    pub(super) fn fail_over(&mut self) -> anyhow::Result<()> {
        self.primary().kill()?;
        self.primary = 1 - self.primary;
        self.primary().command(&["REPLICAOF", "NO", "ONE"])?;
        Ok(())
    }

    /// Whoever is dead lives, and the other server is the replica of the primary.
    pub(super) fn mend(&mut self) -> anyhow::Result<()> {
        let other = &mut self.servers[1 - self.primary];
        if other.command(&["PING"]).is_err() {
            other.restart()?;
        }
        self.replicate()
    }

    fn replicate(&self) -> anyhow::Result<()> {
        let primary = &self.servers[self.primary];
        let port = primary.address().port().to_string();
        let other = &self.servers[1 - self.primary];
        other.command(&["REPLICAOF", "127.0.0.1", &port])?;
        Ok(())
    }

    /// Refuses writes, as a primary does that has been made a replica.
    pub(super) fn read_only(&mut self, is_read_only: bool) -> anyhow::Result<()> {
        let words = match is_read_only {
            // Nobody listens there.
            true => ["REPLICAOF", "127.0.0.1", "1"],
            false => ["REPLICAOF", "NO", "ONE"],
        };
        self.primary().command(&words)?;
        Ok(())
    }

    /// Refuses writes for want of memory.
    pub(super) fn full(&mut self, is_full: bool) -> anyhow::Result<()> {
        let limit = if is_full { "1" } else { "0" };
        self.primary()
            .command(&["CONFIG", "SET", "maxmemory", limit])?;
        Ok(())
    }
}
