//! The index against a plain map of lists.

use std::collections::{BTreeMap, HashMap};

use kvcm_index::{
    BlockIndex, Full, Grant, Location, LocationSink, ReserveError, ReservePolicy, State,
};
use proptest::prelude::*;

const CAPACITY: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    /// Keys, whether a second replica is wanted, whether the policy refuses.
    Reserve(Vec<i64>, bool, bool),
    Confirm(usize),
    /// Which grant, and a bit per key.
    Commit(usize, u32),
    Release(usize),
    /// Which grant, and a bit per key; the highest bit turns their order around.
    Retire(usize, u32),
    Prefix(Vec<i64>),
    Batch(Vec<i64>),
    Window(Vec<i64>, usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let keys = || prop::collection::vec(0i64..16, 0..8);
    prop_oneof![
        4 => (keys(), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(keys, replica, refuse)| Step::Reserve(keys, replica, refuse)),
        2 => (0usize..8).prop_map(Step::Confirm),
        3 => (0usize..8, any::<u32>()).prop_map(|(grant, bits)| Step::Commit(grant, bits)),
        1 => (0usize..8).prop_map(Step::Release),
        1 => (0usize..8, any::<u32>()).prop_map(|(grant, bits)| Step::Retire(grant, bits)),
        2 => keys().prop_map(Step::Prefix),
        1 => keys().prop_map(Step::Batch),
        2 => (keys(), 0usize..4).prop_map(|(keys, window)| Step::Window(keys, window)),
        1 => Just(Step::Clear),
    ]
}

/// The same for some neighbours, so that there are runs.
fn specs(at: usize) -> u16 {
    at as u16 / 4
}

struct Policy {
    replicas: usize,
    refuse: bool,
}

impl ReservePolicy for Policy {
    type Error = &'static str;

    fn is_satisfied(&self, _at: usize, locations: &[Location]) -> bool {
        locations.len() >= self.replicas
    }

    fn specs(&self, at: usize) -> u16 {
        specs(at)
    }

    fn place(&mut self, new: &[u32]) -> Result<u16, &'static str> {
        assert!(!new.is_empty());
        if self.refuse { Err("refused") } else { Ok(3) }
    }
}

#[derive(Default, PartialEq, Debug)]
struct Answers(Vec<Option<(i64, Location)>>);

impl LocationSink for Answers {
    fn run(&mut self, keys: &[i64], first: &Location) {
        assert!(!keys.is_empty());
        let located = (0u32..).zip(keys);
        self.0
            .extend(located.map(|(n, key)| Some((*key, first.nth(n)))));
    }

    fn placeholder(&mut self) {
        self.0.push(None);
    }
}

fn select(locations: &[Location]) -> Option<usize> {
    assert!(!locations.is_empty());
    locations.iter().position(Location::is_serving)
}

#[derive(Default)]
struct Model {
    keys: HashMap<i64, Vec<Location>>,
    /// Keys of each grant.
    grants: Vec<(Grant, Vec<i64>)>,
}

impl Model {
    fn readable(&self, key: i64) -> Option<(i64, Location)> {
        let list = self.keys.get(&key)?;
        select(list).map(|at| (key, list[at]))
    }

    fn take(&mut self, key: i64, grant: Grant) -> Option<Location> {
        let list = self.keys.get_mut(&key)?;
        let at = list.iter().position(|l| l.grant() == grant)?;
        let taken = list.remove(at);
        if list.is_empty() {
            self.keys.remove(&key);
        }
        Some(taken)
    }

