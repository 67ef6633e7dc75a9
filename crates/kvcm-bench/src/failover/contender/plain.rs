//! The lock that everybody writes first: `SET NX PX`, tried each 100 ms, renewed each third of the
//! lease, deleted to resign. Its writes have no fence, since it has none.

use std::time::Duration;

use anyhow::bail;
use kvcm_clock::{BootClock, Clock};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use super::{ContenderOptions, Lead, Ready};

const POLL: Duration = Duration::from_millis(100);
const RENEW: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return \
                     redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";
const RELEASE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return \
                       redis.call('del',KEYS[1]) else return 0 end";

pub(super) async fn campaign(
    options: &ContenderOptions,
    lead: &Lead,
    resign: &CancellationToken,
    ready: &mut Ready,
) -> anyhow::Result<()> {
    let mut redis = Redis::connect(options).await?;
    let lease = options.lease();
    // Not the name alone: a process that was started again is another.
    let owner = format!("{}-{}", options.name, std::process::id());
    let lock = format!("SET lock {owner} NX PX {}", options.lease_ms);
    let renew = format!("EVAL \"{RENEW}\" 1 lock {owner} {}", options.lease_ms);
    let release = format!("EVAL \"{RELEASE}\" 1 lock {owner}");
    let mut is_leader = false;
    loop {
        let sent = BootClock.now();
        let pause = match is_leader {
            false => {
                let answer = redis.ask(&lock).await?;
                ready.tell(lease)?;
                is_leader = answer == "+OK";
                if is_leader {
                    lead.begin(&owner, sent + lease);
                }
                if is_leader { lease / 3 } else { POLL }
            }
            true => {
                if redis.ask(&renew).await? != ":1" {
                    bail!("the lock is another's");
                }
                lead.put_off(sent + lease);
                lease / 3
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = resign.cancelled() => {
                lead.end();
                redis.ask(&release).await?;
                return Ok(());
            }
        }
    }
}

/// Writes.
pub(super) struct Store(Redis);

impl Store {
    pub(super) async fn connect(options: &ContenderOptions) -> anyhow::Result<Self> {
        Ok(Self(Redis::connect(options).await?))
    }

    pub(super) async fn write(&mut self, number: u64) -> anyhow::Result<bool> {
        match self.0.ask(&format!("SET data {number}")).await?.as_str() {
            "+OK" => Ok(true),
            other => bail!("SET: {other}"),
        }
    }
}

/// A connection for commands whose answer is a line.
struct Redis(BufReader<TcpStream>);

impl Redis {
    async fn connect(options: &ContenderOptions) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(options.backend).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    async fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        self.0
            .write_all(format!("{command}\r\n").as_bytes())
            .await?;
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            bail!("the server has closed the connection");
        }
        if line.starts_with('-') {
            bail!("{}", line.trim_end());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}
