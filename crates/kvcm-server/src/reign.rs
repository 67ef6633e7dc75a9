//! What a node has while it leads, and how it comes and goes.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use coordination_core::{Backend, Error};
use elector::{Elector, Leadership, LossReason, PromoteError, Promotion, Role};
use kvcm_cache::{CacheManager, StorageWatch, Surroundings};
use kvcm_clock::{Clock, Timer};
use kvcm_fence::{Claim, ClaimRefused, ClusterId, Epoch, Fenced, Incarnation};
use kvcm_journal::ClaimError;
use kvcm_registry::{Applied, Group, Instance, Registry, StartupConfig};
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::AbortHandle};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    access::{Accounts, Found},
    caches::{self, Caches},
    cluster::Cluster,
    cluster_id,
    index_store::IndexStore,
    opening::Opener,
    prepare::{Hosts, RegistryStorage},
    reply::{CallError, Code},
    requests::Requests,
    stores::StoreSet,
};

/// Between two looks for the cluster's id and at the stores.
const LEARN: Duration = Duration::from_secs(1);

/// The same once something has failed. A leader whose stores fail for a whole lease hands over, and
/// one look is not to stand for a lease.
const LEARN_AGAIN: Duration = Duration::from_millis(100);

/// One call to a store during a promotion.
const CALL: Duration = Duration::from_secs(5);

/// What to do about a store of another cluster.
const OTHER_CLUSTER: &str = "give each cluster a store of its own, or, when the place of \
     coordination has lost the id, set kvcm.cluster_id to that of the store on all nodes and start \
     them anew";

/// Between two looks for writes that nobody waits for any more.
const SETTLE: Duration = Duration::from_millis(500);

/// What a node has while it leads.
#[derive(Debug)]
pub(crate) struct Reign {
    /// Its epoch.
    pub(crate) epoch: Epoch,
    /// Storages, groups, instances.
    pub(crate) registry: Arc<Registry>,
    /// Where blocks live.
    pub(crate) caches: Arc<Caches>,
    /// How the data storages are.
    pub(crate) storages: Arc<StorageWatch>,
    /// Answers kept for repeats.
    pub(crate) requests: Requests,
    elector: Elector,
}

/// The reign of this node, if any, and what one is made of.
pub(crate) struct Reigns {
    current: ArcSwapOption<Reign>,
    parts: Parts,
    /// Set once the election exists; promotions come from it.
    cluster: std::sync::OnceLock<Arc<Cluster>>,
    background: Mutex<Vec<AbortHandle>>,
}

/// What a reign is made of.
pub(crate) struct Parts {
    /// Where the cluster's id is.
    pub(crate) backend: Arc<dyn Backend>,
    /// This life of the process.
    pub(crate) incarnation: Incarnation,
    /// Registry and cache are kept here.
    pub(crate) stores: StoreSet,
    /// What a registry starts with that was never initialised.
    pub(crate) startup: StartupConfig,
    /// The cache manager's settings.
    pub(crate) cache_config: kvcm_cache::Config,
    /// The clock of everything.
    pub(crate) clock: Arc<dyn Clock>,
    /// Waits on it.
    pub(crate) timer: Arc<dyn Timer>,
    /// Where the nodes of the cluster are.
    pub(crate) hosts: Hosts,
    /// The cluster's id, for a backend that has none.
    pub(crate) cluster_id: Option<ClusterId>,
    /// This node is the whole cluster: nobody else leads, and the cluster is the one whose registry
    /// it is given.
    pub(crate) is_alone: bool,
    /// Where requests are served.
    pub(crate) runtime: Handle,
}

impl std::fmt::Debug for Reigns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reigns")
            .field("current", &self.current.load())
            .finish_non_exhaustive()
    }
}

