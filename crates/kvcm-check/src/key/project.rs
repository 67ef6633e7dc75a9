//! From calls on many keys to operations on one.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Entry, KeyOp, KeyState};
use crate::{Call, History, Key, Op, Outcome};

/// The operations on one key that have to agree: of the whole run, or of one reign when blocks do
/// not outlive their leader.
#[derive(Debug)]
pub(crate) struct Partition {
    /// The key.
    pub(crate) key: Key,
    /// The reign, when each is on its own.
    pub(crate) epoch: Option<u64>,
    /// What is known at the beginning.
    pub(crate) first: KeyState,
    /// Somebody removes it.
    pub(crate) may_be_removed: bool,
    /// The operations.
    pub(crate) entries: Vec<Entry>,
    /// For each the call that it is of; none for what happens by itself.
    pub(crate) calls: Vec<Option<usize>>,
}

/// Takes the calls of `history` apart.
pub(crate) fn project(history: &History) -> Vec<Partition> {
    let mut projection = Projection {
        history,
        places: HashMap::new(),
        unseen: u32::MAX,
        bound: Vec::new(),
        loose: Vec::new(),
        removed: HashSet::new(),
        skipped: HashSet::new(),
        times: HashMap::new(),
    };
    projection.repeats();
    for (number, call) in history.calls.iter().enumerate() {
        if !projection.skipped.contains(&number) {
            projection.call(number, call);
        }
    }
    projection.partitions()
}

struct Part {
    key: Key,
    entry: Entry,
    call: Option<usize>,
}

struct Projection<'a> {
    history: &'a History,
    places: HashMap<&'a str, u32>,
    /// Counts down for places that nobody was told of.
    unseen: u32,
    /// What happened under a known epoch.
    bound: Vec<(u64, Part)>,
    /// What may have happened under any.
    loose: Vec<Part>,
    removed: HashSet<Key>,
    /// Repeats, which have no effect of their own.
    skipped: HashSet<usize>,
    /// When a call with repeats took effect: after the first was sent, before one was answered.
    times: HashMap<usize, (u64, u64)>,
}

impl<'a> Projection<'a> {
    /// Calls with one request id take effect once, where the server remembers its answers.
    fn repeats(&mut self) {
        let reign = |epoch| (!self.history.run.durable_answers).then_some(epoch);
        let mut first: HashMap<(&str, Option<u64>), usize> = HashMap::new();
        for (number, call) in self.history.calls.iter().enumerate() {
            let (Some(id), Some(epoch)) = (&call.request_id, call.epoch) else {
                continue;
            };
            let Some(returned) = call.returned.filter(|_| call.is_ok()) else {
                continue;
            };
            let known = *first.entry((id, reign(epoch))).or_insert(number);
            // Another answer is another effect: the store was made to forget the first.
            if self.history.calls[known].op != call.op {
                continue;
            }
            let times = self.times.entry(known).or_insert((call.invoke, returned));
            *times = (times.0.min(call.invoke), times.1.min(returned));
            if known != number {
                self.skipped.insert(number);
            }
        }
        // What became of a try without an answer the answered one tells. What a store was made to
        // forget may have happened twice.
        let tells_all = self.history.run.durable_answers && self.history.losses.is_empty();
        let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        for ((id, _), known) in first {
            by_id.entry(id).or_default().push(known);
        }
        for (number, call) in self.history.calls.iter().enumerate() {
            let Some(id) = call.request_id.as_deref().filter(|_| !call.is_ok()) else {
                continue;
            };
            for known in by_id.get(id).into_iter().flatten() {
                if tells_all {
                    self.skipped.insert(number);
                }
                if let Some(times) = self.times.get_mut(known) {
                    times.0 = times.0.min(call.invoke);
                }
            }
        }
    }

