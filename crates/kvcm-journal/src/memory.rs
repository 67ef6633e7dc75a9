//! A journal in this process's memory.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kvcm_fence::Claim;

use crate::{
    ClaimError, Faults, Journal, Outcome, Source, Writer,
    memory_state::{Keep, Shared},
    memory_writer::MemoryWriter,
};

/// Bytes of a batch that [`MemoryJournal::new`] takes at most.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// A journal in this process's memory: for tests and single nodes. Clones share the content.
///
/// **It is volatile.** The content is lost with the process, and it also goes out of date: another
/// node may have led since, with writes that this process never saw. So a claim keeps the content
/// only when its epoch is exactly the successor of the fence's epoch, for then nobody else can
/// have led in between; otherwise the content is dropped and the load says so
/// ([`Loaded::dropped`](crate::Loaded::dropped)).
#[derive(Clone, Debug)]
pub struct MemoryJournal {
    name: Arc<str>,
    shared: Arc<Shared>,
}

impl MemoryJournal {
    /// An empty journal. `name` says in logs whose it is.
    pub fn new(name: &str) -> Self {
        Self::build(name, Keep::Content, BATCH_BYTES_MAX)
    }

    /// A journal that keeps nothing but its fence and its numbers: for state that may be lost
    /// with the reign, where keeping each record would double the memory. Every claim after the
    /// first write finds the content dropped.
    pub fn without_content(name: &str) -> Self {
        Self::build(name, Keep::Nothing, BATCH_BYTES_MAX)
    }

    /// An empty journal with its own limit for the bytes of a batch.
    pub fn with_batch_limit(name: &str, batch_bytes_max: usize) -> Self {
        Self::build(name, Keep::Content, batch_bytes_max)
    }

    fn build(name: &str, keep: Keep, batch_bytes_max: usize) -> Self {
        Self {
            name: name.into(),
            shared: Arc::new(Shared::new(keep, batch_bytes_max)),
        }
    }

    /// Makes it fail on purpose, for tests of those who use it.
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.shared))
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    fn describe(&self) -> String {
        format!("memory journal {}", self.name)
    }

    async fn claim(&self, claim: Claim, _timeout: Duration) -> Result<Box<dyn Writer>, ClaimError> {
        let mut state = self.shared.lock();
        if state.faults.refuse_claims {
            return Err(ClaimError::Unavailable {
                outcome: Outcome::NotDone,
                source: "the test refuses claims".into(),
            });
        }
        let former = state.fence.holder().cloned();
        state.fence.claim(claim.clone())?;
        state.begin_reign(former.as_ref().map(|former| former.epoch), claim.epoch);
        drop(state);
        self.shared.wake();
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(MemoryWriter::new(shared, claim, former)))
    }

    async fn standing(&self, _timeout: Duration) -> Result<Option<Claim>, ClaimError> {
        Ok(self.shared.lock().fence.holder().cloned())
    }

    async fn probe(&self, _timeout: Duration) -> Result<(), Source> {
        if self.shared.lock().faults.refuse_claims {
            return Err("the test refuses claims".into());
        }
        Ok(())
    }
}
