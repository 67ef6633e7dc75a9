//! Clients that call as fast as they are answered, in turns with those of another server.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use kvcm_clock::{BootClock, Clock};
use kvcm_proto::meta;
use prost::Message;
use rustls::ClientConfig;
use tokio::task::JoinSet;

use crate::{
    api::{
        Options,
        call::{Call, Transport},
        caller::Caller,
    },
    machine,
    samples::Samples,
};

/// How long a first call is tried before the server counts as broken.
const LIMIT: Duration = Duration::from_secs(10);

/// Who is called, and what.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) call: Call,
    pub(super) transport: Transport,
    pub(super) address: SocketAddr,
    /// The server's process.
    pub(super) pid: u32,
    /// Set when the server speaks TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// What is sent as `authorization`.
    pub(super) authorization: Option<String>,
}

/// What one server did in all its turns.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) samples: Samples,
    /// How long its turns lasted together.
    pub(super) time: Duration,
    /// How long the server was on a processor meanwhile; `None` where the machine does not tell.
    pub(super) busy: Option<Duration>,
}

/// The connected clients of one target.
#[derive(Debug)]
pub(super) struct Load {
    target: Target,
    callers: Vec<Caller>,
    taken: Vec<Duration>,
    time: Duration,
    busy: Option<Duration>,
}

/// What every answer begins with, whatever else it is.
#[derive(Clone, PartialEq, prost::Message)]
struct Headed {
    #[prost(message, optional, tag = "1")]
    header: Option<meta::CommonResponseHeader>,
}

impl Target {
    pub(super) fn path(&self) -> &'static str {
        self.call.path(self.transport)
    }

    /// Fails unless the answer has the code that the call must have.
    fn check(&self, answer: &Bytes) -> anyhow::Result<()> {
        let wanted = self.call.code();
        let good = match self.transport {
            Transport::Grpc => {
                let headed = Headed::decode(answer.clone())?;
                let status = headed.header.and_then(|header| header.status);
                status.is_some_and(|status| status.code() == wanted)
            }
            Transport::Http => {
                let json: serde_json::Value = serde_json::from_slice(answer)?;
                json["header"]["status"]["code"] == wanted.as_str_name()
            }
        };
        let name = self.call.name();
        ensure!(good, "{name}: not {}: {answer:?}", wanted.as_str_name());
        Ok(())
    }
}

/// One call on a connection of its own: the answer, checked.
pub(super) async fn ask(target: &Target) -> anyhow::Result<Bytes> {
    let asked = tokio::time::timeout(LIMIT, async {
        let mut callers = Caller::connect(target, 1).await?;
        let Some(caller) = callers.first_mut() else {
            bail!("no client");
        };
        caller.call().await
    });
    let answer = asked.await.context("no answer")??;
    target.check(&answer)?;
    Ok(answer)
}

/// Both servers take turns, each as often first as second.
pub(super) async fn in_turns(pair: &mut [Load; 2], options: &Options) -> anyhow::Result<()> {
    // Code, caches and connections are warm when the first turn begins.
    for load in &mut *pair {
        load.turn(options.turn() / 4).await?;
        load.forget();
    }
    for turn in 0..options.turns {
        let first = usize::from(turn % 2);
        pair[first].turn(options.turn()).await?;
        pair[1 - first].turn(options.turn()).await?;
    }
    Ok(())
}

impl Load {
    pub(super) async fn connect(target: &Target, clients: usize) -> anyhow::Result<Self> {
        Ok(Self {
            target: target.clone(),
            callers: Caller::connect(target, clients).await?,
            taken: Vec::new(),
            time: Duration::ZERO,
            busy: Some(Duration::ZERO),
        })
    }

    /// All clients call for so long.
    async fn turn(&mut self, time: Duration) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        let busy = machine::processor_time(self.target.pid);
        let start = BootClock.now();
        for mut caller in self.callers.drain(..) {
            running.spawn(async move {
                let mut taken = Vec::new();
                let mut now = start;
                loop {
                    let answer = caller.call().await?;
                    let then = std::mem::replace(&mut now, BootClock.now());
                    taken.push(now.since(then));
                    if now.since(start) >= time {
                        return anyhow::Ok((caller, taken, answer));
                    }
                }
            });
        }
        while let Some(ended) = running.join_next().await {
            let (caller, taken, answer) = ended??;
            // Of each client the last one stands for all: a node that changed its part shows.
            self.target.check(&answer)?;
            self.callers.push(caller);
            self.taken.extend(taken);
        }
        self.time += BootClock.now().since(start);
        let spent = machine::processor_time(self.target.pid)
            .zip(busy)
            .map(|(after, before)| after.saturating_sub(before));
        self.busy = self.busy.zip(spent).map(|(sum, spent)| sum + spent);
        Ok(())
    }

    fn forget(&mut self) {
        self.taken.clear();
        self.time = Duration::ZERO;
        self.busy = Some(Duration::ZERO);
    }

    pub(super) fn finish(self) -> Figures {
        Figures {
            samples: self.taken.into_iter().collect(),
            time: self.time,
            busy: self.busy,
        }
    }
}

impl Figures {
    /// Calls in a second.
    pub(super) fn rate(&self) -> f64 {
        self.samples.len() as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// Microseconds of the server's processors for each call.
    pub(super) fn cost(&self) -> Option<f64> {
        let calls = self.samples.len().max(1) as f64;
        self.busy.map(|busy| busy.as_secs_f64() * 1e6 / calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_another_code_is_refused() {
        let target = |call, transport| Target {
            call,
            transport,
            address: ([127, 0, 0, 1], 1).into(),
            pid: 0,
            tls: None,
            authorization: None,
        };
        let status = meta::Status {
            code: meta::ErrorCode::ServerNotLeader.into(),
            ..Default::default()
        };
        let header = Some(meta::CommonResponseHeader {
            status: Some(status),
            ..Default::default()
        });
        let message = Bytes::from(Headed { header }.encode_to_vec());
        let json = Bytes::from_static(br#"{"header":{"status":{"code":"SERVER_NOT_LEADER"}}}"#);
        for (transport, answer) in [(Transport::Grpc, &message), (Transport::Http, &json)] {
            target(Call::NotLeader, transport).check(answer).unwrap();
            let error = target(Call::Register, transport).check(answer).unwrap_err();
            assert!(error.to_string().contains("not OK"), "{error}");
        }
        let error = target(Call::Register, Transport::Grpc).check(&Bytes::new());
        error.unwrap_err();
    }
}
