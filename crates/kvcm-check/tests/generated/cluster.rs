//! A correct cluster in virtual time, and clients that write down what it answers.
//!
//! Every call takes effect at one moment between its invocation and its return. The cluster is a
//! plain map behind those moments; leaders come and go between them.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use kvcm_check::{Call, Fault, Floors, GateEvent, History, Key, Op, Outcome, Route, Run};

/// What is generated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    durable: bool,
    removes: bool,
}

impl Shape {
    /// Every second one keeps its blocks, every third one removes some.
    pub(crate) fn of(seed: u64) -> Self {
        Self {
            durable: seed.is_multiple_of(2),
            removes: seed.is_multiple_of(3),
        }
    }
}

const CLIENTS: u32 = 5;
const CALLS: usize = 260;
const KEYS: Key = 12;
const LEASE: u64 = 1_000;
/// So long that no session of a history ends by itself.
const TIMEOUT: u64 = 1_000_000;
/// So short that most do.
const SHORT: u64 = 400;

#[derive(Clone, PartialEq)]
enum State {
    Writing(String, u64),
    Serving(String),
}

struct Session {
    keys: Vec<Key>,
    uris: Vec<String>,
    end: u64,
    ended: bool,
}

struct Cluster {
    epoch: u64,
    node: usize,
    keys: BTreeMap<Key, State>,
    /// By name.
    sessions: BTreeMap<String, Session>,
    instances: Vec<String>,
    grants: u64,
    /// By request id.
    answers: BTreeMap<String, Op>,
    gates: Vec<(String, Vec<GateEvent>)>,
    faults: Vec<Fault>,
}

/// A session that its client has not ended: name, keys, places.
type Granted = (String, Vec<Key>, Vec<String>);

/// What a client has under way.
struct Pending {
    call: Call,
    effect: u64,
    returns: u64,
    outcome: Outcome,
}

pub(crate) fn generate(seed: u64, shape: Shape) -> History {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cluster = Cluster::new();
    let mut history = History {
        run: Run {
            seed,
            command: "generated".to_owned(),
            lease: LEASE,
            durable_blocks: shape.durable,
            durable_registry: true,
            durable_answers: shape.durable,
            recovery: LEASE,
            floors: Floors {
                leader_changes: 1,
                ok_share: 0.5,
            },
        },
        ..History::default()
    };
    // Moments of effect and of change, earliest first.
    let mut agenda: BinaryHeap<std::cmp::Reverse<(u64, u32)>> = BinaryHeap::new();
    let mut pending: BTreeMap<u32, Pending> = BTreeMap::new();
    let mut open: BTreeMap<u32, Vec<Granted>> = BTreeMap::new();
    let mut begun = BTreeSet::new();
    let mut redirects = [0; CLIENTS as usize];
    let mut routes = [1; CLIENTS as usize];
    let mut last_request: Option<(String, Op)> = None;
    for client in 0..CLIENTS {
        agenda.push(std::cmp::Reverse((10_000 + u64::from(client), client)));
    }
    let mut next_change = 20_000;
    while let Some(std::cmp::Reverse((now, client))) = agenda.pop() {
        if now > next_change {
            cluster.change(next_change, shape, &mut random);
            next_change += random.u64(4_000..12_000);
        }
        cluster.expire(now);
        if let Some(due) = pending.get(&client).map(|p| p.effect)
            && due == now
        {
            let Some(mut done) = pending.remove(&client) else {
                continue;
            };
            let happens = done.outcome == Outcome::Ok || random.bool();
            if happens {
                cluster.apply(&mut done.call, now);
            }
            done.call.outcome = match done.call.outcome {
                Outcome::Fail => Outcome::Fail,
                _ => done.outcome,
            };
            if done.outcome == Outcome::Unknown {
                done.call.outcome = Outcome::Unknown;
                done.call.forget_answer();
            } else {
                done.call.epoch = Some(cluster.epoch);
                done.call.node = Some(cluster.node_name());
                let place = client as usize;
                if routes[place] < cluster.epoch {
                    routes[place] = cluster.epoch;
                    redirects[place] += u64::from(random.bool());
                }
                done.call.route = Some(Route {
                    epoch: routes[place],
                    redirects: redirects[place],
                });
            }
            done.call.returned = Some(done.returns);
            if let Op::Start {
                keys,
                granted,
                session: Some(session),
                ..
            } = &done.call.op
                && done.call.is_ok()
            {
                let got = keys
                    .iter()
                    .zip(granted)
                    .filter_map(|(k, g)| Some((*k, g.clone()?)));
                let (keys, uris): (Vec<_>, Vec<_>) = got.unzip();
                // Whoever repeats the request does not end its session, too.
                if !keys.is_empty() && begun.insert(session.clone()) {
                    open.entry(client)
                        .or_default()
                        .push((session.clone(), keys, uris));
                }
                last_request = done
                    .call
                    .request_id
                    .clone()
                    .map(|id| (id, done.call.op.clone()));
            }
            agenda.push(std::cmp::Reverse((
                done.returns + random.u64(1..200),
                client,
            )));
            history.calls.push(done.call);
            continue;
        }
        if history.calls.len() >= CALLS {
            continue;
        }
        let mine = open.entry(client).or_default();
        let (op, request_id) = next_op(&mut random, shape, mine, &cluster, last_request.as_ref());
        let effect = now + random.u64(1..300);
        let returns = effect + random.u64(1..300);
        let may_be_unknown = !matches!(op, Op::Lookup { .. } | Op::Instance { .. });
        let outcome = match may_be_unknown && random.u8(..12) == 0 {
            true => Outcome::Unknown,
            false => Outcome::Ok,
        };
        let request_id = request_id.unwrap_or_else(|| format!("{client}-{now}"));
        let call = Call {
            client,
            invoke: now,
            returned: None,
            node: None,
            epoch: None,
            request_id: Some(request_id),
            attempts: 1,
            op,
            outcome: Outcome::Ok,
            hint: None,
            route: None,
            error: None,
        };
        pending.insert(
            client,
            Pending {
                call,
                effect,
                returns,
                outcome,
            },
        );
        agenda.push(std::cmp::Reverse((effect, client)));
    }
    cluster.shut(u64::MAX);
    history.gates = cluster.gates;
    history.faults = cluster.faults;
    history.calls.sort_by_key(|call| call.invoke);
    history
}

