//! What the thread works with.

use std::{collections::HashMap, sync::Arc, thread, time::Duration};

use coordination_core::Error;
use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;

use crate::{
    chain::{Chain, Draft, Newest},
    directory::Directory,
    host::Process,
    lives::Lives,
    worker::Call,
};

/// How long it is waited, on average, after another was faster.
const PAUSE: Duration = Duration::from_micros(500);
/// How many records of a chain may be left to be cleaned.
const CLEAN_EACH: u64 = 8;

/// The directory and what this process knows of it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) directory: Directory,
    pub(crate) lives: Arc<Lives>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Names the clock, see [`crate::host::clock_name`].
    pub(crate) clock_name: String,
    pub(crate) process: Process,
    /// What was last seen of each lock.
    pub(crate) seen: HashMap<String, Seen>,
    /// The newest number that was seen in each chain.
    pub(crate) numbers: HashMap<Chain, u64>,
    /// How often it was looked for the record of a lock of which only the mark of an epoch was seen.
    pub(crate) awaited: HashMap<String, (Epoch, u32)>,
}

/// The last record of a lock that this process saw.
#[derive(Debug)]
pub(crate) enum Seen {
    /// It was written on our clock; the highest epoch of all such.
    Ours { highest: Epoch },
    /// It was written on another clock, and has been the same since a moment of ours.
    Foreign { bytes: Vec<u8>, since: Moment },
}

impl Store {
    /// Makes a change, from what it replaces, until no other was faster; that is when `try_once`
    /// returns something.
    pub(crate) fn change<T>(
        &mut self,
        call: &Call,
        mut try_once: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        loop {
            call.check()?;
            self.directory.check()?;
            if let Some(done) = try_once(self)? {
                return Ok(done);
            }
            // With jitter, so that contenders do not go on in step.
            thread::sleep(PAUSE.mul_f64(2.0 * fastrand::f64()));
        }
    }

    /// The newest record of a chain.
    pub(crate) fn newest(&mut self, chain: &Chain, call: &Call) -> Result<Newest, Error> {
        let known = self.numbers.get(chain).copied().unwrap_or(0);
        let newest = chain.newest(&self.directory, known, call)?;
        self.numbers.insert(chain.clone(), newest.number);
        Ok(newest)
    }

    /// Publishes a record; returns whether it was the first to replace that record.
    pub(crate) fn publish(
        &mut self,
        chain: &Chain,
        draft: Draft<'_>,
        call: &Call,
    ) -> Result<bool, Error> {
        let is_first = chain.publish(&self.directory, draft, call)?;
        if is_first {
            let number = draft.replaces.number + 1;
            self.numbers.insert(chain.clone(), number);
            if number.is_multiple_of(CLEAN_EACH) {
                self.clean(chain, number);
            }
        }
        Ok(is_first)
    }

    /// Removes what was there before record `newest`, if possible.
    pub(crate) fn clean(&self, chain: &Chain, newest: u64) {
        if let Err(error) = chain.clean(&self.directory, newest) {
            tracing::debug!(%error, chain = chain.name(), "left out some tidying");
        }
    }
}

/// The highest number that follows `prefix` in `names`, and all names with that prefix.
pub(crate) fn marks<'n>(names: &'n [String], prefix: &str) -> (Option<u64>, Vec<&'n str>) {
    let mut highest = None;
    let mut found = Vec::new();
    for name in names {
        if let Some(number) = name.strip_prefix(prefix).and_then(|n| n.parse().ok()) {
            highest = highest.max(Some(number));
            found.push(name.as_str());
        }
    }
    (highest, found)
}
