//! All orders of all steps of processes that read, replace and clean the records of a chain, and may
//! stop for ever anywhere; and what goes wrong when a rule is left out.
//!
//! The steps are those that [`crate::chain`] explains, each a single look at, or change of, a name.

use std::collections::HashSet;

/// What is left out, or done in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    Nothing,
    /// A writer does not look whether the number is taken.
    NoLookAtTheNumber,
    /// A writer does not look whether what it replaces is still there.
    NoLookAtTheReplaced,
    /// A writer looks at what it replaces first.
    LooksSwapped,
    /// A cleaner leaves the candidates.
    CandidatesLeft,
    /// A cleaner learns of the newest number from the list that has its candidates.
    NewestFromTheList,
    /// A cleaner removes records from the newest to the oldest.
    RemovedBackwards,
    /// Nothing tells that there was a first record.
    NotBegun,
    /// A reader does not look again whether what it has read is there.
    NoSecondLook,
}

const PROCESSES: usize = 3;

/// Numbers, as bits.
type Numbers = u16;

fn has(numbers: Numbers, number: u8) -> bool {
    numbers & (1 << number) != 0
}

fn highest(numbers: Numbers) -> u8 {
    (1..16).rev().find(|n| has(numbers, *n)).unwrap_or(0)
}

/// A candidate: for which number, and the how-manieth of its writer, as names are unique.
type Candidate = (u8, u8);

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Begins to read, from any number that it may have seen.
    Start,
    Probe(u8),
    Read(u8),
    /// Whether the next number is taken.
    LookNext(u8),
    /// Whether the record is there; it was the newest one when the next was looked for, or not.
    LookAgain(u8, bool),
    Create(u8),
    First(u8),
    Second(u8),
    Link(u8),
    /// Removes its own candidate, and has published this number, or 0.
    Discard(u8),
    /// Lists the directory, which takes as many steps as there are names.
    List {
        newest: u8,
        next: u8,
        candidates: [Option<Candidate>; PROCESSES],
    },
    ListRecords {
        newest: u8,
        candidates: [Option<Candidate>; PROCESSES],
    },
    Purge {
        newest: u8,
        records: Numbers,
        next: u8,
        candidates: [Option<Candidate>; PROCESSES],
    },
    Begun(Numbers),
    Remove(Numbers),
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    records: Numbers,
    given: Numbers,
    begun: bool,
    candidates: [Option<Candidate>; PROCESSES],
    steps: [Step; PROCESSES],
    /// How many more candidates each may make.
    tries: [u8; PROCESSES],
}

/// What must not happen.
type Fault = &'static str;

impl State {
    fn new(tries: [u8; PROCESSES]) -> Self {
        Self {
            records: 0,
            given: 0,
            begun: false,
            candidates: [None; PROCESSES],
            steps: [Step::Start; PROCESSES],
            tries,
        }
    }

