//! The conformance suite, on the host's clock; and random histories, on a clock that stands still.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coordination_conformance::Subject;
use coordination_core::Backend;
use coordination_file::{FileBackend, Options};
use kvcm_clock::{BootClock, Clock, ManualClock};
use tempfile::TempDir;

#[derive(Debug)]
struct Files {
    dir: TempDir,
    /// None: real time.
    clock: Option<ManualClock>,
}

async fn real_time() -> Files {
    Files {
        dir: TempDir::new().unwrap(),
        clock: None,
    }
}

async fn still_time() -> Files {
    Files {
        dir: TempDir::new().unwrap(),
        clock: Some(ManualClock::default()),
    }
}

#[async_trait]
impl Subject for Files {
    async fn backend(&self) -> Arc<dyn Backend> {
        let backend = FileBackend::open(self.dir.path(), Options::default(), self.clock());
        Arc::new(backend.unwrap())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        match &self.clock {
            Some(clock) => Arc::new(clock.clone()),
            None => Arc::new(BootClock),
        }
    }

    async fn elapse(&self, duration: Duration) {
        match &self.clock {
            Some(clock) => clock.advance(duration),
            None => tokio::time::sleep(duration).await,
        }
    }

    async fn lose_data(&self) -> bool {
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            // Another thread may be tidying up.
            let _ = std::fs::remove_file(entry.unwrap().path());
        }
        true
    }

    async fn restart(&self) -> bool {
        // Every backend is a start: all data is in the directory.
        true
    }
}

coordination_conformance::suite!(real_time);

#[test]
fn follows_the_model() {
    coordination_conformance::model::follows_the_model(60, still_time);
}
