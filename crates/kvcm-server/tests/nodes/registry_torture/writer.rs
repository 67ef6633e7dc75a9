//! Whoever changes the registry while its leader is harmed.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};

use super::{
    model::{Kind, Outcome, Part, Things},
    shared::Shared,
    templates::{self, Templates},
};
use crate::{both::Caller, support::code};

/// The group that all writers update.
pub(super) const SHARED: &str = "shared";

/// One change: a call, and what its part of the registry is afterwards.
struct Change {
    rpc: &'static str,
    body: Value,
    after: Things,
}

/// Changes its part of the registry until the leader does not answer any more.
pub(super) struct Writer {
    /// What the names of its things begin with.
    pub(super) prefix: String,
    pub(super) caller: Caller,
    pub(super) part: Arc<Mutex<Part>>,
    pub(super) shared: Arc<Shared>,
    pub(super) templates: Arc<Templates>,
    pub(super) random: fastrand::Rng,
    pub(super) is_over: Arc<AtomicBool>,
}

/// What a writer heard.
enum Heard {
    /// The leader's answer.
    Answer(Value),
    /// The outcome is known, or not, and there is no more to be had.
    End(Outcome),
}

impl Writer {
    /// Many small changes. Gives how many were acknowledged.
    pub(super) async fn write(mut self) -> u64 {
        let mut acknowledged = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let outcome = match self.random.u32(0..8) {
                0 => self.update_shared().await,
                _ => {
                    let change = self.choose();
                    self.change(change).await
                }
            };
            match outcome {
                Ok(Outcome::Done) => acknowledged += 1,
                Ok(_) => {}
                Err(()) => break,
            }
        }
        acknowledged
    }

    /// Loads of whole snapshots, each of which changes all that this writer has. Nobody else
    /// writes meanwhile.
    pub(super) async fn load(mut self) -> u64 {
        let mut acknowledged = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let Some(change) = self.all_anew().await else {
                break;
            };
            match self.change(change).await {
                Ok(Outcome::Done) => acknowledged += 1,
                Ok(_) => {}
                Err(()) => break,
            }
        }
        acknowledged
    }

    /// Makes a change. An error: the leader is not there any more.
    async fn change(&mut self, change: Change) -> Result<Outcome, ()> {
        let Change { rpc, body, after } = change;
        let id = format!("{}{:x}", self.prefix, self.random.u128(..));
        self.part().begin(format!("{rpc} {body}"), after);
        let answer = match self.ask(rpc, &body, &id).await {
            Heard::Answer(answer) => answer,
            Heard::End(outcome) => {
                self.part().answered(outcome);
                return Err(());
            }
        };
        assert_eq!(code(&answer), "OK", "{rpc} {body}: {answer}");
        self.part().answered(Outcome::Done);
        if self.random.u32(0..8) == 0
            && let Heard::Answer(again) = self.ask(rpc, &body, &id).await
            && again["header"]["epoch"] == answer["header"]["epoch"]
        {
            // Only within a reign is the answer kept.
            assert_eq!(code(&again), "OK", "again {rpc} {body}: {again}");
        }
        Ok(Outcome::Done)
    }

    /// Reads the version of the shared group and makes the next one.
    async fn update_shared(&mut self) -> Result<Outcome, ()> {
        let get = json!({"name": SHARED});
        let Heard::Answer(read) = self.ask("getInstanceGroup", &get, "").await else {
            return Err(());
        };
        let current = read["instance_group"]["version"].as_str();
        let current: u64 = current.and_then(|text| text.parse().ok()).unwrap();
        let mark = format!("{}{:x}", self.prefix, self.random.u64(..));
        let mut body = templates::group(SHARED, current + 1, &mark);
        body["current_version"] = current.into();
        self.shared.begin(current + 1, mark.clone());
        let (outcome, is_over) = match self.ask("updateInstanceGroup", &body, &mark).await {
            Heard::Answer(answer) if code(&answer) == "OK" => (Outcome::Done, false),
            // Somebody else was faster.
            Heard::Answer(_) => (Outcome::NotDone, false),
            Heard::End(outcome) => (outcome, true),
        };
        self.shared.answered(current + 1, mark, outcome);
        if is_over { Err(()) } else { Ok(outcome) }
    }

    async fn ask(&mut self, rpc: &str, body: &Value, id: &str) -> Heard {
        let id = Some(id).filter(|id| !id.is_empty());
        let Ok(answer) = self.caller.try_call(rpc, body, id).await else {
            return Heard::End(Outcome::Unknown);
        };
        let text = answer["header"]["status"]["message"].as_str().unwrap_or("");
        match code(&answer) {
            "IO_ERROR" => Heard::End(Outcome::Unknown),
            "SERVER_NOT_LEADER" => Heard::End(Outcome::NotDone),
            "INTERNAL_ERROR" if text.contains("unavailable") => Heard::End(Outcome::NotDone),
            _ => Heard::Answer(answer),
        }
    }

    fn part(&self) -> MutexGuard<'_, Part> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Any change that makes sense.
    fn choose(&mut self) -> Change {
        let mut after = self.part().settled().clone();
        let group = format!("{}g", self.prefix);
        let mark = format!("{}{:x}", self.prefix, self.random.u64(..));
        match self.random.u32(0..12) {
            0..5 if after.contains_key(&(Kind::Group, group.clone())) => {
                let id = format!("{}i{}", self.prefix, self.random.u32(0..5));
                if after.remove(&(Kind::Instance, id.clone())).is_some() {
                    let body = json!({"instance_id": id});
                    return Change {
                        rpc: "removeInstance",
                        body,
                        after,
                    };
                }
                let rpc = ["registerInstance", "admin/registerInstance"][self.random.usize(0..2)];
                let body = templates::instance(&id, &group, &mark);
                self.templates.instance(&mut after, &id, &group, &mark);
                Change { rpc, body, after }
            }
            0..7 => self.change_group(after, &group, &mark),
            7..11 => self.change_storage(after, &mark),
            _ => {
                let name = format!("{}a{}", self.prefix, self.random.u32(0..2));
                if after.remove(&(Kind::Account, name.clone())).is_some() {
                    let body = json!({"user_name": name});
                    return Change {
                        rpc: "deleteAccount",
                        body,
                        after,
                    };
                }
                let body = templates::account(&name);
                self.templates.account(&mut after, &name);
                Change {
                    rpc: "addAccount",
                    body,
                    after,
                }
            }
        }
    }

    fn change_group(&mut self, mut after: Things, name: &str, mark: &str) -> Change {
        let Some(shown) = after.get(&(Kind::Group, name.to_owned())) else {
            let body = templates::group(name, 1, mark);
            self.templates.group(&mut after, name, 1, mark);
            return Change {
                rpc: "createInstanceGroup",
                body,
                after,
            };
        };
        if self.random.u32(0..6) == 0 {
            // Its instances go in the same step.
            after.retain(|(kind, _), _| !matches!(kind, Kind::Group | Kind::Instance));
            let body = json!({"name": name});
            return Change {
                rpc: "removeInstanceGroup",
                body,
                after,
            };
        }
        let current = shown["version"].as_u64().unwrap();
        let next = current + self.random.u64(1..4);
        let mut body = templates::group(name, next, mark);
        body["current_version"] = current.into();
        self.templates.group(&mut after, name, next, mark);
        Change {
            rpc: "updateInstanceGroup",
            body,
            after,
        }
    }

    fn change_storage(&mut self, mut after: Things, mark: &str) -> Change {
        let name = format!("{}s{}", self.prefix, self.random.u32(0..3));
        let key = (Kind::Storage, name.clone());
        let Some(shown) = after.get_mut(&key) else {
            let body = templates::storage(&name, mark);
            self.templates.storage(&mut after, &name, mark);
            return Change {
                rpc: "addStorage",
                body,
                after,
            };
        };
        let is_available = shown["is_available"].clone();
        let body = json!({"storage_unique_name": name});
        match self.random.u32(0..3) {
            0 => {
                after.remove(&key);
                Change {
                    rpc: "removeStorage",
                    body,
                    after,
                }
            }
            1 if is_available == true => {
                shown["is_available"] = false.into();
                Change {
                    rpc: "disableStorage",
                    body,
                    after,
                }
            }
            1 => {
                shown["is_available"] = true.into();
                Change {
                    rpc: "enableStorage",
                    body,
                    after,
                }
            }
            _ => {
                let body = templates::storage(&name, mark);
                self.templates.storage(&mut after, &name, mark);
                // Enabling and disabling are calls of their own.
                after
                    .entry(key)
                    .and_modify(|shown| shown["is_available"] = is_available);
                Change {
                    rpc: "updateStorage",
                    body,
                    after,
                }
            }
        }
    }

    /// A snapshot in which all of this writer's things are others; none when nobody leads any more.
    async fn all_anew(&mut self) -> Option<Change> {
        let mut after = Things::new();
        let (prefix, random) = (&self.prefix, &mut self.random);
        let mark = format!("{prefix}{:x}", random.u64(..));
        let group = format!("{prefix}g");
        self.templates
            .group(&mut after, &group, random.u64(1..1_000), &mark);
        self.templates.account(&mut after, &format!("{prefix}a"));
        for number in 0..random.u32(1..6) {
            self.templates
                .storage(&mut after, &format!("{prefix}s{number}"), &mark);
        }
        for number in 0..random.u32(1..20) {
            let id = format!("{prefix}i{number}");
            self.templates.instance(&mut after, &id, &group, &mark);
        }
        let Heard::Answer(answer) = self.ask("genConfigSnapshot", &json!({}), "").await else {
            return None;
        };
        let text = answer["config_snapshot"].as_str().unwrap();
        let mut snapshot: Value = serde_json::from_str(text).unwrap();
        for kind in Kind::ALL {
            let (list, name) = kind.list();
            let list = snapshot[list].as_array_mut().unwrap();
            list.retain(|thing| !thing[name].as_str().unwrap().starts_with(&self.prefix));
            let own = after.iter().filter(|((other, _), _)| *other == kind);
            list.extend(own.map(|(_, thing)| thing.clone()));
        }
        let body = json!({"config_snapshot": snapshot.to_string()});
        Some(Change {
            rpc: "loadConfigSnapshot",
            body,
            after,
        })
    }
}
