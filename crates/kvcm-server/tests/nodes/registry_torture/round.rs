//! One round: writers, harm, and the comparison with what the next leader has.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kvcm_testkit::Cluster;
use serde_json::json;
use tempfile::TempDir;
use tokio::{task::JoinSet, time::timeout};

use super::{
    LEASE_MS,
    model::{Kind, Outcome, Part, Things, take, things},
    shared::Shared,
    templates::{self, Templates},
    writer::{SHARED, Writer},
};
use crate::{
    both::Caller,
    support::{call, code, leader_of, start_on, until},
};

/// Writers of a round.
const WRITERS: usize = 6;
/// What the names begin with of whoever loads snapshots.
const LOADER: &str = "load.";

/// What happens to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT when the next one leads.
    StopAndGoOn,
    /// SIGSTOP, and SIGKILL when the next one leads.
    StopAndKill,
}

/// Some nodes, and what has to be in their registry.
pub(super) struct Bench {
    cluster: Cluster,
    templates: Arc<Templates>,
    /// Each with what its names begin with. The last is the loader's.
    parts: Vec<(String, Arc<Mutex<Part>>)>,
    shared: Arc<Shared>,
    /// What nobody changes.
    rest: Things,
    epoch: u64,
    pub(super) tally: Tally,
    /// Where their logs are; kept when the test fails.
    dir: Option<TempDir>,
}

/// What has happened.
#[derive(Debug, Default)]
pub(super) struct Tally {
    kills: u64,
    stops: u64,
    nudges: u64,
    pub(super) acknowledged: u64,
    found: u64,
    not_found: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kills,
            stops,
            nudges,
            acknowledged,
            found,
            not_found,
        } = self;
        write!(
            f,
            "{kills} leaders killed and {stops} stopped ({nudges} times with the guard), \
             {acknowledged} changes acknowledged and \
             none lost; of those without an answer {found} had happened and {not_found} had not"
        )
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            println!("the logs of the nodes are in {}", dir.keep().display());
        }
    }
}

impl Bench {
    /// Nodes with a registry of which the writers have nothing yet.
    pub(super) async fn start(nodes: usize, lock: &str, registry: &str, dir: TempDir) -> Self {
        let settings = [
            ("kvcm.allow_private_stores", "true"),
            ("kvcm.registry_storage.uri", registry),
        ];
        let cluster = start_on(nodes, LEASE_MS, lock, dir.path(), &settings).await;
        let leader = leader_of(&cluster, &(0..nodes).collect::<Vec<_>>()).await;
        let mut caller = Caller::Http(cluster.ports()[leader]);
        let templates = Templates::learn(&mut caller).await;
        let first = templates::group(SHARED, 1, "first");
        let answer = caller.call("createInstanceGroup", &first).await;
        assert_eq!(code(&answer), "OK", "{answer}");
        let mut rest = things(&caller.call("genConfigSnapshot", &json!({})).await);
        let group = rest.remove(&(Kind::Group, SHARED.to_owned())).unwrap();
        let shared = Shared::default();
        shared.answered(1, "first".to_owned(), Outcome::Done);
        shared.found(&group);
        let names = (0..WRITERS).map(|number| format!("w{number}."));
        let names = names.chain([LOADER.to_owned()]);
        Self {
            cluster,
            templates: Arc::new(templates),
            parts: names.map(|name| (name, Arc::default())).collect(),
            shared: Arc::new(shared),
            rest,
            epoch: 0,
            tally: Tally::default(),
            dir: Some(dir),
        }
    }

