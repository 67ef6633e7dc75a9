//! The conformance suite, on a clock that stands still unless it is moved.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coordination_conformance::Subject;
use coordination_core::Backend;
use coordination_memory::MemoryBackend;
use kvcm_clock::{Clock, ManualClock};

#[derive(Debug)]
struct Memory {
    backend: MemoryBackend,
    clock: ManualClock,
}

async fn memory() -> Memory {
    let clock = ManualClock::default();
    Memory {
        backend: MemoryBackend::new(Arc::new(clock.clone())),
        clock,
    }
}

#[async_trait]
impl Subject for Memory {
    async fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.backend.clone())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    async fn elapse(&self, duration: Duration) {
        self.clock.advance(duration);
    }

    async fn lose_data(&self) -> bool {
        self.backend.flush();
        true
    }

    async fn remove_ttl(&self, key: &str) -> bool {
        assert!(self.backend.remove_ttl(key), "{key} is not held");
        true
    }
}

coordination_conformance::suite!(memory);

#[test]
fn follows_the_model() {
    coordination_conformance::model::follows_the_model(500, memory);
}
