//! Who breaks things: kills the leader, asks the next to hand over, starts the dead one again.

use std::{future::Future, time::Duration};

use anyhow::{Context, bail};
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::{Cluster, Ports, http_post};
use serde_json::{Value, json};

use super::{
    outcome::Incident,
    phase::{CurrentPhase, Phase},
    progress::Progress,
};

/// How long something may take that should take a lease or two.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at progress or leader.
const LOOK: Duration = Duration::from_millis(5);

/// A leader, as the nodes tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    /// Its place in the cluster.
    pub(crate) index: usize,
    /// Its node id.
    pub(crate) name: String,
    /// Its epoch.
    pub(crate) epoch: u64,
}

/// Carries out the phases, each once its share of the requests is done. Returns what it did.
pub(crate) async fn direct(
    cluster: &mut Cluster,
    requests: u64,
    phase: &CurrentPhase,
    progress: &Progress,
) -> anyhow::Result<Vec<Incident>> {
    let mut incidents = Vec::new();
    let mut killed = None;
    for next in Phase::ALL {
        let from = requests * next.begins_at_percent() as u64 / 100;
        while progress.count() < from {
            tokio::time::sleep(LOOK).await;
        }
        let incident = match next {
            Phase::Steady => None,
            Phase::AfterKill => {
                let (incident, index) = kill(cluster).await?;
                killed = Some(index);
                Some(incident)
            }
            Phase::AfterDemote => Some(demote(cluster).await?),
            Phase::AfterRestart => match killed {
                Some(index) => Some(restart(cluster, index).await?),
                None => None,
            },
        };
        phase.set(next);
        progress.state(next.title());
        if let Some(incident) = incident {
            progress.say(&format!("at {from} requests: {}", incident.text));
            incidents.push(incident);
        }
    }
    Ok(incidents)
}

/// The leader that the newest answer of any node names; waits until there is one.
pub(crate) async fn leader(cluster: &Cluster) -> anyhow::Result<Leader> {
    within("finding the leader", async {
        loop {
            let mut newest: Option<Leader> = None;
            for ports in cluster.ports() {
                // A node that is dead does not answer, which is no mistake here.
                let Ok(info) = ask(ports.http(), "getClusterInfo", &json!({})).await else {
                    continue;
                };
                let leader = named_leader(cluster, &info)?;
                let newer = |a: &Leader| newest.as_ref().is_none_or(|b| a.epoch > b.epoch);
                if let Some(leader) = leader.filter(newer) {
                    newest = Some(leader);
                }
            }
            // What followers know may be some milliseconds old; only the leader itself is sure.
            if let Some(leader) = newest
                && leads(&cluster.ports()[leader.index]).await
            {
                return Ok(leader);
            }
            tokio::time::sleep(LOOK).await;
        }
    })
    .await
}

fn named_leader(cluster: &Cluster, info: &Value) -> anyhow::Result<Option<Leader>> {
    let name = info["leader_node_id"].as_str().unwrap_or_default();
    let Some(index) = cluster.index_of(name) else {
        return Ok(None);
    };
    let epoch = match &info["leader_epoch"] {
        Value::String(text) => text.parse().context("leader_epoch is not a number")?,
        other => other.as_u64().unwrap_or(0),
    };
    Ok(Some(Leader {
        index,
        name: name.to_owned(),
        epoch,
    }))
}

async fn leads(ports: &Ports) -> bool {
    let health = ask(ports.admin_http(), "checkHealth", &json!({})).await;
    health.is_ok_and(|health| health["is_leader"] == true)
}

async fn kill(cluster: &mut Cluster) -> anyhow::Result<(Incident, usize)> {
    let leader = leader(cluster).await?;
    let at = BootClock.now();
    cluster.node(leader.index).kill().await?;
    let text = format!("SIGKILL of {}", leader.name);
    Ok((
        Incident {
            at,
            text,
            ends_a_reign: true,
        },
        leader.index,
    ))
}

async fn demote(cluster: &Cluster) -> anyhow::Result<Incident> {
    within("LeaderDemote", async {
        loop {
            let leader = leader(cluster).await?;
            let address = cluster.ports()[leader.index].admin_http();
            let request = json!({ "expected_epoch": leader.epoch.to_string() });
            let at = BootClock.now();
            let answer = ask(address, "leaderDemote", &request).await?;
            match answer["header"]["status"]["code"].as_str() {
                Some("OK") => {
                    let text = format!("LeaderDemote of {}", leader.name);
                    return Ok(Incident {
                        at,
                        text,
                        ends_a_reign: true,
                    });
                }
                // It lost its lease in between; the next one will do.
                Some("SERVER_NOT_LEADER") => tokio::time::sleep(LOOK).await,
                _ => bail!("{} answered LeaderDemote with {answer}", leader.name),
            }
        }
    })
    .await
}

async fn restart(cluster: &mut Cluster, index: usize) -> anyhow::Result<Incident> {
    let at = BootClock.now();
    cluster.restart(index).await?;
    let text = format!("{} started again", cluster.node(index).name());
    Ok(Incident {
        at,
        text,
        ends_a_reign: false,
    })
}

async fn ask(address: std::net::SocketAddr, call: &str, request: &Value) -> anyhow::Result<Value> {
    let mut request = request.clone();
    request["trace_id"] = "demo".into();
    let path = format!("/api/{call}");
    let reply = http_post(address, &path, request.to_string().as_bytes()).await?;
    reply
        .json()
        .with_context(|| format!("{path} answered with status {}", reply.status))
}

async fn within<T>(what: &str, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .with_context(|| format!("{what} took more than {LIMIT:?}"))?
}
