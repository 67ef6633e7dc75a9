//! The backend: the real lock rules, and what happens to its data.

use coordination_core::{
    LockOutcome, LockState, Owner, Phase, Previous, ReignEnd, TryLock, UnlockOutcome,
};
use kvcm_fence::Epoch;

use crate::{
    events::{Event, Events},
    state::{Answer, Ask, Broken, LEASE, NOW, State, settings},
};

/// How data is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Vanish,
    Flush,
    FlushLow,
    Restore,
    Lie,
}

impl State {
    /// The backend performs a request.
    pub(crate) fn perform(&mut self, owner: &Owner, ask: &Ask, events: &Events) -> Answer {
        match ask {
            Ask::TryLock {
                floor,
                presumed_dead,
            } => {
                let request = TryLock {
                    key: "k",
                    owner,
                    ttl: LEASE,
                    floor: *floor,
                    info: "",
                    presumed_dead: *presumed_dead,
                };
                Answer::Lock(self.try_lock(&request, events))
            }
            Ask::Observe => Answer::Holder(self.lock.lock_holder(NOW)),
            Ask::Renew(epoch) => Answer::Renew(self.lock.renew_lock(owner, *epoch, LEASE, "", NOW)),
            Ask::Unlock(epoch, reserve) => {
                let outcome = self.lock.unlock(owner, *epoch, reserve.as_ref(), NOW);
                if outcome == UnlockOutcome::Unlocked {
                    self.note_successor(owner);
                }
                Answer::Unlock(outcome)
            }
        }
    }

    /// Whom the lock is kept for, by what was asked of its former holder.
    fn note_successor(&mut self, former: &Owner) {
        let former = self.nodes.iter().find(|node| node.owner == *former);
        let successor = former.and_then(|node| node.handing_to.clone());
        self.ghost.kept_for = successor.map(|node| (node, NOW + settings().reservation));
    }

    fn try_lock(&mut self, request: &TryLock<'_>, events: &Events) -> LockOutcome {
        let before = self.may_go_back().then(|| self.lock.clone());
        let wall = if self.ghost.clock_wrong {
            0
        } else {
            self.ghost.minted.get()
        };
        let outcome = self.lock.try_lock(request, NOW, || wall).unwrap();
        if let LockOutcome::Reserved(_) = &outcome {
            events.reach(Event::KeptOut);
        }
        if let LockOutcome::Acquired(acquired) = &outcome {
            if acquired.repeated {
                events.reach(Event::LockRepeated);
                return outcome;
            }
            if let Some((node, _)) = self.ghost.kept_for.take()
                && node != request.owner.node
            {
                self.broken(Broken::KeptLockTaken);
            }
            if let Some(before) = before {
                self.older = before;
            }
            // I1: epochs rise, unless the backend has lost them.
            if acquired.epoch <= self.ghost.minted {
                events.reach(Event::EpochMintedTwice);
                if !self.ghost.lost {
                    self.broken(Broken::ExclusiveEpoch);
                }
            }
            self.ghost.minted = self.ghost.minted.max(acquired.epoch);
            self.excuse_death_in_guard(acquired.previous.as_ref());
            match &acquired.previous {
                Some(previous) => events.reach(match previous.end {
                    ReignEnd::Released => Event::WonAfterRelease,
                    ReignEnd::Expired => Event::WonAfterExpiry,
                    ReignEnd::Dead => Event::WonAfterDeath,
                    ReignEnd::Unknown => Event::WonUnproven,
                }),
                None if self.ghost.lost => events.reach(Event::WonUnproven),
                None => {}
            }
        }
        outcome
    }

    /// Not covered by the rules: whoever holds the lock dies while the end before it is unproven,
    /// and is replaced at once by proof of its death. The next one is not told of the guard.
    fn excuse_death_in_guard(&mut self, previous: Option<&Previous>) {
        let died = previous.filter(|previous| previous.end == ReignEnd::Dead);
        let has_served = |reign: &Previous| {
            reign.epoch == self.ghost.served && Some(reign.owner.incarnation) == self.ghost.server
        };
        if self.ghost.lost && died.is_some_and(|reign| !has_served(reign)) {
            self.ghost.excused = true;
        }
    }

    /// Data is lost.
    pub(crate) fn lose(&mut self, loss: Loss, events: &Events) {
        self.ghost.lost = true;
        self.ghost.kept_for = None;
        match loss {
            Loss::Vanish => {
                self.left.vanish -= 1;
                vanish(&mut self.lock);
            }
            Loss::Flush => {
                self.left.flush -= 1;
                self.lock = LockState::default();
            }
            Loss::FlushLow => {
                self.left.flush_low -= 1;
                self.lock = LockState::default();
                self.ghost.clock_wrong = true;
            }
            Loss::Restore => {
                self.left.restore -= 1;
                self.lock = self.older.clone();
                vanish(&mut self.lock);
                // Whole reigns may be missing: a lease may have begun just before.
                if let Some(reign) = &mut self.lock.reign {
                    reign.ends = NOW + LEASE;
                }
            }
            Loss::Lie => {
                self.left.lie -= 1;
                self.lock = self.older.clone();
                self.ghost.excused = true;
            }
        }
        if !self.may_go_back() {
            self.older = LockState::default();
        }
        events.reach(Event::DataLost);
    }

    /// What can be lost now.
    pub(crate) fn losses(&self) -> impl Iterator<Item = Loss> + use<> {
        let left = self.left;
        let (lock, older) = (&self.lock, &self.older);
        let held = lock.reign.as_ref().is_some_and(|reign| reign.is_held(NOW));
        let known = lock.counter.is_some();
        let differs = lock != older;
        [
            (Loss::Vanish, left.vanish > 0 && held),
            (Loss::Flush, left.flush > 0 && known),
            (Loss::FlushLow, left.flush_low > 0 && known),
            (
                Loss::Restore,
                left.restore > 0 && differs && older.reign.is_some(),
            ),
            (Loss::Lie, left.lie > 0 && differs),
        ]
        .into_iter()
        .filter_map(|(loss, possible)| possible.then_some(loss))
    }

    fn may_go_back(&self) -> bool {
        self.left.restore > 0 || self.left.lie > 0
    }

    /// The epoch and life of whoever holds the lock.
    pub(crate) fn holder(&self) -> Option<(&Owner, Epoch)> {
        let reign = self.lock.reign.as_ref()?;
        reign.is_held(NOW).then_some((&reign.owner, reign.epoch))
    }
}

fn vanish(lock: &mut LockState) {
    if let Some(reign) = &mut lock.reign {
        reign.phase = Phase::Vanished;
    }
}
