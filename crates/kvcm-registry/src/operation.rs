//! The registry's changes as they stand in the journal: a JSON array of operations per batch.

use std::num::ParseIntError;

use kvcm_journal::{Batch, RequestKey};
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
    /// The batch is what a request of a client has changed.
    Request(RecordedRequest),
}

/// The record of a request: two numbers, in hexadecimal, for JSON has none so large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub(crate) struct RecordedRequest(RequestKey);

#[derive(Serialize, Deserialize)]
struct Text {
    id: String,
    body: String,
}

impl From<RequestKey> for RecordedRequest {
    fn from(key: RequestKey) -> Self {
        Self(key)
    }
}

impl From<RecordedRequest> for RequestKey {
    fn from(request: RecordedRequest) -> Self {
        request.0
    }
}

impl From<RecordedRequest> for Text {
    fn from(request: RecordedRequest) -> Self {
        let RequestKey { id, body } = request.0;
        Self {
            id: format!("{id:032x}"),
            body: format!("{body:016x}"),
        }
    }
}

impl TryFrom<Text> for RecordedRequest {
    type Error = ParseIntError;

    fn try_from(text: Text) -> Result<Self, ParseIntError> {
        Ok(Self(RequestKey {
            id: u128::from_str_radix(&text.id, 16)?,
            body: u64::from_str_radix(&text.body, 16)?,
        }))
    }
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

    /// Added to version 1 later.
    #[test]
    fn the_record_of_a_request_reads_and_writes_its_fixture() {
        let key = RequestKey {
            id: (7 << 100) | 1,
            body: u64::MAX - 1,
        };
        let fixture =
            r#"{"op":"request","id":"00000070000000000000000000000001","body":"fffffffffffffffe"}"#;
        let operation = Operation::Request(key.into());
        assert_eq!(serde_json::to_string(&operation).unwrap(), fixture);
        assert_eq!(
            serde_json::from_str::<Operation>(fixture).unwrap(),
            operation
        );
        let damaged = fixture.replace("ff", "xx");
        assert!(serde_json::from_str::<Operation>(&damaged).is_err());
    }
}
