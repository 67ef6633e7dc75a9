//! The one place that lets leader-only work in and out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;
use thiserror::Error;
use tokio::sync::Notify;

/// New work is let in.
const ADMIT: u64 = 0b01;
/// Work that was let in may take effect and be answered.
const SERVE: u64 = 0b10;

/// Lets leader-only work in ([`admit`](Self::admit)) and out ([`Admission::confirm`]).
///
/// It looks at the lease deadline itself each time, so that it needs no task to shut it: a process
/// that was paused past its lease finds it shut. Everything is atomics; nothing here blocks.
#[derive(Debug)]
pub struct Gate {
    clock: Arc<dyn Clock>,
    /// The epoch shifted by two, and the two flags.
    word: AtomicU64,
    /// End of the lease of that epoch, nanoseconds of the clock.
    deadline: AtomicU64,
    in_flight: AtomicU64,
    drained: Notify,
}

/// Work that was let in; counts as in flight until it is dropped.
#[derive(Debug)]
pub struct Admission<'a> {
    gate: &'a Gate,
    epoch: Epoch,
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
            in_flight: AtomicU64::new(0),
            drained: Notify::new(),
        }
    }

    /// Lets work in while this node leads and its lease lives.
    ///
    /// # Errors
    /// [`Closed`]: nothing happened.
    pub fn admit(&self) -> Result<Admission<'_>, Closed> {
        // Counted before the flag is read: whoever shuts the gate and then reads zero knows that
        // no one can still get in.
        self.in_flight.fetch_add(1, SeqCst);
        match self.live_epoch(ADMIT) {
            Some(epoch) => Ok(Admission { gate: self, epoch }),
            None => {
                self.leave();
                Err(Closed)
            }
        }
    }

    /// The epoch under which work is let in now, if any: what health and status report.
    pub fn open_epoch(&self) -> Option<Epoch> {
        self.live_epoch(ADMIT)
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(SeqCst)
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

    /// Lets nothing in or out under `epoch`.
    pub(crate) fn shut(&self, epoch: Epoch) {
        let shut = |word: u64| (word >> 2 == epoch.get()).then_some(0);
        let _ = self.word.fetch_update(SeqCst, SeqCst, shut);
    }

    /// Waits until nothing is in flight.
    pub(crate) async fn drained(&self) {
        loop {
            let notified = self.drained.notified();
            tokio::pin!(notified);
            // Registered before the count is read, so that the last one out cannot be missed.
            notified.as_mut().enable();
            if self.in_flight() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Shuts the gate when its lease has ended, and tells which.
    pub(crate) fn shut_if_expired(&self) -> Option<Epoch> {
        let word = self.word.load(SeqCst);
        if word & SERVE == 0 || self.clock.now().as_nanos() < self.deadline.load(SeqCst) {
            return None;
        }
        // A change in between means a newer reign: leave it to the next look. A renewal may have
        // come in between as well; then the reign ends although it could have gone on.
        self.word.compare_exchange(word, 0, SeqCst, SeqCst).ok()?;
        Epoch::new(word >> 2).ok()
    }

    /// How long until the lease of the open gate ends.
    pub(crate) fn left(&self) -> Option<Duration> {
        (self.word.load(SeqCst) & SERVE != 0).then(|| {
            self.clock
                .now()
                .until(Moment::from_nanos(self.deadline.load(SeqCst)))
        })
    }

    /// The epoch, if the flag is up and its lease lives.
    fn live_epoch(&self, flag: u64) -> Option<Epoch> {
        let word = self.word.load(SeqCst);
        if word & flag == 0 || self.clock.now().as_nanos() >= self.deadline.load(SeqCst) {
            return None;
        }
        // The deadline may belong to a newer reign than the word that was read first.
        if self.word.load(SeqCst) >> 2 != word >> 2 {
            return None;
        }
        Epoch::new(word >> 2).ok()
    }

    fn leave(&self) {
        if self.in_flight.fetch_sub(1, SeqCst) == 1 {
            self.drained.notify_waiters();
        }
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
    pub fn confirm(&self) -> Result<(), Lost> {
        if self.gate.live_epoch(SERVE) == Some(self.epoch) {
            Ok(())
        } else {
            Err(Lost { epoch: self.epoch })
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

#[cfg(test)]
mod tests {
    use kvcm_clock::ManualClock;

    use super::*;

    fn epoch(value: u64) -> Epoch {
        Epoch::new(value).unwrap()
    }

    fn gate() -> (ManualClock, Gate) {
        let clock = ManualClock::default();
        (clock.clone(), Gate::new(Arc::new(clock)))
    }

    #[test]
    fn shut_until_opened_and_shut_by_the_deadline_alone() {
        let (clock, gate) = gate();
        assert_eq!(gate.admit().unwrap_err(), Closed);
        gate.open(epoch(5), clock.now() + Duration::from_millis(10));
        let admission = gate.admit().unwrap();
        assert_eq!(admission.epoch(), epoch(5));
        admission.confirm().unwrap();
        clock.advance(Duration::from_millis(10));
        assert_eq!(gate.admit().unwrap_err(), Closed);
        assert_eq!(admission.confirm(), Err(Lost { epoch: epoch(5) }));
        assert!(gate.extend(epoch(5), clock.now() + Duration::from_millis(10)));
        admission.confirm().unwrap();
    }

    #[test]
    fn an_extension_that_comes_after_the_lease_check_says_so() {
        let (clock, gate) = gate();
        gate.open(epoch(5), clock.now() + Duration::from_millis(10));
        clock.advance(Duration::from_millis(10));
        assert_eq!(gate.shut_if_expired(), Some(epoch(5)));
        assert!(!gate.extend(epoch(5), clock.now() + Duration::from_millis(10)));
        assert_eq!(gate.admit().unwrap_err(), Closed);
    }

    #[test]
    fn a_drain_answers_what_it_let_in_and_lets_nothing_in() {
        let (clock, gate) = gate();
        gate.open(epoch(5), clock.now() + Duration::from_secs(1));
        let admission = gate.admit().unwrap();
        gate.shut_admit(epoch(5));
        assert_eq!(gate.admit().unwrap_err(), Closed);
        admission.confirm().unwrap();
        gate.shut(epoch(5));
        assert!(admission.confirm().is_err());
    }

    #[test]
    fn work_of_an_old_epoch_is_not_confirmed_under_a_new_one() {
        let (clock, gate) = gate();
        gate.open(epoch(5), clock.now() + Duration::from_secs(1));
        let admission = gate.admit().unwrap();
        gate.shut(epoch(5));
        gate.open(epoch(6), clock.now() + Duration::from_secs(1));
        assert_eq!(admission.confirm(), Err(Lost { epoch: epoch(5) }));
        // Late orders for the old epoch do not touch the new one.
        gate.shut(epoch(5));
        gate.shut_admit(epoch(5));
        assert!(!gate.extend(epoch(5), Moment::NEVER));
        gate.admit().unwrap().confirm().unwrap();
        clock.advance(Duration::from_secs(1));
        assert_eq!(gate.shut_if_expired(), Some(epoch(6)));
        assert_eq!(gate.shut_if_expired(), None);
    }

    #[tokio::test]
    async fn the_last_one_out_wakes_the_drain() {
        let (clock, gate) = gate();
        let gate = Arc::new(gate);
        gate.open(epoch(1), clock.now() + Duration::from_secs(1));
        let (entered, wait_entered) = tokio::sync::oneshot::channel();
        let (leave, wait_leave) = tokio::sync::oneshot::channel::<()>();
        let worker = {
            let gate = gate.clone();
            tokio::spawn(async move {
                let _admission = gate.admit().unwrap();
                entered.send(()).unwrap();
                let _ = wait_leave.await;
            })
        };
        wait_entered.await.unwrap();
        gate.shut_admit(epoch(1));
        let mut drained = Box::pin(gate.drained());
        assert!(futures_util::poll!(drained.as_mut()).is_pending());
        leave.send(()).unwrap();
        drained.await;
        worker.await.unwrap();
        assert_eq!(gate.in_flight(), 0);
    }

    /// Many threads go in and out while the gate is shut again and again: whoever sees zero in
    /// flight after shutting must not see anybody get in.
    #[test]
    fn after_shut_and_zero_nobody_is_inside() {
        use std::sync::atomic::{AtomicBool, AtomicI64};
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let gate = Gate::new(clock.clone());
        let inside = AtomicI64::new(0);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        if let Ok(admission) = gate.admit() {
                            inside.fetch_add(1, SeqCst);
                            std::hint::spin_loop();
                            inside.fetch_sub(1, SeqCst);
                            drop(admission);
                        }
                    }
                });
            }
            for round in 1..2000 {
                gate.open(epoch(round), clock.now() + Duration::from_secs(1));
                std::thread::yield_now();
                gate.shut_admit(epoch(round));
                while gate.in_flight() != 0 {
                    std::hint::spin_loop();
                }
                assert_eq!(inside.load(SeqCst), 0);
                gate.shut(epoch(round));
            }
            stop.store(true, SeqCst);
        });
    }
}
