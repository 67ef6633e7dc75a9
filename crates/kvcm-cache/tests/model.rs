//! Random histories of one instance against a plain model: never two writers for one key, a finish
//! counts once, and a failover changes nothing.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use common::{Entry, Fixture, granted, start};
use kvcm_cache::{Config, ErrorKind, Mask, StartRequest};
use kvcm_clock::{Clock, ManualClock};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Start(Vec<i64>, i32),
    /// Which of the sessions ever begun, newest first; a bit per key; whether the mask fits.
    Finish(usize, u8, bool),
    Remove(Vec<i64>),
    Trim,
    Advance(u64),
    Snapshot,
    FailOver,
}

fn step() -> impl Strategy<Value = Step> {
    let keys = || prop::collection::vec(0i64..10, 1..6);
    prop_oneof![
        6 => (keys(), 1i32..20).prop_map(|(keys, life)| Step::Start(keys, life)),
        6 => (0usize..4, any::<u8>(), prop::bool::weighted(0.9))
            .prop_map(|(session, bits, fits)| Step::Finish(session, bits, fits)),
        2 => keys().prop_map(Step::Remove),
        1 => Just(Step::Trim),
        3 => (0u64..8).prop_map(Step::Advance),
        1 => Just(Step::Snapshot),
        2 => Just(Step::FailOver),
    ]
}

#[derive(Debug)]
struct Session {
    id: String,
    keys: Vec<i64>,
    entries: Vec<Entry>,
    life: u64,
    deadline: u64,
    /// How it ended.
    end: Option<End>,
}

#[derive(Clone, Debug, PartialEq)]
enum End {
    Finished(Vec<bool>),
    Gone,
}

#[derive(Default, Debug)]
struct Model {
    now: u64,
    /// The session that writes it, by number, or the entry that serves.
    keys: HashMap<i64, Key>,
    sessions: Vec<Session>,
}

#[derive(Clone, Debug, PartialEq)]
enum Key {
    Writing(usize),
    Serving(Entry),
}

impl Model {
    fn settle(&mut self, session: usize, written: &[bool]) {
        let Session { keys, entries, .. } = &self.sessions[session];
        for ((key, entry), written) in keys.iter().zip(entries).zip(written) {
            if self.keys.get(key) == Some(&Key::Writing(session)) {
                if *written {
                    self.keys.insert(*key, Key::Serving(entry.clone()));
                } else {
                    self.keys.remove(key);
                }
            }
        }
    }

    fn expire(&mut self) {
        for session in 0..self.sessions.len() {
            let Session {
                deadline,
                end,
                keys,
                ..
            } = &self.sessions[session];
            if end.is_none() && *deadline <= self.now {
                let nothing = vec![false; keys.len()];
                self.settle(session, &nothing);
                self.sessions[session].end = Some(End::Gone);
            }
        }
    }
}

async fn check(f: &Fixture, model: &Model) {
    let keys: Vec<i64> = (0..10).collect();
    for (key, state) in keys.iter().zip(f.states(&keys)) {
        let expected = match model.keys.get(key) {
            None => "NOT_FOUND",
            Some(Key::Writing(_)) => "WRITING",
            Some(Key::Serving(_)) => "SERVING",
        };
        assert_eq!(state, expected, "key {key}");
        let found = f.prefix(&[*key]);
        match model.keys.get(key) {
            Some(Key::Serving(entry)) => assert_eq!(found, std::slice::from_ref(entry)),
            _ => assert_eq!(found, []),
        }
    }
    let counts = f.cache.counts();
    assert_eq!(counts.keys, model.keys.len());
    assert_eq!(counts.bytes, 1024 * model.keys.len() as u64);
    let open = model.sessions.iter().filter(|s| s.end.is_none()).count();
    assert_eq!(counts.sessions, open);
}

async fn run(steps: Vec<Step>) {
    let clock = ManualClock::default();
    let mut f = Fixture::empty(Arc::new(clock.clone()), Config::default()).await;
    f.simple().await;
    let mut model = Model::default();
    let mut paths = HashSet::new();
    for step in steps {
        match step {
            Step::Start(keys, life) => {
                let request = StartRequest {
                    write_timeout_seconds: life,
                    ..start(&keys)
                };
                let started = f.cache.start_write(&request).await.unwrap();
                let mut seen = HashSet::new();
                let mut new = keys.clone();
                new.retain(|key| !model.keys.contains_key(key) && seen.insert(*key));
                assert_eq!(started.granted.keys(), new);
                let number = model.sessions.len();
                for key in &new {
                    model.keys.insert(*key, Key::Writing(number));
                }
                let entries = granted(&started);
                for (_, specs) in &entries {
                    assert!(paths.insert(specs[0].1.clone()), "{specs:?} granted twice");
                }
                let life = if new.is_empty() { life.min(10) } else { life } as u64;
                model.sessions.push(Session {
                    id: started.session_id.to_string(),
                    keys: new,
                    entries,
                    life,
                    deadline: model.now + life,
                    end: None,
                });
            }
            Step::Finish(back, bits, fits) => {
                let Some(number) = model.sessions.len().checked_sub(1 + back) else {
                    continue;
                };
                let count = model.sessions[number].keys.len();
                let mut mask: Vec<bool> = (0..count).map(|at| bits >> at & 1 == 1).collect();
                let result = {
                    let mut sent = mask.clone();
                    if !fits {
                        sent.push(true);
                    }
                    f.finish(&model.sessions[number].id, Mask::Bools(&sent))
                        .await
                };
                let kind = result.as_ref().err().map(kvcm_cache::Error::kind);
                let expected = match (&model.sessions[number].end, fits) {
                    (None, true) => {
                        model.settle(number, &mask);
                        model.sessions[number].end = Some(End::Finished(mask));
                        None
                    }
                    (None, false) => {
                        mask.fill(false);
                        model.settle(number, &mask);
                        model.sessions[number].end = Some(End::Gone);
                        Some(ErrorKind::InvalidArgument)
                    }
                    (Some(End::Finished(former)), true) if *former == mask => None,
                    (Some(_), _) => Some(ErrorKind::SessionGone),
                };
                assert_eq!(kind, expected, "{result:?}");
            }
            Step::Remove(keys) => {
                let there: HashSet<_> = keys
                    .iter()
                    .filter(|key| model.keys.remove(key).is_some())
                    .collect();
                assert_eq!(f.remove(&keys).await.unwrap(), there.len());
            }
            Step::Trim => {
                assert_eq!(f.trim().await.unwrap(), model.keys.len());
                model.keys.clear();
            }
            Step::Advance(seconds) => {
                clock.advance(Duration::from_secs(seconds));
                model.now += seconds;
                f.cache.expire(clock.now()).await.unwrap();
                model.expire();
            }
            Step::Snapshot => assert!(f.cache.snapshot().await.unwrap()),
            Step::FailOver => {
                let recovered = f.fail_over().await;
                assert_eq!(recovered.skipped, []);
                for session in &mut model.sessions {
                    session.deadline = model.now + session.life;
                }
            }
        }
        check(&f, &model).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn histories_follow_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(run(steps));
    }
}
