//! A client that knows no more than the protocol, over either of its ways: it follows hints by itself,
//! repeats requests under one id, leaves sessions to themselves, and registers instances.

use std::time::Duration;

use kvcm_check::{Call, Key, Op, Outcome, Record};
use serde_json::{Value, json};

use super::{
    engine::Shared,
    node::Node,
    recorder::now,
    world::{GROUP, INSTANCE, PIECE, node_at},
};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How often a request is sent again while its outcome is not known.
const TRIES: u32 = 6;
/// How many instances one client registers at most; all are asked for at the end.
const INSTANCES_MAX: usize = 400;

/// One client.
#[derive(Debug)]
pub(super) struct Raw {
    number: u32,
    nodes: Vec<Node>,
    /// The one it asks next.
    next: usize,
    requests: u64,
    registered: Vec<String>,
    shared: Shared,
    random: fastrand::Rng,
}

impl Raw {
    pub(super) fn new(number: u32, nodes: Vec<Node>, shared: &Shared, seed: u64) -> Self {
        Self {
            number,
            next: number as usize % nodes.len().max(1),
            nodes,
            requests: 0,
            registered: Vec::new(),
            shared: shared.clone(),
            random: fastrand::Rng::with_seed(seed.wrapping_mul(31).wrapping_add(u64::from(number))),
        }
    }

    /// Makes one call after the other until told to stop.
    pub(super) async fn work(mut self) -> anyhow::Result<Self> {
        while !self.shared.stop.is_cancelled() {
            let keys = self.shared.keys.hot(now(), &mut self.random);
            match self.random.u8(..10) {
                0..=3 => self.write(&keys).await?,
                4..=5 => self.look_up(&keys).await?,
                6 => self.register().await?,
                _ => self.ask_for_one().await?,
            }
            let pause = Duration::from_millis(self.random.u64(10..50));
            tokio::time::sleep(pause).await;
        }
        Ok(self)
    }

    /// Asks for all instances that it has registered, once no more faults come.
    pub(super) async fn sweep(&mut self) -> anyhow::Result<()> {
        for instance in std::mem::take(&mut self.registered) {
            self.ask_for(instance).await?;
        }
        Ok(())
    }

    async fn look_up(&mut self, keys: &[Key]) -> anyhow::Result<()> {
        let body = json!({
            "instance_id": INSTANCE,
            "query_type": "QT_BATCH_GET",
            "block_keys": keys,
        });
        let keys = keys.to_vec();
        let read = |answer: Option<&Value>| {
            let uris = answer.map_or_else(Vec::new, |answer| {
                list(&answer["locations"]).iter().map(uri).collect()
            });
            let keys = keys.clone();
            Op::Lookup { keys, uris }
        };
        self.until_known("getCacheLocation", &body, false, read)
            .await?;
        Ok(())
    }

    async fn write(&mut self, keys: &[Key]) -> anyhow::Result<()> {
        let seconds = self.random.u64(1..10);
        let body = json!({
            "instance_id": INSTANCE,
            "block_keys": keys,
            "write_timeout_seconds": seconds,
        });
        let all = keys.to_vec();
        let read = |answer: Option<&Value>| {
            let (mut granted, mut session) = (Vec::new(), None);
            if let Some(answer) = answer {
                session = answer["write_session_id"].as_str().map(str::to_owned);
                let mut places = list(&answer["locations"]).iter();
                granted.extend((0..all.len()).map(|place| {
                    let is_new = !is_masked(&answer["block_mask"], place);
                    is_new.then(|| places.next().and_then(uri)).flatten()
                }));
            }
            Op::Start {
                keys: all.clone(),
                granted,
                session,
                timeout: seconds * 1_000_000_000,
            }
        };
        let Some(op) = self
            .until_known("startWriteCache", &body, true, read)
            .await?
        else {
            return Ok(());
        };
        let Op::Start {
            granted,
            session: Some(session),
            ..
        } = op
        else {
            return Ok(());
        };
        let new = keys
            .iter()
            .zip(granted)
            .filter_map(|(key, uri)| Some((*key, uri?)));
        let (keys, uris): (Vec<_>, Vec<_>) = new.unzip();
        // Some sessions are left to their time-out.
        if keys.is_empty() || self.random.u8(..6) == 0 {
            return Ok(());
        }
        let written: Vec<_> = keys.iter().map(|_| self.random.u8(..5) > 0).collect();
        let body = json!({
            "instance_id": INSTANCE,
            "write_session_id": session,
            "success_blocks": { "bool_masks": { "values": written } },
        });
        let read = |_: Option<&Value>| Op::Finish {
            session: session.clone(),
            keys: keys.clone(),
            uris: uris.clone(),
            written: written.clone(),
            gone: false,
        };
        self.until_known("finishWriteCache", &body, true, read)
            .await?;
        Ok(())
    }

