//! A cache manager over a memory journal, and short forms of its calls.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(unreachable_pub, reason = "shared by several test binaries")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use kvcm_cache::{
    Blocks, CacheManager, Config, Error, FinishRequest, LocateRequest, Mask, MetaRequest,
    QueryType, Recovered, RemoveRequest, StartRequest, Started, Surroundings, TrimRequest,
    TrimStrategy, View,
};
use kvcm_clock::{Clock, ManualClock};
use kvcm_fence::{Claim, Epoch, Incarnation};
use kvcm_journal::{Journal, MemoryJournal};
use kvcm_registry::{
    FileSpec, Group, LocationSpecGroup, LocationSpecInfo, MooncakeSpec, Registration, Registry,
    Storage, StorageSpec,
};

pub const BLOCK: i64 = 1024;

/// One entry of an answer: storage number on the wire (0 = placeholder), specs and URIs.
pub type Entry = (i32, Vec<(String, String)>);

pub struct Fixture {
    pub cache: Arc<CacheManager>,
    pub registry: Arc<Registry>,
    pub journal: MemoryJournal,
    pub clock: Arc<dyn Clock>,
    pub config: Config,
    epoch: u64,
}

pub fn claim(epoch: u64) -> Claim {
    Claim {
        cluster: "c".parse().unwrap(),
        epoch: Epoch::new(epoch).unwrap(),
        incarnation: Incarnation::from_bits(epoch.into()),
    }
}

pub fn storage(name: &str, spec: StorageSpec) -> Storage {
    Storage {
        name: name.into(),
        is_available: true,
        check_when_open: false,
        spec,
    }
}

/// Where the files of tests are.
pub const ROOT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/nfs/");

pub fn file(name: &str) -> Storage {
    file_at(name, ROOT)
}

pub fn file_at(name: &str, root: &str) -> Storage {
    let spec = FileSpec {
        root_path: root.into(),
        key_count_per_file: 1,
    };
    storage(name, StorageSpec::File(spec))
}

pub fn mooncake(name: &str) -> Storage {
    let spec = MooncakeSpec {
        local_hostname: "h".into(),
        metadata_connstring: "m".into(),
        protocol: "tcp".into(),
        rdma_device: String::new(),
        master_server_entry: "e".into(),
    };
    storage(name, StorageSpec::Mooncake(spec))
}

pub fn group(candidates: &[&str]) -> Group {
    let mut group = Group {
        name: "default".into(),
        storage_candidates: candidates.iter().map(|name| (*name).into()).collect(),
        global_quota_group_name: "q".into(),
        version: 1,
        ..Group::default()
    };
    group.quota.capacity = 1 << 40;
    group.cache_config.cache_prefer_strategy = 2;
    group.cache_config.reclaim_strategy.storage_unique_name = "nfs_01".into();
    group.cache_config.meta_indexer_config.mutex_shard_num = 1;
    group.cache_config.meta_indexer_config.max_key_count = 1_000_000;
    group
}

pub fn registration(id: &str, specs: &[&str], groups: &[(&str, &[&str])]) -> Registration {
    Registration {
        group: "default".into(),
        id: id.into(),
        block_size: 4,
        location_spec_infos: specs
            .iter()
            .map(|name| LocationSpecInfo {
                name: (*name).into(),
                size: BLOCK,
            })
            .collect(),
        model_deployment: Some(kvcm_registry::ModelDeployment {
            model_name: "m".into(),
            dtype: "fp8".into(),
            ..Default::default()
        }),
        location_spec_groups: groups
            .iter()
            .map(|(name, specs)| LocationSpecGroup {
                name: (*name).into(),
                spec_names: specs.iter().map(|spec| (*spec).into()).collect(),
            })
            .collect(),
        default_query_type: 2,
    }
}

impl Fixture {
    /// Instance `i1` with one spec, in group `default` with storage `nfs_01`.
    pub async fn new() -> Self {
        let fixture = Self::empty(Arc::new(ManualClock::default()), Config::default()).await;
        fixture.simple().await;
        fixture
    }

    /// The same with a storage that deletes nothing itself, so that no file has to be there.
    pub async fn objects(clock: Arc<dyn Clock>) -> Self {
        let fixture = Self::empty(clock, Config::default()).await;
        fixture.simple_objects().await;
        fixture
    }

    pub async fn simple(&self) {
        self.simple_in(file("nfs_01")).await;
    }

    /// The same without files, for tests whose time stands still: it would jump while a thread
    /// makes directories.
    pub async fn simple_objects(&self) {
        self.simple_in(mooncake("nfs_01")).await;
    }

    pub async fn simple_in(&self, storage: Storage) {
        self.registry.add_storage(storage).await.unwrap();
        self.registry
            .create_group(group(&["nfs_01"]))
            .await
            .unwrap();
        self.register("i1", &["tp0"], &[]).await;
    }

    pub async fn empty(clock: Arc<dyn Clock>, config: Config) -> Self {
        let registry_journal = MemoryJournal::new("registry");
        let writer = registry_journal
            .claim(claim(1), config.journal_timeout)
            .await
            .unwrap();
        let registry = Arc::new(Registry::open(writer).await.unwrap().0);
        let journal = MemoryJournal::new("cache");
        let (cache, _) = open(&registry, &journal, &clock, &config, 1).await.unwrap();
        Self {
            cache: Arc::new(cache),
            registry,
            journal,
            clock,
            config,
            epoch: 1,
        }
    }

