//! The search for one order of all calls, by Wing and Gong, with the memo of Lowe.

use std::collections::HashSet;

use super::{KeyOp, KeyState};

/// How many different situations are looked at before it is given up.
const SITUATIONS_MAX: usize = 1_000_000;

/// An operation in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// It takes effect no earlier.
    pub invoke: u64,
    /// It takes effect no later; `None`: it may take effect at any time later, or never.
    pub returned: Option<u64>,
    /// What it does.
    pub op: KeyOp,
}

/// Whether there is an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is one.
    Linearizable,
    /// There is none.
    Wrong,
    /// Too many situations to look at.
    Undecided,
}

/// Looks for an order of `entries` that respects real time, begins with `first` and in which each
/// answer is what a correct cluster gives.
pub fn search(first: KeyState, entries: &[Entry], may_be_removed: bool) -> Verdict {
    let mut list = List::new(entries);
    let mut left = entries.iter().filter(|e| e.returned.is_some()).count();
    let mut state = first;
    let mut done = vec![0_u64; entries.len().div_ceil(64)];
    let mut taken: Vec<(usize, KeyState)> = Vec::new();
    let mut seen: HashSet<(Vec<u64>, KeyState)> = HashSet::new();
    let mut at = list.first();
    while left > 0 {
        let event = list.event(at);
        if event.is_call {
            let entry = &entries[event.entry];
            let next = state.step(entry.op, may_be_removed);
            // What need not happen and changes nothing does not happen.
            let next = next.filter(|next| entry.returned.is_some() || *next != state);
            if let Some(next) = next {
                flip(&mut done, event.entry);
                if seen.insert((done.clone(), next)) {
                    if seen.len() > SITUATIONS_MAX {
                        return Verdict::Undecided;
                    }
                    taken.push((event.entry, state));
                    state = next;
                    left -= usize::from(entry.returned.is_some());
                    list.lift(event.entry);
                    at = list.first();
                    continue;
                }
                flip(&mut done, event.entry);
            }
            at = list.after(at);
        } else {
            // It had to take effect by now: take the last choice back and try the next one.
            let Some((entry, before)) = taken.pop() else {
                return Verdict::Wrong;
            };
            state = before;
            flip(&mut done, entry);
            left += usize::from(entries[entry].returned.is_some());
            list.put_back(entry);
            at = list.after(list.call_of(entry));
        }
    }
    Verdict::Linearizable
}

fn flip(bits: &mut [u64], place: usize) {
    bits[place / 64] ^= 1 << (place % 64);
}

/// Calls and returns in order of time, from which those of an entry can be lifted.
struct List {
    events: Vec<Event>,
    /// By event, with the head, which stands for no event, at 0.
    next: Vec<usize>,
    before: Vec<usize>,
    /// By entry: its call, and its return if it has one.
    places: Vec<(usize, Option<usize>)>,
}

#[derive(Clone, Copy)]
struct Event {
    entry: usize,
    is_call: bool,
}

impl List {
    fn new(entries: &[Entry]) -> Self {
        let mut sorted = Vec::with_capacity(entries.len() * 2);
        for (entry, times) in entries.iter().enumerate() {
            sorted.push((times.invoke, false, entry));
            if let Some(returned) = times.returned {
                // Calls first: those of the same moment overlap.
                sorted.push((returned.max(times.invoke), true, entry));
            }
        }
        sorted.sort_unstable();
        let head = Event {
            entry: usize::MAX,
            is_call: false,
        };
        let events = sorted.iter().map(|(_, is_return, entry)| Event {
            entry: *entry,
            is_call: !is_return,
        });
        let events: Vec<_> = std::iter::once(head).chain(events).collect();
        let mut places = vec![(0, None); entries.len()];
        for (place, event) in events.iter().enumerate().skip(1) {
            if event.is_call {
                places[event.entry].0 = place;
            } else {
                places[event.entry].1 = Some(place);
            }
        }
        let count = events.len();
        Self {
            events,
            next: (1..=count).map(|next| next % count).collect(),
            before: (0..count)
                .map(|place| (place + count - 1) % count)
                .collect(),
            places,
        }
    }

    fn first(&self) -> usize {
        self.next[0]
    }

    fn after(&self, place: usize) -> usize {
        self.next[place]
    }

    fn event(&self, place: usize) -> Event {
        self.events[place]
    }

    fn call_of(&self, entry: usize) -> usize {
        self.places[entry].0
    }

    fn lift(&mut self, entry: usize) {
        let (call, returned) = self.places[entry];
        for place in std::iter::once(call).chain(returned) {
            let (before, next) = (self.before[place], self.next[place]);
            self.next[before] = next;
            self.before[next] = before;
        }
    }

    /// In the opposite order of lifting.
    fn put_back(&mut self, entry: usize) {
        let (call, returned) = self.places[entry];
        for place in returned.into_iter().chain(std::iter::once(call)) {
            let (before, next) = (self.before[place], self.next[place]);
            self.next[before] = place;
            self.before[next] = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyOp::*, KeyState::*, *};

    fn entry(op: KeyOp, invoke: u64, returned: u64) -> Entry {
        Entry {
            invoke,
            returned: Some(returned),
            op,
        }
    }

    fn open(op: KeyOp, invoke: u64) -> Entry {
        Entry {
            invoke,
            returned: None,
            op,
        }
    }

    fn verdict(entries: &[Entry]) -> Verdict {
        search(Absent, entries, false)
    }

    #[test]
    fn overlapping_calls_may_take_effect_in_any_order() {
        let calls = [
            entry(Granted(1), 0, 10),
            entry(Finish(1), 20, 60),
            entry(Found(1), 25, 30),
            entry(Missing, 22, 50),
        ];
        assert_eq!(verdict(&calls), Verdict::Linearizable);
    }

    #[test]
    fn a_read_after_another_that_saw_the_write_sees_it_too() {
        let calls = [
            entry(Granted(1), 0, 10),
            entry(Finish(1), 20, 60),
            entry(Found(1), 25, 30),
            entry(Missing, 31, 50),
        ];
        assert_eq!(verdict(&calls), Verdict::Wrong);
    }

    #[test]
    fn what_is_unknown_may_have_happened_or_not_or_later() {
        let begun = entry(Granted(1), 0, 10);
        let finish = open(Finish(1), 20);
        for reads in [
            vec![entry(Missing, 30, 40), entry(Missing, 50, 60)],
            vec![entry(Found(1), 30, 40), entry(Found(1), 50, 60)],
            vec![entry(Missing, 30, 40), entry(Found(1), 50, 60)],
        ] {
            let calls: Vec<_> = [begun, finish].into_iter().chain(reads).collect();
            assert_eq!(verdict(&calls), Verdict::Linearizable);
        }
        let calls = [
            begun,
            finish,
            entry(Found(1), 30, 40),
            entry(Missing, 50, 60),
        ];
        assert_eq!(verdict(&calls), Verdict::Wrong);
        // Not before it was sent.
        let calls = [begun, entry(Found(1), 12, 19), finish];
        assert_eq!(verdict(&calls), Verdict::Wrong);
    }

    #[test]
    fn many_unknown_calls_do_not_explode() {
        let mut calls: Vec<_> = (0..60).map(|n| open(GrantedUnseen(1000 + n), 0)).collect();
        calls.extend((0..60).map(|n| open(Expire(1000 + n), 0)));
        calls.extend((0..100).map(|n| entry(Missing, 10 + n * 10, 15 + n * 10)));
        assert_eq!(verdict(&calls), Verdict::Linearizable);
    }
}
