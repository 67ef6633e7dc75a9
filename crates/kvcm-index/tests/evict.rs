//! The oldest keys of several indexes against a sorted list.

use std::collections::BTreeMap;

use kvcm_index::{Ages, BlockIndex, Counter, Cutoff, Grant, Location, State};
use proptest::prelude::*;

const KEYS: i64 = 40;

/// What happens to a key: its states, and the second of its last use.
#[derive(Clone, Debug)]
struct Key {
    states: Vec<State>,
    storage: u16,
    last_used: u32,
}

fn key() -> impl Strategy<Value = Key> {
    let state = prop_oneof![
        1 => Just(State::Reserved),
        1 => Just(State::Writing),
        8 => Just(State::Serving),
        1 => Just(State::Deleting),
    ];
    let parts = (prop::collection::vec(state, 1..3), 0u16..3, 0u32..8);
    parts.prop_map(|(states, storage, last_used)| Key {
        states,
        storage,
        last_used,
    })
}

fn grant(number: usize) -> Grant {
    Grant {
        epoch: 1,
        counter: number as u64,
    }
}

fn index(keys: &BTreeMap<i64, Key>) -> BlockIndex {
    let index = BlockIndex::new();
    for (key, at) in keys {
        let location = |(number, state)| {
            let location = Location::new(grant(number), 0, at.storage, 0, state);
            (*key, location)
        };
        let locations: Vec<_> = at
            .states
            .iter()
            .copied()
            .enumerate()
            .map(location)
            .collect();
        index.restore(locations, at.last_used);
    }
    index
}

/// What a location of a storage counts; 0 of storage 0, which nothing is to go from.
fn weigh(locations: &[Location]) -> u64 {
    locations.iter().map(|l| u64::from(l.storage()) * 10).sum()
}

fn victims(
    index: &BlockIndex,
    cutoff: &mut Cutoff,
    limit: usize,
    mut after_batch: impl FnMut(&[(i64, Vec<Location>, u32)]),
) -> Vec<(i64, u32)> {
    let mut all = Vec::new();
    let mut below = Some(usize::MAX);
    while let Some(from) = below {
        let mut batch = Vec::new();
        below = index.oldest(cutoff, from, limit, weigh, |key, list, last| {
            batch.push((key, list.to_vec(), last));
        });
        assert!(batch.len() <= limit);
        after_batch(&batch);
        all.extend(batch.iter().map(|(key, _, last)| (*key, *last)));
    }
    all
}

