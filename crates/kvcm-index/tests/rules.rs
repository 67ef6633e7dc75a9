//! Rules that a model does not show.

use std::sync::Barrier;

use kvcm_index::{BlockIndex, Counter, Grant, Location, ReservePolicy, State};

struct First;

impl ReservePolicy for First {
    type Error = std::convert::Infallible;

    fn is_satisfied(&self, _at: usize, _locations: &[Location]) -> bool {
        true
    }

    fn specs(&self, _at: usize) -> u16 {
        0
    }

    fn place(&mut self, _new: &[u32]) -> Result<u16, Self::Error> {
        Ok(0)
    }
}

fn grant(counter: u64) -> Grant {
    Grant { epoch: 1, counter }
}

fn serving(locations: &[Location]) -> Option<usize> {
    locations.iter().position(Location::is_serving)
}

#[test]
fn threads_that_want_the_same_keys_get_each_key_exactly_once() {
    const THREADS: u64 = 4;
    let keys: Vec<i64> = (0..1000).collect();
    let index = BlockIndex::new();
    let barrier = Barrier::new(THREADS as usize);
    let won: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (index, barrier, keys) = (&index, &barrier, &keys);
                scope.spawn(move || {
                    barrier.wait();
                    let mut won = Vec::new();
                    // In an own order, so that the threads meet in the middle.
                    for part in 0..10 {
                        let from = (part * 100 + number as usize * 250) % 1000;
                        let part = &keys[from.min(900)..][..100];
                        let grant = grant(number * 100 + from as u64);
                        let new = index.reserve(part, grant, 5000, 0, &mut First).unwrap();
                        won.extend(new.iter().map(|at| part[*at as usize]));
                    }
                    won
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut all: Vec<i64> = won.into_iter().flatten().collect();
    all.sort_unstable();
    let mut once = all.clone();
    once.dedup();
    assert_eq!(all, once);
    assert_eq!(all.len(), index.len());
}

#[test]
fn a_change_meets_only_the_location_that_it_names() {
    let index = BlockIndex::new();
    index.reserve(&[5], grant(1), 10, 0, &mut First).unwrap();
    index.confirm(&[5], grant(1));
    index.release(&[5], grant(1), |_, _| {});
    index.reserve(&[5], grant(2), 10, 0, &mut First).unwrap();
    index.confirm(&[5], grant(2));
    // The late finish of the first writer.
    let late = index.commit(&[5], grant(1), 0, |_| true, |_, _| {});
    assert_eq!(late, 0);
    index.inspect([5], |_, list| assert_eq!(list[0].state(), State::Writing));
    assert_eq!(index.commit(&[5], grant(2), 0, |_| true, |_, _| {}), 1);
}

#[test]
fn what_a_write_has_not_written_is_on_its_way_out() {
    let index = BlockIndex::new();
    index.reserve(&[1, 2], grant(1), 10, 0, &mut First).unwrap();
    index.confirm(&[1, 2], grant(1));
    let mut retired = Vec::new();
    let written = |at| at == 1;
    let serving = index.commit(&[1, 2], grant(1), 0, written, |key, _| retired.push(key));
    assert_eq!((serving, &retired[..]), (1, &[1][..]));
    index.inspect([1], |_, list| {
        assert_eq!(list[0].state(), State::Deleting);
    });
    // The same end again, as a journal that is replayed tells it.
    let again = index.commit(&[1, 2], grant(1), 0, written, |_, _| {
        panic!("retired twice")
    });
    assert_eq!(again, 0);
}

#[test]
fn reading_is_a_use_and_inspecting_is_not() {
    let index = BlockIndex::new();
    index.reserve(&[1, 2], grant(1), 10, 5, &mut First).unwrap();
    index.confirm(&[1, 2], grant(1));
    index.commit(&[1, 2], grant(1), 5, |_| true, |_, _| {});
    index.match_prefix(&[2], 9, serving, &mut Counter::default());
    index.inspect([1], |_, _| {});
    let mut used = Vec::new();
    index.scan(0, 10, |key, _, last| used.push((key, last)));
    assert_eq!(used, [(1, 5), (2, 9)]);
}

#[test]
fn a_scan_shows_what_stays_once_while_other_keys_go() {
    let index = BlockIndex::new();
    let keys: Vec<i64> = (0..100).collect();
    index.reserve(&keys, grant(1), 100, 0, &mut First).unwrap();
    let mut seen = Vec::new();
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let mut part = Vec::new();
        cursor = index.scan(from, 10, |key, _, _| part.push(key));
        // Every even key goes as soon as it was seen.
        let gone: Vec<i64> = part.iter().copied().filter(|key| key % 2 == 0).collect();
        index.release(&gone, grant(1), |_, _| {});
        seen.extend(part);
    }
    assert_eq!(seen, keys);
}

#[test]
fn a_run_is_matched_as_one_piece_up_to_the_key_that_breaks_it() {
    let index = BlockIndex::new();
    let keys: Vec<i64> = (0..100).map(|n| n * 7919).collect();
    index.reserve(&keys, grant(1), 100, 0, &mut First).unwrap();
    index.confirm(&keys, grant(1));
    index.commit(&keys, grant(1), 0, |_| true, |_, _| {});
    let hits = |keys: &[i64]| index.match_prefix(keys, 3, serving, &mut Counter::default());
    for length in 0..=keys.len() {
        assert_eq!(hits(&keys[..length]), length);
        assert_eq!(hits(&keys[length..]), 100 - length);
        let mut strange = keys.clone();
        strange.insert(length, -1);
        assert_eq!(hits(&strange), length);
    }
    // A slot in the middle is vacant, though its former key still stands in it.
    index.release(&keys[50..51], grant(1), |_, _| {});
    assert_eq!(hits(&keys), 50);
    // The key lies elsewhere now, and its neighbours where they were.
    index
        .reserve(&[-5, keys[50]], grant(2), 200, 0, &mut First)
        .unwrap();
    index.confirm(&[-5, keys[50]], grant(2));
    index.commit(&[-5, keys[50]], grant(2), 0, |_| true, |_, _| {});
    assert_eq!(hits(&keys), 100);
    let mut used = Vec::new();
    index.scan(0, 200, |_, _, last| used.push(last));
    assert_eq!(used.iter().filter(|last| **last == 3).count(), 100);
}
