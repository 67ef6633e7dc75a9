//! Reads agree with writes, whoever led when.

use std::{collections::HashMap, fmt};

use kvcm_clock::Moment;

use super::{Call, History};

/// A lookup that contradicts what was written.
#[derive(Clone, Debug, PartialEq)]
pub enum WrongRead {
    /// A key that was acknowledged before the lookup began, by this leader or one before it, was not
    /// found.
    Lost {
        /// The lookup.
        lookup: Call,
        /// The key.
        key: i64,
        /// Its place among the keys asked for.
        place: usize,
        /// When its write was acknowledged.
        acknowledged: Moment,
    },
    /// A key was found that nobody had reported as written.
    Phantom {
        /// The lookup.
        lookup: Call,
        /// The key.
        key: i64,
        /// Its place among the keys asked for.
        place: usize,
    },
}

/// Every lookup that misses an acknowledged write, of whatever reign, or finds what nobody wrote.
/// One mistake for each such lookup. Holds for durable stores and runs in which nothing is removed.
///
/// A prefix match ends at the first key that is not there, so a lookup has to find the keys up to
/// the first that was not acknowledged before it began, and may find more.
pub fn check_reads(history: &History) -> Vec<WrongRead> {
    // When each key was first acknowledged, and first sent at all.
    let mut acknowledged: HashMap<i64, Moment> = HashMap::new();
    let mut sent: HashMap<i64, Moment> = HashMap::new();
    for (call, keys) in history.writes() {
        for key in keys {
            earliest(&mut acknowledged, *key, call.returned);
            earliest(&mut sent, *key, call.invoked);
        }
    }
    for write in &history.unsettled {
        for key in &write.keys {
            earliest(&mut sent, *key, write.invoked);
        }
    }

    let check = |(lookup, keys, hits): (&Call, &[i64], usize)| {
        let before = |key| {
            let moment = acknowledged.get(key);
            moment.filter(|moment| **moment < lookup.invoked)
        };
        let due = keys.iter().take_while(|key| before(key).is_some()).count();
        if let Some(key) = keys[..due].get(hits) {
            let acknowledged = *before(key)?;
            return Some(WrongRead::Lost {
                lookup: lookup.clone(),
                key: *key,
                place: hits,
                acknowledged,
            });
        }
        let found = &keys[..hits.min(keys.len())];
        let known = |key| {
            sent.get(key)
                .is_some_and(|moment| *moment < lookup.returned)
        };
        let place = found.iter().position(|key| !known(key))?;
        Some(WrongRead::Phantom {
            lookup: lookup.clone(),
            key: found[place],
            place,
        })
    };
    history.lookups().filter_map(check).collect()
}

fn earliest(moments: &mut HashMap<i64, Moment>, key: i64, moment: Moment) {
    moments
        .entry(key)
        .and_modify(|known| *known = moment.min(*known))
        .or_insert(moment);
}

impl fmt::Display for WrongRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Lost {
            lookup, key, place, ..
        }
        | Self::Phantom { lookup, key, place }) = self;
        write!(
            f,
            "engine {} asked at {} and was answered by {} under epoch {}: key {key} (number \
             {place} of those asked for) ",
            lookup.engine, lookup.invoked, lookup.node, lookup.epoch
        )?;
        match self {
            Self::Lost { acknowledged, .. } => write!(
                f,
                "was not found, though its write had been acknowledged at {acknowledged}"
            ),
            Self::Phantom { .. } => write!(f, "was found, though nobody had written it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Unsettled,
            tests::{at, call, history, lookup, written},
        },
        *,
    };

    #[test]
    fn a_missing_acknowledged_key_is_caught() {
        let read = call(1, 20, 30, lookup(&[1, 2, 3], 1));
        let wrong = check_reads(&history([call(1, 0, 10, written(&[1, 2])), read.clone()]));
        let expected = WrongRead::Lost {
            lookup: read,
            key: 2,
            place: 1,
            acknowledged: at(10),
        };
        assert_eq!(wrong, [expected]);
        assert!(
            wrong[0].to_string().contains("was not found"),
            "{}",
            wrong[0]
        );
    }

    #[test]
    fn only_the_prefix_up_to_the_first_unacknowledged_key_is_due() {
        // Key 2 was never written, so a prefix match cannot reach key 3.
        let calls = [
            call(1, 0, 10, written(&[1, 3])),
            call(1, 20, 30, lookup(&[1, 2, 3], 1)),
        ];
        assert_eq!(check_reads(&history(calls)), []);
        let calls = [
            call(1, 0, 10, written(&[2, 3])),
            call(1, 20, 30, lookup(&[1, 2, 3], 0)),
        ];
        assert_eq!(check_reads(&history(calls)), []);
    }

    #[test]
    fn a_write_that_overlaps_the_lookup_may_be_seen_or_not() {
        let write = || call(1, 0, 20, written(&[1]));
        for hits in [0, 1] {
            let calls = [write(), call(1, 10, 30, lookup(&[1], hits))];
            assert_eq!(check_reads(&history(calls)), []);
        }
    }

    #[test]
    fn the_next_reign_has_to_know_what_the_one_before_acknowledged() {
        for (hits, wrong) in [(0, 1), (1, 0)] {
            let calls = [
                call(1, 0, 10, written(&[1])),
                call(2, 20, 30, lookup(&[1], hits)),
            ];
            assert_eq!(check_reads(&history(calls)).len(), wrong);
        }
    }

    #[test]
    fn the_first_acknowledgement_counts_when_a_key_is_written_twice() {
        let calls = [
            call(1, 40, 50, written(&[1])),
            call(1, 0, 10, written(&[1])),
            call(1, 20, 30, lookup(&[1], 0)),
        ];
        assert_eq!(check_reads(&history(calls)).len(), 1);
    }

    #[test]
    fn a_key_that_nobody_wrote_is_caught() {
        let read = call(1, 20, 30, lookup(&[1, 2], 2));
        let early = history([call(1, 0, 10, written(&[1])), read.clone()]);
        let expected = WrongRead::Phantom {
            lookup: read,
            key: 2,
            place: 1,
        };
        assert_eq!(check_reads(&early), [expected]);
        // Written, but sent only after the answer was there.
        let mut late = early;
        late.calls.push(call(1, 31, 40, written(&[2])));
        assert_eq!(check_reads(&late).len(), 1);
    }

    #[test]
    fn a_write_of_unknown_outcome_may_be_seen() {
        let mut history = history([call(1, 20, 30, lookup(&[1], 1))]);
        assert_eq!(check_reads(&history).len(), 1);
        history.unsettled.push(Unsettled {
            invoked: at(5),
            keys: vec![1],
        });
        assert_eq!(check_reads(&history), []);
    }
}
