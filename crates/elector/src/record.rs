//! What is remembered of each change of leadership, so that it can be explained later.

use std::{fmt, time::Duration};

use coordination_core::{Owner, ReignEnd};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use crate::LossReason;

/// One change of leadership as this node saw it, and the wall-clock time of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, for people: milliseconds since 1970. No decision looks at it.
    pub wall_ms: u64,
    /// What.
    pub change: Change,
}

/// One change of leadership as this node saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When this node saw it.
    pub at: Moment,
    /// Who leads from then on, or has led until then.
    pub owner: Owner,
    /// The epoch that begins or ends.
    pub epoch: Epoch,
    /// What has changed, and why.
    pub turn: Turn,
    /// What shows it, in words.
    pub evidence: String,
    /// How long each part took that this node has seen.
    pub took: Took,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This node leads: its gate has opened.
    Won {
        /// How the reign before ended; none when there was none.
        after: Option<ReignEnd>,
    },
    /// Another node holds the lock.
    Seen,
    /// This node no longer holds the lock, whether or not its gate had opened.
    Ended(LossReason),
}

/// How long each part of a change took. A part that this node did not see, or that did not happen,
/// is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// From the last sign of life of the leader before, as this node knows it, to the try that
    /// won: after a crash about a lease, after a release at most a loop interval.
    pub detect: Option<Duration>,
    /// From that try to its answer.
    pub win: Option<Duration>,
    /// The promote callback.
    pub recover: Option<Duration>,
    /// From its end to the open gate: the confirmation of the lock, and the guard if there was one.
    pub open: Option<Duration>,
    /// The part of `open` in which a former leader whose end is unproven was waited out.
    pub guard: Option<Duration>,
    /// From the wish to step down until nothing was in flight.
    pub drain: Option<Duration>,
    /// From then on until the lock was released.
    pub release: Option<Duration>,
}

/// The names of the parts, in the order of [`Took::parts`].
pub const PARTS: [&str; 7] = [
    "detect", "win", "recover", "open", "guard", "drain", "release",
];

impl Took {
    /// All parts by name.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, Option<Duration>)> + use<> {
        let values = [
            self.detect,
            self.win,
            self.recover,
            self.open,
            self.guard,
            self.drain,
            self.release,
        ];
        PARTS.into_iter().zip(values)
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, part) in self.parts() {
            if let Some(part) = part {
                let space = if first { "" } else { " " };
                write!(f, "{space}{name}={part:?}")?;
                first = false;
            }
        }
        Ok(())
    }
}

impl Turn {
    /// A word for a metric: `won`, `seen`, `released` (as was asked) or `lost`.
    pub const fn result(&self) -> &'static str {
        match self {
            Self::Won { .. } => "won",
            Self::Seen => "seen",
            Self::Ended(reason) if reason.was_asked() => "released",
            Self::Ended(_) => "lost",
        }
    }

    /// A word for a metric: how the reign before ended, or why this one did.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Won { after } => match after {
                None => "first",
                Some(ReignEnd::Released) => "released",
                Some(ReignEnd::Expired) => "expired",
                Some(ReignEnd::Dead) => "died",
                Some(ReignEnd::Unknown) => "unproven",
            },
            Self::Seen => "other",
            Self::Ended(reason) => reason.as_str(),
        }
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.result(), self.reason())
    }
}
