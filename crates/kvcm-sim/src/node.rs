//! Processes: how they begin, end and are reached.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use coordination_core::{LEADER_KEY, NodeId, Owner};
use elector::{Driver, Elector, Parts, Role, Settings, Spawn};
use futures_util::{FutureExt as _, future::BoxFuture};
use kvcm_fence::Incarnation;
use parking_lot::Mutex;

use crate::{
    cluster::Cluster,
    coordination::{NodeBackend, drift},
    event::{Event, Life},
    peers::{Feed, Outlook},
    service::{Reply, Request, Service},
    time::{HostClock, HostTimer},
    world::ProcessId,
};

/// Timers of a machine that is well are late by this much at most.
pub(crate) const LATE: Duration = Duration::from_micros(300);

/// A place of the cluster, and the process in it.
pub(crate) struct Place {
    number: usize,
    clock: HostClock,
    /// Nanoseconds that its timers are late at most.
    pub(crate) late: Arc<AtomicU64>,
    priority: u8,
    /// What its process would say of itself and of others.
    pub(crate) outlook: Outlook,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lives: u32,
    /// Rises when another node takes the place.
    tenants: u32,
    running: Option<Running>,
}

/// A process.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) process: ProcessId,
    pub(crate) life: Life,
    pub(crate) elector: Elector,
    pub(crate) node: NodeId,
    /// An operator keeps it out of the race at present, or is about to.
    pub(crate) operated: Arc<AtomicBool>,
    pub(crate) service: Arc<Service>,
}

impl Place {
    pub(crate) fn new(number: usize, cluster: &crate::cluster::Ground) -> Self {
        let dice = &cluster.dice;
        let offset = dice.between(0, 1 << 40);
        Self {
            number,
            clock: HostClock::new(cluster.world.clone(), offset, drift(dice)),
            late: Arc::new(AtomicU64::new(crate::world::nanos(LATE))),
            priority: u8::try_from(dice.below(3)).unwrap_or(0),
            outlook: Outlook::default(),
            state: Mutex::default(),
        }
    }

    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn running(&self) -> Option<Running> {
        self.state.lock().running.clone()
    }

    /// Another node will take the place.
    pub(crate) fn replace(&self) {
        self.state.lock().tenants += 1;
    }

    /// Starts a process, unless one runs.
    pub(crate) fn start(&self, cluster: &Arc<Cluster>) {
        let ground = &cluster.ground;
        let (life, name) = {
            let mut state = self.state.lock();
            if state.running.is_some() {
                return;
            }
            state.lives += 1;
            let life = Life {
                node: self.number,
                life: state.lives - 1,
            };
            (
                life,
                match state.tenants {
                    0 => format!("n{}", self.number),
                    tenant => format!("n{}-{tenant}", self.number),
                },
            )
        };
        let world = &ground.world;
        let process = world.process();
        let incarnation =
            Incarnation::from_bits(u128::from(life.life) << 64 | (life.node as u128 + 1));
        let Ok(node) = name.parse() else { return };
        let owner = Owner { node, incarnation };
        let feed = Feed {
            cluster: Arc::downgrade(cluster),
            life,
            owner: owner.clone(),
            priority: self.priority,
        };
        let node = owner.node.clone();
        ground.log.add(Event::Started { life, name });
        let service = Arc::new(Service {
            life,
            incarnation,
            cluster: cluster.id.clone(),
            world: world.clone(),
            log: ground.log.clone(),
            dice: ground.dice.clone(),
            stores: cluster.stores.clone(),
            callbacks: cluster.callbacks.clone(),
            coordination: cluster.coordination.clone(),
            lease: cluster.lease,
            mutant: ground.mutant,
            elector: OnceLock::new(),
            reign: Mutex::default(),
            quiesced: Mutex::default(),
            reopened: Mutex::default(),
        });
        let clock = Arc::new(self.clock.clone());
        let timer = HostTimer::new(self.clock.clone(), ground.dice.fork(), self.late.clone());
        let (elector, driver) = elector::start(Parts {
            settings: self.settings(cluster),
            owner,
            key: LEADER_KEY.to_owned(),
            endpoint: serde_json::Value::Null,
            backend: Arc::new(NodeBackend {
                server: cluster.coordination.clone(),
                life,
            }),
            leadership: service.clone(),
            clock: clock.clone(),
            timer: Arc::new(timer),
            spawner: Arc::new(ProcessSpawner {
                cluster: Arc::downgrade(cluster),
                process,
                life,
            }),
        });
        let _ = service.elector.set(elector.clone());
        let Driver {
            lock_loop,
            transitions,
            lease_check,
        } = driver;
        world.spawn(process, lock_loop);
        world.spawn(process, transitions);
        world.spawn(process, Box::pin(lease_check.run(clock)));
        world.spawn(
            process,
            Box::pin(watch(elector.clone(), cluster.clone(), life)),
        );
        feed.start(process, &elector, &service);
        self.state.lock().running = Some(Running {
            process,
            life,
            elector,
            node,
            operated: Arc::default(),
            service,
        });
    }