    async fn register(&mut self) -> anyhow::Result<()> {
        let instance = format!("instance-{}-{}", self.number, self.requests);
        let is_done = self.register_as(&instance).await?;
        if is_done && self.registered.len() < INSTANCES_MAX {
            self.registered.push(instance);
        }
        Ok(())
    }

    async fn register_as(&mut self, instance: &str) -> anyhow::Result<bool> {
        let body = json!({
            "instance_group": GROUP,
            "instance_id": instance,
            "block_size": 16,
            "location_spec_infos": [{ "name": PIECE, "size": 4096 }],
            "model_deployment": { "model_name": "chaos-model", "dtype": "bf16" },
        });
        let instance = instance.to_owned();
        let read = |_: Option<&Value>| Op::Register {
            instance: instance.clone(),
        };
        let done = self
            .until_known("registerInstance", &body, true, read)
            .await?;
        Ok(done.is_some())
    }

    async fn ask_for_one(&mut self) -> anyhow::Result<()> {
        if self.registered.is_empty() {
            return Ok(());
        }
        let place = self.random.usize(..self.registered.len());
        self.ask_for(self.registered[place].clone()).await
    }

    async fn ask_for(&mut self, instance: String) -> anyhow::Result<()> {
        let body = json!({ "instance_id": instance });
        let read = |answer: Option<&Value>| Op::Instance {
            instance: instance.clone(),
            known: answer.is_some_and(|answer| code(answer) == "OK"),
        };
        self.until_known("getInstanceInfo", &body, false, read)
            .await?;
        Ok(())
    }

