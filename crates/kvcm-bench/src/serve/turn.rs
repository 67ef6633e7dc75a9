//! Turns: so long, or so many requests, of one server's clients.

use std::time::Duration;

use kvcm_clock::{BootClock, Clock};

use crate::{machine, samples::Samples};

/// What one server did in one turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) taken: Vec<Duration>,
    pub(super) time: Duration,
    /// How long the server was on a processor meanwhile; `None` where the machine does not tell.
    busy: Option<Duration>,
}

/// What one server did in all its turns.
#[derive(Debug, Default)]
pub(super) struct Figures {
    turns: Vec<Turn>,
}

impl Turn {
    /// Measures `work`, which gives how long each of its calls took; `pid` serves them.
    pub(super) async fn measure(
        pid: u32,
        work: impl Future<Output = anyhow::Result<Vec<Duration>>>,
    ) -> anyhow::Result<Self> {
        let before = machine::processor_time(pid);
        let start = BootClock.now();
        let taken = work.await?;
        let time = BootClock.now().since(start);
        let after = machine::processor_time(pid);
        let busy = after
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        Ok(Self { taken, time, busy })
    }

    fn rate(&self) -> f64 {
        self.taken.len() as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

impl Figures {
    pub(super) fn add(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    fn calls(&self) -> usize {
        self.turns.iter().map(|turn| turn.taken.len()).sum()
    }

    /// Calls in a second.
    pub(super) fn rate(&self) -> f64 {
        let time: Duration = self.turns.iter().map(|turn| turn.time).sum();
        self.calls() as f64 / time.as_secs_f64().max(1e-9)
    }

    /// Microseconds of the server's processors for each call.
    pub(super) fn cost(&self) -> Option<f64> {
        let busy: Option<Duration> = self.turns.iter().map(|turn| turn.busy).sum();
        busy.map(|busy| busy.as_secs_f64() * 1e6 / self.calls().max(1) as f64)
    }

    pub(super) fn samples(&self) -> Samples {
        self.turns
            .iter()
            .flat_map(|turn| turn.taken.iter().copied())
            .collect()
    }

    /// The rate by that of `other` in the same turn: least, median, most. None without turns.
    pub(super) fn ratio(&self, other: &Self) -> Option<[f64; 3]> {
        let pairs = self.turns.iter().zip(&other.turns);
        let mut ratios: Vec<_> = pairs.map(|(a, b)| a.rate() / b.rate().max(1e-9)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let (first, last) = (ratios.first()?, ratios.last()?);
        Some([*first, ratios[ratios.len() / 2], *last])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_turns_that_were_neighbours() {
        let figures = |calls: [usize; 3]| Figures {
            turns: calls
                .map(|calls| Turn {
                    taken: vec![Duration::from_micros(50); calls],
                    time: Duration::from_millis(500),
                    busy: Some(Duration::from_millis(10)),
                })
                .into(),
        };
        let (a, b) = (figures([100, 400, 900]), figures([100, 100, 300]));
        assert_eq!(a.ratio(&b), Some([1.0, 3.0, 4.0]));
        assert_eq!(b.rate(), 500.0 / 1.5);
        assert_eq!(b.cost(), Some(60.0));
        assert_eq!(a.ratio(&Figures::default()), None);
    }
}
