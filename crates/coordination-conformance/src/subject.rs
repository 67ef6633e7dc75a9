//! What the suite needs to know of a backend.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use coordination_core::Backend;
use kvcm_clock::Clock;

/// One empty store under test, and what can be done to it.
#[async_trait]
pub trait Subject: fmt::Debug + Send + Sync + 'static {
    /// A backend on this store, as one more process would open it. Dropping it is the end of that
    /// process, as far as other processes can see.
    async fn backend(&self) -> Arc<dyn Backend>;

    /// The clock that the backends were built with.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Lets `duration` pass, by waiting or by moving the clock.
    async fn elapse(&self, duration: Duration);

    /// Makes the store lose all that it has, and returns whether it can.
    async fn lose_data(&self) -> bool {
        false
    }

    /// Takes the time to live from a held lock by hand, and returns whether that is possible.
    async fn remove_ttl(&self, _key: &str) -> bool {
        false
    }

    /// Restarts the store with its data, and returns whether it can.
    async fn restart(&self) -> bool {
        false
    }
}
