//! The indexes of a reign: one cache manager for each store, and which group has which.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use elector::{Progress, PromoteError};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use kvcm_cache::{CacheManager, Counts, Permit, Recovered};
use kvcm_clock::{Backoff, BackoffPolicy, Timer};
use kvcm_journal::Journal;
use kvcm_registry::{Group, Registry};
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use crate::{
    index_store::{FIELD, IndexStore},
    opening::{Failed, Opener, Stage},
    prepare::RegistryStorage,
    reign,
    reply::{CallError, Code},
    stores::Stores,
};

/// One look at a store.
const CALL: Duration = Duration::from_secs(5);

/// How long a store that is not open is left alone between two tries.
const RETRY: BackoffPolicy = BackoffPolicy {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(30),
    factor: 2.0,
    jitter: 0.2,
};

/// What the indexes of a reign are made of.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Opens stores under the claim of the reign.
    pub(crate) opener: Opener,
    /// Where journals come from.
    pub(crate) stores: Stores,
    /// Waits on the clock.
    pub(crate) timer: Arc<dyn Timer>,
    /// The nodes are on several hosts, and what they do not share is not wanted.
    pub(crate) private_is_refused: bool,
}

/// The indexes of a reign. Each group has one store; groups with the same one share a manager.
///
/// A store that does not open costs its own groups only: they answer why, and it is tried again.
#[derive(Debug)]
pub(crate) struct Caches {
    parts: Parts,
    stores: Mutex<BTreeMap<String, Store>>,
    routes: ArcSwap<Routes>,
    /// What runs beside requests; none while the reign is quiet.
    tasks: Mutex<Option<Vec<AbortHandle>>>,
}

#[derive(Debug)]
struct Store {
    place: IndexStore,
    state: State,
    recovery: Recovery,
}

#[derive(Debug)]
enum State {
    Open(Arc<CacheManager>, Arc<dyn Journal>),
    Closed(Stage, String),
    /// Somebody is at it.
    Opening,
}

/// What the recoveries of this reign were like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    /// The longest of them.
    pub(crate) took: Duration,
    /// Operations that were left out.
    pub(crate) skipped: u64,
    /// Parts of journals that are damaged.
    pub(crate) damaged: u64,
}

/// Which manager each group has.
#[derive(Debug, Default)]
struct Routes {
    /// There is no other store.
    only: Option<Arc<CacheManager>>,
    groups: HashMap<String, (Arc<Group>, Route)>,
}

#[derive(Clone, Debug)]
enum Route {
    To(Arc<CacheManager>),
    Closed(Arc<str>),
}

impl Caches {
    /// Opens the stores of all groups, at the same time. Those that cannot be are tried again
    /// later.
    ///
    /// # Errors
    /// When a store has been claimed by another leader.
    pub(crate) async fn open(parts: Parts, progress: &Progress) -> Result<Arc<Self>, PromoteError> {
        let caches = Arc::new(Self {
            parts,
            stores: Mutex::default(),
            routes: ArcSwap::default(),
            tasks: Mutex::default(),
        });
        for group in caches.registry().groups() {
            match caches.configured(&group) {
                Ok(place) => drop(caches.add(place)),
                Err(why) => tracing::error!(group = group.name, why, "a group has no index"),
            }
        }
        let ids: Vec<_> = {
            let stores = caches.stores.lock();
            let places = stores.values().map(|store| &store.place);
            caches.parts.stores.keep_only(places);
            stores.keys().cloned().collect()
        };
        let mut opening = JoinSet::new();
        for id in ids {
            let (caches, progress) = (caches.clone(), progress.clone());
            opening.spawn(async move { caches.try_open(&id, None, Some(&progress)).await });
        }
        while let Some(opened) = opening.join_next().await {
            let opened = opened.map_err(|error| {
                PromoteError::Failed(format!("the recovery of an index broke off: {error}"))
            })?;
            if let Err(NotOpen::Fenced(by)) = opened {
                return Err(PromoteError::Fenced { by });
            }
            progress.advance();
        }
        caches.refresh();
        Ok(caches)
    }

