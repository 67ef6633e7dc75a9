//! The parts of the run, and what happened in each.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A part of the run, named after what it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing has happened yet.
    Steady,
    /// The leader was killed.
    AfterKill,
    /// The next leader was asked to hand over.
    AfterDemote,
    /// The killed node was started again.
    AfterRestart,
}

impl Phase {
    /// In order of time.
    pub(crate) const ALL: [Self; 4] = [
        Self::Steady,
        Self::AfterKill,
        Self::AfterDemote,
        Self::AfterRestart,
    ];

    /// Which share of the requests, in percent, is done when the phase begins.
    pub(crate) fn begins_at_percent(self) -> usize {
        match self {
            Self::Steady => 0,
            Self::AfterKill => 40,
            Self::AfterDemote => 65,
            Self::AfterRestart => 80,
        }
    }

    /// For people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::AfterKill => "after SIGKILL",
            Self::AfterDemote => "after LeaderDemote",
            Self::AfterRestart => "after the restart",
        }
    }
}

/// The phase that is on, for all engines.
#[derive(Debug, Default)]
pub(crate) struct CurrentPhase(AtomicUsize);

impl CurrentPhase {
    /// Begins `phase`.
    pub(crate) fn set(&self, phase: Phase) {
        self.0.store(phase as usize, Ordering::Relaxed);
    }

    /// What is on.
    pub(crate) fn get(&self) -> Phase {
        Phase::ALL[self.0.load(Ordering::Relaxed).min(Phase::ALL.len() - 1)]
    }
}

/// Counts of the requests that began in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Requests of the trace.
    pub(crate) requests: u64,
    /// Blocks looked up.
    pub(crate) blocks: u64,
    /// Those of them that were found.
    pub(crate) hits: u64,
    /// Blocks whose write was acknowledged.
    pub(crate) written: u64,
}

impl Tally {
    /// Adds another engine's counts.
    pub(crate) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.blocks += other.blocks;
        self.hits += other.hits;
        self.written += other.written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_each_other() {
        let current = CurrentPhase::default();
        assert_eq!(current.get(), Phase::Steady);
        for (place, phase) in Phase::ALL.into_iter().enumerate() {
            current.set(phase);
            assert_eq!(current.get(), phase);
            let later = &Phase::ALL[place + 1..];
            assert!(
                later
                    .iter()
                    .all(|l| l.begins_at_percent() > phase.begins_at_percent())
            );
        }
    }
}