impl Reigns {
    /// No reign yet.
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            current: ArcSwapOption::empty(),
            parts,
            cluster: std::sync::OnceLock::new(),
            background: Mutex::default(),
        }
    }

    /// Tells it whom to serve; once, before the election runs.
    pub(crate) fn attach(&self, cluster: Arc<Cluster>) {
        let _ = self.cluster.set(cluster);
    }

    /// The reign of this epoch.
    pub(crate) fn current(&self, epoch: Epoch) -> Option<Arc<Reign>> {
        self.current
            .load_full()
            .filter(|reign| reign.epoch == epoch)
    }

    /// Of the reign that there is, serving or not: what an account may do is decided again by the
    /// gate.
    fn registry(&self) -> Option<Arc<Registry>> {
        let reign = self.current.load();
        reign.as_ref().map(|reign| reign.registry.clone())
    }

    async fn promote(&self, promotion: &Promotion) -> Result<Reign, PromoteError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: &dyn std::fmt::Display| PromoteError::Failed(format!("{what}: {error}"))
        };
        let Some(cluster) = self.cluster.get() else {
            return Err(PromoteError::Failed("the node is not built yet".to_owned()));
        };
        let id = self
            .cluster_id()
            .await
            .map_err(|error| failed("cluster id")(&error))?;
        cluster.set_id(id.clone());
        let stores = self.parts.stores.of(&id);
        let claim = Claim {
            cluster: id,
            epoch: promotion.epoch,
            incarnation: self.parts.incarnation,
        };
        promotion.progress.advance();

        let writer = stores.registry.claim(claim.clone(), CALL).await;
        let mut writer = writer.map_err(|error| claim_failed("registry", error))?;
        let progress = promotion.progress.clone();
        writer.report_progress(Box::new(move || progress.advance()));
        if let Some(former) = writer.former()
            && !self.parts.is_alone
        {
            cluster.elector().store_remembers(former.epoch).await;
        }
        let (registry, recovery) = Registry::open(writer)
            .await
            .map_err(|error| failed("registry")(&error))?;
        tracing::info!(epoch = %promotion.epoch, ?recovery, "registry recovered");
        promotion.progress.advance();
        let applied = registry.apply_startup_config(&self.parts.startup).await;
        if applied.map_err(|error| failed("startup configuration")(&error))? == Applied::Now {
            tracing::info!("the startup configuration was taken into a new registry");
        }
        promotion.progress.advance();

        let registry = Arc::new(registry);
        self.warn_of_private_stores(&registry);
        let (clock, config) = (self.parts.clock.clone(), self.parts.cache_config.clone());
        let parts = caches::Parts {
            opener: Opener {
                claim,
                surroundings: Surroundings::new(registry.clone(), clock.clone(), config),
                elector: cluster.elector().clone(),
                is_alone: self.parts.is_alone,
            },
            stores,
            timer: self.parts.timer.clone(),
            private_is_refused: self.parts.hosts.refuse_private(),
        };
        let caches = Caches::open(parts, &promotion.progress).await?;
        Ok(Reign {
            epoch: promotion.epoch,
            storages: Arc::new(StorageWatch::new(registry.clone())),
            registry,
            caches,
            requests: Requests::new(clock),
            elector: cluster.elector().clone(),
        })
    }

    /// Says what the nodes do not share although they are on several hosts.
    fn warn_of_private_stores(&self, registry: &Registry) {
        if self.parts.hosts == Hosts::One {
            return;
        }
        let groups = registry.groups().into_iter();
        let registry_place = self.parts.stores.place();
        let is_private = |group: &Arc<Group>| {
            IndexStore::of(group, registry_place).is_ok_and(|place| place.is_of_one_host())
        };
        let groups: Vec<_> = groups.filter(is_private).map(|g| g.name.clone()).collect();
        let registry = !matches!(registry_place, RegistryStorage::Redis(_));
        if registry || !groups.is_empty() {
            tracing::warn!(
                registry,
                indexes_of_groups = ?groups,
                "this is private to this node (kvcm.allow_private_stores): engines have to write \
                 again what it lacks"
            );
        }
    }

    /// The cluster's id: the one that is stored, else the one that this node or its registry knows,
    /// else a new one. Never a new one where there is a registry of some cluster: nobody could use it
    /// under another id.
    async fn cluster_id(&self) -> Result<ClusterId, Error> {
        let (backend, clock) = (&*self.parts.backend, &*self.parts.clock);
        if let Some(stored) = cluster_id::stored(backend, clock).await? {
            return Ok(stored);
        }
        let owner = self.parts.stores.owner(CALL).await;
        let owner = owner.map_err(|error| Error::not_done(format!("registry: {error}")))?;
        let place = backend.describe();
        let known = self.cluster.get().and_then(|cluster| cluster.id());
        let id = match (known.or_else(|| self.parts.cluster_id.clone()), owner) {
            // Its memory forgets the id with each start; the registry does not.
            (_, Some(owner)) if self.parts.is_alone => owner,
            (Some(known), _) => known,
            (None, Some(owner)) if cluster_id::was_founded_at(&owner, &place) => {
                tracing::warn!(
                    cluster_id = %owner,
                    "the place of coordination has lost the cluster's id; the registry had it"
                );
                owner
            }
            (None, Some(owner)) => {
                return Err(Error::not_done(format!(
                    "registry: the store belongs to cluster {owner}, which was not founded at \
                     {place}; {OTHER_CLUSTER}"
                )));
            }
            (None, None) => cluster_id::found(&place),
        };
        cluster_id::keep(backend, clock, &id).await
    }

    /// That this reign can write blocks, if there is one: what one group lacks, others may have.
    async fn indexes_answer(&self) -> Result<(), String> {
        let reign = self.current.load_full();
        match reign {
            Some(reign) if !reign.caches.some_answer().await => {
                Err("the index of no group can be written".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Whether the registry answers, and the indexes. Asked where requests are served: connections
    /// that this opens are those of the next reign, and no write is to pass the control thread.
    async fn probe_stores(self: &Arc<Self>) -> (Result<(), String>, Result<(), String>) {
        let reigns = self.clone();
        let asking = self.parts.runtime.spawn(async move {
            let registry = async {
                let probed = reigns.parts.stores.probe(CALL).await;
                probed.map_err(|error| error.to_string())
            };
            tokio::join!(registry, reigns.indexes_answer())
        });
        let answer = AbortOnDropHandle::new(asking).await;
        answer.unwrap_or_else(|error| (Err(error.to_string()), Ok(())))
    }

    /// Learns the id that is stored; puts back the one that it knows when none is.
    async fn follow_id(
        &self,
        cluster: &Cluster,
        stored: Result<Option<ClusterId>, Error>,
    ) -> Result<(), Error> {
        let is_follower = || cluster.elector().view().role == Role::Follower;
        match (stored?, cluster.id()) {
            (Some(id), _) if is_follower() => cluster.set_id(id),
            (None, Some(known)) => {
                let (backend, clock) = (&*self.parts.backend, &*self.parts.clock);
                cluster_id::keep(backend, clock, &known).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Keeps up with the cluster's id for ever, so that this node can say it and put it back when the
    /// backend loses its data, and with whether the stores answer. A leader goes by what its promotion
    /// found.
    pub(crate) async fn learn_cluster_id(self: Arc<Self>) {
        while let Some(cluster) = self.cluster.get() {
            let stored = cluster_id::stored(&*self.parts.backend, &*self.parts.clock).await;
            let (probed, indexes) = self.probe_stores().await;
            cluster
                .elector()
                .set_stores_ok(probed.is_ok() && indexes.is_ok());
            let answer = match (&stored, probed) {
                // That the backend is away the election knows better, and it may pass in a moment.
                (Err(error @ Error::Fatal { .. }), _) => Err(error.to_string()),
                (_, Err(error)) => Err(format!("registry: {error}")),
                (_, Ok(())) => indexes,
            };
            let pause = until_the_next_look(&answer);
            cluster.store_answered(answer);
            if let Err(error) = self.follow_id(cluster, stored).await {
                tracing::debug!(%error, "cannot read or keep the cluster's id");
            }
            let next = self.parts.clock.now() + pause;
            self.parts.timer.sleep_until(next).await;
        }
    }
}

impl Accounts for Reigns {
    fn find(&self, user: &str) -> Found {
        match self.registry() {
            None => Found::Unknowable,
            Some(registry) => registry.account(user).map_or(Found::Nobody, Found::Account),
        }
    }
}

#[async_trait]
impl Leadership for Reigns {
    async fn on_become_leader(&self, promotion: Promotion) -> Result<(), PromoteError> {
        let cancel = promotion.cancel.clone();
        let reign = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                return Err(PromoteError::Failed("cancelled".to_owned()));
            }
            reign = self.promote(&promotion) => reign?,
        };
        let reign = Arc::new(reign);
        self.start_background(&reign);
        self.current.store(Some(reign));
        Ok(())
    }

    async fn quiesce(&self, _epoch: Epoch) {
        self.stop_background();
    }

    async fn resume(&self, epoch: Epoch) {
        if let Some(reign) = self.current(epoch) {
            self.start_background(&reign);
        }
    }

    async fn on_no_longer_leader(&self, _epoch: Epoch, _reason: LossReason) {
        self.stop_background();
        self.current.store(None);
    }

    async fn probe(&self) -> Result<(), String> {
        let id = self.cluster_id().await;
        id.map_err(|error| error.to_string())?;
        let probed = self.parts.stores.probe(CALL).await;
        probed.map_err(|error| format!("registry: {error}"))
    }
}

impl Reigns {
    /// Starts what no request waits for.
    fn start_background(&self, reign: &Arc<Reign>) {
        let (clock, timer) = (self.parts.clock.clone(), self.parts.timer.clone());
        let settling = tokio::spawn(reign.clone().settle(clock.clone(), timer.clone()));
        let storages = reign.storages.clone();
        let watching = tokio::spawn(async move { storages.run(&*clock, &*timer).await });
        *self.background.lock() = vec![settling.abort_handle(), watching.abort_handle()];
        reign.caches.start();
    }

    fn stop_background(&self) {
        for task in self.background.lock().drain(..) {
            task.abort();
        }
        if let Some(reign) = &*self.current.load() {
            reign.caches.stop();
        }
    }
}

impl Reign {
    /// Sees writes through whose callers have gone, so that they show without another write.
    async fn settle(self: Arc<Self>, clock: Arc<dyn Clock>, timer: Arc<dyn Timer>) {
        loop {
            timer.sleep_until(clock.now() + SETTLE).await;
            match self.registry.settle().await {
                Ok(()) => {}
                Err(kvcm_registry::Error::Fenced(fenced)) => return self.fenced(&fenced),
                Err(error) => tracing::debug!(%error, "a write to the registry is not settled"),
            }
        }
    }

    /// What to answer for an error of the registry. A fence ends the reign.
    pub(crate) fn registry_error(&self, error: &kvcm_registry::Error) -> CallError {
        use kvcm_registry::{ErrorKind, Outcome};
        if let kvcm_registry::Error::Fenced(fenced) = error {
            self.fenced(fenced);
        }
        let code = match error.kind() {
            ErrorKind::InvalidArgument => Code::InvalidArgument,
            ErrorKind::Duplicate => Code::Duplicate,
            ErrorKind::NoSuchInstance => Code::NoInstance,
            ErrorKind::Fenced => Code::Io,
            ErrorKind::Unavailable => match error {
                kvcm_registry::Error::Unavailable {
                    outcome: Outcome::NotDone,
                    ..
                } => Code::Internal,
                _ => Code::Io,
            },
            _ => Code::Internal,
        };
        CallError::new(code, error.to_string())
    }

    /// A registered instance.
    ///
    /// # Errors
    /// No id, or the id of none.
    pub(crate) fn instance(&self, id: &str) -> Result<Arc<Instance>, CallError> {
        if id.is_empty() {
            return Err(CallError::missing(&["instance_id"]));
        }
        let instance = self.registry.instance(id);
        instance.ok_or_else(|| CallError::no_instance(id))
    }

    /// What to answer for an error of the cache. A fence ends the reign.
    pub(crate) fn cache_error(&self, error: kvcm_cache::Error) -> CallError {
        if let kvcm_cache::Error::Fenced { fenced, .. } = &error {
            self.fenced(fenced);
        }
        error.into()
    }

    fn fenced(&self, fenced: &Fenced) {
        report(&self.elector, self.epoch, fenced);
    }

    /// The index of an instance.
    ///
    /// # Errors
    /// It is not open, and why.
    pub(crate) fn cache(&self, instance_id: &str) -> Result<Arc<CacheManager>, CallError> {
        self.caches.of(instance_id)
    }
}

/// Ends a reign whose background work came to such an end.
pub(crate) fn superseded(elector: &Elector, epoch: Epoch, ended: &kvcm_cache::Error) {
    if let kvcm_cache::Error::Fenced { fenced, .. } = ended {
        report(elector, epoch, fenced);
    }
}

fn report(elector: &Elector, epoch: Epoch, fenced: &Fenced) {
    let by = match fenced {
        Fenced::By { by } => by.epoch,
        Fenced::Missing => Epoch::ZERO,
    };
    match fenced {
        Fenced::By { .. } => {
            tracing::error!(%epoch, %by, "a store refused a write of this reign");
        }
        Fenced::Missing => tracing::error!(
            %epoch,
            "a store has lost the claim of this reign, and with it probably what it held: it was \
             flushed, or restarted without its data"
        ),
    }
    elector.store_refused(epoch, by);
}

fn claim_failed(store: &str, error: ClaimError) -> PromoteError {
    match error {
        ClaimError::Refused(ClaimRefused::Superseded { by }) => {
            PromoteError::Fenced { by: by.epoch }
        }
        ClaimError::Refused(refused @ ClaimRefused::OtherCluster { .. }) => {
            PromoteError::Failed(format!("{store}: {refused}; {OTHER_CLUSTER}"))
        }
        error => PromoteError::Failed(format!("{store}: {error}")),
    }
}

/// How long `answer` may be gone by.
fn until_the_next_look(answer: &Result<(), String>) -> Duration {
    match answer {
        Ok(()) => LEARN,
        Err(_) => LEARN_AGAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_failed_is_looked_at_again_well_within_a_short_lease() {
        let short = Duration::from_secs(1);
        let failed = Err("registry: it does not answer".to_owned());
        assert!(until_the_next_look(&failed) <= short / 4);
        assert!(until_the_next_look(&Ok(())) > until_the_next_look(&failed));
    }
}