    fn reserve(
        &mut self,
        keys: &[i64],
        grant: Grant,
        replicas: usize,
        refuse: bool,
    ) -> Result<Vec<u32>, ReserveError<&'static str>> {
        let before = self.keys.clone();
        let mut new: Vec<u32> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let list = self.keys.entry(*key).or_default();
            if list.iter().any(|l| l.grant() == grant) || list.len() >= replicas {
                continue;
            }
            let position = new.len() as u32;
            list.push(Location::new(
                grant,
                position,
                3,
                specs(at),
                State::Reserved,
            ));
            new.push(at as u32);
        }
        let added = self.keys.len() - before.len();
        if added > 0 && self.keys.len() > CAPACITY {
            let used = before.len();
            self.keys = before;
            return Err(ReserveError::Full(Full {
                used,
                requested: added,
                capacity: CAPACITY,
            }));
        }
        if refuse && !new.is_empty() {
            self.keys = before;
            return Err(ReserveError::Policy("refused"));
        }
        let granted = new.iter().map(|at| keys[*at as usize]).collect();
        self.grants.push((grant, granted));
        Ok(new)
    }

    fn grant(&self, number: usize) -> Option<(Grant, Vec<i64>)> {
        // The newest ones, so that most steps meet live locations.
        let at = self.grants.len().checked_sub(1 + number)?;
        Some(self.grants[at].clone())
    }

    fn advance(&mut self, key: i64, grant: Grant, from: State, to: State) -> bool {
        let list = self.keys.get_mut(&key);
        let location = list.and_then(|list| list.iter_mut().find(|l| l.grant() == grant));
        match location {
            Some(location) if location.state() == from => {
                *location = location.with_state(to);
                true
            }
            _ => false,
        }
    }

    fn window(&self, keys: &[i64], window: usize) -> Vec<Option<(i64, Location)>> {
        let hit = |start: &usize| {
            keys[*start..start + window]
                .iter()
                .all(|key| self.readable(*key).is_some())
        };
        let start = match window {
            0 => None,
            _ => (0..(keys.len() + 1).saturating_sub(window)).rev().find(hit),
        };
        let inside = |at: usize| start.is_some_and(|s| (s..s + window).contains(&at));
        let answer = |(at, key): (usize, &i64)| inside(at).then(|| self.readable(*key)).flatten();
        keys.iter().enumerate().map(answer).collect()
    }
}

fn contents(index: &BlockIndex) -> BTreeMap<i64, Vec<Location>> {
    let mut all = BTreeMap::new();
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = index.scan(from, 3, |key, list, _| {
            assert!(
                all.insert(key, list.to_vec()).is_none(),
                "{key} shown twice"
            );
        });
    }
    all
}

