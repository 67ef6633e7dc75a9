//! What a new leader still knows of the reigns before it.

use std::collections::{HashMap, HashSet};

use kvcm_clock::Moment;

use super::History;

/// Blocks acknowledged in an earlier reign that were asked for in a later one, before anybody
/// wrote them again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Different blocks asked for.
    pub asked: usize,
    /// Those of them that were found.
    pub found: usize,
}

/// For the reign of `epoch`: what of the earlier reigns was asked for, and what was found.
///
/// A block behind one that is missing counts as not found, as a prefix match has it.
pub fn carried(history: &History, epoch: u64) -> Carried {
    let mut acknowledged: HashMap<i64, Moment> = HashMap::new();
    let mut sent: HashMap<i64, Moment> = HashMap::new();
    let earliest = |moments: &mut HashMap<i64, Moment>, keys: &[i64], moment: Moment| {
        for key in keys {
            let known = moments.entry(*key).or_insert(moment);
            *known = moment.min(*known);
        }
    };
    for (call, keys) in history.writes() {
        if call.epoch < epoch {
            earliest(&mut acknowledged, keys, call.returned);
        } else {
            earliest(&mut sent, keys, call.invoked);
        }
    }
    for write in &history.unsettled {
        earliest(&mut sent, &write.keys, write.invoked);
    }

    let (mut asked, mut found) = (HashSet::new(), HashSet::new());
    for (lookup, keys, hits) in history.lookups().filter(|(call, ..)| call.epoch == epoch) {
        for (place, key) in keys.iter().enumerate() {
            let again = sent
                .get(key)
                .is_some_and(|moment| *moment < lookup.returned);
            let before = acknowledged
                .get(key)
                .is_some_and(|moment| *moment < lookup.invoked);
            if before && !again {
                asked.insert(*key);
                if place < hits {
                    found.insert(*key);
                }
            }
        }
    }
    Carried {
        asked: asked.len(),
        found: found.len(),
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
    fn blocks_of_earlier_reigns_count_until_they_are_written_again() {
        let calls = [
            call(1, 0, 10, written(&[1, 2, 3])),
            call(2, 20, 30, lookup(&[1, 2, 3, 4], 2)),
            call(2, 31, 32, lookup(&[1, 2], 2)),
            call(2, 40, 50, written(&[3, 4])),
            call(2, 60, 70, lookup(&[1, 2, 3, 4], 4)),
        ];
        assert_eq!(carried(&history(calls), 2), Carried { asked: 3, found: 2 });
    }

    #[test]
    fn nothing_is_claimed_of_blocks_that_may_have_been_written_again() {
        let mut history = history([
            call(1, 0, 10, written(&[1])),
            call(2, 20, 30, lookup(&[1], 1)),
        ]);
        assert_eq!(carried(&history, 2), Carried { asked: 1, found: 1 });
        history.unsettled.push(Unsettled {
            invoked: at(15),
            keys: vec![1],
        });
        assert_eq!(carried(&history, 2), Carried::default());
    }
}
