//! The parts of the run, and what happened in each.

use tokio::sync::watch;

/// A part of the run, named after what it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// The phase that must be on before request `index` of `requests` begins. A little later than
    /// [`begins_at_percent`](Self::begins_at_percent), so that nobody waits while all goes well;
    /// when a node is slow to start, requests are left for the time after.
    pub(crate) fn due_for(index: usize, requests: usize) -> Self {
        let is_due = |phase: &&Self| {
            let from = phase.begins_at_percent() + Self::PATIENCE_PERCENT;
            index * 100 >= requests * from
        };
        Self::ALL
            .iter()
            .rev()
            .find(is_due)
            .copied()
            .unwrap_or(Self::Steady)
    }

    const PATIENCE_PERCENT: usize = 8;

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
#[derive(Debug)]
pub(crate) struct CurrentPhase(watch::Sender<Phase>);

impl CurrentPhase {
    /// Begins `phase`.
    pub(crate) fn set(&self, phase: Phase) {
        self.0.send_replace(phase);
    }

    /// Waits until `phase` has begun, and tells which one is on.
    pub(crate) async fn at_least(&self, phase: Phase) -> Phase {
        let mut current = self.0.subscribe();
        let on = current.wait_for(|on| *on >= phase).await;
        // The sender lives as long as we do.
        on.map_or(phase, |on| *on)
    }
}

impl Default for CurrentPhase {
    fn default() -> Self {
        Self(watch::Sender::new(Phase::Steady))
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

    #[tokio::test]
    async fn phases_follow_each_other() {
        let current = CurrentPhase::default();
        assert_eq!(current.at_least(Phase::Steady).await, Phase::Steady);
        let (seen, ()) = tokio::join!(current.at_least(Phase::AfterDemote), async {
            current.set(Phase::AfterKill);
            tokio::task::yield_now().await;
            current.set(Phase::AfterDemote);
        });
        assert_eq!(seen, Phase::AfterDemote);
    }

    #[test]
    fn requests_wait_for_a_phase_only_after_it_could_have_begun() {
        for requests in [20, 333, 6000] {
            let mut met = Vec::new();
            for index in 0..requests {
                let due = Phase::due_for(index, requests);
                // Else director and engines would wait for each other.
                assert!(
                    index >= requests * due.begins_at_percent() / 100,
                    "{index} {due:?}"
                );
                if met.last() != Some(&due) {
                    met.push(due);
                }
            }
            assert_eq!(met, Phase::ALL);
        }
    }
}
