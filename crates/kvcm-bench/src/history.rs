//! What engines did and what they were told: the evidence for the checks and the tables.

mod carried;
mod changes;
mod epochs;
mod reads;
mod reigns;

use std::sync::Arc;

use kvcm_clock::Moment;

pub use carried::{Carried, carried};
pub use changes::{Change, Gap, gap};
pub use epochs::{StaleReply, check_epochs};
pub use reads::{WrongRead, check_reads};
pub use reigns::{Reign, reigns};

/// One call that was answered with success.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Which engine made it.
    pub engine: usize,
    /// Taken before the request was sent.
    pub invoked: Moment,
    /// Taken after the answer was there.
    pub returned: Moment,
    /// The leader's epoch, as the answer tells it.
    pub epoch: u64,
    /// The node that answered.
    pub node: Arc<str>,
    /// What the call was for.
    pub what: What,
}

/// What a call was for, with what the checks need of its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A prefix match: the first `hits` of `keys` were there.
    Lookup {
        /// The keys asked for, in order.
        keys: Arc<[i64]>,
        /// How many of them, from the first, were found.
        hits: usize,
    },
    /// The end of a write: from now on all of `keys` can be read.
    Written {
        /// The keys of the session that were reported as written.
        keys: Vec<i64>,
    },
    /// A call without keys in its answer.
    Other,
}

/// A write that was sent and not acknowledged: it may have happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsettled {
    /// Taken before the request was sent.
    pub invoked: Moment,
    /// The keys of the session.
    pub keys: Vec<i64>,
}

/// Everything that one or several engines saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Calls that were answered with success.
    pub calls: Vec<Call>,
    /// Writes of which nothing is known.
    pub unsettled: Vec<Unsettled>,
}

impl History {
    /// Adds what another engine saw.
    pub fn merge(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.unsettled.extend(other.unsettled);
    }

    /// Acknowledged writes: the call and its keys.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&Call, &[i64])> {
        self.calls.iter().filter_map(|call| match &call.what {
            What::Written { keys } => Some((call, keys.as_slice())),
            _ => None,
        })
    }

    /// Lookups: the call, its keys and how many were found.
    fn lookups(&self) -> impl Iterator<Item = (&Call, &[i64], usize)> {
        self.calls.iter().filter_map(|call| match &call.what {
            What::Lookup { keys, hits } => Some((call, &**keys, *hits)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment `ms` milliseconds after the origin.
    pub(super) fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    /// A call from `invoked` to `returned`, in milliseconds, answered under `epoch`.
    pub(super) fn call(epoch: u64, invoked: u64, returned: u64, what: What) -> Call {
        Call {
            engine: 0,
            invoked: at(invoked),
            returned: at(returned),
            epoch,
            node: format!("node-of-{epoch}").into(),
            what,
        }
    }

    pub(super) fn lookup(keys: &[i64], hits: usize) -> What {
        What::Lookup {
            keys: keys.into(),
            hits,
        }
    }

    pub(super) fn written(keys: &[i64]) -> What {
        What::Written {
            keys: keys.to_vec(),
        }
    }

    pub(super) fn history(calls: impl IntoIterator<Item = Call>) -> History {
        History {
            calls: calls.into_iter().collect(),
            unsettled: Vec::new(),
        }
    }
}