    /// All that one step of process `p` can lead to.
    fn after(&self, p: usize, broken: Break) -> Result<Vec<Self>, Fault> {
        let go = |step: Step| {
            let mut next = self.clone();
            next.steps[p] = step;
            vec![next]
        };
        let present = |number| has(self.records, number);
        let is_there = |number: u8| match number {
            0 if broken == Break::NotBegun => true,
            0 => !self.begun && self.records == 0,
            _ => present(number),
        };
        Ok(match self.steps[p] {
            Step::Done => Vec::new(),
            Step::Start if self.tries[p] == 0 => go(Step::Done),
            Step::Start if self.records == 0 => go(Step::Create(0)),
            Step::Start => {
                let known = (1..16).filter(|number| has(self.given, *number));
                known.flat_map(|number| go(Step::Probe(number))).collect()
            }
            Step::Probe(n) if present(n + 1) => go(Step::Probe(n + 1)),
            Step::Probe(n) => go(Step::Read(n)),
            Step::Read(n) if present(n) => go(Step::LookNext(n)),
            Step::Read(_) => go(Step::Start),
            Step::LookNext(n) if present(n + 1) => go(Step::Start),
            Step::LookNext(n) => go(Step::LookAgain(n, highest(self.given) == n)),
            Step::LookAgain(n, _) if broken != Break::NoSecondLook && !present(n) => {
                go(Step::Start)
            }
            Step::LookAgain(_, false) => return Err("an old record was read"),
            Step::LookAgain(n, true) => go(Step::Create(n)),
            Step::Create(n) => {
                let mut next = self.clone();
                next.candidates[p] = Some((n + 1, self.tries[p]));
                next.tries[p] -= 1;
                next.steps[p] = match broken {
                    Break::NoLookAtTheNumber => Step::Second(n),
                    _ => Step::First(n),
                };
                vec![next]
            }
            Step::First(n) => {
                let holds = match broken {
                    Break::LooksSwapped => is_there(n),
                    _ => !present(n + 1),
                };
                match (holds, broken) {
                    (false, _) => go(Step::Discard(0)),
                    (true, Break::NoLookAtTheReplaced) => go(Step::Link(n)),
                    (true, _) => go(Step::Second(n)),
                }
            }
            Step::Second(n) => {
                let holds = match broken {
                    Break::LooksSwapped => !present(n + 1),
                    _ => is_there(n),
                };
                go(if holds {
                    Step::Link(n)
                } else {
                    Step::Discard(0)
                })
            }
            Step::Link(n) if present(n + 1) || self.candidates[p].is_none() => go(Step::Discard(0)),
            Step::Link(n) if has(self.given, n + 1) => return Err("a number was given twice"),
            Step::Link(n) => {
                let mut next = self.clone();
                next.records |= 1 << (n + 1);
                next.given |= 1 << (n + 1);
                next.steps[p] = Step::Discard(n + 1);
                vec![next]
            }
            Step::Discard(newest) => {
                let mut next = self.clone();
                next.candidates[p] = None;
                next.steps[p] = Step::Start;
                let mut cleans = next.clone();
                cleans.steps[p] = Step::List {
                    newest,
                    next: 0,
                    candidates: [None; PROCESSES],
                };
                // Not each publication is followed by a cleaning.
                if newest > 0 {
                    vec![next, cleans]
                } else {
                    vec![next]
                }
            }
            Step::List {
                newest,
                next,
                mut candidates,
            } => {
                let q = usize::from(next);
                candidates[q] = self.candidates[q];
                go(match next + 1 {
                    next if usize::from(next) < PROCESSES => Step::List {
                        newest,
                        next,
                        candidates,
                    },
                    _ => Step::ListRecords { newest, candidates },
                })
            }
            Step::ListRecords { newest, candidates } => {
                let newest = match broken {
                    Break::NewestFromTheList => highest(self.records),
                    _ => newest,
                };
                let records = self.records & ((1 << newest) - 1);
                let next = 0;
                go(Step::Purge {
                    newest,
                    records,
                    next,
                    candidates,
                })
            }
            Step::Purge {
                newest,
                records,
                next,
                candidates,
            } => {
                let mut after = self.clone();
                let q = usize::from(next);
                let is_old = candidates[q].is_some_and(|(number, _)| number <= newest);
                if is_old && broken != Break::CandidatesLeft && self.candidates[q] == candidates[q]
                {
                    after.candidates[q] = None;
                }
                after.steps[p] = match next + 1 {
                    next if usize::from(next) < PROCESSES => Step::Purge {
                        newest,
                        records,
                        next,
                        candidates,
                    },
                    _ if records == 0 => Step::Start,
                    _ => Step::Begun(records),
                };
                vec![after]
            }
            Step::Begun(records) => {
                let mut next = self.clone();
                next.begun = true;
                next.steps[p] = Step::Remove(records);
                vec![next]
            }
            Step::Remove(0) => go(Step::Start),
            Step::Remove(records) => {
                let number = match broken {
                    Break::RemovedBackwards => highest(records),
                    _ => u8::try_from(records.trailing_zeros()).unwrap(),
                };
                let mut next = self.clone();
                next.records &= !(1 << number);
                next.steps[p] = Step::Remove(records & !(1 << number));
                vec![next]
            }
        })
    }
}

/// Plays all orders; the number of states, or the first fault.
fn explore(tries: [u8; PROCESSES], broken: Break) -> Result<usize, Fault> {
    let first = State::new(tries);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        for p in 0..PROCESSES {
            for next in state.after(p, broken)? {
                if next.given != 0 && !has(next.records, highest(next.given)) {
                    return Err("the newest record was removed");
                }
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn no_order_of_steps_gives_a_number_twice_or_shows_an_old_record() {
    for tries in [[1, 2, 1], [3, 2, 0]] {
        let states = explore(tries, Break::Nothing).unwrap();
        println!("{tries:?}: {states} states");
        assert!(states > 10_000, "{states} states");
    }
}

#[test]
fn each_rule_is_needed() {
    const SMALL: [u8; PROCESSES] = [3, 2, 0];
    const LARGE: [u8; PROCESSES] = [1, 2, 1];
    for (broken, tries, fault) in [
        (Break::NoLookAtTheNumber, SMALL, "a number was given twice"),
        (
            Break::NoLookAtTheReplaced,
            SMALL,
            "a number was given twice",
        ),
        (Break::LooksSwapped, SMALL, "a number was given twice"),
        (Break::CandidatesLeft, SMALL, "a number was given twice"),
        (Break::NewestFromTheList, LARGE, "a number was given twice"),
        (Break::RemovedBackwards, SMALL, "a number was given twice"),
        (Break::NotBegun, SMALL, "a number was given twice"),
        (Break::NoSecondLook, SMALL, "an old record was read"),
    ] {
        let found = explore(tries, broken).err();
        assert_eq!(found, Some(fault), "{broken:?}");
    }
}