    /// The manager of an instance. One that is not registered gets any, which says so.
    ///
    /// # Errors
    /// The store of its group is not open.
    pub(crate) fn of(&self, instance_id: &str) -> Result<Arc<CacheManager>, CallError> {
        let routes = self.routes.load();
        if let Some(only) = &routes.only {
            return Ok(Arc::clone(only));
        }
        let Some(instance) = self.registry().instance(instance_id) else {
            let any = routes.groups.values().find_map(|(_, route)| match route {
                Route::To(manager) => Some(Arc::clone(manager)),
                Route::Closed(_) => None,
            });
            return any.ok_or_else(|| match instance_id {
                "" => CallError::missing(&["instance_id"]),
                id => CallError::no_instance(id),
            });
        };
        let group = self.registry().group(&instance.group);
        let group = group.ok_or_else(|| {
            let message = format!("instance group `{}` does not exist", instance.group);
            CallError::new(Code::Internal, message)
        })?;
        let find = |routes: &Routes| {
            let (known, route) = routes.groups.get(&group.name)?;
            Arc::ptr_eq(known, &group).then(|| route.clone())
        };
        // A change of the registry shows before its routes do.
        let route = find(&routes).or_else(|| {
            self.refresh();
            find(&self.routes.load())
        });
        match route {
            Some(Route::To(manager)) => Ok(manager),
            Some(Route::Closed(why)) => Err(CallError::new(Code::Internal, &*why)),
            None => {
                let message = format!("instance group `{}` is being changed", group.name);
                Err(CallError::new(Code::Internal, message))
            }
        }
    }

    /// All managers.
    pub(crate) fn all(&self) -> Vec<Arc<CacheManager>> {
        let stores = self.stores.lock();
        stores
            .values()
            .filter_map(Store::manager)
            .cloned()
            .collect()
    }

    /// How much all of them hold.
    pub(crate) fn counts(&self) -> Counts {
        let all = self.all();
        all.iter().fold(Counts::default(), |sum, manager| {
            let counts = manager.counts();
            Counts {
                instances: sum.instances + counts.instances,
                keys: sum.keys + counts.keys,
                bytes: sum.bytes + counts.bytes,
                sessions: sum.sessions + counts.sessions,
            }
        })
    }

    /// How many stores are open and how many are not.
    pub(crate) fn open_and_closed(&self) -> (usize, usize) {
        let stores = self.stores.lock();
        let open = stores.values().filter_map(Store::manager).count();
        (open, stores.len() - open)
    }

    /// What the recoveries of this reign were like.
    pub(crate) fn recovery(&self) -> Recovery {
        let stores = self.stores.lock();
        let all = stores.values().map(|store| store.recovery);
        all.fold(Recovery::default(), |sum, one| Recovery {
            took: sum.took.max(one.took),
            skipped: sum.skipped + one.skipped,
            damaged: sum.damaged + one.damaged,
        })
    }

    /// Whether any store answers, or there is none.
    pub(crate) async fn some_answer(&self) -> bool {
        let journals: Vec<_> = {
            let stores = self.stores.lock();
            if stores.is_empty() {
                return true;
            }
            stores.values().filter_map(Store::journal).collect()
        };
        let probes = journals.iter().map(|journal| journal.probe(CALL));
        let mut probes: FuturesUnordered<_> = probes.collect();
        while let Some(probed) = probes.next().await {
            if probed.is_ok() {
                return true;
            }
        }
        false
    }

    /// Opens the store that a group will have, before the group is created or changed.
    ///
    /// # Errors
    /// What is wrong with its configuration, or why the store is not open.
    pub(crate) async fn ensure(&self, group: &Group) -> Result<(), CallError> {
        let id = self.add(self.place(group)?);
        let opened = self.try_open(&id, Some(&group.name), None).await;
        if let Err(not_open) = &opened {
            self.fenced(not_open);
            self.forget(&id);
        }
        self.refresh();
        opened.map_err(|not_open| {
            let why = match not_open {
                NotOpen::Fenced(by) => format!("it is claimed by epoch {by}"),
                NotOpen::Because(why) => why,
            };
            let message = format!("nothing was changed: the index of the group is not open: {why}");
            CallError::new(Code::Internal, message)
        })
    }

    /// The store that a group asks for.
    ///
    /// # Errors
    /// What is wrong with its configuration.
    pub(crate) fn place(&self, group: &Group) -> Result<IndexStore, CallError> {
        let invalid = |message: String| CallError::new(Code::InvalidArgument, message);
        let place = self.configured(group).map_err(invalid)?;
        let registry = &*self.parts.stores.place;
        if place.is_durable() && matches!(registry, RegistryStorage::Memory) {
            return Err(invalid(format!(
                "{FIELD}: an index outlives its leader only together with the registrations of its \
                 instances: set kvcm.registry_storage.uri as well"
            )));
        }
        if place.is_of_one_host() && self.parts.private_is_refused {
            return Err(invalid(format!(
                "{FIELD}: the nodes of several hosts would each keep an index of their own: use \
                 storage_type `redis`, or set kvcm.allow_private_stores=true"
            )));
        }
        Ok(place)
    }

    /// The store that a group of the registry has, wanted or not.
    ///
    /// # Errors
    /// What is wrong with its configuration.
    pub(crate) fn configured(&self, group: &Group) -> Result<IndexStore, String> {
        IndexStore::of(group, &self.parts.stores.place)
    }

