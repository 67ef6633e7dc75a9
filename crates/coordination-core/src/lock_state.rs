//! The rules of a lock, as steps of a stored state.
//!
//! A backend that can load, step and store a state under one mutual exclusion (memory, files)
//! takes its rules from here; one that runs them elsewhere (Lua at Redis) writes them again.
//! The conformance suite has its own model and trusts neither.

use std::time::Duration;

use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use crate::{
    Acquired, Error, Holder, LockOutcome, NodeId, Owner, Previous, ReignEnd, RenewOutcome,
    Reservation, Reserved, TryLock, UnlockOutcome,
};

/// All that is stored of one lock. The default is a lock of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockState {
    /// The highest epoch that was minted, or none when the counter is missing.
    pub counter: Option<Epoch>,
    /// The present reign or, when nobody holds the lock, the last one.
    pub reign: Option<Reign>,
}

/// One reign.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reign {
    /// Who leads or led.
    pub owner: Owner,
    /// Its epoch.
    pub epoch: Epoch,
    /// What it stored with the lock.
    pub info: String,
    /// How long its lease was when it was last started.
    pub ttl: Duration,
    /// When its lease ends; [`Moment::NEVER`] when it has no time to live.
    pub ends: Moment,
    /// The reign before it, for a repeated acquisition.
    pub previous: Option<Previous>,
    /// Whether it goes on.
    pub phase: Phase,
}

/// Whether a reign goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Until its lease ends.
    Held,
    /// Its owner released the lock.
    Released {
        /// The only node that may acquire the lock, and until when.
        reserved: Option<(NodeId, Moment)>,
    },
    /// The lock is free although neither its owner nor its lease ended the reign.
    Vanished,
}

impl LockState {
    /// [`Backend::try_lock`](crate::Backend::try_lock). A missing counter starts at
    /// `wall_clock_ms()`. The arguments have passed [`validate::try_lock`](crate::validate).
    ///
    /// # Errors
    /// [`Error::Fatal`] when no epoch is left; the state is unchanged.
    pub fn try_lock(
        &mut self,
        request: &TryLock<'_>,
        now: Moment,
        wall_clock_ms: impl FnOnce() -> u64,
    ) -> Result<LockOutcome, Error> {
        if let Some(reign) = self.held(now) {
            if reign.owner == *request.owner {
                reign.start_lease(request.ttl, request.info, now);
                return Ok(LockOutcome::Acquired(Acquired {
                    epoch: reign.epoch,
                    previous: reign.previous.clone(),
                    repeated: true,
                }));
            }
            if request.presumed_dead != Some((reign.owner.incarnation, reign.epoch)) {
                if reign.ends == Moment::NEVER {
                    reign.ttl = request.ttl;
                    reign.ends = now + request.ttl;
                }
                return Ok(LockOutcome::Held(reign.holder(now)));
            }
        }
        if let Some(reserved) = self.reserved(request.owner, now) {
            return Ok(LockOutcome::Reserved(reserved));
        }
        let counter = match self.counter {
            Some(counter) => counter,
            None => Epoch::new(wall_clock_ms()).unwrap_or(Epoch::ZERO),
        };
        let epoch = counter.max(request.floor).next().ok_or_else(|| {
            let hint = "no epoch is left: start with an empty backend and empty stores";
            Error::fatal(hint, format!("the epoch counter is at {counter}"))
        })?;
        let previous = self.reign.take().map(|reign| reign.into_previous(now));
        let mut reign = Reign {
            owner: request.owner.clone(),
            epoch,
            info: String::new(),
            ttl: request.ttl,
            ends: now,
            previous: previous.clone(),
            phase: Phase::Held,
        };
        reign.start_lease(request.ttl, request.info, now);
        self.counter = Some(epoch);
        self.reign = Some(reign);
        Ok(LockOutcome::Acquired(Acquired {
            epoch,
            previous,
            repeated: false,
        }))
    }

    /// [`Backend::renew_lock`](crate::Backend::renew_lock).
    pub fn renew_lock(
        &mut self,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
        now: Moment,
    ) -> RenewOutcome {
        match self.held(now) {
            None => RenewOutcome::NotHeld,
            Some(reign) if reign.is(owner, epoch) => {
                reign.start_lease(ttl, info, now);
                RenewOutcome::Renewed
            }
            Some(reign) => RenewOutcome::HeldByOther(reign.holder(now)),
        }
    }

    /// [`Backend::unlock`](crate::Backend::unlock).
    pub fn unlock(
        &mut self,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        now: Moment,
    ) -> UnlockOutcome {
        match self.held(now) {
            None => UnlockOutcome::NotHeld,
            Some(reign) if reign.is(owner, epoch) => {
                let reserved = reserve_for.map(|wish| (wish.node.clone(), now + wish.duration));
                reign.phase = Phase::Released { reserved };
                UnlockOutcome::Unlocked
            }
            Some(reign) => UnlockOutcome::HeldByOther(reign.holder(now)),
        }
    }

    /// [`Backend::lock_holder`](crate::Backend::lock_holder).
    pub fn lock_holder(&self, now: Moment) -> Option<Holder> {
        let reign = self.reign.as_ref().filter(|reign| reign.is_held(now))?;
        Some(reign.holder(now))
    }

