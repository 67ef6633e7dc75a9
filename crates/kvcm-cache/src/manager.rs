//! The cache manager.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kvcm_clock::Clock;
use kvcm_index::{Grant, Location};
use kvcm_registry::{Instance, Registry};
use parking_lot::RwLock;

use crate::{
    Activity, Blocks, Config, Error, Result, answered::Answered, append::Log,
    compaction::Compaction, deletion::Queue, home::Home, request::LocateRequest,
    sessions::Sessions, stats::Stats, storages::Storages, tokens::block_keys, usage::Usage,
};

/// Knows where the blocks of all instances are, under one claim.
///
/// Lookups ([`locate`](Self::locate), [`locate_len`](Self::locate_len), [`meta`](Self::meta)) are
/// synchronous and read memory only, so a caller can check its leadership before and after.
/// Changes are futures that wait for the journal and need a tokio runtime. Dropping one loses only
/// the answer: what the journal has taken in takes effect. Somebody has to drive
/// [`run_expiry`](Self::run_expiry).
#[derive(Debug)]
pub struct CacheManager {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: Log,
    pub(crate) config: Config,
    pub(crate) epoch: u64,
    pub(crate) grants: Arc<AtomicU64>,
    /// The recovery could not read something: a snapshot would bury it.
    pub(crate) keep_log: bool,
    /// The recovery left out what nobody can reach any more.
    pub(crate) left_out: bool,
    pub(crate) compaction: Compaction,
}

/// What the settling of a batch needs, which may outlive its caller.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) homes: RwLock<HashMap<Arc<str>, Arc<Home>>>,
    /// Homes of registrations that are gone, until all of their bytes are.
    pub(crate) retired: RwLock<Vec<Arc<Home>>>,
    pub(crate) usages: RwLock<HashMap<Box<str>, Arc<Usage>>>,
    pub(crate) storages: Storages,
    pub(crate) sessions: Sessions<Arc<Home>>,
    pub(crate) answered: Answered,
    pub(crate) deletions: Queue,
    pub(crate) stats: Stats,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// How much a manager holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instances with an index.
    pub instances: usize,
    /// Keys in any state.
    pub keys: usize,
    /// Bytes granted.
    pub bytes: u64,
    /// Open write sessions.
    pub sessions: usize,
}

impl Shared {
    pub(crate) fn new(registry: Arc<Registry>, clock: Arc<dyn Clock>, config: &Config) -> Self {
        Self {
            homes: RwLock::default(),
            retired: RwLock::default(),
            usages: RwLock::default(),
            storages: Storages::default(),
            sessions: Sessions::new(),
            answered: Answered::new(config),
            deletions: Queue::new(config.deletions_queued_max),
            stats: Stats::default(),
            registry,
            clock,
        }
    }

    /// Coarse time for the order of use: seconds on the clock.
    pub(crate) fn now_s(&self) -> u32 {
        (self.clock.now().as_millis() / 1000) as u32
    }

    /// The home of a registered instance, made on first use.
    pub(crate) fn home(&self, instance: Arc<Instance>) -> Arc<Home> {
        if let Some(home) = self.homes.read().get(instance.id.as_str())
            && home.is_of(&instance)
        {
            return Arc::clone(home);
        }
        let usage = self.usage(&instance.group);
        let mut homes = self.homes.write();
        if let Some(home) = homes.get(instance.id.as_str())
            && home.is_of(&instance)
        {
            return Arc::clone(home);
        }
        let home = Arc::new(Home::new(instance, usage));
        let former = homes.insert(Arc::clone(&home.id), Arc::clone(&home));
        drop(homes);
        // Registered anew with other specs: the blocks of the former registration mean nothing.
        if let Some(former) = former {
            self.retire_home(former);
        }
        home
    }

    /// All homes, also those of registrations that are gone.
    pub(crate) fn all_homes(&self) -> Vec<Arc<Home>> {
        let mut homes: Vec<_> = self.homes.read().values().cloned().collect();
        homes.extend(self.retired.read().iter().cloned());
        homes
    }

    /// The registration of a home is gone: all that is in it is to be deleted.
    pub(crate) fn retire_home(&self, home: Arc<Home>) {
        self.retired.write().push(home);
        self.deletions.wake();
    }