    pub async fn register(&self, id: &str, specs: &[&str], groups: &[(&str, &[&str])]) {
        let registered = self
            .registry
            .register_instance(registration(id, specs, groups));
        registered.await.unwrap();
    }

    /// Lets all that is on its way out go, as if its time had come.
    pub async fn delete_all(&self, clock: &kvcm_clock::ManualClock) {
        clock.advance(std::time::Duration::from_secs(3600));
        self.delete_due().await;
    }

    /// Deletes what is due, with permission.
    pub async fn delete_due(&self) {
        let permit: kvcm_cache::Permit = Arc::new(|| true);
        self.cache.delete_due(&permit).await.unwrap();
    }

    /// The next leader takes over.
    pub async fn fail_over(&mut self) -> Recovered {
        self.epoch += 1;
        let opened = open(
            &self.registry,
            &self.journal,
            &self.clock,
            &self.config,
            self.epoch,
        );
        let (cache, recovered) = opened.await.unwrap();
        self.cache = Arc::new(cache);
        recovered
    }

    pub async fn change_group(&self, change: impl FnOnce(&mut Group)) {
        let mut group = (*self.registry.group("default").unwrap()).clone();
        let version = group.version;
        group.version += 1;
        change(&mut group);
        self.registry.update_group(version, group).await.unwrap();
    }

    pub async fn start(&self, keys: &[i64]) -> Result<Started, Error> {
        self.cache.start_write(&start(keys)).await
    }

    pub async fn finish(&self, id: &str, mask: Mask<'_>) -> Result<(), Error> {
        self.cache.finish_write(&finish(id, mask)).await
    }

    /// Writes keys from start to finish; returns the new locations.
    pub async fn write(&self, keys: &[i64]) -> Vec<Entry> {
        let started = self.start(keys).await.unwrap();
        let new = started.granted.len() as i32;
        let entries = granted(&started);
        self.finish(started.session_id.as_str(), Mask::Offset(new))
            .await
            .unwrap();
        entries
    }

    pub fn prefix(&self, keys: &[i64]) -> Vec<Entry> {
        self.locate(&locate(QueryType::PrefixMatch, keys)).unwrap()
    }

    pub fn locate(&self, request: &LocateRequest<'_>) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        let mut sink = |view: &View<'_>| entries.push(entry(view));
        self.cache.locate(request, &mut sink)?;
        Ok(entries)
    }

    pub fn states(&self, keys: &[i64]) -> Vec<&'static str> {
        let mut states = Vec::new();
        let request = MetaRequest {
            instance_id: "i1",
            blocks: Blocks::keys(keys),
            mask: Mask::None,
        };
        let show = |meta: &kvcm_cache::Meta<'_>| states.push(&meta.state.as_str()[4..]);
        self.cache.meta(&request, show).unwrap();
        states
    }

    pub async fn remove(&self, keys: &[i64]) -> Result<usize, Error> {
        let request = RemoveRequest {
            instance_id: "i1",
            blocks: Blocks::keys(keys),
            request: None,
        };
        self.cache.remove(&request).await
    }

    pub async fn trim(&self) -> Result<usize, Error> {
        let request = TrimRequest {
            instance_id: "i1",
            strategy: TrimStrategy::RemoveAllCache,
            request: None,
        };
        self.cache.trim(&request).await
    }
}

async fn open(
    registry: &Arc<Registry>,
    journal: &MemoryJournal,
    clock: &Arc<dyn Clock>,
    config: &Config,
    epoch: u64,
) -> Result<(CacheManager, Recovered), Error> {
    let writer = journal
        .claim(claim(epoch), config.journal_timeout)
        .await
        .unwrap();
    let surroundings = Surroundings::new(Arc::clone(registry), Arc::clone(clock), config.clone());
    CacheManager::open(surroundings, writer).await
}

pub fn start(keys: &[i64]) -> StartRequest<'_> {
    StartRequest {
        instance_id: "i1",
        blocks: Blocks::keys(keys),
        spec_group_names: &[],
        write_timeout_seconds: 60,
        min_replica_count: 0,
        request: None,
    }
}

pub fn finish<'a>(session_id: &'a str, mask: Mask<'a>) -> FinishRequest<'a> {
    FinishRequest {
        instance_id: "i1",
        session_id,
        success_blocks: Some(mask),
        request: None,
    }
}

pub fn locate(query: QueryType, keys: &[i64]) -> LocateRequest<'_> {
    LocateRequest {
        instance_id: "i1",
        query,
        blocks: Blocks::keys(keys),
        mask: Mask::None,
        window: 0,
        spec_names: &[],
    }
}

pub fn entry(view: &View<'_>) -> Entry {
    let kind = view.storage_type().map_or(0, |kind| kind.number());
    let specs: Vec<_> = view
        .specs()
        .map(|spec| {
            let uri = spec.uri().map(|uri| uri.to_string());
            (spec.name().to_owned(), uri.unwrap_or_default())
        })
        .collect();
    assert_eq!(specs.len(), view.spec_count());
    (kind, specs)
}

pub fn granted(started: &Started) -> Vec<Entry> {
    let mut entries = Vec::new();
    started
        .granted
        .write_to(&mut |view: &View<'_>| entries.push(entry(view)));
    assert_eq!(entries.len(), started.granted.len());
    entries
}
