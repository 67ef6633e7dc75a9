//! The configuration that a new registry starts with.

use std::cell::RefCell;

use serde_json::Value;

use crate::{
    CacheConfig, Error, FileSpec, Group, MetaCachePolicyConfig, MetaIndexerConfig, Mistakes, Quota,
    ReclaimStrategy, Registry, Storage, StorageSpec, StorageType, TypeQuota,
    group_read::{self, PREFER_3FS},
    operation::Operation,
    reader::{Notes, Reader},
    storage_read,
};

/// One storage and one group for a registry that was never initialised.
#[derive(Clone, Debug, PartialEq)]
pub struct StartupConfig {
    /// The storage (`storage_config`).
    pub storage: Storage,
    /// The group (`instance_group`).
    pub group: Group,
    /// What is odd about the text, for the log.
    pub warnings: Vec<String>,
}

/// What became of a startup configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is in the registry now.
    Now,
    /// The registry was initialised before, whatever is in it now: nothing has changed.
    AlreadyInitialised,
}

// === impl StartupConfig ===

impl StartupConfig {
    /// Reads the JSON text `{storage_config, instance_group}`. Members that are left out have
    /// the defaults of the predecessor; unknown ones are warned about.
    ///
    /// # Errors
    /// Every mistake in the text, each with its place.
    pub fn parse(json: &str) -> Result<Self, Mistakes> {
        let value: Value = serde_json::from_str(json)
            .map_err(|error| Mistakes(vec![format!("it is not JSON: {error}")]))?;
        let notes = RefCell::new(Notes::default());
        let read = Reader::read("", &value, &notes, |reader| {
            reader.require("storage_config", "the first storage");
            reader.require("instance_group", "the first group");
            let storage = reader.object("storage_config", storage_read::storage);
            let group = reader.object("instance_group", group_read::group);
            (storage.flatten(), group)
        });
        let (storage, group) = read.unwrap_or_default();
        let mut notes = notes.into_inner();
        if let (Some(storage), Some(group)) = (storage, group) {
            return Self::complete(storage, group, notes);
        }
        if notes.mistakes.is_empty() {
            notes.mistakes.push("it holds no storage".to_owned());
        }
        Err(Mistakes(notes.mistakes))
    }

    fn complete(storage: Storage, mut group: Group, mut notes: Notes) -> Result<Self, Mistakes> {
        let reclaim = &mut group.cache_config.reclaim_strategy;
        if reclaim.storage_unique_name.is_empty() {
            reclaim.storage_unique_name.clone_from(&storage.name);
        }
        let problems = [
            storage.problems("storage_config."),
            group.problems("instance_group."),
        ];
        for problem in problems.into_iter().flat_map(|fields| fields.0) {
            let text = format!("`{}` {}", problem.field, problem.reason);
            notes.mistakes.push(text);
        }
        if !notes.mistakes.is_empty() {
            return Err(Mistakes(notes.mistakes));
        }
        if group.quota.capacity <= 0 {
            let text = format!(
                "`instance_group.quota.capacity` is {}: the group refuses every write",
                group.quota.capacity
            );
            notes.warnings.push(text);
        }
        let missing = group.storage_candidates.iter();
        for name in missing.filter(|name| **name != storage.name) {
            let text = format!(
                "`instance_group.storage_candidates` names `{name}`, which `storage_config` does \
                 not describe: it is skipped until it is added"
            );
            notes.warnings.push(text);
        }
        Ok(Self {
            storage,
            group,
            warnings: notes.warnings,
        })
    }
}

impl Default for StartupConfig {
    /// The built-in configuration: storage `nfs_01` of files under `/tmp/nfs/`, group `default`.
    fn default() -> Self {
        let limit = |storage_type| TypeQuota {
            storage_type,
            capacity: 10_000_000_000,
        };
        let name = "nfs_01".to_owned();
        Self {
            storage: Storage {
                name: name.clone(),
                is_available: true,
                check_when_open: false,
                spec: StorageSpec::File(FileSpec {
                    root_path: "/tmp/nfs/".to_owned(),
                    key_count_per_file: 8,
                }),
            },
            group: Group {
                name: "default".to_owned(),
                storage_candidates: vec![name.clone()],
                global_quota_group_name: "default_quota_group".to_owned(),
                max_instance_count: 100,
                quota: Quota {
                    capacity: 30_000_000_000,
                    quota_config: [StorageType::File, StorageType::Hf3fs, StorageType::Pace]
                        .map(limit)
                        .to_vec(),
                },
                cache_config: CacheConfig {
                    reclaim_strategy: ReclaimStrategy {
                        storage_unique_name: name,
                        ..ReclaimStrategy::default()
                    },
                    cache_prefer_strategy: PREFER_3FS,
                    meta_indexer_config: MetaIndexerConfig {
                        max_key_count: 1_000_000,
                        meta_cache_policy_config: MetaCachePolicyConfig {
                            capacity: 10_000,
                            ..MetaCachePolicyConfig::default()
                        },
                        ..MetaIndexerConfig::default()
                    },
                    migration_config: None,
                },
                version: 1,
                ..Group::default()
            },
            warnings: Vec::new(),
        }
    }
}

// === impl Registry ===

impl Registry {
    /// Takes `config` in when no startup configuration was ever taken in. A marker in the journal
    /// says so, not emptiness: what operators changed or removed stays that way.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn apply_startup_config(&self, config: &StartupConfig) -> Result<Applied, Error> {
        let mut writes = self.begin().await?;
        if self.is_initialised() {
            return Ok(Applied::AlreadyInitialised);
        }
        let mut operations = vec![Operation::Initialised];
        if self.storage(&config.storage.name).is_none() {
            operations.push(Operation::PutStorage {
                storage: config.storage.clone(),
            });
        }
        if self.group(&config.group.name).is_none() {
            operations.push(Operation::PutGroup {
                group: config.group.clone(),
            });
        }
        self.commit(&mut writes, operations).await?;
        Ok(Applied::Now)
    }
}