    /// Runs a change of the index that sends locations on their way out: it shows them, as they
    /// are then. The journal has them as such already. Returns how many there were.
    pub(crate) fn retire(
        &self,
        home: &Arc<Home>,
        change: impl FnOnce(&mut dyn FnMut(i64, &Location)),
    ) -> usize {
        let mut locations = Vec::new();
        change(&mut |key, location| locations.push((key, *location)));
        let count = locations.len();
        if count > 0 {
            home.leave(&self.storages.list(), &locations);
            self.queue_deletion(home, locations);
        }
        count
    }

    pub(crate) fn usage(&self, group: &str) -> Arc<Usage> {
        if let Some(usage) = self.usages.read().get(group) {
            return Arc::clone(usage);
        }
        let mut usages = self.usages.write();
        let usage = usages.entry(group.into());
        Arc::clone(usage.or_insert_with(|| Arc::new(Usage::new(group))))
    }
}

impl CacheManager {
    /// How much there is.
    pub fn counts(&self) -> Counts {
        let homes = self.shared.all_homes();
        let usages = self.shared.usages.read();
        Counts {
            instances: self.shared.homes.read().len(),
            keys: homes.iter().map(|home| home.index.len()).sum(),
            bytes: usages.values().map(|usage| usage.now().total()).sum(),
            sessions: self.shared.sessions.len(),
        }
    }

    /// What was done since it was opened.
    pub fn activity(&self) -> Activity {
        self.shared.stats.now()
    }

    /// Keys of one instance, in any state; 0 for one without blocks.
    pub fn key_count(&self, instance_id: &str) -> usize {
        let homes = self.shared.homes.read();
        homes.get(instance_id).map_or(0, |home| home.index.len())
    }

    /// Bytes granted in an instance group.
    pub fn group_bytes(&self, group: &str) -> u64 {
        let usages = self.shared.usages.read();
        usages.get(group).map_or(0, |usage| usage.now().total())
    }

    /// The home of an instance that is registered.
    pub(crate) fn home(&self, instance_id: &str) -> Result<Arc<Home>> {
        let instance = self.registry.instance(instance_id);
        let instance = instance.ok_or_else(|| Error::InstanceNotExist(instance_id.to_owned()))?;
        Ok(self.shared.home(instance))
    }

    /// The keys of a request, checked against the limit.
    pub(crate) fn keys<'a>(&self, home: &Home, blocks: Blocks<'a>) -> Result<Cow<'a, [i64]>> {
        let size = usize::try_from(home.instance.block_size).unwrap_or(0);
        let (field, count) = match blocks.keys {
            [] => ("token_ids", blocks.tokens.len() / size.max(1)),
            keys => ("block_keys", keys.len()),
        };
        let limit = self.config.keys_per_request_max;
        if count > limit {
            return Err(Error::invalid(format!(
                "{field} has {count} blocks, more than the {limit} that \
                 kvcm.service.max_keys_per_request allows: send fewer per request"
            )));
        }
        Ok(match blocks.keys {
            [] => Cow::Owned(block_keys(blocks.tokens, size)),
            keys => Cow::Borrowed(keys),
        })
    }

    /// A grant that was never given before.
    pub(crate) fn next_grant(&self) -> Grant {
        Grant {
            epoch: self.epoch,
            counter: self.grants.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Fails when a required field is not there; names all of them.
pub(crate) fn require(fields: &[(&'static str, bool)]) -> Result<()> {
    let missing = fields.iter().filter(|(_, there)| !there);
    let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Error::MissingFields(missing))
    }
}

/// Whether the request names any block.
pub(crate) const fn has_blocks(blocks: Blocks<'_>) -> bool {
    !(blocks.keys.is_empty() && blocks.tokens.is_empty())
}

/// The name of the field that has to name blocks.
pub(crate) const BLOCKS: &str = "block_keys or token_ids";

/// Checks what every lookup needs.
pub(crate) fn require_lookup(request: &LocateRequest<'_>) -> Result<()> {
    require(&[
        ("instance_id", !request.instance_id.is_empty()),
        (BLOCKS, has_blocks(request.blocks)),
    ])
}
