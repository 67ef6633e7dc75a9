//! What nodes say of themselves and know of each other: records in the coordination backend, as
//! good as the backend and the network are.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use coordination_core::{Backend as _, Expect, NodeId, Owner};
use elector::{Elector, Peer};
use kvcm_clock::Moment;
use kvcm_fence::Incarnation;
use parking_lot::Mutex;

use crate::{
    cluster::Cluster,
    coordination::NodeBackend,
    dice::Dice,
    event::{Event, Life},
    fault::Fault,
    mutant::Mutant,
    service::Service,
    world::ProcessId,
};

/// Records of nodes are found here.
const PREFIX: &str = "nodes/";

/// How a node sees the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sight {
    /// By their records.
    #[default]
    Clear,
    /// As they were.
    Stale,
    /// As they are not.
    Wrong,
}

/// What is wrong with a place in the eyes of the others, and with its own eyes. Outlasts a life.
#[derive(Default)]
pub(crate) struct Outlook(Mutex<(u32, Sight)>);

impl Outlook {
    /// How its process sees the others from now on.
    pub(crate) fn set(&self, sight: Sight) {
        self.0.lock().1 = sight;
    }

    fn sight(&self) -> Sight {
        self.0.lock().1
    }

    fn is_ready(&self) -> bool {
        self.0.lock().0 == 0
    }
}

/// The process of `node` says for a while that it cannot serve.
pub(crate) fn not_ready(cluster: &Arc<Cluster>, fault: Fault, node: usize, time: Duration) {
    cluster.places[node].outlook.0.lock().0 += 1;
    tell(cluster, node);
    cluster.during(fault, time, move |cluster| {
        cluster.places[node].outlook.0.lock().0 -= 1;
        tell(cluster, node);
    });
}

fn tell(cluster: &Cluster, node: usize) {
    let ready = cluster.places[node].outlook.is_ready();
    if let Some(running) = cluster.places[node].running() {
        let life = running.life;
        cluster.ground.log.add(Event::Ready { life, ready });
        running.elector.set_ready(ready);
    }
}

/// Tells the election of a process about the others.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) cluster: Weak<Cluster>,
    pub(crate) life: Life,
    pub(crate) owner: Owner,
    pub(crate) priority: u8,
}

impl Feed {
    /// Starts to tell.
    pub(crate) fn start(self, process: ProcessId, elector: &Elector, service: &Arc<Service>) {
        let world = service.world.clone();
        let stores = self.clone().stores(elector.clone(), service.clone());
        world.spawn(process, Box::pin(stores));
        world.spawn(process, Box::pin(self.peers(elector.clone())));
    }

    /// Whether the stores answer.
    async fn stores(self, elector: Elector, service: Arc<Service>) {
        loop {
            elector.set_stores_ok(service.stores_answer().await);
            service.world.sleep(service.lease / 4).await;
        }
    }

    async fn peers(self, elector: Elector) {
        let mut known = BTreeMap::new();
        let Some(backend) = self.backend() else {
            return;
        };
        loop {
            let Some(cluster) = self.cluster.upgrade() else {
                return;
            };
            let ground = &cluster.ground;
            let outlook = &cluster.places[self.life.node].outlook;
            elector.set_ready(outlook.is_ready());
            let timeout = || ground.world.sleep(cluster.lease / 4);
            let (key, text) = self.record(&elector, outlook.is_ready());
            let stored =
                backend.set_value(&key, &text, Some(cluster.lease), Expect::Any, Moment::NEVER);
            tokio::select! {
                biased;
                _ = stored => {}
                () = timeout() => {}
            }
            let listed = backend.list_values(PREFIX, Moment::NEVER);
            let listed = tokio::select! {
                biased;
                listed = listed => listed.ok(),
                () = timeout() => None,
            };
            let always = ground.mutant == Mutant::PeersAlwaysWrong;
            let sight = if always {
                Sight::Wrong
            } else {
                outlook.sight()
            };
            if let Some(listed) = listed.filter(|_| sight != Sight::Stale) {
                known
                    .values_mut()
                    .for_each(|peer: &mut Peer| peer.alive = false);
                let records = listed
                    .iter()
                    .filter_map(|(key, value)| read(key, &value.text));
                known.extend(records.map(|peer| (peer.owner.clone(), peer)));
            } else if sight == Sight::Clear {
                // Who cannot read the records tells nothing.
                let wait = ground.dice.time(cluster.lease / 10, cluster.lease / 5);
                ground.world.sleep(wait).await;
                continue;
            }
            let mut peers: Vec<_> = known.values().cloned().collect();
            if sight == Sight::Wrong {
                peers
                    .iter_mut()
                    .for_each(|peer| distort(peer, &ground.dice));
            }
            elector.set_peers(peers);
            let wait = ground.dice.time(cluster.lease / 10, cluster.lease / 5);
            ground.world.sleep(wait).await;
        }
    }

    fn backend(&self) -> Option<NodeBackend> {
        let server = self.cluster.upgrade()?.coordination.clone();
        let life = self.life;
        Some(NodeBackend { server, life })
    }

    /// Key and text.
    fn record(&self, elector: &Elector, ready: bool) -> (String, String) {
        let view = elector.view();
        let kept_out = view.standby.is_some_and(elector::Standby::forbids);
        let Owner { node, incarnation } = &self.owner;
        let (bits, priority) = (incarnation.bits(), self.priority);
        let ready = ready && view.ready;
        (
            format!("{PREFIX}{node}"),
            format!("{bits} {priority} {ready} {}", !kept_out),
        )
    }
}

fn read(key: &str, text: &str) -> Option<Peer> {
    let node: NodeId = key.strip_prefix(PREFIX)?.parse().ok()?;
    let mut words = text.split(' ');
    let incarnation = Incarnation::from_bits(words.next()?.parse().ok()?);
    Some(Peer {
        owner: Owner { node, incarnation },
        alive: true,
        priority: words.next()?.parse().ok()?,
        ready: words.next()?.parse().ok()?,
        eligible: words.next()?.parse().ok()?,
    })
}

fn distort(peer: &mut Peer, dice: &Dice) {
    for word in [&mut peer.alive, &mut peer.ready, &mut peer.eligible] {
        if dice.chance(0.4) {
            *word = !*word;
        }
    }
    if dice.chance(0.3) {
        peer.priority = u8::try_from(dice.below(256)).unwrap_or(0);
    }
}