proptest! {
    #[test]
    fn behaves_like_a_map_of_lists(steps in prop::collection::vec(step(), 1..60)) {
        let index = BlockIndex::new();
        let mut model = Model::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Reserve(keys, replica, refuse) => {
                    let grant = Grant { epoch: 7, counter: number as u64 };
                    let replicas = if replica { 2 } else { 1 };
                    let mut policy = Policy { replicas, refuse };
                    let got = index.reserve(&keys, grant, CAPACITY, 1, &mut policy);
                    prop_assert_eq!(got, model.reserve(&keys, grant, replicas, refuse));
                }
                Step::Confirm(number) => if let Some((grant, keys)) = model.grant(number) {
                    index.confirm(&keys, grant);
                    for key in keys {
                        model.advance(key, grant, State::Reserved, State::Writing);
                    }
                }
                Step::Commit(number, bits) => if let Some((grant, keys)) = model.grant(number) {
                    let written = |at: usize| bits >> at & 1 == 1;
                    let mut retired = Vec::new();
                    let serving = index.commit(&keys, grant, 2, written, |key, location| {
                        assert_eq!(location.state(), State::Deleting);
                        retired.push(key);
                    });
                    let mut expected = (0, Vec::new());
                    for (at, key) in keys.iter().enumerate() {
                        if written(at) {
                            let moved =
                                model.advance(*key, grant, State::Writing, State::Serving);
                            expected.0 += usize::from(moved);
                        } else if model.advance(*key, grant, State::Writing, State::Deleting) {
                            expected.1.push(*key);
                        }
                    }
                    prop_assert_eq!((serving, retired), expected);
                }
                Step::Release(number) => if let Some((grant, keys)) = model.grant(number) {
                    let mut dropped = Vec::new();
                    index.release(&keys, grant, |key, location| dropped.push((key, *location)));
                    let taken = |key: &i64| Some((*key, model.take(*key, grant)?));
                    let expected: Vec<_> = keys.iter().filter_map(taken).collect();
                    prop_assert_eq!(dropped, expected);
                }
                Step::Retire(number, bits) => if let Some((grant, keys)) = model.grant(number) {
                    let named = keys.iter().enumerate();
                    let named = named.filter(|(at, _)| bits >> at & 1 == 1);
                    let mut named: Vec<_> = named.map(|(_, key)| (*key, grant)).collect();
                    if bits >> 31 == 1 {
                        named.reverse();
                    }
                    let mut retired = Vec::new();
                    index.retire(named.iter().copied(), |key, location| {
                        assert_eq!(location.state(), State::Deleting);
                        retired.push((key, location.grant()));
                    });
                    let mut expected = named;
                    expected.retain(|(key, grant)| {
                        [State::Writing, State::Serving]
                            .into_iter()
                            .any(|from| model.advance(*key, *grant, from, State::Deleting))
                    });
                    prop_assert_eq!(retired, expected);
                }
                Step::Prefix(keys) => {
                    let mut answers = Answers::default();
                    let hits = index.match_prefix(&keys, 3, select, &mut answers);
                    let expected: Vec<_> = keys
                        .iter()
                        .map(|key| model.readable(*key))
                        .take_while(Option::is_some)
                        .collect();
                    prop_assert_eq!(hits, expected.len());
                    prop_assert_eq!(answers.0, expected);
                }
                Step::Batch(keys) => {
                    let mut answers = Answers::default();
                    index.get_batch(&keys, 3, select, &mut answers);
                    let expected: Vec<_> = keys.iter().map(|key| model.readable(*key)).collect();
                    prop_assert_eq!(answers.0, expected);
                }
                Step::Window(keys, window) => {
                    let mut answers = Answers::default();
                    let hits = index.match_window(&keys, window, 3, select, &mut answers);
                    let expected = model.window(&keys, window);
                    prop_assert_eq!(hits, expected.iter().flatten().count());
                    prop_assert_eq!(answers.0, expected);
                }
                Step::Clear => {
                    let mut dropped = 0;
                    index.clear(|_, _| dropped += 1);
                    prop_assert_eq!(dropped, model.keys.values().map(Vec::len).sum::<usize>());
                    model.keys.clear();
                }
            }
            prop_assert_eq!(index.len(), model.keys.len());
        }
        let expected: BTreeMap<_, _> = model.keys.into_iter().collect();
        let all = contents(&index);
        prop_assert_eq!(&all, &expected);

        // A copy built from what the scan showed is the same index.
        let copy = BlockIndex::new();
        let flat: Vec<_> = all
            .iter()
            .flat_map(|(key, list)| list.iter().map(|l| (*key, *l)))
            .collect();
        prop_assert_eq!(copy.restore(flat.clone(), 1).new, flat.len());
        prop_assert_eq!(copy.restore(flat.clone(), 1).new, 0);
        prop_assert_eq!(&contents(&copy), &expected);

        // And so it is when they come in bulk, some of them twice.
        let copy = BlockIndex::new();
        copy.restore(flat[..flat.len() / 3].iter().copied(), 1);
        copy.begin_bulk(flat.len());
        copy.restore(flat.iter().copied(), 1);
        copy.restore(flat[flat.len() / 2..].iter().copied(), 1);
        copy.end_bulk();
        prop_assert_eq!(contents(&copy), expected);
        let keys: Vec<_> = flat.iter().map(|(key, _)| *key).collect();
        let mut answers = [Answers::default(), Answers::default()];
        index.get_batch(&keys, 3, select, &mut answers[0]);
        copy.get_batch(&keys, 3, select, &mut answers[1]);
        prop_assert_eq!(&answers[0].0, &answers[1].0);
    }
}
