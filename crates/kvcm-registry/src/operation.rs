//! The registry's changes as they stand in the journal: a JSON array of operations per batch.

use kvcm_journal::Batch;
use serde::{Deserialize, Serialize};

use crate::{Account, Group, Instance, Storage};

/// The kind of a registry's batches. Stored, so it never changes its meaning.
pub(crate) const KIND: u16 = 1;
/// The version of [`Operation`]'s JSON. A program refuses to load a newer one.
pub(crate) const VERSION: u16 = 1;

/// One change. The tags are stored, so they never change their meaning; new ones may be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Operation {
    /// The startup configuration has been taken in once.
    Initialised,
    PutStorage {
        storage: Storage,
    },
    RemoveStorage {
        name: String,
    },
    PutGroup {
        group: Group,
    },
    RemoveGroup {
        name: String,
    },
    PutInstance {
        instance: Instance,
    },
    RemoveInstance {
        id: String,
    },
    PutAccount {
        account: Account,
    },
    RemoveAccount {
        user_name: String,
    },
}

impl Operation {
    /// The batch that makes `operations` durable together.
    pub(crate) fn batch(operations: &[Self]) -> Result<Batch, serde_json::Error> {
        let json = serde_json::to_vec(operations)?;
        Ok(Batch::new(KIND, VERSION, json.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocationSpecGroup, LocationSpecInfo, ModelDeployment, Role, StartupConfig};

    fn one_of_each() -> [Operation; 9] {
        let StartupConfig { storage, group, .. } = StartupConfig::default();
        let instance = Instance {
            id: "i1".to_owned(),
            group: "default".to_owned(),
            quota_group: "default_quota_group".to_owned(),
            block_size: 128,
            location_spec_infos: vec![LocationSpecInfo {
                name: "tp0".to_owned(),
                size: 1024,
            }],
            model_deployment: ModelDeployment::default(),
            location_spec_groups: vec![LocationSpecGroup {
                name: "g".to_owned(),
                spec_names: vec!["tp0".to_owned()],
            }],
            default_query_type: 2,
        };
        let name = || "x".to_owned();
        [
            Operation::Initialised,
            Operation::PutStorage { storage },
            Operation::RemoveStorage { name: name() },
            Operation::PutGroup { group },
            Operation::RemoveGroup { name: name() },
            Operation::PutInstance { instance },
            Operation::RemoveInstance { id: name() },
            Operation::PutAccount {
                account: Account {
                    user_name: "a".to_owned(),
                    role: Role::Admin,
                    password: Some("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ".parse().unwrap()),
                },
            },
            Operation::RemoveAccount { user_name: name() },
        ]
    }

    /// The JSON of version 1, kept for ever: what an old program wrote must stay readable.
    #[test]
    fn version_1_reads_and_writes_its_fixture() {
        let fixture = include_str!("../tests/fixtures/operations_v1.json");
        let written = serde_json::to_string_pretty(&one_of_each()).unwrap();
        assert_eq!(written, fixture.trim_end());
        let operations: Vec<Operation> = serde_json::from_str(fixture).unwrap();
        assert_eq!(operations, one_of_each());
    }
}
