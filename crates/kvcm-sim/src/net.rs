//! The network between clients, nodes, the coordination backend and the stores.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    dice::Dice,
    event::Log,
    fault::Fault,
    world::{World, nanos},
};

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Node(usize),
    Coordination,
    Store(usize),
    Client,
}

/// The network. Clones share it.
#[derive(Clone)]
pub(crate) struct Net(Arc<Shared>);

struct Shared {
    world: World,
    log: Log,
    dice: Dice,
    /// What was to arrive later arrives then at the latest.
    heals_at: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nothing gets from the first to the second.
    cut: Vec<(End, End)>,
    /// Share of messages that are lost.
    lost: f64,
    /// Share of requests of clients that arrive twice.
    twice: f64,
    /// Some messages take so much longer.
    delay: Duration,
}

impl Net {
    pub(crate) fn new(world: World, log: Log, dice: Dice, heals_at: u64) -> Self {
        Self(Arc::new(Shared {
            world,
            log,
            dice,
            heals_at,
            state: Mutex::default(),
        }))
    }

    /// When something arrives that takes `delay`: delays that are faults end with the faults.
    fn arrival(&self, delay: u64) -> u64 {
        let now = self.0.world.now();
        let soon = now + delay.min(1_000_000);
        (now + delay).min(self.0.heals_at.max(soon))
    }

    /// How long a message takes, in nanoseconds; none when it is lost.
    pub(crate) fn trip(&self, from: End, to: End) -> Option<u64> {
        let state = self.0.state.lock();
        if state.cut.contains(&(from, to)) {
            return None;
        }
        if self.0.dice.chance(state.lost) {
            self.0.log.hit(Fault::PacketsLost);
            return None;
        }
        let mut time = self.0.dice.between(50_000, 500_000);
        if !state.delay.is_zero() && self.0.dice.chance(0.3) {
            self.0.log.hit(Fault::PacketsDelayed);
            time += self.0.dice.between(0, nanos(state.delay));
        }
        Some(time)
    }

    /// Whether a client's request arrives twice, and how much later.
    pub(crate) fn repeats(&self) -> Option<u64> {
        let twice = self.0.state.lock().twice;
        let repeats = self.0.dice.chance(twice);
        repeats.then(|| {
            self.0.log.hit(Fault::PacketsTwice);
            self.0.dice.between(0, 1_000_000_000)
        })
    }

    pub(crate) fn cut(&self, from: End, to: End) {
        self.0.state.lock().cut.push((from, to));
    }

    pub(crate) fn mend(&self, from: End, to: End) {
        let mut state = self.0.state.lock();
        if let Some(place) = state.cut.iter().position(|cut| *cut == (from, to)) {
            state.cut.swap_remove(place);
        }
    }

    pub(crate) fn set_lost(&self, share: f64) {
        self.0.state.lock().lost = share;
    }

    pub(crate) fn set_twice(&self, share: f64) {
        self.0.state.lock().twice = share;
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        self.0.state.lock().delay = delay;
    }
}

/// A server that is asked over the network: the coordination backend, a store.
pub(crate) struct Remote {
    world: World,
    net: Net,
    log: Log,
    dice: Dice,
    end: End,
    faults: Mutex<RemoteFaults>,
}

/// What is wrong with a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteFaults {
    pub(crate) down: bool,
    /// It performs what arrives when this has come.
    pub(crate) hung_until: u64,
    pub(crate) slow: Duration,
    pub(crate) request_lost: f64,
    pub(crate) answer_lost: f64,
    pub(crate) late: f64,
    pub(crate) twice: f64,
}

/// The server refused: nothing was done.
#[derive(Debug)]
pub(crate) struct Refused;

impl Remote {
    pub(crate) fn new(world: World, net: Net, log: Log, dice: Dice, end: End) -> Arc<Self> {
        Arc::new(Self {
            world,
            net,
            log,
            dice,
            end,
            faults: Mutex::default(),
        })
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut RemoteFaults)) {
        change(&mut self.faults.lock());
    }

    fn is_coordination(&self) -> bool {
        self.end == End::Coordination
    }

    fn hit(&self, coordination: Fault, store: Fault) {
        let fault = if self.is_coordination() {
            coordination
        } else {
            store
        };
        self.log.hit(fault);
    }

    /// Lets the server do `work` and gives its answer. Without an answer it waits for ever, and a
    /// caller that gives up takes nothing back: what was sent may arrive at any later moment.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        from: End,
        late_by: Duration,
        work: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<T, Refused> {
        let faults = self.faults.lock().clone();
        let Some(mut there) = self.net.trip(from, self.end) else {
            return std::future::pending().await;
        };
        if faults.down {
            self.hit(Fault::BackendDown, Fault::StoreDown);
            self.world.sleep(Duration::from_nanos(2 * there)).await;
            return Err(Refused);
        }
        if !faults.slow.is_zero() {
            self.hit(Fault::BackendSlow, Fault::StoreSlow);
            there += self.dice.between(0, nanos(faults.slow));
        }
        if self.dice.chance(faults.request_lost) {
            self.hit(Fault::BackendRequestLost, Fault::StoreRequestLost);
            return std::future::pending().await;
        }
        let work = Arc::new(work);
        if self.dice.chance(faults.late) {
            self.hit(Fault::BackendCommandLate, Fault::StoreCommandLate);
            there += self.dice.between(nanos(late_by) / 4, 2 * nanos(late_by));
        } else if self.dice.chance(faults.twice) {
            self.hit(Fault::BackendCommandTwice, Fault::StoreCommandTwice);
            let again = there + self.dice.between(0, 2 * nanos(late_by));
            let work = work.clone();
            self.arrive(again, move || drop(work()));
        }
        let (answer, answered) = oneshot::channel();
        let answer_lost = self.dice.chance(faults.answer_lost);
        if answer_lost {
            self.hit(Fault::BackendAnswerLost, Fault::StoreAnswerLost);
        }
        let (remote, to) = (self.clone(), from);
        self.arrive(there, move || {
            let result = work();
            if let Some(back) = remote.net.trip(remote.end, to).filter(|_| !answer_lost) {
                let back = remote.world.now() + back;
                remote.world.at(back, move || drop(answer.send(result)));
            }
        });
        match answered.await {
            Ok(result) => Ok(result),
            Err(_) => std::future::pending().await,
        }
    }

    /// Performs `work` after `delay`, or when the server hangs no longer.
    fn arrive(self: &Arc<Self>, delay: u64, work: impl FnOnce() + Send + 'static) {
        let remote = self.clone();
        self.world.at(self.net.arrival(delay), move || {
            let until = remote.faults.lock().hung_until;
            if until > remote.world.now() {
                remote.hit(Fault::BackendHung, Fault::StoreHung);
                let again = until + remote.dice.between(0, 1_000_000);
                let world = remote.world.clone();
                return world.at(again, work);
            }
            work();
        });
    }
}
