//! What operators do, and what comes in between.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use elector::{
    AbortReason, DemoteOutcome, LossReason, PauseRefused, TransferOutcome, TransferRefused,
};
use futures_util::future::join;

use crate::{
    cluster::Cluster,
    event::{Event, Transferred},
    fault::Fault,
    mutant::Mutant,
    net::End,
    node::Running,
    peers,
};

/// Hands over from the node in the place `from` to another one; `twist` is what comes in between.
pub(crate) fn transfer(cluster: &Arc<Cluster>, twist: Fault, from: usize) {
    let ground = &cluster.ground;
    let count = cluster.places.len();
    let to = (from + 1 + ground.dice.below(count - 1)) % count;
    let (Some(running), Some(successor)) =
        (cluster.places[from].running(), cluster.places[to].running())
    else {
        return;
    };
    let mut begins = Duration::ZERO;
    match twist {
        Fault::TransferAsked => ground.log.hit(twist),
        Fault::TransferStuck => {
            begins = cluster.lease / 10;
            let until = cluster.end_of(cluster.lease);
            hang_stores(cluster, until);
            cluster.during(twist, cluster.lease, |cluster| hang_stores(cluster, 0));
        }
        _ => {
            cluster.callbacks.begin(twist);
            cluster.during(twist, cluster.lease, move |cluster| {
                cluster.callbacks.end(twist);
                cluster.coordination.on_reserved(None);
            });
            interfere(cluster, twist, running.clone(), to);
        }
    }
    let (log, world) = (ground.log.clone(), ground.world.clone());
    let (life, process) = (running.life, running.process);
    let asked = async move {
        world.sleep(begins).await;
        log.add(Event::TransferAsked { life, to });
        let result = running.elector.transfer(successor.node, None).await;
        let end = outcome(&result);
        log.add(Event::TransferEnded { life, end });
    };
    ground.world.spawn(process, Box::pin(asked));
}

fn hang_stores(cluster: &Cluster, until: u64) {
    for store in &cluster.stores {
        store.remote().change(|faults| faults.hung_until = until);
    }
}

/// At a moment between the request and the release, or as soon as the lock is kept.
fn interfere(cluster: &Arc<Cluster>, twist: Fault, leader: Running, to: usize) {
    let ground = &cluster.ground;
    let delay = ground.dice.time(Duration::ZERO, cluster.lease / 5);
    let at_release = ground.dice.chance(0.5);
    let cluster_ = cluster.clone();
    let strike = move || {
        let cluster = cluster_;
        if cluster.has_healed() {
            return;
        }
        match twist {
            Fault::TransferCancelled => cancel(&cluster, leader),
            Fault::SuccessorDies => cluster.crash(to, false),
            Fault::SuccessorUnready => {
                peers::not_ready(&cluster, Fault::NotReady, to, cluster.lease)
            }
            _ => cross(&cluster, &leader),
        }
    };
    if at_release {
        let world = ground.world.clone();
        let soon = ground.dice.time(Duration::ZERO, Duration::from_micros(500));
        let soon = move || world.after(soon, strike);
        cluster.coordination.on_reserved(Some(Box::new(soon)));
    } else {
        ground.world.after(delay, strike);
    }
}

fn cancel(cluster: &Cluster, leader: Running) {
    let (log, life) = (cluster.ground.log.clone(), leader.life);
    let process = leader.process;
    let asked = async move {
        log.add(Event::TransferCancelled { life });
        leader.elector.cancel_transfer().await;
        leader.service.transfer_cancelled();
    };
    cluster.ground.world.spawn(process, Box::pin(asked));
}

