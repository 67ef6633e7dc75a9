//! A look at a lock, for watchers.

use coordination_core::{Error, Owner};
use kvcm_fence::Epoch;

use crate::{host::Process, store::Store, worker::Call};

/// What a look shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The present or last reign.
    pub(crate) reign: Option<Seen>,
    /// Whether the lock is held.
    pub(crate) is_held: bool,
    /// Whether it is held by a process whose death is proven.
    pub(crate) is_dead: bool,
    /// Whether it is held through this backend.
    pub(crate) is_own: bool,
}

/// A reign, without what every renewal changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) owner: Owner,
    pub(crate) epoch: Epoch,
    pub(crate) process: Process,
    info: String,
}

impl Store {
    /// Looks at the record and at the holder's lifetime lock. A damaged record frees the lock.
    pub(crate) fn look(&mut self, key: &str, call: &Call) -> Result<Look, Error> {
        let found = self.load(key, call)?.found;
        let now = self.clock.now();
        let is_held = found.as_ref().is_some_and(|found| found.reign.is_held(now));
        let holder = found.as_ref().filter(|_| is_held);
        let is_own = holder.is_some_and(|found| self.lives.has(found.reign.owner.incarnation));
        let is_dead = !is_own && holder.is_some_and(|found| found.is_dead(&self.directory));
        Ok(Look {
            reign: found.map(|found| Seen {
                owner: found.reign.owner,
                epoch: found.reign.epoch,
                info: found.reign.info,
                process: found.process,
            }),
            is_held,
            is_dead,
            is_own,
        })
    }
}
