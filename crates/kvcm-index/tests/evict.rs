//! The oldest keys of several indexes against a sorted list.

use std::collections::BTreeMap;

use kvcm_index::{BlockIndex, Counter, Cutoff, Grant, Location, State};
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

fn cutoff(indexes: &[&BlockIndex], amount: u64) -> Option<Cutoff> {
    Cutoff::of(indexes, amount, |_, list| weigh(list))
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
        let all: Vec<_> = indexes.iter().collect();
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
        let mut left = amount;
        let going = candidates.iter().take_while(|(.., weight)| {
            let goes = left > 0;
            left = left.saturating_sub(*weight);
            goes
        });
        let mut expected: Vec<_> = going.map(|(last, at, key, _)| (*at, -key, *last)).collect();
        expected.sort_unstable();

        let mut found = Vec::new();
        if let Some(mut cutoff) = cutoff(&all, amount) {
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

/// What happens to an index over time.
#[derive(Clone, Debug)]
enum Step {
    /// So many new keys are written together.
    Write(i64),
    /// The keys from this one on are used, so many.
    Use(i64, i64),
    /// A location of this key and of its neighbours is on its way out while another one serves.
    Replace(i64, i64),
    /// What was replaced has gone.
    Gone,
    /// So many keys go, at once or in a while.
    Evict(u64, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0i64..2000;
    prop_oneof![
        4 => (1i64..300).prop_map(Step::Write),
        4 => (number(), 1i64..300).prop_map(|(from, count)| Step::Use(from, count)),
        1 => (number(), 1i64..50).prop_map(|(from, count)| Step::Replace(from, count)),
        1 => Just(Step::Gone),
        4 => (1u64..400, any::<bool>()).prop_map(|(count, at_once)| Step::Evict(count, at_once)),
    ]
}

/// An index, and the second of the last use of each of its keys that can go.
#[derive(Default)]
struct History {
    index: BlockIndex,
    used: BTreeMap<i64, u32>,
    /// Keys with a location on its way out, the grant of that, and when they were used last.
    replaced: Vec<(i64, Grant, u32)>,
    next: i64,
    grants: usize,
}

impl History {
    fn write(&mut self, keys: &[i64], now_s: u32) {
        self.grants += 1;
        let located = (0..).zip(keys).map(|(position, key)| {
            let location = Location::new(grant(self.grants), position, 0, 0, State::Serving);
            (*key, location)
        });
        self.index.restore(located.collect::<Vec<_>>(), now_s);
    }

    fn step(&mut self, step: &Step, now_s: u32) {
        match *step {
            Step::Write(count) => {
                let keys: Vec<_> = (self.next..self.next + count).collect();
                self.next += count;
                self.write(&keys, now_s);
                self.used.extend(keys.iter().map(|key| (*key, now_s)));
            }
            Step::Use(from, count) => {
                let keys: Vec<_> = (from..from + count).collect();
                let select = |list: &[Location]| list.iter().position(Location::is_serving);
                let counter = &mut Counter::default();
                self.index.get_batch(&keys, now_s, select, counter);
                for (_, used) in self.used.range_mut(from..from + count) {
                    *used = now_s;
                }
                let replaced = self.replaced.iter_mut();
                for (_, _, used) in replaced.filter(|(key, ..)| keys.contains(key)) {
                    *used = now_s;
                }
            }
            Step::Replace(from, count) => {
                let going = self.used.extract_if(from..from + count, |_, _| true);
                let going: Vec<(i64, u32)> = going.collect();
                let keys: Vec<_> = going.iter().map(|(key, _)| *key).collect();
                let mut former = Vec::new();
                let mut note = |key, list: &[Location]| former.push((key, list[0].grant()));
                self.index.inspect(keys.iter().copied(), &mut note);
                // No use: the second location is new, the key is not.
                self.write(&keys, now_s);
                self.index.retire(former.iter().copied(), |_, _| {});
                let former = former.iter().zip(&going);
                self.replaced
                    .extend(former.map(|((key, grant), (_, used))| (*key, *grant, *used)));
            }
            Step::Gone => {
                for (key, grant, used) in std::mem::take(&mut self.replaced) {
                    self.index.release(&[key], grant, |_, _| {});
                    self.used.insert(key, used);
                }
            }
            Step::Evict(count, at_once) => self.evict(count, at_once),
        }
    }

    fn evict(&mut self, count: u64, at_once: bool) {
        let index = &self.index;
        let Some(mut cutoff) = Cutoff::of(&[index], count, |_, _| 1) else {
            assert!(self.used.is_empty(), "something is there and nothing goes");
            return;
        };
        let mut gone = Vec::new();
        let mut below = Some(usize::MAX);
        while let Some(from) = below {
            below = index.oldest(
                &mut cutoff,
                from,
                64,
                |_| 1,
                |key, list, last| {
                    gone.push((key, list[0].grant(), last));
                },
            );
        }
        let expected = (self.used.len() as u64).min(count);
        assert_eq!(gone.len() as u64, expected, "{cutoff:?}");
        index.retire(gone.iter().map(|(key, grant, _)| (*key, *grant)), |_, _| {});
        let mut youngest = 0;
        for (key, grant, last) in gone {
            assert_eq!(self.used.remove(&key), Some(last), "{key}");
            youngest = youngest.max(last);
            if at_once {
                self.index.release(&[key], grant, |_, _| {});
            }
        }
        let older = self.used.iter().find(|(_, last)| **last < youngest);
        assert_eq!(older, None, "stays, while one of {youngest} went");
    }
}

proptest! {
    /// Over many looks, of which each goes by what those before have noted.
    #[test]
    fn none_stays_that_is_older_than_one_that_goes(
        steps in prop::collection::vec((step(), 0u32..3), 1..60)
    ) {
        let mut history = History::default();
        let mut now_s = 0;
        for (step, later) in &steps {
            now_s += later;
            history.step(step, now_s);
        }
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
    let mut cutoff = cutoff(&[&index], 50).unwrap();
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
        let mut cutoff = cutoff(&[&index], 100).unwrap();
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
