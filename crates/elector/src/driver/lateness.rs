//! How late this process's own timers are.

use std::time::Duration;

use crate::settings::MIN_MARGIN;

/// How many wake-ups are remembered.
const SAMPLES: usize = 1000;

/// The lateness of the last thousand wake-ups. A lease needs a margin for it: a process that is
/// often late by 20 ms must give up 40 ms earlier than one that is always on time.
#[derive(Debug)]
pub(super) struct Lateness {
    samples: Vec<Duration>,
    next: usize,
    since_margin: usize,
}

impl Lateness {
    pub(super) fn new() -> Self {
        Self {
            samples: Vec::with_capacity(SAMPLES),
            next: 0,
            since_margin: 0,
        }
    }

    /// Takes a sample; from time to time returns the margin that follows: twice the 99.9th
    /// percentile, at least 5 ms.
    pub(super) fn record(&mut self, late: Duration) -> Option<Duration> {
        if self.samples.len() < SAMPLES {
            self.samples.push(late);
        } else {
            self.samples[self.next] = late;
            self.next = (self.next + 1) % SAMPLES;
        }
        self.since_margin += 1;
        if self.since_margin < 50 {
            return None;
        }
        self.since_margin = 0;
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let worst = sorted[(sorted.len() - 1) * 999 / 1000];
        Some((2 * worst).max(MIN_MARGIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margin_is_twice_the_worst_but_one_in_a_thousand() {
        let ms = Duration::from_millis;
        let mut lateness = Lateness::new();
        let mut margin = None;
        for sample in 0..1000 {
            let late = if sample == 500 {
                ms(90)
            } else {
                ms(sample % 20)
            };
            margin = lateness.record(late).or(margin);
        }
        assert_eq!(margin, Some(ms(38)));
        for _ in 0..1000 {
            margin = lateness.record(ms(1)).or(margin);
        }
        assert_eq!(margin, Some(ms(5)));
    }
}
