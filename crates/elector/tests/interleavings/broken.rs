//! The gate told once more, with one fault at a time.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use kvcm_clock::Clock;
use shuttle::sync::atomic::AtomicU64;

use crate::{
    door::{Door, Inside},
    gate::Notify,
};

/// None: what the others differ from. It must pass every scenario.
pub(crate) const NONE: u8 = 0;
/// Looks at the flag, counts itself in, and does not look again.
pub(crate) const LOOKS_THEN_COUNTS: u8 = 1;
/// Wakes the drain before it counts itself out.
pub(crate) const WAKES_BEFORE_LEAVING: u8 = 2;
/// The drain reads the count before it registers for the news.
pub(crate) const READS_THEN_WAITS: u8 = 3;
/// A confirmation reads the epoch once: the deadline may be that of the next reign.
pub(crate) const MIXES_REIGNS: u8 = 4;
/// A confirmation looks at the flag and not at the clock.
pub(crate) const TRUSTS_THE_FLAG: u8 = 5;
/// A new reign starts to count at zero.
pub(crate) const COUNTS_ANEW: u8 = 6;
/// A drain is ended by opening the gate anew.
pub(crate) const REOPENS_BY_OPENING: u8 = 7;
/// An extension does not tell that the gate was shut.
pub(crate) const EXTENDS_BLINDLY: u8 = 8;

const ADMIT: u64 = 1;
const SERVE: u64 = 2;

/// A gate with this fault.
pub(crate) struct Broken<const FAULT: u8> {
    clock: Arc<dyn Clock>,
    word: AtomicU64,
    deadline: AtomicU64,
    count: AtomicU64,
    left: Notify,
}

pub(crate) struct BrokenInside<'a, const FAULT: u8> {
    door: &'a Broken<FAULT>,
    epoch: u64,
}

impl<const FAULT: u8> Broken<FAULT> {
    fn live_epoch(&self, flag: u64) -> Option<u64> {
        let word = self.word.load(SeqCst);
        if word & flag == 0 {
            return None;
        }
        if FAULT == TRUSTS_THE_FLAG {
            return Some(word >> 2);
        }
        let lives = self.clock.now().as_nanos() < self.deadline.load(SeqCst);
        let same = FAULT == MIXES_REIGNS || self.word.load(SeqCst) >> 2 == word >> 2;
        (lives && same).then_some(word >> 2)
    }
}

impl<const FAULT: u8> Door for Broken<FAULT> {
    type Inside<'a> = BrokenInside<'a, FAULT>;

    fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            word: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            count: AtomicU64::new(0),
            left: Notify::new(),
        }
    }

    fn open(&self, epoch: u64, until: u64) {
        self.word.store(0, SeqCst);
        if FAULT == COUNTS_ANEW {
            self.count.store(0, SeqCst);
        }
        self.deadline.store(until, SeqCst);
        self.word.store(epoch << 2 | ADMIT | SERVE, SeqCst);
    }

    fn extend(&self, epoch: u64, until: u64) -> bool {
        let is_open = || FAULT == EXTENDS_BLINDLY || self.word.load(SeqCst) >> 2 == epoch;
        if is_open() {
            self.deadline.fetch_max(until, SeqCst);
        }
        is_open()
    }

    fn admit(&self) -> Option<BrokenInside<'_, FAULT>> {
        let early = (FAULT == LOOKS_THEN_COUNTS).then(|| self.live_epoch(ADMIT));
        self.count.fetch_add(1, SeqCst);
        let epoch = early.unwrap_or_else(|| self.live_epoch(ADMIT));
        let inside = BrokenInside {
            door: self,
            epoch: epoch.unwrap_or(0),
        };
        epoch.map(|_| inside)
    }

    fn shut_admit(&self, epoch: u64) {
        let open = epoch << 2 | ADMIT | SERVE;
        let _ = self
            .word
            .compare_exchange(open, epoch << 2 | SERVE, SeqCst, SeqCst);
    }

    fn reopen(&self, epoch: u64) -> bool {
        if FAULT == REOPENS_BY_OPENING {
            self.open(epoch, self.deadline.load(SeqCst));
            return true;
        }
        let open = epoch << 2 | ADMIT | SERVE;
        self.word
            .compare_exchange(epoch << 2 | SERVE, open, SeqCst, SeqCst)
            .is_ok()
    }

    fn shut(&self, epoch: u64) {
        let shut = |word: u64| (word >> 2 == epoch).then_some(0);
        let _ = self.word.fetch_update(SeqCst, SeqCst, shut);
    }

    fn shut_if_expired(&self) -> Option<u64> {
        let word = self.word.load(SeqCst);
        if word & SERVE == 0 || self.clock.now().as_nanos() < self.deadline.load(SeqCst) {
            return None;
        }
        self.word.compare_exchange(word, 0, SeqCst, SeqCst).ok()?;
        Some(word >> 2)
    }

    async fn drained(&self) {
        loop {
            if FAULT == READS_THEN_WAITS && self.count.load(SeqCst) == 0 {
                return;
            }
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            if FAULT != READS_THEN_WAITS && self.count.load(SeqCst) == 0 {
                return;
            }
            left.await;
        }
    }
}

impl<const FAULT: u8> Inside for BrokenInside<'_, FAULT> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn confirm(&self) -> bool {
        self.door.live_epoch(SERVE) == Some(self.epoch)
    }
}

impl<const FAULT: u8> Drop for BrokenInside<'_, FAULT> {
    fn drop(&mut self) {
        if FAULT == COUNTS_ANEW {
            let less = |count: u64| Some(count.saturating_sub(1));
            let _ = self.door.count.fetch_update(SeqCst, SeqCst, less);
            self.door.left.notify_waiters();
        } else if FAULT == WAKES_BEFORE_LEAVING {
            if self.door.count.load(SeqCst) == 1 {
                self.door.left.notify_waiters();
            }
            self.door.count.fetch_sub(1, SeqCst);
        } else if self.door.count.fetch_sub(1, SeqCst) == 1 {
            self.door.left.notify_waiters();
        }
    }
}