    fn call(&mut self, number: usize, call: &'a Call) {
        let (ok, unknown) = (call.is_ok(), call.outcome == Outcome::Unknown);
        // Refused by a node that does not lead: not executed.
        if call.hint.is_some() {
            return;
        }
        let durable = self.history.run.durable_blocks;
        let repeated = call.attempts > 1;
        match &call.op {
            Op::Lookup { keys, uris } if ok => {
                for (key, uri) in keys.iter().zip(uris) {
                    let op = match uri {
                        Some(uri) => KeyOp::Found(self.place(uri)),
                        None => KeyOp::Missing,
                    };
                    self.settled(*key, op, number);
                }
            }
            Op::Start {
                keys,
                granted,
                timeout,
                ..
            } => {
                for (index, key) in keys.iter().enumerate() {
                    // A try of which nobody saw the answer may have reserved it.
                    if !ok || (repeated && !self.history.run.durable_answers) {
                        self.unseen -= 1;
                        let place = self.unseen;
                        self.open(*key, KeyOp::GrantedUnseen(place), call.invoke, number);
                        self.open(*key, KeyOp::Expire(place), call.invoke, number);
                    }
                    match granted.get(index) {
                        Some(Some(uri)) if ok => {
                            let place = self.place(uri);
                            self.settled(*key, KeyOp::Granted(place), number);
                            let times = self.times.get(&number);
                            let begun = times.map_or(call.invoke, |times| times.0);
                            let end = begun.saturating_add(*timeout);
                            self.by_itself(*key, KeyOp::Expire(place), end, call);
                        }
                        Some(None) if ok => self.settled(*key, KeyOp::Denied, number),
                        _ => {}
                    }
                }
            }
            Op::Finish {
                keys,
                uris,
                written,
                gone,
                ..
            } => {
                for ((key, uri), written) in keys.iter().zip(uris).zip(written) {
                    let place = self.place(uri);
                    let op = match written {
                        true => KeyOp::Finish(place),
                        false => KeyOp::GiveUp(place),
                    };
                    match call.outcome {
                        Outcome::Ok => self.settled(*key, op, number),
                        Outcome::Unknown => self.open(*key, op, call.invoke, number),
                        Outcome::Fail if *gone => {
                            self.settled(*key, KeyOp::Gone(place), number);
                            // The leader that a former try ended at may be the one that is gone.
                            if repeated && !durable {
                                self.open(*key, op, call.invoke, number);
                            }
                        }
                        Outcome::Fail => {}
                    }
                }
            }
            Op::Remove { keys } if ok || unknown => {
                for key in keys {
                    self.removed.insert(*key);
                    if ok {
                        self.settled(*key, KeyOp::Remove, number);
                    }
                    if unknown || (repeated && !self.history.run.durable_answers) {
                        self.open(*key, KeyOp::Remove, call.invoke, number);
                    }
                }
            }
            _ => {}
        }
    }

    fn place(&mut self, uri: &'a str) -> u32 {
        let next = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        *self.places.entry(uri).or_insert(next)
    }

    /// It has an answer.
    fn settled(&mut self, key: Key, op: KeyOp, number: usize) {
        let call = &self.history.calls[number];
        let times = self.times.get(&number);
        let entry = Entry {
            invoke: times.map_or(call.invoke, |times| times.0),
            returned: times.map_or(call.returned, |times| Some(times.1)),
            op,
        };
        let call_number = Some(number);
        let part = Part {
            key,
            entry,
            call: call_number,
        };
        match call.epoch {
            Some(epoch) => self.bound.push((epoch, part)),
            // An answer that does not tell its epoch says nothing about a reign.
            None if self.history.run.durable_blocks => self.bound.push((0, part)),
            None => {}
        }
    }

    /// It may have happened, under any leader.
    fn open(&mut self, key: Key, op: KeyOp, invoke: u64, number: usize) {
        self.loose.push(Part {
            key,
            entry: Entry {
                invoke,
                returned: None,
                op,
            },
            call: Some(number),
        });
    }

    /// It happens under the leader that answered `call`, if at all.
    fn by_itself(&mut self, key: Key, op: KeyOp, invoke: u64, call: &Call) {
        let entry = Entry {
            invoke,
            returned: None,
            op,
        };
        let part = Part {
            key,
            entry,
            call: None,
        };
        self.bound.push((call.epoch.unwrap_or(0), part));
    }

