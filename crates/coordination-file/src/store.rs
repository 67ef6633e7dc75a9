//! What the thread works with.

use std::{collections::HashMap, sync::Arc};

use coordination_core::Error;
use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;

use crate::{
    directory::Directory,
    guard::{Guard, Guarded},
    host::Process,
    lives::Lives,
    worker::Call,
};

/// The directory and what this process knows of it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) directory: Directory,
    pub(crate) guard: Guard,
    pub(crate) lives: Arc<Lives>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Names the clock, see [`crate::host::clock_name`].
    pub(crate) clock_name: String,
    pub(crate) process: Process,
    /// What was last seen of each lock.
    pub(crate) seen: HashMap<String, Seen>,
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
    /// Waits for the guard.
    pub(crate) fn enter(&mut self, call: &Call) -> Result<Guarded, Error> {
        self.guard.enter(&self.directory, call)
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
