//! Random histories of one instance against a plain model: never two writers for one key, a finish
//! counts once, a key is written only in the name of an open session, what has ended goes once its
//! time has come, and a failover changes nothing.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use common::{Entry, Fixture, granted, start};
use kvcm_cache::{ErrorKind, Mask, StartRequest};
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
    /// A second passes, and the bytes of what is due are deleted.
    Delete,
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
        2 => Just(Step::Delete),
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
    /// Keys on their way out, with the session that was given the location.
    leaving: Vec<(i64, usize)>,
    sessions: Vec<Session>,
}

#[derive(Clone, Debug, PartialEq)]
enum Key {
    Writing(usize),
    Serving(usize, Entry),
}

impl Model {
    fn settle(&mut self, session: usize, written: &[bool]) {
        let Session { keys, entries, .. } = &self.sessions[session];
        for ((key, entry), written) in keys.iter().zip(entries).zip(written) {
            if self.keys.get(key) == Some(&Key::Writing(session)) {
                if *written {
                    let serving = Key::Serving(session, entry.clone());
                    self.keys.insert(*key, serving);
                } else {
                    self.keys.remove(key);
                    self.leaving.push((*key, session));
                }
            }
        }
    }

    /// A key goes; whether it was there.
    fn remove(&mut self, key: i64) -> bool {
        let (Some(Key::Writing(session)) | Some(Key::Serving(session, _))) = self.keys.remove(&key)
        else {
            return false;
        };
        self.leaving.push((key, session));
        true
    }

    fn delete(&mut self, before: &[(i64, usize)]) {
        let sessions = &self.sessions;
        self.leaving.retain(|gone| {
            // What may still be written stays.
            !before.contains(gone) || sessions[gone.1].end.is_none()
        });
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
            None if model.leaving.iter().any(|(gone, _)| gone == key) => "DELETING",
            None => "NOT_FOUND",
            Some(Key::Writing(session)) => {
                assert_eq!(model.sessions[*session].end, None, "key {key} is an orphan");
                "WRITING"
            }
            Some(Key::Serving(..)) => "SERVING",
        };
        assert_eq!(state, expected, "key {key}");
        let found = f.prefix(&[*key]);
        match model.keys.get(key) {
            Some(Key::Serving(_, entry)) => assert_eq!(found, std::slice::from_ref(entry)),
            _ => assert_eq!(found, []),
        }
    }
    let counts = f.cache.counts();
    let leaving = model.leaving.iter().map(|(key, _)| key);
    let there: HashSet<_> = leaving.chain(model.keys.keys()).collect();
    assert_eq!(counts.keys, there.len());
    let locations = model.leaving.len() + model.keys.len();
    assert_eq!(counts.bytes, 1024 * locations as u64);
    let open = model.sessions.iter().filter(|s| s.end.is_none()).count();
    assert_eq!(counts.sessions, open);
}

async fn run(steps: Vec<Step>) {
    let clock = ManualClock::default();
    // Nothing has to be there to be deleted.
    let mut f = Fixture::objects(Arc::new(clock.clone())).await;
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
                let there = keys.iter().filter(|key| model.remove(**key)).count();
                assert_eq!(f.remove(&keys).await.unwrap(), there);
            }
            Step::Trim => {
                assert_eq!(f.trim().await.unwrap(), model.keys.len());
                for key in 0..10 {
                    model.remove(key);
                }
            }
            Step::Delete => {
                let before = model.leaving.clone();
                f.delete_due().await;
                clock.advance(Duration::from_secs(1));
                model.now += 1;
                f.cache.expire(clock.now()).await.unwrap();
                model.expire();
                f.delete_due().await;
                model.delete(&before);
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