    /// Writers write for `pause`, then the leader is harmed.
    pub(super) async fn round(
        &mut self,
        harm: Harm,
        pause: Duration,
        is_of_loads: bool,
        random: &mut fastrand::Rng,
    ) {
        let all: Vec<usize> = (0..self.cluster.len()).collect();
        let leader = leader_of(&self.cluster, &all).await;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut writers = JoinSet::new();
        for writer in self.writers(leader, is_of_loads, &is_over, random).await {
            if is_of_loads {
                writers.spawn(writer.load());
            } else {
                writers.spawn(writer.write());
            }
        }
        // Somewhere in the middle of what they do.
        tokio::time::sleep(pause).await;
        let node = self.cluster.node(leader);
        if harm == Harm::Kill {
            node.kill().await.unwrap();
            self.tally.kills += 1;
        } else {
            node.stop().unwrap();
            self.tally.stops += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        if harm == Harm::Kill {
            self.join(&mut writers).await;
        }
        let others: Vec<usize> = all.into_iter().filter(|node| *node != leader).collect();
        if harm != Harm::Kill {
            self.wait_for_another(leader, &others).await;
        }
        let before = self.epoch;
        self.compare(&others).await;
        assert!(self.epoch > before, "a new reign in epoch {before} again");
        match harm {
            Harm::Kill => {}
            Harm::StopAndKill => {
                self.cluster.node(leader).kill().await.unwrap();
                self.join(&mut writers).await;
            }
            Harm::StopAndGoOn => {
                self.cluster.node(leader).cont().unwrap();
                self.join(&mut writers).await;
                // Whatever it tried has changed nothing.
                self.compare(&others).await;
                return;
            }
        }
        self.cluster.restart(leader).await.unwrap();
    }

    /// Waits until another one leads than the one that stands still. Where it does so in the middle
    /// of a change of the lock in a directory, nobody can change it; it goes on for a moment then.
    async fn wait_for_another(&mut self, stopped: usize, others: &[usize]) {
        let patience = Duration::from_millis(10 * LEASE_MS);
        while timeout(patience, leader_of(&self.cluster, others))
            .await
            .is_err()
        {
            self.tally.nudges += 1;
            let node = self.cluster.node(stopped);
            node.cont().unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            node.stop().unwrap();
        }
    }

    async fn writers(
        &self,
        leader: usize,
        is_of_loads: bool,
        is_over: &Arc<AtomicBool>,
        random: &mut fastrand::Rng,
    ) -> Vec<Writer> {
        let ports = self.cluster.ports()[leader];
        let mut writers = Vec::new();
        let parts = self
            .parts
            .iter()
            .filter(|(name, _)| (name == LOADER) == is_of_loads);
        for (prefix, part) in parts {
            let caller = match random.bool() {
                true => Caller::Http(ports),
                false => Caller::grpc(&ports).await,
            };
            writers.push(Writer {
                prefix: prefix.clone(),
                caller,
                part: part.clone(),
                shared: self.shared.clone(),
                templates: self.templates.clone(),
                random: random.fork(),
                is_over: is_over.clone(),
            });
        }
        writers
    }

    async fn join(&mut self, writers: &mut JoinSet<u64>) {
        while let Some(acknowledged) = writers.join_next().await {
            self.tally.acknowledged += acknowledged.unwrap();
        }
    }

    /// Compares all that the present leader has with all that is known.
    async fn compare(&mut self, among: &[usize]) {
        let (epoch, mut found) = until("a leader shows the whole registry", async || {
            let leader = leader_of(&self.cluster, among).await;
            self.shown_by(leader).await
        })
        .await;
        assert!(epoch >= self.epoch, "epoch {epoch} after {}", self.epoch);
        self.epoch = epoch;
        let group = found.remove(&(Kind::Group, SHARED.to_owned()));
        self.shared.found(&group.unwrap());
        for (prefix, part) in &self.parts {
            let own = take(&mut found, prefix);
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            match part.settle(prefix, own) {
                Some(Outcome::Done) => self.tally.found += 1,
                Some(_) => self.tally.not_found += 1,
                None => {}
            }
        }
        assert_eq!(found, self.rest, "what nobody has changed");
    }

    /// The whole registry as this node shows it, and its epoch; none when it does not lead.
    async fn shown_by(&self, leader: usize) -> Option<(u64, Things)> {
        let admin = self.cluster.ports()[leader].admin_http();
        let answer = call(admin, "genConfigSnapshot", json!({})).await;
        if code(&answer) != "OK" {
            return None;
        }
        let found = things(&answer);
        let names = |kind| {
            let names = found.keys().filter(move |(other, _)| *other == kind);
            names
                .map(|(_, name)| name.as_str())
                .collect::<BTreeSet<_>>()
        };
        for kind in Kind::ALL {
            let (rpc, list, name) = kind.listing();
            let answer = call(admin, rpc, json!({})).await;
            if code(&answer) != "OK" {
                return None;
            }
            let listed = answer[list].as_array().unwrap();
            let listed: BTreeSet<_> = listed
                .iter()
                .filter_map(|thing| thing[name].as_str())
                .collect();
            assert_eq!(listed, names(kind), "{rpc} and the snapshot");
        }
        let groups = names(Kind::Group);
        for ((_, id), instance) in found
            .iter()
            .filter(|((kind, _), _)| *kind == Kind::Instance)
        {
            let group = instance["instance_group_name"].as_str().unwrap();
            assert!(
                groups.contains(group),
                "instance {id} is in no group: {instance}"
            );
        }
        let epoch = answer["header"]["epoch"]
            .as_str()
            .and_then(|text| text.parse().ok());
        Some((epoch.unwrap(), found))
    }
}
