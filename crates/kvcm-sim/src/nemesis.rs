//! What goes wrong, and when.

use std::{sync::Arc, time::Duration};

use elector::Role;

use crate::{
    cluster::{Cluster, STORES},
    event::Event,
    fault::Fault,
    net::{End, Remote},
    node::LATE,
    operators,
    peers::{self, Sight},
    world::nanos,
};

/// Brings faults about.
pub(crate) struct Nemesis {
    cluster: Arc<Cluster>,
    /// What this run has: each run has another choice, so that faults which would drown others
    /// are absent from some.
    kinds: Vec<Fault>,
    /// Between two faults, on average.
    pace: Duration,
}

impl Nemesis {
    /// Chooses what a run has.
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        let dice = &cluster.ground.dice;
        let share = [0.1, 0.3, 0.6][dice.below(3)];
        let mut kinds: Vec<_> = Fault::ALL.to_vec();
        kinds.retain(|_| dice.chance(share));
        kinds.push(Fault::Pause);
        kinds.push(Fault::Crash);
        let pace = dice.time(cluster.lease / 4, 2 * cluster.lease);
        Self {
            cluster,
            kinds,
            pace,
        }
    }

    /// Works until `end`.
    pub(crate) async fn run(self, end: u64) {
        let ground = self.cluster.ground.clone();
        loop {
            let wait = ground.dice.time(Duration::ZERO, 2 * self.pace);
            ground.world.sleep(wait).await;
            if ground.world.now() >= end {
                return;
            }
            let kind = self.kinds[ground.dice.below(self.kinds.len())];
            self.strike(kind);
        }
    }

    fn strike(&self, fault: Fault) {
        let cluster = &self.cluster;
        let ground = &cluster.ground;
        let lease = cluster.lease;
        let time = match ground.dice.below(3) {
            0 => ground.dice.time(lease / 20, lease / 2),
            1 => ground.dice.time(lease / 2, 2 * lease),
            _ => ground.dice.time(lease, 4 * lease),
        };
        let node = self.target();
        let store = ground.dice.below(STORES);
        match fault {
            Fault::BackendDown
            | Fault::BackendHung
            | Fault::BackendSlow
            | Fault::BackendRequestLost
            | Fault::BackendAnswerLost
            | Fault::BackendCommandLate
            | Fault::BackendCommandTwice => self.harm(fault, time, None),
            Fault::StoreDown
            | Fault::StoreHung
            | Fault::StoreSlow
            | Fault::StoreRequestLost
            | Fault::StoreAnswerLost
            | Fault::StoreCommandLate
            | Fault::StoreCommandTwice => self.harm(fault, time, Some(store)),
            Fault::DataLost => cluster.coordination.lose_all(false),
            Fault::DataLostClockBehind => cluster.coordination.lose_all(true),
            Fault::CounterLost => cluster.coordination.lose_counter(),
            Fault::DataRolledBack => cluster.coordination.roll_back(),
            Fault::HolderForgotten => cluster.coordination.forget_holder(fault),
            Fault::TtlRemoved => cluster.coordination.remove_ttl(),
            Fault::Crash => {
                ground.log.hit(fault);
                cluster.crash(node, false);
            }
            Fault::DeathProven => cluster.crash(node, true),
            Fault::Replaced => {
                ground.log.hit(fault);
                cluster.places[node].replace();
                cluster.crash(node, ground.dice.chance(0.5));
            }
            Fault::Restarted => self.restart(node),
            Fault::Pause => self.pause(node, time),
            Fault::LateTimers => {
                let late = ground.dice.time(Duration::from_millis(1), lease / 20);
                cluster.places[node].set_late(late);
                cluster.during(fault, 2 * time, move |cluster| {
                    cluster.places[node].set_late(LATE);
                });
            }
            Fault::BackendCut | Fault::BackendCutOneWay => {
                let (here, there) = (End::Node(node), End::Coordination);
                self.cut(fault, time, here, there, fault == Fault::BackendCut);
            }
            Fault::StoreCut => {
                let (here, there) = (End::Node(node), End::Store(store));
                self.cut(fault, time, here, there, true);
            }
            Fault::ClientsCut | Fault::ClientsCutOneWay => {
                let (here, there) = (End::Client, End::Node(node));
                self.cut(fault, time, here, there, fault == Fault::ClientsCut);
            }
            Fault::PacketsLost => {
                ground.net.set_lost(0.2);
                cluster.during(fault, time, |cluster| cluster.ground.net.set_lost(0.0));
            }
            Fault::PacketsDelayed => {
                ground
                    .net
                    .set_delay(ground.dice.time(lease / 50, lease / 3));
                cluster.during(fault, time, |cluster| {
                    cluster.ground.net.set_delay(Duration::ZERO);
                });
            }
            Fault::PacketsTwice => {
                ground.net.set_twice(0.2);
                cluster.during(fault, time, |cluster| cluster.ground.net.set_twice(0.0));
            }
            Fault::PromoteSlow
            | Fault::PromoteFails
            | Fault::PromotePanics
            | Fault::PromoteHangs
            | Fault::PromoteIgnoresCancel
            | Fault::DemoteSlow
            | Fault::DrainSlow
            | Fault::AmbushPromotion => {
                cluster.callbacks.begin(fault);
                cluster.during(fault, 3 * time, move |cluster| cluster.callbacks.end(fault));
                // Callbacks run when leaders change.
                self.demote(node);
            }
            Fault::DemoteAsked => self.demote(node),
            Fault::ForbidSet => self.forbid(node),
            Fault::TransferAsked
            | Fault::TransferCancelled
            | Fault::SuccessorDies
            | Fault::SuccessorUnready
            | Fault::TransferCrossed
            | Fault::TransferStuck => operators::transfer(cluster, fault, node),
            Fault::KeptOut => operators::keep_out(cluster, node, time),
            Fault::DemotedAndKeptOut => operators::demote_and_keep_out(cluster, node, time),
            Fault::NotReady => peers::not_ready(cluster, fault, node, time),
            Fault::PeersStale | Fault::PeersWrong => {
                let outlook = &cluster.places[node].outlook;
                outlook.set(if fault == Fault::PeersStale {
                    Sight::Stale
                } else {
                    Sight::Wrong
                });
                cluster.during(fault, time, move |cluster| {
                    cluster.places[node].outlook.set(Sight::Clear);
                });
            }
            // Where neither the backend nor a store knows of a leader nobody does: that is a second
            // fault too many.
            Fault::FenceLost => {
                let others = cluster.stores.iter().enumerate();
                let mut others = others.filter(|(number, _)| *number != store);
                if others.all(|(_, other)| other.is_claimed()) {
                    ground.log.hit(fault);
                    cluster.stores[store].lose_fence();
                }
            }
            Fault::AmbushLeader => self.ambush_leader(node),
            Fault::AmbushStart => self.ambush_start(node),
        }
    }

    /// Mostly the leader, for that is where it hurts.
    fn target(&self) -> usize {
        let cluster = &self.cluster;
        let dice = &cluster.ground.dice;
        if dice.chance(0.6) {
            let leads = |node: &usize| {
                let running = cluster.places[*node].running();
                running.is_some_and(|running| running.elector.view().role != Role::Follower)
            };
            if let Some(leader) = (0..cluster.places.len()).find(leads) {
                return leader;
            }
        }
        dice.below(cluster.places.len())
    }

    /// Something is wrong with a server: of `store`, or else of the coordination backend.
    fn harm(&self, fault: Fault, time: Duration, store: Option<usize>) {
        let cluster = &self.cluster;
        let ground = &cluster.ground;
        let end = ground.world.now() + nanos(time);
        let share = [0.1, 0.5, 1.0][ground.dice.below(3)];
        let slow = ground.dice.time(cluster.lease / 50, cluster.lease / 3);
        let change = move |cluster: &Cluster, on: bool| {
            let server = server(cluster, store);
            server.change(|faults| {
                let share = if on { share } else { 0.0 };
                match fault {
                    Fault::BackendDown | Fault::StoreDown => faults.down = on,
                    Fault::BackendHung | Fault::StoreHung if on => faults.hung_until = end,
                    Fault::BackendSlow | Fault::StoreSlow => {
                        faults.slow = if on { slow } else { Duration::ZERO };
                    }
                    Fault::BackendRequestLost | Fault::StoreRequestLost => {
                        faults.request_lost = share;
                    }
                    Fault::BackendAnswerLost | Fault::StoreAnswerLost => {
                        faults.answer_lost = share;
                    }
                    Fault::BackendCommandLate | Fault::StoreCommandLate => faults.late = share,
                    Fault::BackendCommandTwice | Fault::StoreCommandTwice => faults.twice = share,
                    _ => faults.hung_until = 0,
                }
            });
        };
        change(cluster, true);
        cluster.during(fault, time, move |cluster| change(cluster, false));
    }

    fn cut(&self, fault: Fault, time: Duration, here: End, there: End, both: bool) {
        let net = &self.cluster.ground.net;
        net.cut(there, here);
        if both {
            net.cut(here, there);
        }
        self.cluster.during(fault, time, move |cluster| {
            let net = &cluster.ground.net;
            net.mend(there, here);
            if both {
                net.mend(here, there);
            }
        });
    }

    fn pause(&self, node: usize, time: Duration) {
        let ground = &self.cluster.ground;
        let Some(running) = self.cluster.places[node].running() else {
            return;
        };
        let life = running.life;
        if !ground.world.pause(running.process) {
            return;
        }
        ground.log.add(Event::Paused { life });
        self.cluster.during(Fault::Pause, time, move |cluster| {
            if cluster.ground.world.resume(running.process) {
                cluster.ground.log.add(Event::Resumed { life });
            }
        });
    }

    fn ambush_leader(&self, leader: usize) {
        let (here, there) = (End::Node(leader), End::Coordination);
        self.cut(Fault::BackendCut, self.cluster.lease, here, there, true);
        self.cluster.coordination.forget_holder(Fault::AmbushLeader);
    }

    fn ambush_start(&self, leader: usize) {
        let cluster = self.cluster.clone();
        let ground = &cluster.ground;
        let (here, there) = (End::Node(leader), End::Coordination);
        self.cut(Fault::BackendCut, cluster.lease, here, there, true);
        let other = (leader + 1) % cluster.places.len();
        if !cluster.places[other].kill(&cluster, false) {
            return;
        }
        ground.log.hit(Fault::AmbushStart);
        cluster.coordination.lose_all(false);
        let soon = ground
            .dice
            .time(Duration::from_millis(1), cluster.lease / 20);
        self.cluster.during(Fault::Crash, soon, move |cluster| {
            cluster.places[other].start(cluster);
        });
    }

    /// Stops a process in good order; the next life begins when it has ended.
    fn restart(&self, node: usize) {
        let cluster = self.cluster.clone();
        let Some(running) = cluster.places[node].running() else {
            return;
        };
        cluster.ground.log.hit(Fault::Restarted);
        let world = cluster.ground.world.clone();
        let (process, life) = (running.process, running.life);
        let stop = async move {
            running.elector.stop().await;
            let same = cluster.places[node].running().map(|running| running.life) == Some(life);
            if same {
                cluster.crash(node, true);
            }
        };
        world.spawn(process, Box::pin(stop));
    }

    fn demote(&self, node: usize) {
        if let Some(running) = self.cluster.places[node].running() {
            self.cluster.ground.log.hit(Fault::DemoteAsked);
            let asked = async move {
                running.elector.demote(None).await;
            };
            self.cluster
                .ground
                .world
                .spawn(running.process, Box::pin(asked));
        }
    }

    fn forbid(&self, node: usize) {
        if let Some(running) = self.cluster.places[node].running() {
            let ground = &self.cluster.ground;
            ground.log.hit(Fault::ForbidSet);
            let forbid = ground.dice.time(Duration::ZERO, self.cluster.lease);
            let asked = async move { running.elector.set_forbid(forbid).await };
            ground.world.spawn(running.process, Box::pin(asked));
        }
    }
}

fn server(cluster: &Cluster, store: Option<usize>) -> &Remote {
    match store {
        Some(store) => cluster.stores[store].remote(),
        None => &cluster.coordination.remote,
    }
}
