//! I3 and I4: what was acknowledged stays, and nothing is there twice.
//!
//! Writes append to lists, and reads return whole lists, so the order in which a list grew can be
//! read from it. That makes the check for linearizability one sweep: whatever had ended before a
//! call began must be in the list that the call found.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{Invariant, Violation};
use crate::{
    event::{Ask, Event, RequestId, Told},
    run::History,
};

/// A call on one list.
#[derive(Clone, Debug)]
struct Call {
    request: RequestId,
    invoked: u64,
    returned: u64,
    /// The list had at least so many values when it began …
    least: Option<usize>,
    /// … and so many when it ended.
    reached: usize,
}

/// What clients did to one list.
#[derive(Default)]
struct List {
    writes: Vec<Write>,
    /// Request, invoked, returned, values.
    reads: Vec<(RequestId, u64, u64, Arc<Vec<u32>>)>,
}

struct Write {
    value: u32,
    request: RequestId,
    invoked: u64,
    /// When it was answered, and with which place.
    told: Option<(u64, u32)>,
}

pub(super) fn check(history: &History, out: &mut Vec<Violation>) {
    answers(history, out);
    for (key, list) in lists(history) {
        check_list(key, &list, out);
    }
}

/// One effect and one answer per request.
fn answers(history: &History, out: &mut Vec<Violation>) {
    let mut places = HashMap::new();
    let mut appended = HashMap::new();
    for entry in &history.entries {
        let text = match &entry.event {
            Event::Answered { request, place, .. } => {
                let first = *places.entry(*request).or_insert(*place);
                if first == *place {
                    continue;
                }
                format!("{request:?} was answered with place {first}, then with {place}")
            }
            Event::Appended { request, epoch, .. } => match appended.insert(*request, *epoch) {
                Some(first) => format!("{request:?} was appended in {first} and in {epoch}"),
                None => continue,
            },
            _ => continue,
        };
        out.push(Violation {
            invariant: Invariant::AtMostOnce,
            at: entry.at,
            text,
        });
    }
}

fn lists(history: &History) -> BTreeMap<u32, List> {
    let mut open = HashMap::new();
    let mut lists: BTreeMap<u32, List> = BTreeMap::new();
    for entry in &history.entries {
        match &entry.event {
            Event::Invoked { request, ask, .. } => {
                open.insert(*request, (entry.at, *ask));
            }
            Event::Returned { request, told, .. } => {
                let Some((invoked, ask)) = open.remove(request) else {
                    continue;
                };
                let list = lists.entry(ask.key()).or_default();
                match (ask, told) {
                    (Ask::Write { value, .. }, told) => {
                        let told = match told {
                            Told::Written { place, .. } => Some((entry.at, *place)),
                            _ => None,
                        };
                        list.writes.push(Write {
                            value,
                            request: *request,
                            invoked,
                            told,
                        });
                    }
                    (Ask::Read { .. }, Told::Values { values, .. }) => {
                        let values = values.clone();
                        list.reads.push((*request, invoked, entry.at, values));
                    }
                    (Ask::Read { .. }, _) => {}
                }
            }
            _ => {}
        }
    }
    let mut open: Vec<_> = open.into_iter().collect();
    open.sort_unstable_by_key(|(request, _)| *request);
    for (request, (invoked, ask)) in open {
        if let Ask::Write { key, value } = ask {
            lists.entry(key).or_default().writes.push(Write {
                value,
                request,
                invoked,
                told: None,
            });
        }
    }
    lists
}