    /// Sends a request until its outcome is known, each try with the same request id if it changes
    /// something; then sometimes once more. Returns what was done, if it was.
    async fn until_known(
        &mut self,
        call: &str,
        body: &Value,
        changes: bool,
        read: impl Fn(Option<&Value>) -> Op,
    ) -> anyhow::Result<Option<Op>> {
        self.requests += 1;
        let id = changes.then(|| format!("raw-{}-{}", self.number, self.requests));
        let mut done = None;
        for attempt in 0..TRIES {
            let told = self.once(call, body, id.as_deref(), &read).await?;
            match told.outcome {
                Outcome::Ok if done.is_some() => break,
                Outcome::Ok => {
                    done = Some(told.op);
                    // The same once more has no effect of its own.
                    if !changes || self.random.u8(..4) > 0 {
                        break;
                    }
                }
                Outcome::Fail if told.hint.is_some() => {
                    tokio::time::sleep(Duration::from_millis(20 << attempt.min(4))).await;
                }
                Outcome::Fail => break,
                Outcome::Unknown => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        Ok(done)
    }

    async fn once(
        &mut self,
        name: &str,
        body: &Value,
        id: Option<&str>,
        read: impl Fn(Option<&Value>) -> Op,
    ) -> anyhow::Result<Call> {
        let node = &self.nodes[self.next];
        let address = node.address();
        let mut body = body.clone();
        body["trace_id"] = "chaos".into();
        let invoke = now();
        let answer = match tokio::time::timeout(PATIENCE, node.ask(name, &body, id)).await {
            Ok(answer) => answer.map_err(|error| format!("{error:#}")),
            Err(_) => Err("no answer in time".to_owned()),
        };
        let mut call = Call {
            client: self.number,
            invoke,
            returned: Some(now()),
            node: node_at(&address.to_string()),
            epoch: None,
            request_id: id.map(str::to_owned),
            attempts: 1,
            op: read(None),
            outcome: Outcome::Unknown,
            hint: None,
            route: None,
            error: None,
        };
        match &answer {
            Ok(answer) => {
                self.judge(&mut call, answer, &read);
                if call.outcome != Outcome::Ok {
                    call.error = Some(answer["header"]["status"].to_string());
                }
            }
            Err(error) => {
                call.error = Some(error.clone());
                self.next = self.random.usize(..self.nodes.len());
            }
        }
        self.shared.recorder.add(&Record::Call(call.clone()))?;
        let is_lost = answer
            .as_ref()
            .is_ok_and(|answer| code(answer) == "INSTANCE_NOT_EXIST");
        if is_lost && !matches!(call.op, Op::Instance { .. }) {
            // The store was made to forget.
            Box::pin(self.register_as(INSTANCE)).await?;
        }
        Ok(call)
    }

    fn judge(&mut self, call: &mut Call, answer: &Value, read: impl Fn(Option<&Value>) -> Op) {
        call.epoch = number(&answer["header"]["epoch"]);
        let message = answer["header"]["status"]["message"]
            .as_str()
            .unwrap_or_default();
        call.outcome = match code(answer) {
            "OK" => {
                call.op = read(Some(answer));
                Outcome::Ok
            }
            "SERVER_NOT_LEADER" => {
                let hint = &answer["header"]["leader_hint"];
                call.hint = Some(number(&hint["epoch"]).unwrap_or(0));
                self.follow(&hint["endpoint"]);
                Outcome::Fail
            }
            "IO_ERROR" => Outcome::Unknown,
            "INSTANCE_NOT_EXIST" if matches!(call.op, Op::Instance { .. }) => Outcome::Ok,
            _ => {
                if let Op::Finish { gone, .. } = &mut call.op {
                    *gone = message.contains("write_session_id has been deleted");
                }
                Outcome::Fail
            }
        };
    }

    fn follow(&mut self, endpoint: &Value) {
        let host = endpoint["host"].as_str().unwrap_or_default();
        let is_it = |node: &Node| node.address().ip().to_string() == host;
        self.next = match self.nodes.iter().position(is_it) {
            Some(place) => place,
            None => self.random.usize(..self.nodes.len()),
        };
    }
}

fn code(answer: &Value) -> &str {
    answer["header"]["status"]["code"]
        .as_str()
        .unwrap_or_default()
}

fn number(value: &Value) -> Option<u64> {
    let text = value.as_str().and_then(|text| text.parse().ok());
    text.or_else(|| value.as_u64())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn uri(location: &Value) -> Option<String> {
    let specs = list(&location["location_specs"]).iter();
    let mut uris = specs.filter_map(|spec| spec["uri"].as_str());
    uris.find(|uri| !uri.is_empty()).map(str::to_owned)
}

fn is_masked(mask: &Value, place: usize) -> bool {
    if let Some(offset) = mask["offset"].as_u64() {
        return (place as u64) < offset;
    }
    mask["bool_masks"]["values"][place]
        .as_bool()
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_both_kinds_are_read() {
        let mask = json!({ "offset": 2 });
        assert_eq!([1, 2].map(|place| is_masked(&mask, place)), [true, false]);
        let mask = json!({ "bool_masks": { "values": [false, true] } });
        assert_eq!(
            [0, 1, 2].map(|place| is_masked(&mask, place)),
            [false, true, false]
        );
        assert!(!is_masked(&Value::Null, 0));
    }

    #[test]
    fn places_and_numbers_are_read_as_the_protocol_prints_them() {
        let location = json!({ "location_specs": [{ "name": "a", "uri": "" }, { "uri": "u" }] });
        assert_eq!(uri(&location).as_deref(), Some("u"));
        assert_eq!(uri(&json!({ "location_specs": [{ "uri": "" }] })), None);
        assert_eq!(
            (number(&json!("7")), number(&json!(8)), number(&Value::Null)),
            (Some(7), Some(8), None)
        );
    }
}