    fn partitions(self) -> Vec<Partition> {
        let durable = self.history.run.durable_blocks;
        let mut parts: BTreeMap<(Key, Option<u64>), Partition> = BTreeMap::new();
        let mut add = |key: Key, epoch: Option<u64>, entry: Entry, call: Option<usize>| {
            let partition = parts.entry((key, epoch)).or_insert_with(|| Partition {
                key,
                epoch,
                first: if durable {
                    KeyState::Absent
                } else {
                    KeyState::Any
                },
                may_be_removed: self.removed.contains(&key),
                entries: Vec::new(),
                calls: Vec::new(),
            });
            partition.entries.push(entry);
            partition.calls.push(call);
        };
        for (epoch, part) in self.bound {
            let epoch = (!durable).then_some(epoch);
            add(part.key, epoch, part.entry, part.call);
        }
        for part in self.loose {
            let range = (part.key, None)..=(part.key, Some(u64::MAX));
            for (_, partition) in parts.range_mut(range) {
                partition.entries.push(part.entry);
                partition.calls.push(part.call);
            }
        }
        let mut parts: Vec<_> = parts.into_values().collect();
        for partition in &mut parts {
            for loss in &self.history.losses {
                partition.entries.push(Entry {
                    invoke: loss.at,
                    returned: None,
                    op: KeyOp::Forget,
                });
                partition.calls.push(None);
            }
            partition.drop_useless();
        }
        parts
    }
}

impl Partition {
    /// A place that nobody was told of only explains why another call was granted none. Leaving
    /// the rest out keeps the search small.
    fn drop_useless(&mut self) {
        let unseen: HashSet<u32> = self
            .entries
            .iter()
            .filter_map(|entry| match entry.op {
                KeyOp::GrantedUnseen(place) => Some(place),
                _ => None,
            })
            .collect();
        if self.entries.iter().any(|entry| entry.op == KeyOp::Denied) {
            return;
        }
        let keep: Vec<_> = self
            .entries
            .iter()
            .map(|entry| match entry.op {
                KeyOp::GrantedUnseen(_) => false,
                KeyOp::Expire(place) => !unseen.contains(&place),
                _ => true,
            })
            .collect();
        let mut kept = keep.iter();
        self.entries.retain(|_| kept.next() == Some(&true));
        let mut kept = keep.iter();
        self.calls.retain(|_| kept.next() == Some(&true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loss, Run, key::Verdict, key::search};

    fn call(invoke: u64, op: Op, outcome: Outcome) -> Call {
        let id = match op {
            Op::Start { .. } => "begin",
            _ => "end",
        };
        Call {
            client: 1,
            invoke,
            returned: Some(invoke + 5),
            node: None,
            epoch: (outcome != Outcome::Unknown).then_some(1),
            request_id: Some(id.to_owned()),
            attempts: 1,
            op,
            outcome,
            hint: None,
            route: None,
            error: None,
        }
    }

    #[test]
    fn a_session_lives_from_the_first_try_that_may_have_begun_it() {
        let start = |granted: &[Option<&str>]| Op::Start {
            keys: vec![1],
            granted: granted.iter().map(|uri| uri.map(str::to_owned)).collect(),
            session: None,
            timeout: 100,
        };
        let finish = Op::Finish {
            session: "s".to_owned(),
            keys: vec![1],
            uris: vec!["u".to_owned()],
            written: vec![true],
            gone: true,
        };
        let verdict = |first: u64, losses: &[Loss]| {
            let history = History {
                run: Run {
                    durable_blocks: true,
                    durable_answers: true,
                    ..Run::default()
                },
                calls: vec![
                    call(first, start(&[]), Outcome::Unknown),
                    call(200, start(&[Some("u")]), Outcome::Ok),
                    call(250, finish.clone(), Outcome::Fail),
                ],
                losses: losses.to_vec(),
                ..History::default()
            };
            let parts = project(&history);
            assert_eq!(parts.len(), 1);
            search(parts[0].first, &parts[0].entries, false)
        };
        // Whatever happened to the store much later.
        for losses in [
            &[][..],
            &[Loss {
                at: 900,
                until: 901,
            }],
        ] {
            assert_eq!(verdict(50, losses), Verdict::Linearizable);
            assert_eq!(verdict(190, losses), Verdict::Wrong);
        }
    }
}
