//! Faults on demand, for tests of clients.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use crate::reply::{CallError, Code};

/// The faults of a node, each for one call of the protocol.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Whether there is any, so that calls pay one load while there is none.
    some: AtomicBool,
    by_rpc: Mutex<HashMap<&'static str, Fault>>,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Answer with it and do nothing; none: only late.
    pub(crate) code: Option<Code>,
    /// Answer so much later.
    pub(crate) latency: Duration,
    /// Which calls.
    pub(crate) when: When,
}

/// Which calls a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Each one.
    Always,
    /// The one after so many others; then the fault is gone.
    After(u32),
}

impl Faults {
    /// Puts a fault in, in the place of the one that the call has.
    pub(crate) fn inject(&self, rpc: &'static str, fault: Fault) {
        let mut by_rpc = self.by_rpc.lock();
        by_rpc.insert(rpc, fault);
        self.some.store(true, Relaxed);
    }

    /// Takes a fault away; there may be none.
    pub(crate) fn remove(&self, rpc: &str) {
        let mut by_rpc = self.by_rpc.lock();
        by_rpc.remove(rpc);
        self.some.store(!by_rpc.is_empty(), Relaxed);
    }

    /// Takes all faults away.
    pub(crate) fn clear(&self) {
        let mut by_rpc = self.by_rpc.lock();
        by_rpc.clear();
        self.some.store(false, Relaxed);
    }

    /// Counts a call, waits if it is to be late, and gives the error that it has to answer with.
    pub(crate) async fn strike(&self, rpc: &str) -> Option<CallError> {
        if !self.some.load(Relaxed) {
            return None;
        }
        let fault = self.next(rpc)?;
        if !fault.latency.is_zero() {
            tokio::time::sleep(fault.latency).await;
        }
        let message = format!("a fault was injected into {rpc} (DebugService)");
        fault.code.map(|code| CallError::new(code, message))
    }

    fn next(&self, rpc: &str) -> Option<Fault> {
        let mut by_rpc = self.by_rpc.lock();
        let fault = by_rpc.get_mut(rpc)?;
        let struck = *fault;
        match &mut fault.when {
            When::Always => {}
            When::After(0) => {
                by_rpc.remove(rpc);
                self.some.store(!by_rpc.is_empty(), Relaxed);
            }
            When::After(others) => {
                *others -= 1;
                return None;
            }
        }
        Some(struck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(when: When) -> Fault {
        Fault {
            code: Some(Code::Internal),
            latency: Duration::ZERO,
            when,
        }
    }

    async fn strikes(faults: &Faults, rpc: &str, calls: usize) -> Vec<bool> {
        let mut struck = Vec::new();
        for _ in 0..calls {
            struck.push(faults.strike(rpc).await.is_some());
        }
        struck
    }

    #[tokio::test]
    async fn always_is_until_it_is_removed_and_hits_no_other_call() {
        let faults = Faults::default();
        faults.inject("A", fault(When::Always));
        assert_eq!(strikes(&faults, "A", 2).await, [true, true]);
        assert_eq!(strikes(&faults, "B", 1).await, [false]);
        faults.remove("B");
        assert_eq!(strikes(&faults, "A", 1).await, [true]);
        faults.remove("A");
        assert_eq!(strikes(&faults, "A", 1).await, [false]);
    }

    #[tokio::test]
    async fn once_is_exactly_the_call_that_was_named() {
        let faults = Faults::default();
        faults.inject("A", fault(When::After(2)));
        faults.inject("B", fault(When::After(0)));
        assert_eq!(
            strikes(&faults, "A", 5).await,
            [false, false, true, false, false]
        );
        assert_eq!(strikes(&faults, "B", 2).await, [true, false]);
        faults.inject("A", fault(When::Always));
        faults.clear();
        assert_eq!(strikes(&faults, "A", 1).await, [false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_call_waits_and_may_work() {
        let faults = Faults::default();
        let late = Fault {
            code: None,
            latency: Duration::from_secs(3),
            when: When::Always,
        };
        faults.inject("A", late);
        let start = tokio::time::Instant::now();
        assert_eq!(faults.strike("A").await, None);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }
}
