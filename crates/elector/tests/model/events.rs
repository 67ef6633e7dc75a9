//! What the search must have met, so that a model that allows nothing does not pass.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

macro_rules! events {
    ($($name:ident),* $(,)?) => {
        /// Something that must have happened somewhere in the search.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event { $($name),* }

        impl Event {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

events! {
    Opened,
    WonAfterRelease,
    WonAfterExpiry,
    WonAfterDeath,
    WonUnproven,
    LockRepeated,
    EpochMintedTwice,
    GivenBack,
    CancelledPromotion,
    FailedPromotion,
    RefusedClaim,
    RefusedWrite,
    AcceptedWrite,
    AnsweredOk,
    AnsweredUnknown,
    AnsweredInDrain,
    Drained,
    RenewalAfterLoss,
    RenewalLost,
    LateRequest,
    LateRequestTookLock,
    PausedPastLease,
    GateShutByItself,
    Guarded,
    LostLock,
    TwoLeadersBelieved,
    DataLost,
    Stopped,
    Restarted,
    Healed,
    KeptOut,
    Transferred,
    TransferAborted,
    TransferNotTaken,
    TransferEnded,
    TransferRefused,
    HeldBack,
    Deferred,
}

/// Which events have been reached; shared by the threads of a search.
#[derive(Debug)]
pub(crate) struct Events([AtomicBool; Event::ALL.len()]);

impl Default for Events {
    fn default() -> Self {
        Self([const { AtomicBool::new(false) }; Event::ALL.len()])
    }
}

impl Events {
    pub(crate) fn reach(&self, event: Event) {
        let flag = &self.0[event as usize];
        // Read first: the flags are up nearly always, and a write would cost all threads.
        if !flag.load(Relaxed) {
            flag.store(true, Relaxed);
        }
    }

    pub(crate) fn missing(&self) -> Vec<Event> {
        let reached = |event: &Event| self.0[*event as usize].load(Relaxed);
        Event::ALL
            .iter()
            .copied()
            .filter(|event| !reached(event))
            .collect()
    }
}
