//! The search agrees with another checker, that of stateright, on small histories, good and bad.

use kvcm_check::{Entry, KeyOp, KeyState, Verdict, search};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

const REMOVED: bool = false;

/// A key, as stateright wants it: the answers are in the operations.
#[derive(Clone)]
struct Object(KeyState);

impl SequentialSpec for Object {
    type Op = KeyOp;
    type Ret = ();

    fn invoke(&mut self, op: &KeyOp) {
        // For what is under way and may happen: what cannot happen does not.
        if let Some(next) = self.0.step(*op, REMOVED) {
            self.0 = next;
        }
    }

    fn is_valid_step(&mut self, op: &KeyOp, (): &()) -> bool {
        let next = self.0.step(*op, REMOVED);
        if let Some(next) = next {
            self.0 = next;
        }
        next.is_some()
    }
}

fn stateright_says(entries: &[Entry]) -> bool {
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        events.push((entry.invoke, false, number));
        events.extend(entry.returned.map(|returned| (returned, true, number)));
    }
    events.sort_unstable();
    let mut tester = LinearizabilityTester::new(Object(KeyState::Absent));
    // One thread for each operation: threads only say what overlaps.
    for (_, is_return, number) in events {
        let told = match is_return {
            true => tester.on_return(number, ()),
            false => tester.on_invoke(number, entries[number].op),
        };
        assert!(told.is_ok());
    }
    tester.is_consistent()
}

fn random_entry(random: &mut fastrand::Rng) -> Entry {
    let place = random.u32(1..3);
    let op = match random.u8(..10) {
        0 | 1 => KeyOp::Granted(place),
        2 => KeyOp::Denied,
        3 | 4 => KeyOp::Finish(place),
        5 => KeyOp::GiveUp(place),
        6 => KeyOp::Remove,
        7 | 8 => KeyOp::Found(place),
        _ => KeyOp::Missing,
    };
    let invoke = random.u64(..30);
    let is_open = !op_is_read(op) && random.u8(..5) == 0;
    Entry {
        invoke,
        returned: (!is_open).then(|| invoke + random.u64(1..12)),
        op,
    }
}

fn op_is_read(op: KeyOp) -> bool {
    matches!(op, KeyOp::Denied | KeyOp::Found(_) | KeyOp::Missing)
}

#[test]
fn it_agrees_with_the_tester_of_stateright_on_small_histories() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut counts = [0; 2];
    for _ in 0..3000 {
        let count = random.usize(1..7);
        let entries: Vec<_> = (0..count).map(|_| random_entry(&mut random)).collect();
        let expected = stateright_says(&entries);
        let found = search(KeyState::Absent, &entries, REMOVED) == Verdict::Linearizable;
        assert_eq!(found, expected, "{entries:?}");
        counts[usize::from(expected)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}