    fn held(&mut self, now: Moment) -> Option<&mut Reign> {
        self.reign.as_mut().filter(|reign| reign.is_held(now))
    }

    /// The reservation that keeps `owner` out.
    fn reserved(&self, owner: &Owner, now: Moment) -> Option<Reserved> {
        let reign = self.reign.as_ref()?;
        let Phase::Released { reserved } = &reign.phase else {
            return None;
        };
        let (node, until) = reserved.as_ref()?;
        if *until <= now || *node == owner.node {
            return None;
        }
        Some(Reserved {
            node: node.clone(),
            remaining: now.until(*until),
            epoch: reign.epoch,
        })
    }
}

impl Reign {
    /// Whether the owner holds the lock at `now`.
    pub fn is_held(&self, now: Moment) -> bool {
        self.phase == Phase::Held && now < self.ends
    }

    fn is(&self, owner: &Owner, epoch: Epoch) -> bool {
        self.owner == *owner && self.epoch == epoch
    }

    fn start_lease(&mut self, ttl: Duration, info: &str, now: Moment) {
        self.ttl = ttl;
        self.ends = now + ttl;
        info.clone_into(&mut self.info);
    }

    fn holder(&self, now: Moment) -> Holder {
        Holder {
            owner: self.owner.clone(),
            epoch: self.epoch,
            info: self.info.clone(),
            remaining: now.until(self.ends),
        }
    }

    /// What the next reign is told of this one, which ends at `now` at the latest.
    fn into_previous(self, now: Moment) -> Previous {
        // A lock whose time to live was taken away does not end, but its holder believes in the
        // lease that it asked for, and nobody has to wait for longer.
        let left = now.until(self.ends).min(self.ttl);
        let (end, lease_left) = match self.phase {
            Phase::Released { .. } => (ReignEnd::Released, Duration::ZERO),
            Phase::Vanished => (ReignEnd::Unknown, left),
            Phase::Held if left.is_zero() => (ReignEnd::Expired, left),
            Phase::Held => (ReignEnd::Dead, left),
        };
        Previous {
            owner: self.owner,
            epoch: self.epoch,
            end,
            lease_left,
        }
    }
}

#[cfg(test)]
mod tests {
    use kvcm_fence::Incarnation;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    const NOW: Moment = Moment::from_nanos(3_600_000_000_000);

    fn owner(node: &str, incarnation: u128) -> Owner {
        Owner {
            node: node.parse().unwrap(),
            incarnation: Incarnation::from_bits(incarnation),
        }
    }

    fn request<'a>(owner: &'a Owner, floor: u64) -> TryLock<'a> {
        TryLock {
            key: "k",
            owner,
            ttl: TTL,
            floor: Epoch::new(floor).unwrap(),
            info: "",
            presumed_dead: None,
        }
    }

    fn acquire(state: &mut LockState, request: &TryLock<'_>, now: Moment) -> Acquired {
        match state.try_lock(request, now, || 1000).unwrap() {
            LockOutcome::Acquired(acquired) => acquired,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_missing_counter_starts_at_the_wall_clock_or_the_floor_whichever_is_higher() {
        let a = owner("a", 1);
        let acquired = acquire(&mut LockState::default(), &request(&a, 7), NOW);
        assert_eq!(acquired.epoch.get(), 1001);
        let acquired = acquire(&mut LockState::default(), &request(&a, 5000), NOW);
        assert_eq!(acquired.epoch.get(), 5001);
    }

    #[test]
    fn a_counter_that_is_there_ignores_the_wall_clock() {
        let a = owner("a", 1);
        let mut state = LockState {
            counter: Epoch::new(5).ok(),
            reign: None,
        };
        assert_eq!(acquire(&mut state, &request(&a, 2), NOW).epoch.get(), 6);
    }

    #[test]
    fn an_exhausted_counter_is_fatal_and_changes_nothing() {
        let a = owner("a", 1);
        let mut state = LockState {
            counter: Some(Epoch::MAX),
            reign: None,
        };
        let before = state.clone();
        let error = state.try_lock(&request(&a, 0), NOW, || 0).unwrap_err();
        assert!(!error.is_retryable());
        assert_eq!(state, before);
    }

    #[test]
    fn a_vanished_reign_ends_unknown_with_its_lease_left() {
        let (a, b) = (owner("a", 1), owner("b", 2));
        let mut state = LockState::default();
        acquire(&mut state, &request(&a, 0), NOW);
        if let Some(reign) = &mut state.reign {
            reign.phase = Phase::Vanished;
        }
        assert_eq!(state.lock_holder(NOW), None);
        let previous = acquire(&mut state, &request(&b, 0), NOW).previous.unwrap();
        assert_eq!(
            (previous.end, previous.lease_left),
            (ReignEnd::Unknown, TTL)
        );
    }

    #[test]
    fn the_lease_ends_exactly_at_its_end() {
        let a = owner("a", 1);
        let mut state = LockState::default();
        let epoch = acquire(&mut state, &request(&a, 0), NOW).epoch;
        let last = NOW + TTL - Duration::from_nanos(1);
        assert!(state.lock_holder(last).is_some());
        assert_eq!(state.lock_holder(NOW + TTL), None);
        let renewed = state.renew_lock(&a, epoch, TTL, "", NOW + TTL);
        assert_eq!(renewed, RenewOutcome::NotHeld);
    }
}
