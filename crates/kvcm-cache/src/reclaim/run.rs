//! Looks for groups over their marks, for ever.

use kvcm_clock::Timer;

use crate::{CacheManager, Error};

/// Looking takes at most one part in so many of the time.
const SHARE: u32 = 4;

impl CacheManager {
    /// Evicts what has to go to make room, for ever. Returns only when the journal says that this
    /// node has been superseded. Cancel-safe.
    pub async fn run_reclaim(&self, timer: &dyn Timer) -> Error {
        let mut pause = self.config.reclaim_interval;
        loop {
            let begun = self.shared.clock.now();
            timer.sleep_until(begun + pause).await;
            let begun = self.shared.clock.now();
            match self.reclaim().await {
                Ok(_) => {}
                Err(error) if error.is_fenced() => return error,
                Err(error) => tracing::warn!(%error, "blocks could not be evicted"),
            }
            // Of very many keys that were all used at the same time a look reads through all.
            let took = self.shared.clock.now().since(begun);
            pause = self.config.reclaim_interval.max(took * SHARE);
        }
    }

    /// Everything that no call waits for, for ever: ends sessions, evicts, deletes bytes, as far as
    /// `permit` allows at the moment of each deletion. Returns only when the journal says that
    /// this node has been superseded. Cancel-safe.
    pub async fn run(&self, timer: &dyn Timer, permit: &crate::Permit) -> Error {
        tokio::select! {
            error = self.run_expiry(timer) => error,
            error = self.run_reclaim(timer) => error,
            error = self.run_deletion(timer, permit) => error,
        }
    }
}
