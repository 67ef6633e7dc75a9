//! One thing wrong: each of these makes a history that no correct cluster can have.

use kvcm_check::{Call, GateEvent, History, Invariant, Key, Op, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    LostWrite,
    Flicker,
    StaleEpoch,
    TwoOwners,
    OverlappingGates,
    EpochOfTwoGates,
    ServedAfterRefusal,
    GrantedWhileServed,
    SamePlaceTwice,
    Phantom,
    OtherPlace,
    TwoAnswers,
    LostInstance,
    FallingRoute,
    TooManyRedirects,
    FallingHints,
    ElectionWithoutFault,
    NothingHappens,
    TooManyErrors,
    SwappedReads,
    NeverRecovers,
}

/// A lookup that found a key.
#[derive(Clone, Copy)]
struct Found<'a> {
    call: usize,
    place: usize,
    key: Key,
    uri: &'a str,
}

impl Mutation {
    pub(crate) const ALL: [Self; 21] = [
        Self::LostWrite,
        Self::Flicker,
        Self::StaleEpoch,
        Self::TwoOwners,
        Self::OverlappingGates,
        Self::EpochOfTwoGates,
        Self::ServedAfterRefusal,
        Self::GrantedWhileServed,
        Self::SamePlaceTwice,
        Self::Phantom,
        Self::OtherPlace,
        Self::TwoAnswers,
        Self::LostInstance,
        Self::FallingRoute,
        Self::TooManyRedirects,
        Self::FallingHints,
        Self::ElectionWithoutFault,
        Self::NothingHappens,
        Self::TooManyErrors,
        Self::SwappedReads,
        Self::NeverRecovers,
    ];