proptest! {
    #[test]
    fn the_oldest_of_all_indexes_go_and_the_later_slots_of_a_second_first(
        groups in prop::collection::vec(prop::collection::btree_map(0..KEYS, key(), 0..30), 1..4),
        amount in 0u64..600,
        limit in 1usize..9,
    ) {
        let indexes: Vec<_> = groups.iter().map(index).collect();
        let mut ages = Ages::default();
        indexes.iter().for_each(|index| index.ages(weigh, &mut ages));

        // Oldest first; of one second index by index, and the later slots first. Keys rise with
        // the slots here.
        let mut candidates = Vec::new();
        for (number, keys) in groups.iter().enumerate() {
            for (key, at) in keys {
                let serving = at.states.iter().all(|state| *state == State::Serving);
                let weight = u64::from(at.storage) * 10 * at.states.len() as u64;
                if serving && weight > 0 {
                    candidates.push((at.last_used, number, -key, weight));
                }
            }
        }
        candidates.sort_unstable();
        prop_assert_eq!(ages.total(), candidates.iter().map(|c| c.3).sum::<u64>());
        let mut left = amount;
        let going = candidates.iter().take_while(|(.., weight)| {
            let goes = left > 0;
            left = left.saturating_sub(*weight);
            goes
        });
        let mut expected: Vec<_> = going.map(|(last, at, key, _)| (*at, -key, *last)).collect();
        expected.sort_unstable();

        let mut found = Vec::new();
        if let Some(mut cutoff) = ages.cutoff(amount) {
            for (number, index) in indexes.iter().enumerate() {
                let shown = victims(index, &mut cutoff, limit, |batch| {
                    // They go at once, which does not disturb the search.
                    let flat = batch.iter().flat_map(|(key, list, _)| {
                        list.iter().map(|l| (*key, l.grant()))
                    });
                    let mut retired = 0;
                    index.retire(flat, |_, location| {
                        assert_eq!(location.state(), State::Deleting);
                        retired += 1;
                    });
                    assert_eq!(retired, batch.iter().map(|(_, list, _)| list.len()).sum::<usize>());
                });
                let falling = shown.windows(2).all(|pair| pair[0].0 > pair[1].0);
                prop_assert!(falling, "{:?}", shown);
                found.extend(shown.iter().map(|(key, last)| (number, *key, *last)));
            }
        }
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

fn serving(keys: impl IntoIterator<Item = i64>, now_s: u32) -> BlockIndex {
    let index = BlockIndex::new();
    let location = Location::new(grant(0), 0, 1, 0, State::Serving);
    let locations: Vec<_> = keys.into_iter().map(|key| (key, location)).collect();
    index.restore(locations, now_s);
    index
}

#[test]
fn looking_for_victims_is_no_use() {
    let index = serving(0..10, 3);
    let mut ages = Ages::default();
    index.ages(weigh, &mut ages);
    let mut cutoff = ages.cutoff(50).unwrap();
    assert_eq!(victims(&index, &mut cutoff, 100, |_| {}).len(), 5);
    index.scan(0, 100, |_, _, last| assert_eq!(last, 3));
}

#[test]
fn the_hot_keys_stay_however_often_the_others_are_looked_at() {
    let index = serving(0..1000, 1);
    for second in 2..50 {
        let hot: Vec<i64> = (0..100).collect();
        let select = |list: &[Location]| list.iter().position(Location::is_serving);
        index.match_prefix(&hot, second, select, &mut Counter::default());
        let mut ages = Ages::default();
        index.ages(weigh, &mut ages);
        let mut cutoff = ages.cutoff(100).unwrap();
        let shown = victims(&index, &mut cutoff, 7, |batch| {
            for (key, list, _) in batch {
                index.release(&[*key], list[0].grant(), |_, _| {});
            }
        });
        assert!(shown.iter().all(|(key, _)| *key >= 100), "{shown:?}");
    }
}

#[test]
fn the_victims_of_many_slots_come_in_batches_that_hold_no_lock_for_long() {
    // More slots than one lock covers.
    let index = serving(0..200_000, 1);
    let mut cutoff = Cutoff {
        last_used: 1,
        rest: 1_500_000,
    };
    let shown = victims(&index, &mut cutoff, 40_000, |batch| {
        // Would wait for ever if the lock were held.
        index.retire(
            batch.iter().map(|(key, list, _)| (*key, list[0].grant())),
            |_, _| {},
        );
    });
    let expected: Vec<_> = (50_000..200_000).rev().map(|key| (key, 1)).collect();
    assert!(shown == expected, "{} shown", shown.len());
}

#[test]
fn only_what_is_written_or_being_written_is_retired() {
    let index = BlockIndex::new();
    let states = [
        State::Reserved,
        State::Writing,
        State::Serving,
        State::Deleting,
    ];
    let locations = (0..).zip(states);
    let locations: Vec<_> = locations
        .map(|(key, state)| (key, Location::new(grant(0), 0, 1, 0, state)))
        .collect();
    index.restore(locations, 1);
    // Neither one of another grant nor an absent one.
    let other = [(2, grant(9)), (7, grant(0))];
    index.retire(other, |key, _| panic!("{key} was retired"));
    let mut retired = Vec::new();
    let all = (0..4).map(|key| (key, grant(0)));
    index.retire(all, |key, location| {
        assert_eq!(location.state(), State::Deleting);
        retired.push(key);
    });
    assert_eq!(retired, [1, 2]);
    let mut left = Vec::new();
    index.scan(0, 10, |_, list, _| left.push(list[0].state()));
    let expected = [
        State::Reserved,
        State::Deleting,
        State::Deleting,
        State::Deleting,
    ];
    assert_eq!(left, expected);
}
