//! Who does the harm, and undoes it.

use std::{
    process::{Child, Command},
    time::Duration,
};

use anyhow::Context;
use kvcm_check::Record;
use kvcm_testkit::http_post;
use serde_json::json;

use super::{
    fault::Fault,
    links::{End, Link, Trouble},
    recorder::{Recorder, now},
    schedule::Step,
    world::{COORDINATION, NODES, STORE, World, node_name},
};

/// How long a leader is waited for after a fault.
const RECOVERY: Duration = Duration::from_secs(30);
/// How many files a node may have open, and how many usually.
const FEW: u64 = 64;
const MANY: u64 = 1024;
/// Processes that do nothing but count.
const HOGS: usize = 3;

/// Does one step after the other to a world, and writes down when.
#[derive(Debug)]
pub(super) struct Nemesis<'a> {
    pub(super) world: &'a mut World,
    pub(super) recorder: &'a Recorder,
}

impl Nemesis<'_> {
    /// One fault: does it, undoes it, waits until somebody leads again, and for the calm after it.
    /// False when nobody does.
    pub(super) async fn step(&mut self, step: &Step) -> anyhow::Result<bool> {
        let mut random = fastrand::Rng::with_seed(step.salt);
        let leader = self.world.wait_for_leader(RECOVERY).await.unwrap_or(0);
        let at = now();
        let harm = self.harm(step, leader, &mut random).await;
        let target = harm.with_context(|| step.fault.as_str())?;
        let until = now();
        self.revive().await?;
        let recovered = self.world.wait_for_leader(RECOVERY).await.map(|_| now());
        self.recorder.add(&Record::Fault(kvcm_check::Fault {
            at,
            until,
            recovered,
            kind: step.fault.as_str().to_owned(),
            target: format!("{target}, {} ms", step.lasts.as_millis()),
        }))?;
        tokio::time::sleep(step.calm).await;
        Ok(recovered.is_some())
    }

    /// Does it and undoes it. Tells to whom.
    async fn harm(
        &mut self,
        step: &Step,
        leader: usize,
        random: &mut fastrand::Rng,
    ) -> anyhow::Result<String> {
        let lasts = step.lasts;
        let follower = (leader + 1 + random.usize(..NODES - 1)) % NODES;
        let node = random.usize(..NODES);
        match step.fault {
            Fault::KillLeader => self.kill(&[leader], lasts).await,
            Fault::KillFollower => self.kill(&[follower], lasts).await,
            Fault::KillAll => self.kill(&[0, 1, 2], lasts).await,
            Fault::TermLeader => self.terminate(leader).await,
            Fault::RollingRestart => {
                for node in 0..NODES {
                    self.terminate(node).await?;
                    self.world.cluster.restart(node).await?;
                }
                Ok("all nodes".to_owned())
            }
            Fault::StopLeader => self.stop(leader, lasts).await,
            Fault::StopFollower => self.stop(follower, lasts).await,
            Fault::Demote => self.demote(leader).await,
            Fault::Transfer => self.transfer(leader, follower).await,
            Fault::BackendKill
            | Fault::BackendStop
            | Fault::BackendEmpty
            | Fault::BackendFailOver
            | Fault::BackendReadOnly
            | Fault::BackendFull
            | Fault::ReplicaKill
            | Fault::ReplicaStop => self.harm_redis(step.fault, lasts).await,
            Fault::CoordinationWiped => {
                // Sometimes with a node that starts just then and knows nothing.
                let newcomer: &[usize] = if random.bool() { &[follower] } else { &[] };
                self.kill(newcomer, Duration::ZERO).await?;
                self.world.disk.wipe(COORDINATION)?;
                self.revive().await?;
                tokio::time::sleep(lasts).await;
                Ok(COORDINATION.to_owned())
            }
            Fault::StoreWiped => {
                let at = now();
                self.world.disk.wipe(STORE)?;
                self.recorder.lost(at)?;
                tokio::time::sleep(lasts).await;
                Ok(STORE.to_owned())
            }
            Fault::DiskFull => {
                self.world.disk.fill()?;
                tokio::time::sleep(lasts).await;
                self.world.disk.free()?;
                Ok("disk".to_owned())
            }
            Fault::DiskReadOnly => {
                let folders: Vec<_> = ["", COORDINATION, STORE]
                    .into_iter()
                    .filter(|name| self.world.disk.has(name))
                    .collect();
                let name = folders[random.usize(..folders.len())];
                self.world.disk.protect(name)?;
                tokio::time::sleep(lasts).await;
                self.world.disk.unprotect(name)?;
                Ok(format!("disk/{name}"))
            }
            Fault::CutNodeFromClients | Fault::DeafenNode | Fault::MuteNode => {
                let is_it = |link: &Link| link.node == leader && is_of_clients(link);
                self.links(step, is_it, random).await;
                Ok(node_name(leader))
            }
            Fault::CutNodeFromServers => {
                let is_it = |link: &Link| link.node == leader && !is_of_clients(link);
                self.links(step, is_it, random).await;
                Ok(node_name(leader))
            }
            Fault::CutNodeFromStore | Fault::CutNodeFromCoordination => {
                let end = match step.fault {
                    Fault::CutNodeFromStore => End::Store,
                    _ => End::Coordination,
                };
                let is_it = |link: &Link| link.node == leader && link.end == end;
                self.links(step, is_it, random).await;
                Ok(node_name(leader))
            }
            Fault::DeafenServers | Fault::MuteServers => {
                let is_it = |link: &Link| link.node == node && !is_of_clients(link);
                self.links(step, is_it, random).await;
                Ok(node_name(node))
            }
            Fault::SlowLinks | Fault::StallLinks => {
                let chosen = random.u64(..);
                let is_it = |link: &Link| {
                    let place = link.node * 4 + link.end as usize;
                    chosen >> place & 1 == 1
                };
                self.links(step, is_it, random).await;
                Ok("half of the links".to_owned())
            }
            Fault::ResetLinks => {
                for _ in 0..4 {
                    self.world.links.0.iter().for_each(Link::reset);
                    tokio::time::sleep(lasts / 4).await;
                }
                Ok("all links".to_owned())
            }
            Fault::Swizzle => {
                self.swizzle(lasts, random).await;
                Ok("all links".to_owned())
            }
            Fault::CpuHogs => {
                let hogs: anyhow::Result<Vec<_>> = (0..HOGS).map(|_| Hog::start()).collect();
                let hogs = hogs?;
                tokio::time::sleep(lasts).await;
                drop(hogs);
                Ok(format!("{HOGS} processes"))
            }
            Fault::FewFiles => {
                self.world.cluster.node(leader).limit_files(FEW)?;
                tokio::time::sleep(lasts).await;
                self.world.cluster.node(leader).limit_files(MANY)?;
                Ok(node_name(leader))
            }
        }
    }

    async fn kill(&mut self, nodes: &[usize], lasts: Duration) -> anyhow::Result<String> {
        for node in nodes {
            self.recorder.ends(&node_name(*node))?;
            self.world.cluster.node(*node).kill().await?;
        }
        // Often at once, so that a node meets what it has left itself.
        if lasts > Duration::from_millis(700) {
            tokio::time::sleep(lasts).await;
        }
        let names: Vec<_> = nodes.iter().map(|node| node_name(*node)).collect();
        Ok(names.join(", "))
    }

    async fn terminate(&mut self, node: usize) -> anyhow::Result<String> {
        let process = self.world.cluster.node(node);
        process.term()?;
        let ended = tokio::time::timeout(Duration::from_secs(20), process.wait()).await;
        ended.with_context(|| format!("{} does not end on SIGTERM", node_name(node)))??;
        Ok(node_name(node))
    }

    async fn stop(&mut self, node: usize, lasts: Duration) -> anyhow::Result<String> {
        self.world.cluster.node(node).stop()?;
        tokio::time::sleep(lasts).await;
        self.world.cluster.node(node).cont()?;
        Ok(node_name(node))
    }

    async fn demote(&mut self, leader: usize) -> anyhow::Result<String> {
        let address = self.world.cluster.ports()[leader].admin_http();
        let body = br#"{"trace_id":"chaos"}"#;
        // It may have lost its lease meanwhile, which is a refusal.
        let _ = http_post(address, "/api/leaderDemote", body).await?;
        Ok(node_name(leader))
    }

    /// Names the follower that is to lead next, as an operator does before work on the leader's host.
    async fn transfer(&mut self, leader: usize, follower: usize) -> anyhow::Result<String> {
        let address = self.world.cluster.ports()[leader].admin_http();
        let next = node_name(follower);
        let body = json!({ "trace_id": "chaos", "transfer_to": next }).to_string();
        let reply = http_post(address, "/api/leaderDemote", body.as_bytes()).await?;
        let answer: serde_json::Value = reply.json()?;
        let code = answer["header"]["status"]["code"].clone();
        let led = self.world.wait_for_leader(RECOVERY).await.map(node_name);
        let (from, led) = (node_name(leader), led.unwrap_or_default());
        Ok(format!("{from} to {next}: {code}, then {led} leads"))
    }

    async fn harm_redis(&mut self, fault: Fault, lasts: Duration) -> anyhow::Result<String> {
        let redis = self.world.redis.as_mut().context("no redis in this run")?;
        match fault {
            Fault::BackendKill => {
                redis.primary().kill()?;
                tokio::time::sleep(lasts).await;
                redis.restart()?;
            }
            Fault::BackendStop => {
                redis.primary().stop()?;
                tokio::time::sleep(lasts).await;
                redis.primary().cont()?;
            }
            Fault::BackendEmpty => {
                let at = now();
                redis.empty()?;
                self.recorder.lost(at)?;
                tokio::time::sleep(lasts).await;
            }
            Fault::BackendFailOver => {
                let at = now();
                redis.fail_over()?;
                self.recorder.lost(at)?;
                let address = redis.primary().address();
                self.world.links.move_servers(address);
                tokio::time::sleep(lasts).await;
            }
            Fault::ReplicaKill => {
                redis.replica().kill()?;
                tokio::time::sleep(lasts).await;
            }
            Fault::ReplicaStop => {
                redis.replica().stop()?;
                tokio::time::sleep(lasts).await;
                redis.replica().cont()?;
            }
            Fault::BackendReadOnly => {
                redis.read_only(true)?;
                tokio::time::sleep(lasts).await;
                redis.read_only(false)?;
            }
            _ => {
                redis.full(true)?;
                tokio::time::sleep(lasts).await;
                redis.full(false)?;
            }
        }
        redis.mend()?;
        Ok("redis".to_owned())
    }

    async fn links(
        &self,
        step: &Step,
        is_chosen: impl Fn(&Link) -> bool,
        random: &mut fastrand::Rng,
    ) {
        let trouble = step.fault.trouble().unwrap_or(Trouble::Cut);
        for link in self.world.links.0.iter().filter(|link| is_chosen(link)) {
            link.trouble(trouble, random.u64(..));
        }
        tokio::time::sleep(step.lasts).await;
        self.world.links.heal();
    }

    /// Cuts links one by one, and heals them in another order.
    async fn swizzle(&self, lasts: Duration, random: &mut fastrand::Rng) {
        let mut order: Vec<_> = (0..self.world.links.0.len()).collect();
        let pause = lasts / u32::try_from(order.len().max(1)).unwrap_or(1);
        random.shuffle(&mut order);
        for link in &order {
            self.world.links.0[*link].trouble(Trouble::Cut, 0);
            tokio::time::sleep(pause).await;
        }
        random.shuffle(&mut order);
        for link in &order {
            self.world.links.0[*link].heal();
            tokio::time::sleep(pause).await;
        }
    }

    /// Starts again whoever is dead.
    async fn revive(&mut self) -> anyhow::Result<()> {
        for node in 0..NODES {
            if !self.world.cluster.node(node).is_running()? {
                self.recorder.ends(&node_name(node))?;
                self.world.cluster.restart(node).await?;
            }
        }
        Ok(())
    }
}

fn is_of_clients(link: &Link) -> bool {
    matches!(link.end, End::Rpc | End::Http)
}

/// A process that takes a core. Dropping it ends it.
struct Hog(Child);

impl Hog {
    fn start() -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        Ok(Self(command.spawn().context("cannot start sh")?))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        if self.0.kill().is_ok() {
            let _ = self.0.wait();
        }
    }
}
