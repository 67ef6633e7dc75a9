//! A cache manager as a leader has it, without a server around it.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use kvcm_cache::{
    Blocks, CacheManager, Config, FinishRequest, Mask, Recovered, SessionId, StartRequest,
    Surroundings,
};
use kvcm_clock::{BootClock, Clock};
use kvcm_fence::{Claim, Epoch, Incarnation};
use kvcm_journal::{Journal, MemoryJournal};
use kvcm_registry::{
    FileSpec, Group, LocationSpecInfo, ModelDeployment, Registration, Registry, Storage,
    StorageSpec,
};
use tempfile::TempDir;

/// How long a call may wait for its store: the bench makes long queues.
const TIMEOUT: Duration = Duration::from_secs(60);
const INSTANCE: &str = "bench";

/// One reign over a journal.
pub(super) struct Node {
    pub(super) cache: CacheManager,
    pub(super) recovered: Recovered,
}

/// A registry with one storage, group and instance. The storage is an empty directory, which a
/// start looks at and nothing is written to.
pub(super) struct Place {
    registry: Arc<Registry>,
    _root: TempDir,
}

/// A new place.
pub(super) async fn place() -> anyhow::Result<Place> {
    let root = tempfile::tempdir()?;
    let journal = MemoryJournal::new("registry");
    let writer = journal.claim(claim(1)?, TIMEOUT).await?;
    let (registry, _) = Registry::open(writer).await?;
    registry
        .add_storage(Storage {
            name: "nfs_01".into(),
            is_available: true,
            check_when_open: false,
            spec: StorageSpec::File(FileSpec {
                root_path: root.path().display().to_string(),
                key_count_per_file: 1,
            }),
        })
        .await?;
    registry.create_group(group()).await?;
    registry
        .register_instance(Registration {
            group: "default".into(),
            id: INSTANCE.into(),
            block_size: 16,
            location_spec_infos: vec![LocationSpecInfo {
                name: "tp0".into(),
                size: 1024,
            }],
            model_deployment: Some(ModelDeployment {
                model_name: "model".into(),
                dtype: "fp8".into(),
                ..ModelDeployment::default()
            }),
            location_spec_groups: Vec::new(),
            default_query_type: 2,
        })
        .await?;
    Ok(Place {
        registry: Arc::new(registry),
        _root: root,
    })
}

fn group() -> Group {
    let mut group = Group {
        name: "default".into(),
        storage_candidates: vec!["nfs_01".into()],
        global_quota_group_name: "quota".into(),
        version: 1,
        ..Group::default()
    };
    group.quota.capacity = 1 << 50;
    group.cache_config.cache_prefer_strategy = 2;
    group.cache_config.reclaim_strategy.storage_unique_name = "nfs_01".into();
    group.cache_config.meta_indexer_config.mutex_shard_num = 1;
    group.cache_config.meta_indexer_config.max_key_count = 1 << 30;
    group
}

fn claim(epoch: u64) -> anyhow::Result<Claim> {
    Ok(Claim {
        cluster: "bench".parse()?,
        epoch: Epoch::new(epoch).context("an epoch")?,
        incarnation: Incarnation::random(),
    })
}

impl Node {
    /// Claims the journal and recovers what it holds.
    pub(super) async fn open(
        place: &Place,
        journal: &dyn Journal,
        epoch: u64,
    ) -> anyhow::Result<Self> {
        let writer = journal.claim(claim(epoch)?, TIMEOUT).await?;
        let clock: Arc<dyn Clock> = Arc::new(BootClock);
        let config = Config {
            journal_timeout: TIMEOUT,
            ..Config::default()
        };
        let around = Surroundings::new(Arc::clone(&place.registry), clock, config);
        let (cache, recovered) = CacheManager::open(around, writer).await?;
        Ok(Self { cache, recovered })
    }

    /// Starts the write of keys that are all new.
    pub(super) async fn start(&self, keys: &[i64]) -> anyhow::Result<SessionId> {
        let request = StartRequest {
            instance_id: INSTANCE,
            blocks: Blocks::keys(keys),
            spec_group_names: &[],
            write_timeout_seconds: 1800,
            min_replica_count: 0,
            request: None,
        };
        let started = self.cache.start_write(&request).await?;
        let granted = started.granted.len();
        ensure!(
            granted == keys.len(),
            "{granted} keys were granted, not all"
        );
        Ok(started.session_id)
    }

    /// Finishes a write of so many keys, all of them written.
    pub(super) async fn finish(&self, session: &SessionId, keys: usize) -> anyhow::Result<()> {
        let written = i32::try_from(keys)?;
        let request = FinishRequest {
            instance_id: INSTANCE,
            session_id: session.as_str(),
            success_blocks: Some(Mask::Offset(written)),
            request: None,
        };
        Ok(self.cache.finish_write(&request).await?)
    }
}
