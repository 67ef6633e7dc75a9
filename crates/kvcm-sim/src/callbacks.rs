//! What goes wrong in promote and demote callbacks.

use std::time::Duration;

use parking_lot::Mutex;

use crate::{
    dice::Dice,
    event::Log,
    fault::Fault,
    world::{World, nanos},
};

/// What is wrong with the callbacks of all nodes.
pub(crate) struct Callbacks {
    world: World,
    log: Log,
    dice: Dice,
    lease: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    present: Vec<Fault>,
    /// Whatever hangs goes on then.
    heals_at: Option<u64>,
}

/// How one promotion goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promoting {
    /// As it should, after this time.
    Works(Duration),
    Fails,
    Panics,
    /// It makes no progress until it is cancelled.
    Hangs,
    /// It goes on for this long, cancelled or not.
    IgnoresCancel(Duration),
}

impl Callbacks {
    pub(crate) fn new(world: World, log: Log, dice: Dice, lease: Duration) -> Self {
        Self {
            world,
            log,
            dice,
            lease,
            state: Mutex::default(),
        }
    }

    pub(crate) fn begin(&self, fault: Fault) {
        self.state.lock().present.push(fault);
    }

    pub(crate) fn end(&self, fault: Fault) {
        let present = &mut self.state.lock().present;
        if let Some(place) = present.iter().position(|present| *present == fault) {
            present.swap_remove(place);
        }
    }

    /// From `at` on nothing is wrong, also with callbacks that run already.
    pub(crate) fn heal_at(&self, at: u64) {
        self.state.lock().heals_at = Some(at);
    }

    /// Chooses how a promotion goes.
    pub(crate) fn promoting(&self) -> Promoting {
        let (dice, lease) = (&self.dice, self.lease);
        let wrong = [
            Fault::PromoteIgnoresCancel,
            Fault::PromoteHangs,
            Fault::PromotePanics,
            Fault::PromoteFails,
            Fault::PromoteSlow,
        ];
        for fault in wrong {
            if self.hits(fault) {
                return match fault {
                    Fault::PromoteIgnoresCancel => {
                        Promoting::IgnoresCancel(dice.time(lease / 2, 3 * lease))
                    }
                    Fault::PromoteHangs => Promoting::Hangs,
                    Fault::PromotePanics => Promoting::Panics,
                    Fault::PromoteFails => Promoting::Fails,
                    _ => Promoting::Works(dice.time(lease / 10, 2 * lease)),
                };
            }
        }
        let longest = if self.ambush() {
            lease / 5
        } else {
            Duration::from_millis(5)
        };
        Promoting::Works(dice.time(Duration::ZERO, longest))
    }

    /// Whether promotions are ambushed at present. Callbacks are slower then.
    pub(crate) fn ambush(&self) -> bool {
        self.state.lock().present.contains(&Fault::AmbushPromotion)
    }

    /// Whether this one is.
    pub(crate) fn ambushes(&self) -> bool {
        self.ambush() && self.dice.chance(0.5)
    }

    /// Whether something is to happen while a transfer drains.
    fn crosses_transfers(&self) -> bool {
        let present = &self.state.lock().present;
        let crosses = |fault: &Fault| {
            matches!(
                fault,
                Fault::TransferCancelled
                    | Fault::SuccessorDies
                    | Fault::SuccessorUnready
                    | Fault::TransferCrossed
            )
        };
        present.iter().any(crosses)
    }

    /// How long a demote callback takes.
    pub(crate) fn demoting(&self) -> Duration {
        if self.hits(Fault::DemoteSlow) {
            self.dice.time(self.lease / 4, 2 * self.lease)
        } else {
            let longest = if self.ambush() {
                self.lease / 10
            } else {
                Duration::from_millis(2)
            };
            self.dice.time(Duration::ZERO, longest)
        }
    }

    /// How long what a drain waits for takes.
    pub(crate) fn draining(&self) -> Duration {
        if self.hits(Fault::DrainSlow) {
            self.dice.time(self.lease / 4, 2 * self.lease)
        } else if self.crosses_transfers() {
            self.dice.time(Duration::ZERO, self.lease / 5)
        } else {
            Duration::ZERO
        }
    }

    /// Waits, not past the moment from which on nothing is wrong.
    pub(crate) async fn wait(&self, time: Duration) {
        let until = self.world.now() + nanos(time);
        let heals_at = self.state.lock().heals_at.unwrap_or(u64::MAX);
        self.world.sleep_until(until.min(heals_at)).await;
    }

    fn hits(&self, fault: Fault) -> bool {
        let hits = self.state.lock().present.contains(&fault) && self.dice.chance(0.7);
        if hits {
            self.log.hit(fault);
        }
        hits
    }
}
