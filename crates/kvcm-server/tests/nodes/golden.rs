//! One answer of every call, as it is printed: what clients see must not change by accident.
//! `KVCM_UPDATE_GOLDEN=1 cargo test -p kvcm-server --test nodes follow_the_table` writes the files
//! anew.

use std::{collections::BTreeMap, path::PathBuf};

use prost_reflect::DescriptorPool;
use serde_json::{Value, json};

use crate::both::ADMIN;

/// What is another value on every machine or in every run.
const VOLATILE: [&str; 12] = [
    "admin_http_port",
    "admin_rpc_port",
    "cluster_id",
    "epoch",
    "host",
    "incarnation",
    "leader_epoch",
    "meta_http_port",
    "meta_rpc_port",
    "phases",
    "reason",
    "version",
];

/// The names of all calls but the streams, as the cases have them.
fn rpcs() -> Vec<String> {
    let pool = DescriptorPool::decode(kvcm_proto::DESCRIPTORS).unwrap();
    let mut names: Vec<String> = Vec::new();
    let mut services: Vec<_> = pool.services().collect();
    // MetaService first: the others are marked when they repeat a name.
    services.sort_by_key(|service| service.name() != "MetaService");
    for service in services {
        for method in service.methods().filter(|m| !m.is_server_streaming()) {
            let (first, rest) = method.name().split_at(1);
            let name = format!("{}{rest}", first.to_lowercase());
            names.push(match names.contains(&name) {
                true => format!("{ADMIN}{name}"),
                false => name,
            });
        }
    }
    names
}

/// Compares the longest answer of each call that worked, or else the first, with its file.
pub(crate) fn check<'a>(
    answers: impl Iterator<Item = (&'a str, &'a Value)>,
    faults: &mut Vec<String>,
) {
    let mut chosen: BTreeMap<&str, &Value> = BTreeMap::new();
    for (rpc, answer) in answers {
        let works = |answer: &Value| answer["header"]["status"]["code"] == "OK";
        let known = chosen.entry(rpc).or_insert(answer);
        let length = |answer: &Value| answer.to_string().len();
        if works(answer) && (!works(known) || length(answer) > length(known)) {
            *known = answer;
        }
    }
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let update = std::env::var_os("KVCM_UPDATE_GOLDEN").is_some();
    let file = |rpc: &str| format!("{}.json", rpc.replace('/', "_"));
    let rpcs = rpcs();
    for rpc in &rpcs {
        let Some(answer) = chosen.get(rpc.as_str()) else {
            faults.push(format!("{rpc} has no case"));
            continue;
        };
        let text = format!("{:#}\n", fixed(answer));
        let path = dir.join(file(rpc));
        if update {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(&path, &text).unwrap();
        } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            faults.push(format!(
                "tests/golden/{} is not what {rpc} answers: {text}",
                file(rpc)
            ));
        }
    }
    let files: Vec<_> = rpcs.iter().map(|rpc| file(rpc)).collect();
    for entry in std::fs::read_dir(&dir).into_iter().flatten() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !files.contains(&name) {
            faults.push(format!("tests/golden/{name} belongs to no call"));
        }
    }
}

/// The answer without what is another value in every run.
pub(crate) fn fixed(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(fixed).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                let value = match VOLATILE.contains(&name.as_str()) && !value.is_object() {
                    true => json!("volatile"),
                    false => fixed(value),
                };
                (name.clone(), value)
            });
            Value::Object(members.collect())
        }
        // Epochs in messages are milliseconds of the wall clock.
        Value::String(text) => {
            let is_long = |word: &&str| word.len() > 11 && word.bytes().all(|b| b.is_ascii_digit());
            let mut words = text.split([' ', ':']);
            match words.find(is_long) {
                Some(word) => json!(text.replace(word, "volatile")),
                None => value.clone(),
            }
        }
        other => other.clone(),
    }
}
