//! A cluster of three nodes, as far as clients see it.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream};
use kvcm_proto::meta;
use parking_lot::Mutex;
use prost::Message;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::measures::{Kind, Measures, Record};
use crate::{
    address::Address,
    cluster_info::{self, ClusterInfo},
    policy::Failure,
    rpc::{Failed, Incoming, Outgoing, open},
    transport::{Pushes, Transport},
};

pub(super) const NODES: usize = 3;
/// One way and back.
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// What the leader needs for a call: 50,000 calls a second.
const SERVICE_TIME: Duration = Duration::from_micros(20);
/// As the server has it.
const STREAMS_MAX: usize = 16_384;

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It dies, and connections to it are refused.
    Crash,
    /// It answers that it does not lead, and knows nobody who does. Followers name it until its
    /// lease is over.
    Refuse,
    /// It answers that it cannot do it now.
    Busy,
}

/// What a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    alive: bool,
    /// How often it has died: connections of an earlier life are gone.
    life: u64,
    /// The leader and its epoch, as the node knows.
    says: Option<(usize, u64)>,
}

#[derive(Debug)]
pub(super) struct World {
    start: Instant,
    nodes: [watch::Sender<Node>; NODES],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    leader: Option<(usize, u64)>,
    busy: bool,
    /// When the leader will have done all that it was given.
    free_at: Instant,
    streams: [usize; NODES],
    record: Record,
    attempts_at_dead: u64,
}

pub(super) fn address(node: usize) -> Address {
    Address::parse(&format!("10.0.0.{}:6381", node + 1)).unwrap()
}

fn number(address: &Address) -> usize {
    (0..NODES)
        .find(|node| self::address(*node) == *address)
        .unwrap()
}

impl World {
    pub(super) fn new(start: Instant, clients: usize) -> Self {
        let node = Node {
            alive: true,
            life: 0,
            says: Some((0, 1)),
        };
        Self {
            start,
            nodes: std::array::from_fn(|_| watch::Sender::new(node)),
            state: Mutex::new(State {
                leader: Some((0, 1)),
                busy: false,
                free_at: start,
                streams: [0; NODES],
                record: Record::new(clients),
                attempts_at_dead: 0,
            }),
        }
    }

    pub(super) fn break_leader(&self, fault: Fault) {
        let mut state = self.state.lock();
        match fault {
            Fault::Busy => state.busy = true,
            Fault::Refuse => {
                state.leader = None;
                self.nodes[0].send_modify(|node| node.says = None);
            }
            Fault::Crash => {
                state.leader = None;
                state.streams[0] = 0;
                self.nodes[0].send_modify(|node| {
                    node.alive = false;
                    node.life += 1;
                });
            }
        }
    }

    pub(super) fn lease_ends(&self, fault: Fault) {
        if fault != Fault::Busy {
            for node in &self.nodes {
                node.send_modify(|node| node.says = None);
            }
        }
    }

    /// Another node leads, or the old one is idle again.
    pub(super) fn heal(&self, fault: Fault) {
        let mut state = self.state.lock();
        state.busy = false;
        if fault != Fault::Busy {
            state.leader = Some((1, 2));
            for node in &self.nodes {
                node.send_modify(|node| node.says = Some((1, 2)));
            }
        }
    }

    pub(super) fn call_ended(&self, client: usize, begun: Instant, ok: bool) {
        let now = Instant::now() - self.start;
        let mut state = self.state.lock();
        state.record.call_ended(client, begun - self.start, now, ok);
    }

    pub(super) fn measures(&self) -> Measures {
        self.state.lock().record.measures()
    }

    pub(super) fn attempts_at_dead(&self) -> u64 {
        self.state.lock().attempts_at_dead
    }

    fn node(&self, node: usize) -> Node {
        *self.nodes[node].borrow()
    }

    /// Something reaches a node.
    fn arrived(&self, kind: Kind) {
        let now = Instant::now() - self.start;
        self.state.lock().record.arrived(now, kind);
    }
}

/// What one client has instead of sockets.
#[derive(Debug)]
pub(super) struct Link {
    client: usize,
    world: Arc<World>,
    /// The life of the node that a connection is to.
    connected: Mutex<[Option<u64>; NODES]>,
    last_id: Mutex<String>,
}

impl Link {
    pub(super) fn new(client: usize, world: Arc<World>) -> Self {
        Self {
            client,
            world,
            connected: Mutex::default(),
            last_id: Mutex::default(),
        }
    }

    /// Connects unless that was done.
    fn connect(&self, node: usize) -> Result<Node, Failed> {
        let now = self.world.node(node);
        let mut connected = self.connected.lock();
        if !now.alive {
            connected[node] = None;
            self.world.state.lock().attempts_at_dead += 1;
            return Err(Failed::local(Failure::Unreachable, "connection refused"));
        }
        if connected[node] != Some(now.life) {
            connected[node] = Some(now.life);
            self.world.arrived(Kind::Connection);
        }
        Ok(now)
    }