    /// The promises that are broken: one of them has to be named.
    pub(crate) fn breaks(self) -> &'static [Invariant] {
        match self {
            Self::StaleEpoch | Self::OverlappingGates => &[Invariant::NoStaleServe],
            Self::TwoOwners | Self::EpochOfTwoGates => &[Invariant::ExclusiveEpoch],
            Self::SamePlaceTwice | Self::TwoAnswers => &[Invariant::AtMostOnce],
            Self::FallingRoute | Self::TooManyRedirects | Self::FallingHints => {
                &[Invariant::BoundedHint]
            }
            Self::NeverRecovers => &[Invariant::Liveness],
            Self::ElectionWithoutFault => &[Invariant::Quiet],
            Self::NothingHappens | Self::TooManyErrors => &[Invariant::Floor],
            _ => &[Invariant::NoLostAck],
        }
    }

    /// Changes `history`; false when it has no place for this mistake.
    pub(crate) fn apply(self, history: &mut History, random: &mut fastrand::Rng) -> bool {
        self.place(history, random).is_some()
    }

    fn place(self, history: &mut History, random: &mut fastrand::Rng) -> Option<()> {
        let before = history.clone();
        let calls = &before.calls;
        match self {
            Self::LostWrite => {
                let of = |found: &Found<'_>| {
                    is_kept(&before, found.key) && finish_before(&before, found).is_some()
                };
                let found = pick(random, all_found(&before).into_iter().filter(of))?;
                set_uri(history, &found, None);
            }
            Self::Flicker => {
                let all = all_found(&before);
                let of = |found: &Found<'_>| {
                    is_kept(&before, found.key)
                        && all.iter().any(|other| {
                            (other.key, other.uri) == (found.key, found.uri)
                                && calls[other.call].returned < Some(calls[found.call].invoke)
                                && is_one_reign(&before, &calls[other.call], &calls[found.call])
                        })
                };
                let found = pick(random, all.iter().copied().filter(of))?;
                set_uri(history, &found, None);
            }
            Self::StaleEpoch => {
                let pairs = (0..calls.len()).filter_map(|number| {
                    let call = Some(&calls[number]).filter(|call| call.is_ok())?;
                    let earlier = calls
                        .iter()
                        .filter(|c| c.is_ok() && c.returned < Some(call.invoke));
                    let highest = earlier.filter_map(|earlier| earlier.epoch).max()?;
                    (highest > 1).then_some((number, highest - 1))
                });
                let (number, epoch) = pick(random, pairs)?;
                history.calls[number].epoch = Some(epoch);
            }
            Self::TwoOwners => {
                let of = |number: &usize| {
                    let call = &calls[*number];
                    let same = |c: &&Call| c.is_ok() && c.epoch == call.epoch;
                    call.is_ok() && calls.iter().filter(same).count() > 1
                };
                let number = pick(random, (0..calls.len()).filter(of))?;
                history.calls[number].node = Some("node-9".to_owned());
            }
            Self::OverlappingGates => {
                let gates = before.gate_intervals();
                let pairs = gates.windows(2).filter(|pair| pair[0].node != pair[1].node);
                let (old, new) = pick(random, pairs.map(|pair| (&pair[0], &pair[1])))?;
                let events = history
                    .gates
                    .iter_mut()
                    .find(|(node, _)| *node == old.node)?;
                let shut = |event: &&mut GateEvent| matches!(event, GateEvent::Shut { epoch, .. } if *epoch == old.epoch);
                *events.1.iter_mut().find(shut)? = GateEvent::Shut {
                    epoch: old.epoch,
                    at: new.open + 1,
                };
            }
            Self::EpochOfTwoGates => {
                let gate = pick(random, before.gate_intervals())?;
                let (epoch, at) = (gate.epoch, gate.open);
                let events = vec![GateEvent::Open { epoch, at }, GateEvent::Shut { epoch, at }];
                history.gates.push(("node-8".to_owned(), events));
            }
            Self::ServedAfterRefusal => {
                let finishes = all_found(&before).into_iter();
                let finishes = finishes.filter_map(|found| finish_before(&before, &found));
                let number = pick(random, finishes)?;
                let call = &mut history.calls[number];
                call.outcome = Outcome::Fail;
                let Op::Finish { gone, .. } = &mut call.op else {
                    return None;
                };
                *gone = true;
            }
            Self::GrantedWhileServed => {
                let found = all_found(&before);
                let places = (0..calls.len()).flat_map(|number| {
                    let Op::Start { keys, granted, .. } = &calls[number].op else {
                        return Vec::new();
                    };
                    let of = |place: &usize| {
                        granted[*place].is_none()
                            && is_kept(&before, keys[*place])
                            && found.iter().any(|found| {
                                found.key == keys[*place]
                                    && calls[found.call].returned < Some(calls[number].invoke)
                                    && is_one_reign(&before, &calls[found.call], &calls[number])
                            })
                    };
                    let is_first = !is_repeated(&before, number);
                    let places = (0..granted.len()).filter(of).filter(|_| is_first);
                    places.map(|place| (number, place)).collect()
                });
                let (number, place) = pick(random, places)?;
                let Op::Start { granted, .. } = &mut history.calls[number].op else {
                    return None;
                };
                granted[place] = Some("file://mutant".to_owned());
            }
            Self::SamePlaceTwice => {
                let starts = (0..calls.len()).filter_map(|number| {
                    let Op::Start { granted, .. } = &calls[number].op else {
                        return None;
                    };
                    let place = granted.iter().position(Option::is_some)?;
                    (!is_repeated(&before, number)).then(|| (number, place, granted[place].clone()))
                });
                let starts: Vec<_> = starts.collect();
                let (_, _, uri) = starts.first()?.clone();
                let (number, place, _) = pick(random, starts.into_iter().skip(1))?;
                let Op::Start { granted, .. } = &mut history.calls[number].op else {
                    return None;
                };
                granted[place] = uri;
            }
            Self::Phantom => {
                let (number, place) = pick(random, all_missing(&before))?;
                let Op::Lookup { uris, .. } = &mut history.calls[number].op else {
                    return None;
                };
                uris[place] = Some("file://phantom".to_owned());
            }
            Self::OtherPlace if before.run.durable_blocks => {
                let all = all_found(&before);
                let found = pick(random, all.iter().copied())?;
                let other = pick(random, all.iter().filter(|other| other.key != found.key))?;
                set_uri(history, &found, Some(other.uri.to_owned()));
            }
            Self::OtherPlace => return None,
            Self::TwoAnswers => {
                let number = pick(
                    random,
                    (0..calls.len()).filter(|n| is_repeated(&before, *n)),
                )?;
                let Op::Start { session, .. } = &mut history.calls[number].op else {
                    return None;
                };
                *session = Some("another".to_owned());
            }
            Self::LostInstance => {
                let known = (0..calls.len()).filter(|number| {
                    let Op::Instance {
                        instance,
                        known: true,
                    } = &calls[*number].op
                    else {
                        return false;
                    };
                    calls.iter().any(|call| {
                        matches!(&call.op, Op::Register { instance: i } if i == instance)
                            && call.is_ok()
                            && call.returned < Some(calls[*number].invoke)
                    })
                });
                let number = pick(random, known)?;
                let Op::Instance { known, .. } = &mut history.calls[number].op else {
                    return None;
                };
                *known = false;
            }
            Self::FallingRoute => {
                let later = (0..calls.len()).filter(|number| {
                    let earlier = calls[..*number].iter();
                    calls[*number].route.is_some()
                        && earlier.clone().any(|call| {
                            call.client == calls[*number].client
                                && call.route.is_some_and(|route| route.epoch > 1)
                        })
                });
                let number = pick(random, later)?;
                history.calls[number].route.as_mut()?.epoch = 1;
            }
            Self::TooManyRedirects => {
                // One more than the epochs that are new to the client.
                let client = random.u32(..5);
                let of_client = |number: &usize| {
                    let call = &calls[*number];
                    call.client == client && call.route.is_some()
                };
                let number = pick(random, (0..calls.len()).filter(of_client))?;
                let earlier = (0..number).rfind(of_client);
                let before = earlier.and_then(|number| calls[number].route);
                let route = history.calls[number].route.as_mut()?;
                let (from, done) = before.map_or((0, 0), |r| (r.epoch, r.redirects));
                route.redirects = done + (route.epoch - from) + 1;
            }
            Self::FallingHints => {
                let last = calls.last()?;
                for (step, hint) in [(0, 3), (10, 2)] {
                    history.calls.push(Call {
                        client: 90,
                        invoke: last.invoke + step,
                        returned: Some(last.invoke + step + 5),
                        node: Some("node-1".to_owned()),
                        epoch: None,
                        outcome: Outcome::Fail,
                        hint: Some(hint),
                        route: None,
                        ..last.clone()
                    });
                }
            }
            Self::ElectionWithoutFault => {
                if before.gate_intervals().len() < 2 {
                    return None;
                }
                history.faults.clear();
            }
            Self::NeverRecovers => {
                history.faults.last_mut()?.recovered = random.bool().then_some(u64::MAX / 2);
            }
            Self::NothingHappens => history.run.floors.leader_changes = 1000,
            Self::TooManyErrors => {
                for call in &mut history.calls {
                    call.outcome = Outcome::Unknown;
                }
            }
            Self::SwappedReads => {
                let missing: Vec<_> = all_missing(&before).collect();
                let pairs = all_found(&before).into_iter().flat_map(|found| {
                    let begun = sent(&before, &found).unwrap_or(0);
                    let before = missing.iter().filter(move |(number, place)| {
                        key_at(&calls[*number], *place) == Some(found.key)
                            && calls[*number].returned < Some(begun)
                    });
                    before
                        .map(move |missing| (found, *missing))
                        .collect::<Vec<_>>()
                });
                let (found, (number, place)) = pick(random, pairs)?;
                let uri = Some(found.uri.to_owned());
                set_uri(history, &found, None);
                let Op::Lookup { uris, .. } = &mut history.calls[number].op else {
                    return None;
                };
                uris[place] = uri;
            }
        }
        Some(())
    }
}