fn cross(cluster: &Arc<Cluster>, leader: &Running) {
    let ground = &cluster.ground;
    let node = leader.life.node;
    match ground.dice.below(4) {
        0 => cluster.coordination.forget_holder(Fault::HolderForgotten),
        1 => {
            let (here, there) = (End::Node(node), End::Coordination);
            ground.net.cut(here, there);
            let undo = move |cluster: &Arc<Cluster>| cluster.ground.net.mend(here, there);
            cluster.during(Fault::BackendCut, cluster.lease, undo);
        }
        2 => {
            let (process, life) = (leader.process, leader.life);
            if !ground.world.pause(process) {
                return;
            }
            ground.log.add(Event::Paused { life });
            cluster.during(Fault::Pause, 2 * cluster.lease, move |cluster| {
                if cluster.ground.world.resume(process) {
                    cluster.ground.log.add(Event::Resumed { life });
                }
            });
        }
        _ => {
            let (elector, process) = (leader.elector.clone(), leader.process);
            ground.log.hit(Fault::DemoteAsked);
            let asked = async move {
                elector.demote(None).await;
            };
            ground.world.spawn(process, Box::pin(asked));
        }
    }
}

const fn outcome(result: &Result<TransferOutcome, TransferRefused>) -> Transferred {
    match result {
        Err(_) => Transferred::Refused,
        Ok(TransferOutcome::Transferred { epoch }) => Transferred::Taken(epoch.get()),
        Ok(TransferOutcome::NotTaken { .. }) => Transferred::NotTaken,
        Ok(TransferOutcome::Aborted(AbortReason::Cancelled)) => Transferred::Cancelled,
        Ok(TransferOutcome::Aborted(AbortReason::Successor(_))) => Transferred::Unfit,
        Ok(TransferOutcome::Aborted(AbortReason::InFlight(_))) => Transferred::InFlight,
        Ok(TransferOutcome::Ended(LossReason::Requested | LossReason::Stopping)) => {
            Transferred::SteppedDown
        }
        Ok(TransferOutcome::Ended(_)) => Transferred::Lost,
    }
}

/// Keeps a node out of the race for `time`, if it does not lead.
pub(crate) fn keep_out(cluster: &Arc<Cluster>, node: usize, time: Duration) {
    operate(cluster, Fault::KeptOut, node, time);
}

/// Makes a node step down and keeps it out of the race for `time`.
pub(crate) fn demote_and_keep_out(cluster: &Arc<Cluster>, node: usize, time: Duration) {
    operate(cluster, Fault::DemotedAndKeptOut, node, time);
}

/// One operator at a time: each lets in again only what it has kept out.
fn operate(cluster: &Arc<Cluster>, fault: Fault, node: usize, time: Duration) {
    let Some(running) = cluster.places[node].running() else {
        return;
    };
    if running.operated.swap(true, Relaxed) {
        return;
    }
    let ground = cluster.ground.clone();
    let end = cluster.end_of(time);
    cluster.during(fault, time, |_| {});
    let (life, process) = (running.life, running.process);
    let (log, world) = (ground.log.clone(), ground.world.clone());
    let (elector, clock) = (running.elector.clone(), world.clone());
    let ask = async move {
        let stepped_down = fault == Fault::DemotedAndKeptOut;
        // An answer that comes when it is let in again tells nothing.
        let kept_out = || {
            if clock.now() < end {
                log.add(Event::KeptOut { life, stepped_down });
            }
        };
        if stepped_down {
            let outcome = elector.demote_and_pause(None).await;
            if matches!(outcome, DemoteOutcome::Done(_)) {
                kept_out();
            }
        } else {
            match elector.pause().await {
                Ok(()) => kept_out(),
                Err(PauseRefused::Leads(_)) => log.add(Event::KeepingRefused { life }),
                Err(PauseRefused::Stopped) => {}
            }
        }
        if ground.mutant == Mutant::PauseForgotten {
            elector.resume().await;
        }
    };
    let log = cluster.ground.log.clone();
    let elector = running.elector.clone();
    let let_in = async move {
        world.sleep_until(end).await;
        log.add(Event::LetIn { life });
        elector.resume().await;
    };
    let all = async move {
        join(ask, let_in).await;
        running.operated.store(false, Relaxed);
    };
    cluster.ground.world.spawn(process, Box::pin(all));
}
