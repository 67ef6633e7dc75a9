//! What came out of it.

use std::{collections::BTreeMap, fmt, time::Duration};

/// What a torture has done and seen.
#[derive(Debug, Default)]
pub struct Report {
    pub(super) seed: u64,
    pub(super) rounds: usize,
    /// How many were killed while they did what.
    pub(super) kills: BTreeMap<&'static str, usize>,
    /// How many were stopped while they did what.
    pub(super) stops: BTreeMap<&'static str, usize>,
    /// Acquisitions by how the reign before ended.
    pub(super) ends: BTreeMap<String, usize>,
    /// All reigns that were told of.
    pub(super) reigns: usize,
    /// Calls that failed.
    pub(super) failures: usize,
    /// From the kill of a process that surely held the lock until another knew that it had it.
    pub(super) takeovers: Vec<Duration>,
    pub(super) took: Duration,
}

impl Report {
    /// How many reigns there were.
    pub fn reigns(&self) -> usize {
        self.reigns
    }

    /// How many holders were killed and followed.
    pub fn takeovers(&self) -> usize {
        self.takeovers.len()
    }

    /// How many reigns followed one that ended so: `released`, `expired`, `dead` or `unknown`.
    pub fn after(&self, end: &str) -> usize {
        let name = format!("acquired-{end}");
        self.ends.get(&name).copied().unwrap_or_default()
    }

    /// The lateness below which `share` of the takeovers were.
    fn takeover(&self, share: f64) -> Duration {
        let mut sorted = self.takeovers.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of a short list"
        )]
        let index = (last as f64 * share).round() as usize;
        sorted.get(index).copied().unwrap_or_default()
    }
}

// === impl Display ===

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed, rounds, took, ..
        } = self;
        writeln!(f, "{rounds} rounds in {took:.1?}, seed {seed}")?;
        writeln!(f, "  killed while   {}", list(&self.kills))?;
        if !self.stops.is_empty() {
            writeln!(f, "  stopped while  {}", list(&self.stops))?;
        }
        let ends = self.ends.iter();
        let ends = ends.map(|(end, count)| (end.trim_start_matches("acquired-"), count));
        let ends: Vec<_> = ends.map(|(end, count)| format!("{end} {count}")).collect();
        let (reigns, failures) = (self.reigns, self.failures);
        writeln!(f, "  reigns         {reigns}, after {}", ends.join(", "))?;
        writeln!(f, "  failed calls   {failures}")?;
        write!(
            f,
            "  takeovers      {} from killed holders: p50 {:.1?}, p99 {:.1?}, max {:.1?}",
            self.takeovers.len(),
            self.takeover(0.5),
            self.takeover(0.99),
            self.takeover(1.0)
        )
    }
}

fn list(counts: &BTreeMap<&'static str, usize>) -> String {
    let all: usize = counts.values().sum();
    let each = counts.iter().map(|(what, count)| format!("{what} {count}"));
    format!("{} ({all})", each.collect::<Vec<_>>().join(", "))
}
