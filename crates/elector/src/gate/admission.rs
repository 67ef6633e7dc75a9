//! Admission and confirmation, against the epoch and the end of its lease.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;
use thiserror::Error;

use super::{atoms::AtomicU64, in_flight::InFlight};

/// New work is let in.
const ADMIT: u64 = 0b01;
/// Work that was let in may take effect and be answered.
const SERVE: u64 = 0b10;

/// Lets leader-only work in ([`admit`](Self::admit)) and out ([`Admission::confirm`]).
///
/// It looks at the lease deadline itself each time, so that it needs no task to shut it: a process
/// that was paused past its lease finds it shut. Everything is atomics; nothing here blocks.
///
/// Only the lock loop opens, extends and shuts it; the lease check may shut it at any moment.
#[derive(Debug)]
pub struct Gate {
    clock: Arc<dyn Clock>,
    /// The epoch shifted by two, and the two flags.
    word: AtomicU64,
    /// End of the lease of that epoch, nanoseconds of the clock.
    deadline: AtomicU64,
    in_flight: InFlight,
}

/// Work that was let in; counts as in flight until it is dropped.
#[derive(Debug)]
pub struct Admission<'a> {
    gate: &'a Gate,
    epoch: Epoch,
    stripe: usize,
}

/// Work was not let in: nothing of it has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this node does not lead")]
pub struct Closed;

/// The reign under which work was let in is over: a change that only this process knows of may
/// not be answered as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the reign of epoch {epoch} ended while the request was being served")]
pub struct Lost {
    /// The epoch that ended.
    pub epoch: Epoch,
}

impl Gate {
    /// A shut gate.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            word: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            in_flight: InFlight::new(),
        }
    }

    /// Lets work in while this node leads and its lease lives.
    ///
    /// # Errors
    /// [`Closed`]: nothing happened.
    #[inline]
    pub fn admit(&self) -> Result<Admission<'_>, Closed> {
        // Whoever is turned away here is not counted, so that no crowd before a shut gate keeps a
        // drain waiting.
        if self.word.load(SeqCst) & ADMIT == 0 {
            return Err(Closed);
        }
        // Counted before the flag is read: whoever shuts the gate and then reads zero knows that
        // no one can still get in.
        let stripe = self.in_flight.enter();
        let Some(epoch) = self.live_epoch(ADMIT) else {
            self.in_flight.leave(stripe);
            return Err(Closed);
        };
        Ok(Admission {
            gate: self,
            epoch,
            stripe,
        })
    }

    /// The epoch under which work is let in now, if any: what health and status report.
    pub fn open_epoch(&self) -> Option<Epoch> {
        self.live_epoch(ADMIT)
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.count()
    }

    /// Opens for `epoch` until `until`.
    pub(crate) fn open(&self, epoch: Epoch, until: Moment) {
        self.word.store(0, SeqCst);
        self.deadline.store(until.as_nanos(), SeqCst);
        self.word.store(epoch.get() << 2 | ADMIT | SERVE, SeqCst);
    }

    /// Moves the end of the lease of `epoch`; never backwards. False when the gate is shut for it:
    /// the lease check may have been faster.
    pub(crate) fn extend(&self, epoch: Epoch, until: Moment) -> bool {
        let is_open = || self.word.load(SeqCst) >> 2 == epoch.get();
        if is_open() {
            self.deadline.fetch_max(until.as_nanos(), SeqCst);
        }
        is_open()
    }

    /// Lets nothing more in under `epoch`; what is in may finish.
    pub(crate) fn shut_admit(&self, epoch: Epoch) {
        let open = epoch.get() << 2 | ADMIT | SERVE;
        let _ = self
            .word
            .compare_exchange(open, epoch.get() << 2 | SERVE, SeqCst, SeqCst);
    }

    /// Lets work in again under `epoch`, which was draining; what is in has noticed nothing. False
    /// when the gate is shut for it: the lease check may have been faster.
    pub(crate) fn reopen(&self, epoch: Epoch) -> bool {
        let open = epoch.get() << 2 | ADMIT | SERVE;
        let draining = epoch.get() << 2 | SERVE;
        self.word
            .compare_exchange(draining, open, SeqCst, SeqCst)
            .is_ok()
    }

    /// Lets nothing in or out under `epoch`. Tells the end of its lease when this is what shut it.
    pub(crate) fn shut(&self, epoch: Epoch) -> Option<Moment> {
        let shut = |word: u64| (word >> 2 == epoch.get()).then_some(0);
        // Nobody but the caller opens it again, so this is still the deadline of that epoch.
        let deadline = Moment::from_nanos(self.deadline.load(SeqCst));
        self.word.fetch_update(SeqCst, SeqCst, shut).ok()?;
        Some(deadline)
    }

    /// Waits until nothing is in flight. Means something only while `admit` is shut.
    pub(crate) async fn drained(&self) {
        self.in_flight.none().await;
    }

    /// Shuts the gate when its lease has ended, and tells whose and when that was.
    pub(crate) fn shut_if_expired(&self) -> Option<(Epoch, Moment)> {
        let word = self.word.load(SeqCst);
        let deadline = self.deadline.load(SeqCst);
        if word & SERVE == 0 || !self.has_ended(deadline) {
            return None;
        }
        // A change in between means a newer reign: leave it to the next look. A renewal may have
        // come in between as well; then the reign ends although it could have gone on.
        self.word.compare_exchange(word, 0, SeqCst, SeqCst).ok()?;
        let epoch = Epoch::new(word >> 2).ok()?;
        Some((epoch, Moment::from_nanos(deadline)))
    }

    /// How long until the lease of the open gate ends.
    pub(crate) fn left(&self) -> Option<Duration> {
        (self.word.load(SeqCst) & SERVE != 0).then(|| {
            self.clock
                .now()
                .until(Moment::from_nanos(self.deadline.load(SeqCst)))
        })
    }

    #[inline]
    fn has_ended(&self, deadline: u64) -> bool {
        // Without it a test of the tests has something to find.
        !cfg!(feature = "unsafe-no-fencing") && self.clock.now().as_nanos() >= deadline
    }

    /// The epoch, if the flag is up and its lease lives.
    #[inline]
    fn live_epoch(&self, flag: u64) -> Option<Epoch> {
        let word = self.word.load(SeqCst);
        if word & flag == 0 || self.has_ended(self.deadline.load(SeqCst)) {
            return None;
        }
        // The deadline may belong to a newer reign than the word that was read first.
        if self.word.load(SeqCst) >> 2 != word >> 2 {
            return None;
        }
        Epoch::new(word >> 2).ok()
    }
}

// === impl Admission ===

impl Admission<'_> {
    /// The epoch under which the work was let in.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Looks again after evaluation, before an answer that depends on volatile state. Does not
    /// mind a shut `admit`, so that a drain can answer what it let in.
    ///
    /// # Errors
    /// [`Lost`]: the work may not be answered as done.
    #[inline]
    pub fn confirm(&self) -> Result<(), Lost> {
        if self.gate.live_epoch(SERVE) == Some(self.epoch) {
            Ok(())
        } else {
            Err(Lost { epoch: self.epoch })
        }
    }
}

impl Drop for Admission<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.in_flight.leave(self.stripe);
    }
}
