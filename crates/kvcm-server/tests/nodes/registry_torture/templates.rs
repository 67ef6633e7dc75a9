//! What the things of a registry look like, learnt from a few made at the start.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::model::{Kind, Things, things};
use crate::both::Caller;

/// One thing of each kind, of these names and with this mark.
const NAME: &str = "TEMPLATE";
const GROUP: &str = "TEMPLATE-GROUP";
const MARK: &str = "MARK";

/// The request that makes a storage.
pub(super) fn storage(name: &str, mark: &str) -> Value {
    let root = format!("/{mark}/");
    json!({"storage": {"global_unique_name": name, "check_storage_available_when_open": true,
        "nfs": {"root_path": root, "key_count_per_file": 8}}})
}

/// The request that makes a group.
pub(super) fn group(name: &str, version: u64, mark: &str) -> Value {
    json!({"instance_group": {"name": name, "storage_candidates": ["nfs_01", "later"],
        "global_quota_group_name": "q", "version": version.to_string(), "user_data": mark,
        "quota": {"capacity": "1000", "quota_config": [{"storage_type": "ST_NFS", "capacity": 500}]},
        "cache_config": {
            "reclaim_strategy": {"storage_unique_name": "nfs_01"},
            "data_storage_strategy": "CPS_PREFER_3FS",
            "meta_indexer_config": {"max_key_count": 16,
                "meta_storage_backend_config": {"storage_type": "local"}}}}})
}

/// The request that registers an instance.
pub(super) fn instance(id: &str, group: &str, mark: &str) -> Value {
    json!({"instance_id": id, "instance_group": group, "block_size": 4,
        "location_spec_infos": [{"name": "tp1", "size": "100"}, {"name": "tp0", "size": 1024}],
        "model_deployment": {"model_name": "m", "dtype": "fp16", "user_data": mark},
        "location_spec_groups": [{"name": "b", "spec_names": ["tp0"]}]})
}

/// The request that makes an account.
pub(super) fn account(name: &str) -> Value {
    json!({"user_name": name, "password": "p", "role": "ROLE_ADMIN"})
}

/// How a config snapshot shows one thing of each kind.
#[derive(Debug)]
pub(super) struct Templates(BTreeMap<Kind, Value>);

impl Templates {
    /// Makes one of each kind, and keeps how it is shown.
    pub(super) async fn learn(caller: &mut Caller) -> Self {
        for (rpc, body) in [
            ("addStorage", storage(NAME, MARK)),
            ("createInstanceGroup", group(GROUP, 1, MARK)),
            ("registerInstance", instance(NAME, GROUP, MARK)),
            ("addAccount", account(NAME)),
        ] {
            let answer = caller.call(rpc, &body).await;
            assert_eq!(answer["header"]["status"]["code"], "OK", "{rpc}: {answer}");
        }
        let shown = things(&caller.call("genConfigSnapshot", &json!({})).await);
        let of_kind = |kind| {
            let name = if kind == Kind::Group { GROUP } else { NAME };
            (kind, shown[&(kind, name.to_owned())].clone())
        };
        Self(Kind::ALL.map(of_kind).into())
    }

    pub(super) fn storage(&self, things: &mut Things, name: &str, mark: &str) {
        let shown = fill(&self.0[&Kind::Storage], &[(NAME, name), (MARK, mark)]);
        things.insert((Kind::Storage, name.to_owned()), shown);
    }

    pub(super) fn group(&self, things: &mut Things, name: &str, version: u64, mark: &str) {
        let mut shown = fill(&self.0[&Kind::Group], &[(GROUP, name), (MARK, mark)]);
        shown["version"] = version.into();
        things.insert((Kind::Group, name.to_owned()), shown);
    }

    pub(super) fn instance(&self, things: &mut Things, id: &str, group: &str, mark: &str) {
        let names = [(GROUP, group), (NAME, id), (MARK, mark)];
        let shown = fill(&self.0[&Kind::Instance], &names);
        things.insert((Kind::Instance, id.to_owned()), shown);
    }

    pub(super) fn account(&self, things: &mut Things, name: &str) {
        let shown = fill(&self.0[&Kind::Account], &[(NAME, name)]);
        things.insert((Kind::Account, name.to_owned()), shown);
    }
}

/// Puts names in the place of those of the template. The longer come first.
fn fill(value: &Value, names: &[(&str, &str)]) -> Value {
    match value {
        Value::String(text) => {
            let named = |text: String, (old, new): &(&str, &str)| text.replace(old, new);
            json!(names.iter().fold(text.clone(), named))
        }
        Value::Array(values) => values.iter().map(|value| fill(value, names)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            Value::Object(
                members
                    .map(|(name, value)| (name.clone(), fill(value, names)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}
