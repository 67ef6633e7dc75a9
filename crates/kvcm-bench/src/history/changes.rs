//! Changes of leader, and how long writes waited for them.

use std::time::Duration;

use kvcm_clock::Moment;

use super::History;

/// From one reign to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The epoch that ended.
    pub from: u64,
    /// The next epoch that engines saw.
    pub to: u64,
    /// When it was set off; `None` when nobody did.
    pub cause: Option<(Moment, String)>,
}

/// A time without an acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// How long.
    pub length: Duration,
    /// When the last write before it was acknowledged.
    pub from: Moment,
}

/// The longest time without an acknowledged write around a change: between its cause, or else the
/// last write of the old reign, and the first write of the new one. `None` when one of the two
/// reigns acknowledged nothing.
pub fn gap(history: &History, change: &Change) -> Option<Gap> {
    let writes = |wanted: fn(u64, &Change) -> bool| {
        let writes = history.writes();
        writes
            .filter(move |(call, _)| wanted(call.epoch, change))
            .map(|(call, _)| call.returned)
    };
    let end = writes(|epoch, change| epoch >= change.to).min()?;
    let last = writes(|epoch, change| epoch <= change.from).max()?;
    let begin = change.cause.as_ref().map_or(last, |(moment, _)| *moment);
    let mut moments: Vec<_> = writes(|_, _| true)
        .filter(|moment| *moment <= end)
        .collect();
    moments.sort_unstable();
    // The last write before the beginning bounds the first gap.
    let first = moments
        .partition_point(|moment| *moment <= begin)
        .saturating_sub(1);
    moments[first..]
        .windows(2)
        .map(|pair| Gap {
            length: pair[1].since(pair[0]),
            from: pair[0],
        })
        .max_by_key(|gap| gap.length)
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, call, history, written},
        *,
    };

    fn gap_ms(writes: &[(u64, u64)], cause: Option<u64>) -> Option<(u64, u128)> {
        let calls = writes
            .iter()
            .map(|(epoch, ms)| call(*epoch, *ms, *ms, written(&[1])));
        let change = Change {
            from: 1,
            to: 2,
            cause: cause.map(|ms| (at(ms), "kill".to_owned())),
        };
        let gap = gap(&history(calls), &change)?;
        Some((gap.from.as_millis(), gap.length.as_millis()))
    }

    #[test]
    fn it_reaches_from_the_last_write_before_the_cause_to_the_first_of_the_new_reign() {
        let writes = [(1, 0), (1, 500), (1, 600), (2, 900), (2, 2000)];
        assert_eq!(gap_ms(&writes, Some(700)), Some((600, 300)));
        assert_eq!(gap_ms(&writes, None), Some((600, 300)));
    }

    #[test]
    fn writes_of_the_old_reign_after_the_cause_cut_it() {
        let writes = [(1, 0), (1, 100), (1, 400), (2, 500)];
        assert_eq!(gap_ms(&writes, Some(150)), Some((100, 300)));
    }

    #[test]
    fn a_reign_without_writes_has_none() {
        assert_eq!(gap_ms(&[(1, 0), (1, 100)], Some(50)), None);
        assert_eq!(gap_ms(&[(2, 100)], None), None);
    }
}
