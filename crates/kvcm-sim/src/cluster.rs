//! One cluster: the servers that it needs and the places of its nodes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use kvcm_fence::ClusterId;

use crate::{
    callbacks::Callbacks,
    coordination::Coordination,
    dice::Dice,
    event::{Event, Log},
    fault::Fault,
    mutant::Mutant,
    net::Net,
    node::Place,
    store::Store,
    world::World,
};

/// What everything stands on.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) world: World,
    pub(crate) log: Log,
    pub(crate) dice: Dice,
    pub(crate) net: Net,
    pub(crate) mutant: Mutant,
}

/// Stores that a leader claims and writes to.
pub(crate) const STORES: usize = 2;

/// The cluster.
pub(crate) struct Cluster {
    pub(crate) ground: Ground,
    pub(crate) lease: Duration,
    pub(crate) id: ClusterId,
    pub(crate) stores: Vec<Arc<Store>>,
    pub(crate) callbacks: Arc<Callbacks>,
    pub(crate) coordination: Arc<Coordination>,
    pub(crate) places: Vec<Place>,
    faults: AtomicU64,
    faults_end: u64,
}

impl Cluster {
    /// A cluster with `nodes` places, of which none has a process yet. Nothing goes wrong any more
    /// from `faults_end` on.
    pub(crate) fn new(
        ground: Ground,
        id: ClusterId,
        nodes: usize,
        lease: Duration,
        faults_end: u64,
    ) -> Arc<Self> {
        let Ground {
            world,
            log,
            dice,
            net,
            mutant,
        } = ground.clone();
        let store = |number| {
            let parts = (world.clone(), log.clone(), net.clone(), dice.clone());
            Store::new(number, parts.0, parts.1, parts.2, parts.3, lease, mutant)
        };
        let stores = (0..STORES).map(store).collect();
        let callbacks = Callbacks::new(world.clone(), log.clone(), dice.clone(), lease);
        callbacks.heal_at(faults_end);
        let callbacks = Arc::new(callbacks);
        Arc::new(Self {
            id,
            lease,
            stores,
            coordination: Coordination::new(
                world,
                log,
                net,
                dice,
                lease,
                callbacks.clone(),
                mutant,
            ),
            callbacks,
            places: (0..nodes)
                .map(|number| Place::new(number, &ground))
                .collect(),
            faults: AtomicU64::new(0),
            faults_end,
            ground,
        })
    }

    /// Writes down that a fault begins, does it, and undoes it after `time` or when all faults end.
    pub(crate) fn during(
        self: &Arc<Self>,
        fault: Fault,
        time: Duration,
        undo: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let number = self.faults.fetch_add(1, Relaxed);
        self.ground.log.add(Event::FaultBegan { fault, number });
        let world = &self.ground.world;
        let end = self.end_of(time);
        let cluster = self.clone();
        world.at(end, move || {
            undo(&cluster);
            cluster.ground.log.add(Event::FaultEnded { number });
        });
    }

    /// Whether nothing may go wrong any more.
    pub(crate) fn has_healed(&self) -> bool {
        self.ground.world.now() >= self.faults_end
    }

    /// When a fault ends that lasts for `time`, at the latest when all faults do.
    pub(crate) fn end_of(&self, time: Duration) -> u64 {
        (self.ground.world.now() + crate::world::nanos(time)).min(self.faults_end)
    }

    /// Kills the process of a place. A new one begins a while later.
    pub(crate) fn crash(self: &Arc<Self>, node: usize, proven: bool) {
        if !self.places[node].kill(self, proven) {
            return;
        }
        let down = self
            .ground
            .dice
            .time(Duration::from_millis(5), 2 * self.lease);
        self.during(Fault::Crash, down, move |cluster| {
            cluster.places[node].start(cluster);
        });
    }
}