    fn settings(&self, cluster: &Cluster) -> Settings {
        let lease = cluster.lease;
        let mut settings = Settings::new(lease, lease / 10);
        settings.drain = lease / 2;
        settings.promote_stall = 2 * lease;
        settings.cancel_grace = lease;
        settings.priority = self.priority;
        settings.peers_max_age = 2 * lease;
        let rank = u32::try_from(self.number).unwrap_or(0);
        settings.stagger =
            Duration::from_millis(5 * u64::from(rank)).min(Duration::from_millis(10));
        settings
    }

    /// As `kill -9`. Tells whether there was something to kill.
    pub(crate) fn kill(&self, cluster: &Cluster, proven: bool) -> bool {
        let Some(running) = self.state.lock().running.take() else {
            return false;
        };
        let ground = &cluster.ground;
        ground.world.kill(running.process);
        ground.log.add(Event::Ended { life: running.life });
        if proven {
            cluster
                .coordination
                .prove_death(running.service.incarnation);
        }
        true
    }
}

impl Running {
    /// Gives a request to the process; `answer` gets the reply, unless the process ends before.
    pub(crate) fn handle(
        &self,
        cluster: &Cluster,
        request: Request,
        answer: impl FnOnce(Reply) + Send + 'static,
    ) {
        let service = self.service.clone();
        let work = async move { answer(service.serve(request).await) };
        cluster.ground.world.spawn(self.process, Box::pin(work));
    }
}

/// Writes down what a node believes.
async fn watch(elector: Elector, cluster: Arc<Cluster>, life: Life) {
    let log = &cluster.ground.log;
    let mut view = elector.watch();
    let (mut last, mut seen, mut unproven) = (None, 0, 0);
    loop {
        let (now, leader, total) = {
            let view = view.borrow_and_update();
            let leader = view.leader.as_ref().map_or(0, |leader| leader.epoch.get());
            let epoch = view.epoch.map(|epoch| epoch.get());
            ((view.role, epoch), leader, view.totals.unproven)
        };
        if last != Some(now) {
            last = Some(now);
            let (role, epoch) = now;
            log.add(Event::Role { life, role, epoch });
            if role == Role::Demoting
                && let Some(epoch) = epoch
            {
                let gate = elector.gate().clone();
                let drained = cluster.ground.world.sleep(cluster.lease / 2);
                let log = log.clone();
                let late = async move {
                    drained.await;
                    if gate.in_flight() > 0 {
                        log.add(Event::DrainedLate { life, epoch });
                    }
                };
                if let Some(running) = cluster.places[life.node].running() {
                    cluster.ground.world.spawn(running.process, Box::pin(late));
                }
            }
        }
        if leader > 0 && leader != seen {
            seen = leader;
            log.add(Event::LeaderSeen {
                life,
                epoch: leader,
            });
        }
        if total != unproven {
            unproven = total;
            log.add(Event::Unproven { life, total });
        }
        if view.changed().await.is_err() {
            return;
        }
    }
}

/// Runs callbacks in their process, some later than others.
struct ProcessSpawner {
    cluster: std::sync::Weak<Cluster>,
    process: ProcessId,
    life: Life,
}

impl Spawn for ProcessSpawner {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        let Some(cluster) = self.cluster.upgrade() else {
            return;
        };
        let world = cluster.ground.world.clone();
        // The runtime of the data plane may be busy.
        let busy = match cluster.ground.dice.below(10) {
            _ if cluster.callbacks.ambush() => cluster.lease / 10,
            0 => cluster.lease / 20,
            _ => Duration::from_micros(100),
        };
        let begins = world.sleep(cluster.ground.dice.time(Duration::ZERO, busy));
        let run = async move {
            begins.await;
            // A panic ends the callback, not the process.
            let _ = std::panic::AssertUnwindSafe(future).catch_unwind().await;
        };
        world.spawn(self.process, Box::pin(run));
    }

    fn abort(&self) {
        let Some(cluster) = self.cluster.upgrade() else {
            return;
        };
        let life = self.life;
        cluster.ground.log.add(Event::Aborted { life });
        cluster.crash(life.node, true);
    }
}

impl fmt::Debug for ProcessSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessSpawner({})", self.life)
    }
}

impl Place {
    /// Makes the timers late, or as they should be.
    pub(crate) fn set_late(&self, late: Duration) {
        self.late.store(crate::world::nanos(late), Relaxed);
    }
}