    async fn data(&self, node: usize, outgoing: &Outgoing<'_>) -> Result<Incoming, Failed> {
        let id = outgoing.request_id.unwrap_or_default();
        let is_repeat = {
            let mut last = self.last_id.lock();
            let is_repeat = *last == id;
            id.clone_into(&mut last);
            is_repeat
        };
        self.world.arrived(Kind::Try { is_repeat });
        let (code, epoch, done_at) = {
            let mut state = self.world.state.lock();
            match state.leader {
                Some((leader, epoch)) if leader == node && !state.busy => {
                    let now = Instant::now();
                    state.free_at = state.free_at.max(now) + SERVICE_TIME;
                    (meta::ErrorCode::Ok, Some(epoch), state.free_at)
                }
                Some((leader, epoch)) if leader == node => (
                    meta::ErrorCode::ServiceNotReady,
                    Some(epoch),
                    Instant::now(),
                ),
                _ => (meta::ErrorCode::ServerNotLeader, None, Instant::now()),
            }
        };
        sleep_until(done_at).await;
        let header = meta::CommonResponseHeader {
            status: Some(meta::Status {
                code: code.into(),
                message: String::new(),
            }),
            epoch,
            ..Default::default()
        };
        let header = Some(header);
        open(meta::CommonResponse { header }.encode_to_vec().into())
    }

    fn info(&self, node: usize) -> ClusterInfo {
        let says = self.world.node(node).says;
        let leader = says.map(|(leader, _)| leader);
        let mut at = leader.map(|leader| crate::Node::at(&address(leader)));
        if let (Some(at), Some(leader)) = (&mut at, leader) {
            at.id = format!("n{leader}");
        }
        ClusterInfo {
            answered_by: address(node).to_string(),
            self_node_id: format!("n{node}"),
            self_role: String::new(),
            cluster_id: String::new(),
            leader_node_id: leader
                .map(|leader| format!("n{leader}"))
                .unwrap_or_default(),
            leader: at,
            leader_epoch: says.map(|(_, epoch)| epoch),
            info_age: Duration::ZERO,
            nodes: Vec::new(),
        }
    }

    fn info_bytes(&self, node: usize) -> Vec<u8> {
        let info = self.info(node);
        let says = self.world.node(node).says;
        meta::GetClusterInfoResponse {
            header: Some(meta::CommonResponseHeader {
                status: Some(meta::Status {
                    code: meta::ErrorCode::Ok.into(),
                    message: String::new(),
                }),
                ..Default::default()
            }),
            self_node_id: info.self_node_id,
            leader_node_id: info.leader_node_id,
            leader_endpoint: says.map(|(leader, _)| meta::NodeEndpoint {
                node_id: format!("n{leader}"),
                host: format!("10.0.0.{}", leader + 1),
                meta_rpc_port: 6381,
                ..Default::default()
            }),
            leader_epoch: info.leader_epoch,
            ..Default::default()
        }
        .encode_to_vec()
    }
}

impl Transport for Link {
    fn send<'a>(
        &'a self,
        address: &'a Address,
        outgoing: &'a Outgoing<'a>,
    ) -> BoxFuture<'a, Result<Incoming, Failed>> {
        Box::pin(async move {
            let node = number(address);
            sleep(ROUND_TRIP).await;
            let before = self.connect(node)?;
            let result = if outgoing.path == cluster_info::PATH {
                self.world.arrived(Kind::Question);
                open(self.info_bytes(node).into())
            } else {
                self.data(node, outgoing).await
            };
            if self.world.node(node).life != before.life {
                return Err(Failed::local(Failure::Broken, "connection reset"));
            }
            result
        })
    }

    fn watch<'a>(
        &'a self,
        address: &'a Address,
        _: Duration,
    ) -> BoxFuture<'a, Result<Pushes, Failed>> {
        Box::pin(async move {
            let node = number(address);
            sleep(ROUND_TRIP).await;
            let opened = self.connect(node)?;
            self.world.arrived(Kind::Question);
            {
                let mut state = self.world.state.lock();
                if state.streams[node] == STREAMS_MAX {
                    return Err(Failed::local(Failure::Final, "too many streams"));
                }
                state.streams[node] += 1;
            }
            let mut changes = self.world.nodes[node].subscribe();
            changes.mark_changed();
            let link = Self::new(self.client, self.world.clone());
            let pushes = stream::unfold((changes, link, opened.life), move |state| async move {
                let (mut changes, link, life) = state;
                changes.changed().await.ok()?;
                let now = *changes.borrow_and_update();
                let pushed = if now.life == life {
                    Ok(link.info(node))
                } else {
                    Err(Failed::local(Failure::Broken, "connection reset"))
                };
                Some((pushed, (changes, link, life)))
            });
            Ok(pushes.boxed())
        })
    }

    fn close(&self, address: &Address) {
        self.connected.lock()[number(address)] = None;
    }

    fn close_all(&self) {
        *self.connected.lock() = [None; NODES];
    }

    fn connections(&self) -> usize {
        self.connected.lock().iter().flatten().count()
    }

    fn evictions(&self) -> u64 {
        0
    }
}