fn check_list(key: u32, list: &List, out: &mut Vec<Violation>) {
    let mut wrong = |invariant, at, text: String| {
        out.push(Violation {
            invariant,
            at,
            text: format!("list {key}: {text}"),
        });
    };
    let longest = list.reads.iter().max_by_key(|(.., values)| values.len());
    let (end, whole): (u64, &[u32]) = match longest {
        Some((_, _, returned, values)) => (*returned, values),
        None => (0, &[]),
    };
    let written: HashSet<_> = list.writes.iter().map(|write| write.value).collect();
    let mut places: HashMap<u32, usize> = HashMap::new();
    for (place, value) in whole.iter().enumerate() {
        if let Some(first) = places.insert(*value, place) {
            let text = format!("value {value} is at {first} and at {place}");
            wrong(Invariant::AtMostOnce, end, text);
        }
        if !written.contains(value) {
            wrong(Invariant::NoLostAck, end, format!("nobody wrote {value}"));
        }
    }
    let mut calls = Vec::new();
    for (request, invoked, returned, values) in &list.reads {
        if !whole.starts_with(values) {
            let text = format!("{request:?} read what later reads contradict");
            wrong(Invariant::NoLostAck, *returned, text);
        }
        calls.push(Call {
            request: *request,
            invoked: *invoked,
            returned: *returned,
            least: Some(values.len()),
            reached: values.len(),
        });
    }
    for write in &list.writes {
        let request = write.request;
        let read = places.get(&write.value).copied();
        let told = write.told.map(|(at, place)| (at, place as usize));
        if let (Some(read), Some((at, place))) = (read, told)
            && read != place
        {
            let text = format!("{request:?} was told place {place}, it is {read}");
            wrong(Invariant::AtMostOnce, at, text);
        }
        let place = read.or_else(|| told.map(|(_, place)| place));
        calls.push(Call {
            request,
            invoked: write.invoked,
            returned: told.map_or(u64::MAX, |(at, _)| at),
            least: place,
            reached: place.map_or(0, |place| place + 1),
        });
    }
    let mut ended: Vec<_> = calls
        .iter()
        .filter(|call| call.returned < u64::MAX)
        .collect();
    ended.sort_unstable_by_key(|call| (call.returned, call.request));
    let mut ended = ended.into_iter().peekable();
    let mut begun: Vec<_> = calls.iter().collect();
    begun.sort_unstable_by_key(|call| (call.invoked, call.request));
    let mut known: Option<&Call> = None;
    for call in begun {
        while let Some(before) = ended.next_if(|before| before.returned < call.invoked) {
            if known.is_none_or(|known| known.reached < before.reached) {
                known = Some(before);
            }
        }
        if let (Some(least), Some(known)) = (call.least, known)
            && least < known.reached
        {
            let text = format!(
                "{:?} found {least} values, {:?} had ended with {}",
                call.request, known.request, known.reached
            );
            wrong(Invariant::NoLostAck, call.returned.min(u64::MAX / 2), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::broken, *};

    fn asked(number: u64, ask: Ask) -> Event {
        Event::Invoked {
            client: 0,
            request: RequestId(number),
            ask,
        }
    }

    fn told(number: u64, told: Told) -> Event {
        Event::Returned {
            client: 0,
            request: RequestId(number),
            told,
        }
    }

    fn write(number: u64, value: u32, place: u32) -> [Event; 2] {
        let done = Told::Written { epoch: 1, place };
        let ask = Ask::Write { key: 0, value };
        [asked(number, ask), told(number, done)]
    }

    fn read(number: u64, values: &[u32]) -> [Event; 2] {
        let values = Arc::new(values.to_vec());
        let ask = Ask::Read { key: 0 };
        [
            asked(number, ask),
            told(number, Told::Values { epoch: 1, values }),
        ]
    }

    #[test]
    fn what_was_acknowledged_must_be_read() {
        let fine = [
            write(1, 7, 0),
            read(2, &[7]),
            write(3, 8, 1),
            read(4, &[7, 8]),
        ];
        assert_eq!(broken(check, fine.concat()), []);
        let lost = [write(1, 7, 0), read(2, &[])];
        assert_eq!(broken(check, lost.concat()), [Invariant::NoLostAck]);
        let back = [write(1, 7, 0), read(2, &[7]), read(3, &[])];
        assert!(broken(check, back.concat()).contains(&Invariant::NoLostAck));
        let other = [write(1, 7, 0), write(2, 8, 1), read(3, &[8, 7])];
        assert!(!broken(check, other.concat()).is_empty());
    }

    #[test]
    fn a_write_without_an_answer_may_show_or_not_but_not_come_and_go() {
        let ask = Ask::Write { key: 0, value: 7 };
        let open = [asked(1, ask)];
        let with = |reads: &[[Event; 2]]| [open.to_vec(), reads.concat()].concat();
        assert_eq!(broken(check, with(&[read(2, &[]), read(3, &[7])])), []);
        let gone = with(&[read(2, &[7]), read(3, &[])]);
        assert_eq!(broken(check, gone), [Invariant::NoLostAck]);
    }

    #[test]
    fn twice_and_from_nowhere_are_found() {
        let twice = [write(1, 7, 0), read(2, &[7, 7])];
        assert!(broken(check, twice.concat()).contains(&Invariant::AtMostOnce));
        assert_eq!(broken(check, read(2, &[9])), [Invariant::NoLostAck]);
    }
}