    /// Sends calls to where the groups of the registry have their indexes now.
    pub(crate) fn refresh(&self) {
        let stores = self.stores.lock();
        let route = |group: &Group| {
            let closed = |why: &str| {
                let name = &group.name;
                let why = format!("the index of instance group `{name}` is not open: {why}");
                Route::Closed(why.into())
            };
            let place = match self.configured(group) {
                Ok(place) => place,
                Err(why) => return closed(&why),
            };
            match stores.get(&place.identity()).map(|store| &store.state) {
                Some(State::Open(manager, _)) => Route::To(Arc::clone(manager)),
                Some(State::Closed(_, why)) => closed(why),
                Some(State::Opening) => closed("it is being opened"),
                None => closed("nobody has asked for it"),
            }
        };
        let groups = self.registry().groups().into_iter().map(|group| {
            let route = route(&group);
            (group.name.clone(), (group, route))
        });
        let groups = groups.collect();
        let only = stores.values().next().filter(|_| stores.len() == 1);
        let only = only.and_then(Store::manager).cloned();
        self.routes.store(Arc::new(Routes { only, groups }));
    }

    fn registry(&self) -> &Registry {
        &self.parts.opener.surroundings.registry
    }

    /// Gives up a store that no group has and that this reign has not claimed.
    fn forget(&self, id: &str) {
        if self.groups_of(id, None).is_empty() {
            let mut stores = self.stores.lock();
            if stores.get(id).is_some_and(Store::is_untouched) {
                stores.remove(id);
            }
        }
    }

    /// Ends the reign when a store has another claim, or needs a new one of this node.
    fn fenced(&self, not_open: &NotOpen) {
        if let NotOpen::Fenced(by) = not_open {
            let Opener { elector, claim, .. } = &self.parts.opener;
            tracing::error!(epoch = %claim.epoch, %by, "an index needs a new epoch");
            elector.store_refused(claim.epoch, *by);
        }
    }

    /// Makes a place for a store, unless there is one.
    fn add(&self, place: IndexStore) -> String {
        let id = place.identity();
        let mut stores = self.stores.lock();
        stores.entry(id.clone()).or_insert_with(|| Store {
            place,
            state: State::Closed(Stage::Unclaimed { perhaps: false }, "it is new".to_owned()),
            recovery: Recovery::default(),
        });
        id
    }
}

/// Why a store is not open after a try.
#[derive(Debug)]
enum NotOpen {
    Fenced(kvcm_fence::Epoch),
    Because(String),
}

impl Caches {
    /// Opens a store that is closed. `new` is a group that the registry does not have yet.
    async fn try_open(
        &self,
        id: &str,
        new: Option<&str>,
        progress: Option<&Progress>,
    ) -> Result<(), NotOpen> {
        let because = |why: &str| Err(NotOpen::Because(why.to_owned()));
        let (place, stage) = {
            let mut stores = self.stores.lock();
            let Some(store) = stores.get_mut(id) else {
                return because("it is not known");
            };
            match mem::replace(&mut store.state, State::Opening) {
                State::Opening => return because("it is being opened, try again"),
                state @ State::Open(..) => {
                    store.state = state;
                    return Ok(());
                }
                State::Closed(Stage::Hopeless, why) => {
                    let not_open = because(&why);
                    store.state = State::Closed(Stage::Hopeless, why);
                    return not_open;
                }
                State::Closed(stage, _) => (store.place.clone(), stage),
            }
        };
        // Also when this future is dropped.
        let mut outcome = Outcome {
            caches: self,
            id,
            state: Some(State::Closed(
                Stage::Unclaimed { perhaps: true },
                "the opening broke off".to_owned(),
            )),
        };
        let journal = match self.parts.stores.index(&place) {
            Ok(journal) => journal,
            Err(error) => {
                let why = error.to_string();
                outcome.state = Some(State::Closed(stage, why.clone()));
                return Err(NotOpen::Because(why));
            }
        };
        let groups = self.groups_of(id, new);
        let clock = &self.parts.opener.surroundings.clock;
        let begun = clock.now();
        let opener = &self.parts.opener;
        let opened = opener.open(&place, &*journal, stage, &groups, progress);
        match opened.await {
            Ok((manager, recovered)) => {
                let manager = Arc::new(manager);
                self.note(id, &recovered, clock.now().since(begun));
                // Nobody else starts what it does before it can be seen, nor afterwards.
                let mut tasks = self.tasks.lock();
                outcome.state = Some(State::Open(manager.clone(), journal));
                drop(outcome);
                if let Some(tasks) = &mut *tasks {
                    self.run(&manager, tasks);
                }
                Ok(())
            }
            Err(Failed::Fenced { by }) => Err(NotOpen::Fenced(by)),
            Err(Failed::At(stage, why)) => {
                let why = format!("{}: {why}", journal.describe());
                tracing::error!(why, "an index is not open");
                outcome.state = Some(State::Closed(stage, why.clone()));
                Err(NotOpen::Because(why))
            }
        }
    }

