//! Clients: they find the leader by hints, try again with the same request id, and read back what
//! they have written.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    cluster::Cluster,
    event::{Ask, Event, RequestId, Told},
    mutant::Mutant,
    net::End,
    service::{Reply, Request},
    world::nanos,
};

/// Lists that are written and read.
const KEYS: u64 = 24;

/// The first wait between two tries, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Share of calls that begin at any node.
const STRAYS: f64 = 0.2;

/// One client.
pub(crate) struct Client {
    number: usize,
    cluster: Arc<Cluster>,
    /// Values that were written by any client so far.
    values: Arc<AtomicU32>,
    requests: u64,
    /// Where it thinks the leader is.
    leader: usize,
    /// The epoch of the last hint that it has followed.
    followed: u64,
    /// The highest epoch that it was answered in.
    seen: u64,
    /// It tells nodes of that epoch.
    tells: bool,
}

impl Client {
    pub(crate) fn new(number: usize, cluster: Arc<Cluster>, values: Arc<AtomicU32>) -> Self {
        Self {
            number,
            leader: number % cluster.places.len(),
            cluster,
            values,
            requests: 0,
            followed: 0,
            seen: 0,
            // The others show stale answers that an honest client would hide.
            tells: number.is_multiple_of(3),
        }
    }

    /// Calls until `end`.
    pub(crate) async fn run(mut self, pace: Duration, end: u64) {
        let ground = self.cluster.ground.clone();
        let mut last_key = None;
        while ground.world.now() < end {
            ground
                .world
                .sleep(ground.dice.time(Duration::ZERO, 2 * pace))
                .await;
            let random = u32::try_from(ground.dice.between(0, KEYS - 1)).unwrap_or(0);
            let ask = if ground.dice.chance(0.5) {
                last_key = Some(random);
                let value = self.values.fetch_add(1, Relaxed);
                Ask::Write { key: random, value }
            } else {
                // Often what was just written.
                let key = last_key.take().unwrap_or(random);
                Ask::Read { key }
            };
            self.call(ask).await;
        }
    }

    async fn call(&mut self, ask: Ask) {
        let ground = self.cluster.ground.clone();
        let client = self.number;
        self.requests += 1;
        let request = RequestId((client as u64) << 32 | self.requests);
        ground.log.add(Event::Invoked {
            client,
            request,
            ask,
        });
        let deadline = ground.world.now() + 4 * nanos(self.cluster.lease);
        let told = self.tries(request, ask, deadline).await;
        ground.log.add(Event::Returned {
            client,
            request,
            told,
        });
    }

    async fn tries(&mut self, request: RequestId, ask: Ask, deadline: u64) -> Told {
        let ground = self.cluster.ground.clone();
        let (world, dice) = (&ground.world, &ground.dice);
        let mut wait = BACKOFF.0;
        let mut tries = 0;
        while world.now() < deadline {
            let mut id = request;
            if ground.mutant == Mutant::NewIdPerTry {
                id.0 |= tries << 56;
            }
            tries += 1;
            // Now and then it asks another node than it should: what two leaders would show must not
            // depend on nobody asking the second one.
            let strays = tries == 1 && dice.chance(STRAYS);
            let node = if strays {
                dice.below(self.cluster.places.len())
            } else {
                self.leader
            };
            ground.log.add(Event::Tried {
                client: self.number,
                request,
                node,
            });
            let sent = Request {
                id,
                ask,
                seen: if self.tells { self.seen } else { 0 },
            };
            match self.attempt(node, sent).await {
                Some(Reply::Written { epoch, place }) => {
                    self.seen = self.seen.max(epoch);
                    return Told::Written { epoch, place };
                }
                Some(Reply::Values { epoch, values }) => {
                    self.seen = self.seen.max(epoch);
                    return Told::Values { epoch, values };
                }
                Some(Reply::NotLeader(Some((epoch, node)))) if self.follows(epoch) => {
                    self.followed = epoch;
                    self.leader = node;
                    ground.log.add(Event::Redirected {
                        client: self.number,
                        epoch,
                        node,
                    });
                    continue;
                }
                // The leader may only be busy.
                Some(Reply::Unknown) => {}
                Some(Reply::NotLeader(_)) | None if strays => continue,
                Some(Reply::NotLeader(_)) | None => {
                    self.leader = (node + 1) % self.cluster.places.len();
                }
            }
            world.sleep(dice.time(wait / 2, wait * 3 / 2)).await;
            wait = (2 * wait).min(BACKOFF.1);
        }
        Told::Nothing
    }

    fn follows(&self, epoch: u64) -> bool {
        epoch > self.followed || self.cluster.ground.mutant == Mutant::OldHintsFollowed
    }

    /// The reply; none when the connection breaks or nothing comes in time.
    async fn attempt(&self, node: usize, request: Request) -> Option<Reply> {
        let world = &self.cluster.ground.world;
        let net = &self.cluster.ground.net;
        let (answer, answered) = oneshot::channel();
        if let Some(trip) = net.trip(End::Client, End::Node(node)) {
            if let Some(later) = net.repeats() {
                self.arrive(trip + later, node, request, |_| {});
            }
            let cluster = self.cluster.clone();
            let reply = move |reply| {
                let back = cluster.ground.net.trip(End::Node(node), End::Client);
                let after = Duration::from_nanos(back.unwrap_or(u64::MAX / 2));
                let world = &cluster.ground.world;
                world.after(after, move || drop(answer.send(reply)));
            };
            self.arrive(trip, node, request, reply);
        } else {
            // Kept, so that it looks like silence and not like a broken connection.
            world.after(2 * self.cluster.lease, move || drop(answer));
        }
        let timeout = world.sleep(self.cluster.lease / 4);
        tokio::select! {
            biased;
            answered = answered => {
                if answered.is_err() {
                    world.sleep(Duration::from_micros(300)).await;
                }
                answered.ok()
            }
            () = timeout => None,
        }
    }

    fn arrive(
        &self,
        delay: u64,
        node: usize,
        request: Request,
        reply: impl FnOnce(Reply) + Send + 'static,
    ) {
        let cluster = self.cluster.clone();
        let world = &self.cluster.ground.world;
        world.at(world.now() + delay, move || {
            if let Some(running) = cluster.places[node].running() {
                running.handle(&cluster, request, reply);
            }
        });
    }
}