fn pick<T>(random: &mut fastrand::Rng, from: impl IntoIterator<Item = T>) -> Option<T> {
    let mut all: Vec<_> = from.into_iter().collect();
    (!all.is_empty()).then(|| all.swap_remove(random.usize(..all.len())))
}

fn all_found(history: &History) -> Vec<Found<'_>> {
    let calls = history
        .calls
        .iter()
        .enumerate()
        .filter(|(_, call)| call.is_ok());
    let found = calls.flat_map(|(number, call)| {
        let Op::Lookup { keys, uris } = &call.op else {
            return Vec::new();
        };
        let found = keys
            .iter()
            .zip(uris)
            .enumerate()
            .filter_map(|(place, (key, uri))| {
                let uri = uri.as_deref()?;
                Some(Found {
                    call: number,
                    place,
                    key: *key,
                    uri,
                })
            });
        found.collect()
    });
    found.collect()
}

fn all_missing(history: &History) -> impl Iterator<Item = (usize, usize)> {
    let calls = history
        .calls
        .iter()
        .enumerate()
        .filter(|(_, call)| call.is_ok());
    calls.flat_map(|(number, call)| {
        let Op::Lookup { uris, .. } = &call.op else {
            return Vec::new();
        };
        let places = uris.iter().enumerate().filter(|(_, uri)| uri.is_none());
        places.map(|(place, _)| (number, place)).collect()
    })
}

fn key_at(call: &Call, place: usize) -> Option<Key> {
    match &call.op {
        Op::Lookup { keys, .. } => keys.get(place).copied(),
        _ => None,
    }
}

fn set_uri(history: &mut History, found: &Found<'_>, uri: Option<String>) {
    if let Op::Lookup { uris, .. } = &mut history.calls[found.call].op {
        uris[found.place] = uri;
    }
}

/// Nobody removes it.
fn is_kept(history: &History, key: Key) -> bool {
    let removes = |call: &Call| matches!(&call.op, Op::Remove { keys } if keys.contains(&key));
    !history.calls.iter().any(removes)
}

fn is_one_reign(history: &History, one: &Call, other: &Call) -> bool {
    history.run.durable_blocks || one.epoch == other.epoch
}

/// The acknowledged end of the session, before the lookup was sent.
fn finish_before(history: &History, found: &Found<'_>) -> Option<usize> {
    let lookup = &history.calls[found.call];
    history.calls.iter().position(|call| {
        let Op::Finish { uris, written, .. } = &call.op else {
            return false;
        };
        let mut pairs = uris.iter().zip(written);
        call.is_ok()
            && pairs.any(|(uri, written)| uri == found.uri && *written)
            && call.returned < Some(lookup.invoke)
            && is_one_reign(history, call, lookup)
    })
}

/// When the end of its session was sent.
fn sent(history: &History, found: &Found<'_>) -> Option<u64> {
    let finishes = history.calls.iter().filter(|call| {
        matches!(&call.op, Op::Finish { uris, .. } if uris.iter().any(|uri| uri == found.uri))
    });
    finishes.map(|call| call.invoke).min()
}

/// Its request id was used by another answered call, of the same reign where that matters.
fn is_repeated(history: &History, number: usize) -> bool {
    let call = &history.calls[number];
    call.is_ok()
        && history.calls.iter().enumerate().any(|(other, known)| {
            other != number
                && known.is_ok()
                && known.request_id == call.request_id
                && (history.run.durable_answers || known.epoch == call.epoch)
        })
}