fn next_op(
    random: &mut fastrand::Rng,
    shape: Shape,
    mine: &mut Vec<Granted>,
    cluster: &Cluster,
    last: Option<&(String, Op)>,
) -> (Op, Option<String>) {
    let mut keys: Vec<Key> = (0..random.usize(1..4))
        .map(|_| random.i64(0..KEYS))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let op = match random.u8(..20) {
        0..=7 => Op::Lookup {
            keys,
            uris: Vec::new(),
        },
        8..=10 => Op::Start {
            keys,
            granted: Vec::new(),
            session: None,
            timeout: if random.u8(..6) == 0 { SHORT } else { TIMEOUT },
        },
        11..=14 if !mine.is_empty() => {
            let (session, keys, uris) = mine.swap_remove(random.usize(..mine.len()));
            let written = keys.iter().map(|_| random.u8(..8) > 0).collect();
            Op::Finish {
                session,
                keys,
                uris,
                written,
                gone: false,
            }
        }
        15 if shape.removes => Op::Remove { keys },
        16 => Op::Register {
            instance: format!("instance-{}", random.u32(..50)),
        },
        17 => Op::Instance {
            instance: cluster
                .instances
                .get(random.usize(..50))
                .cloned()
                .unwrap_or_default(),
            known: false,
        },
        // A repeat of somebody's request.
        18 => match last {
            Some((id, Op::Start { keys, timeout, .. })) => {
                let op = Op::Start {
                    keys: keys.clone(),
                    granted: Vec::new(),
                    session: None,
                    timeout: *timeout,
                };
                return (op, Some(id.clone()));
            }
            _ => Op::Other {
                name: "info".to_owned(),
            },
        },
        _ => Op::Lookup {
            keys,
            uris: Vec::new(),
        },
    };
    (op, None)
}

impl Cluster {
    fn new() -> Self {
        let gates = (0..3).map(|node| (format!("node-{node}"), Vec::new()));
        let mut cluster = Self {
            epoch: 1,
            node: 0,
            keys: BTreeMap::new(),
            sessions: BTreeMap::new(),
            instances: Vec::new(),
            grants: 0,
            answers: BTreeMap::new(),
            gates: gates.collect(),
            faults: Vec::new(),
        };
        cluster.open(1);
        cluster
    }

