//! One run: a cluster from its birth through chaos to its recovery.

use std::{
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use crate::{
    client::Client,
    cluster::{Cluster, Ground},
    dice::Dice,
    event::{Entry, Event, Log},
    mutant::Mutant,
    nemesis::Nemesis,
    net::{Net, RemoteFaults},
    world::{Executor, World, nanos},
};

/// How soon the election repeats a call that has failed.
const RETRY: Duration = Duration::from_millis(100);

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How long things go wrong.
    pub chaos: Duration,
    /// What is broken on purpose.
    pub mutant: Mutant,
}

/// What happened in a run, and what the checks need to know.
#[derive(Clone, Debug)]
pub struct History {
    /// Everything, in order.
    pub entries: Vec<Entry>,
    /// The lease of the lock.
    pub lease: Duration,
    /// When things begin to go wrong.
    pub chaos_at: u64,
    /// When the last fault has ended, and whoever waits for an answer that was lost has noticed it.
    pub heals_at: u64,
    /// When the run ends.
    pub end: u64,
    /// How many places the cluster has.
    pub nodes: usize,
}

/// Runs a cluster.
pub fn run(plan: &Plan) -> History {
    let world = World::new();
    let dice = Dice::new(plan.seed);
    let log = Log::new(world.clone());
    let mut executor = Executor::new(world.clone(), dice.fork());
    let nodes = [3, 3, 5, 7][dice.below(4)];
    let lease = Duration::from_millis([300, 1000, 1000, 2000][dice.below(4)]);
    let chaos_at = 4 * nanos(lease);
    let faults_end = chaos_at + nanos(plan.chaos);
    // Who waits for an answer that was lost notices it when its call has timed out.
    let heals_at = faults_end + nanos(lease / 4 + RETRY);
    let end = heals_at + 6 * nanos(lease) + nanos(Duration::from_secs(1));
    let net = Net::new(world.clone(), log.clone(), dice.clone(), faults_end);
    let ground = Ground {
        world: world.clone(),
        log: log.clone(),
        dice: dice.clone(),
        net,
        mutant: plan.mutant,
    };
    // The text of a number is an id.
    let id = format!("sim-{}", plan.seed).parse();
    let Ok(id) = id else {
        unreachable!("letters, digits and a hyphen are a cluster id")
    };
    let cluster = Cluster::new(ground, id, nodes, lease, faults_end);
    for place in &cluster.places {
        let begins = dice.time(Duration::ZERO, lease / 10);
        let (cluster, place) = (cluster.clone(), place.number());
        world.after(begins, move || cluster.places[place].start(&cluster));
    }
    let people = world.process();
    let values = Arc::new(AtomicU32::new(1));
    let pace = lease / 50 + Duration::from_millis(10);
    for number in 0..8 {
        let client = Client::new(number, cluster.clone(), values.clone());
        world.spawn(people, Box::pin(client.run(pace, end)));
    }
    let nemesis = Nemesis::new(cluster.clone());
    world.at(chaos_at, {
        let world = world.clone();
        move || world.spawn(people, Box::pin(nemesis.run(faults_end)))
    });
    executor.run_until(faults_end);
    heal(&cluster);
    executor.run_until(end);
    let entries = log.take();
    drop(executor);
    world.clear();
    History {
        entries,
        lease,
        chaos_at,
        heals_at,
        end,
        nodes,
    }
}

/// Whatever is still wrong ends. What was to last until now has ended by itself.
fn heal(cluster: &Arc<Cluster>) {
    if cluster.ground.mutant == Mutant::NeverHeals {
        cluster
            .coordination
            .remote
            .change(|faults| faults.down = true);
    } else {
        cluster
            .coordination
            .remote
            .change(|faults| *faults = RemoteFaults::default());
    }
    for place in &cluster.places {
        place.start(cluster);
    }
    cluster.ground.log.add(Event::Healed);
}