    fn groups_of(&self, id: &str, new: Option<&str>) -> HashSet<String> {
        let groups = self.registry().groups().into_iter();
        let has_it = |group: &Arc<Group>| self.configured(group).is_ok_and(|p| p.identity() == id);
        let named = groups.filter(has_it).map(|group| group.name.clone());
        named.chain(new.map(str::to_owned)).collect()
    }

    fn note(&self, id: &str, recovered: &Recovered, took: Duration) {
        if let Some(store) = self.stores.lock().get_mut(id) {
            store.recovery = Recovery {
                took,
                skipped: recovered.skipped.iter().map(|(_, count)| count).sum(),
                damaged: recovered.journal.skipped.len() as u64,
            };
        }
    }

    /// Tries what is closed again, for ever.
    async fn reopen(&self) {
        let clock = &self.parts.opener.surroundings.clock;
        let mut waits = Backoff::new(RETRY);
        loop {
            let wait = waits.next(&mut fastrand::Rng::new());
            self.parts.timer.sleep_until(clock.now() + wait).await;
            let closed: Vec<String> = {
                let stores = self.stores.lock();
                let closed = stores.iter().filter(|(_, store)| store.may_open());
                closed.map(|(id, _)| id.clone()).collect()
            };
            if closed.is_empty() {
                waits = Backoff::new(RETRY);
            }
            for id in closed {
                if self.groups_of(&id, None).is_empty() {
                    continue;
                }
                if let Err(not_open) = self.try_open(&id, None, None).await {
                    self.fenced(&not_open);
                }
                self.refresh();
            }
        }
    }
}

// === impl Caches: beside requests ===

impl Caches {
    /// Starts what no request waits for.
    pub(crate) fn start(self: &Arc<Self>) {
        let caches = self.clone();
        let reopening = tokio::spawn(async move { caches.reopen().await });
        let mut tasks = self.tasks.lock();
        let mut started = vec![reopening.abort_handle()];
        for manager in self.all() {
            self.run(&manager, &mut started);
        }
        *tasks = Some(started);
    }

    /// Stops it.
    pub(crate) fn stop(&self) {
        for task in self.tasks.lock().take().into_iter().flatten() {
            task.abort();
        }
    }

    /// Starts what a manager does beside requests.
    fn run(&self, manager: &Arc<CacheManager>, tasks: &mut Vec<AbortHandle>) {
        let Opener { elector, claim, .. } = &self.parts.opener;
        let (elector, epoch) = (elector.clone(), claim.epoch);
        let (tended, timer) = (manager.clone(), self.parts.timer.clone());
        let ended = move |error| reign::superseded(&elector, epoch, &error);
        let (end, timer_of_tending) = (ended.clone(), timer.clone());
        let gate = self.parts.opener.elector.gate().clone();
        // Bytes are deleted only while this very reign is served.
        let permit: Permit = Arc::new(move || gate.open_epoch() == Some(epoch));
        let tending = tokio::spawn(async move {
            end(tended.run(&*timer_of_tending, &permit).await);
        });
        let manager = manager.clone();
        let snapshots = tokio::spawn(async move {
            ended(manager.run_snapshots(&*timer).await);
        });
        tasks.extend([tending.abort_handle(), snapshots.abort_handle()]);
    }
}

/// Puts the outcome of a try into its place.
struct Outcome<'a> {
    caches: &'a Caches,
    id: &'a str,
    state: Option<State>,
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        let mut stores = self.caches.stores.lock();
        if let (Some(store), Some(state)) = (stores.get_mut(self.id), self.state.take()) {
            store.state = state;
        }
    }
}

impl Store {
    fn manager(&self) -> Option<&Arc<CacheManager>> {
        match &self.state {
            State::Open(manager, _) => Some(manager),
            State::Closed(..) | State::Opening => None,
        }
    }

    fn journal(&self) -> Option<Arc<dyn Journal>> {
        match &self.state {
            State::Open(_, journal) => Some(journal.clone()),
            State::Closed(..) | State::Opening => None,
        }
    }

    const fn is_untouched(&self) -> bool {
        matches!(
            self.state,
            State::Closed(Stage::Unclaimed { perhaps: false } | Stage::Hopeless, _)
        )
    }

    const fn may_open(&self) -> bool {
        matches!(
            self.state,
            State::Closed(Stage::Unclaimed { .. } | Stage::Unread(_), _)
        )
    }
}