    fn node_name(&self) -> String {
        format!("node-{}", self.node)
    }

    fn open(&mut self, at: u64) {
        let epoch = self.epoch;
        self.gates[self.node].1.push(GateEvent::Open { epoch, at });
    }

    fn shut(&mut self, at: u64) {
        let epoch = self.epoch;
        self.gates[self.node].1.push(GateEvent::Shut { epoch, at });
    }

    fn change(&mut self, at: u64, shape: Shape, random: &mut fastrand::Rng) {
        self.faults.push(Fault {
            at: at - 1,
            until: at,
            recovered: Some(at),
            kind: "kill".to_owned(),
            target: self.node_name(),
        });
        self.shut(at - 1);
        self.epoch += random.u64(1..4);
        self.node = random.usize(..3);
        self.open(at);
        if !shape.durable {
            self.keys.clear();
            self.sessions.clear();
            self.answers.clear();
        }
    }

    fn expire(&mut self, now: u64) {
        for session in self.sessions.values_mut() {
            session.ended |= session.end <= now;
        }
        self.keys
            .retain(|_, state| !matches!(state, State::Writing(_, end) if *end <= now));
    }

    fn apply(&mut self, call: &mut Call, now: u64) {
        let id = call.request_id.clone().unwrap_or_default();
        if let Some(answer) = self.answers.get(&id) {
            call.op = answer.clone();
            return;
        }
        let epoch = self.epoch;
        match &mut call.op {
            Op::Lookup { keys, uris } => {
                *uris = keys
                    .iter()
                    .map(|key| match self.keys.get(key) {
                        Some(State::Serving(uri)) => Some(uri.clone()),
                        _ => None,
                    })
                    .collect();
            }
            Op::Start {
                keys,
                granted,
                session,
                timeout,
            } => {
                let end = (call.invoke + *timeout).max(now + 1);
                let (keys_of, uris) = (Vec::new(), Vec::new());
                let mut mine = Session {
                    keys: keys_of,
                    uris,
                    end,
                    ended: false,
                };
                for key in keys.iter() {
                    granted.push(match self.keys.contains_key(key) {
                        true => None,
                        false => {
                            self.grants += 1;
                            let uri = format!("file://{epoch}/{}", self.grants);
                            self.keys.insert(*key, State::Writing(uri.clone(), end));
                            mine.keys.push(*key);
                            mine.uris.push(uri.clone());
                            Some(uri)
                        }
                    });
                }
                let name = format!("session-{epoch}-{}-{now}", self.grants);
                *session = Some(name.clone());
                self.sessions.insert(name, mine);
            }
            Op::Finish {
                session,
                written,
                gone,
                ..
            } => match self.sessions.get_mut(session) {
                Some(own) if !own.ended => {
                    own.ended = true;
                    for ((key, uri), written) in own.keys.iter().zip(&own.uris).zip(written) {
                        let is_mine =
                            matches!(self.keys.get(key), Some(State::Writing(u, _)) if u == uri);
                        match (is_mine, *written) {
                            (true, true) => {
                                self.keys.insert(*key, State::Serving(uri.clone()));
                            }
                            (true, false) => {
                                self.keys.remove(key);
                            }
                            _ => {}
                        }
                    }
                }
                _ => {
                    *gone = true;
                    call.outcome = Outcome::Fail;
                }
            },
            Op::Remove { keys } => keys.iter().for_each(|key| {
                self.keys.remove(key);
            }),
            Op::Register { instance } => self.instances.push(instance.clone()),
            Op::Instance { instance, known } => *known = self.instances.contains(instance),
            Op::Other { .. } => {}
        }
        if call.outcome != Outcome::Fail {
            self.answers.insert(id, call.op.clone());
        }
    }
}

trait ForgetAnswer {
    fn forget_answer(&mut self);
}

impl ForgetAnswer for Call {
    fn forget_answer(&mut self) {
        match &mut self.op {
            Op::Start {
                granted, session, ..
            } => {
                granted.clear();
                *session = None;
            }
            Op::Finish { gone, .. } => *gone = false,
            _ => {}
        }
    }
}
