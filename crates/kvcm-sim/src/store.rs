//! The durable stores: lists of values behind a fence.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kvcm_fence::{Claim, ClaimRefused, Epoch, Fence, Fenced};
use parking_lot::Mutex;

use crate::{
    dice::Dice,
    event::{Event, Life, Log, RequestId},
    mutant::Mutant,
    net::{End, Net, Refused, Remote},
    world::World,
};

/// One store.
pub(crate) struct Store {
    number: usize,
    log: Log,
    remote: Arc<Remote>,
    mutant: Mutant,
    lease: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    fence: Fence,
    content: Content,
    /// The request of each record, to know a record that comes again.
    records: Vec<(Epoch, RequestId)>,
}

/// What a store holds, and what a leader keeps of it in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) lists: BTreeMap<u32, Arc<Vec<u32>>>,
    /// Which place each request's value got.
    pub(crate) requests: BTreeMap<RequestId, u32>,
    /// Records so far.
    pub(crate) length: u64,
}

/// One value at the end of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) request: RequestId,
    pub(crate) key: u32,
    pub(crate) value: u32,
}

/// What a claim tells.
#[derive(Debug)]
pub(crate) enum Claiming {
    /// It stands; the epoch of the claim before.
    Done(Option<Epoch>),
    /// A higher one stands.
    By(Epoch),
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appending {
    /// It is the store's, with its value at this place of the list.
    Done(u32),
    /// Another claim stands, or none (zero).
    Fenced(Epoch),
    /// The store has another record in that place.
    Conflict,
}

impl Content {
    /// Takes a record in; gives the place of its value.
    pub(crate) fn apply(&mut self, record: &Record) -> u32 {
        let list = Arc::make_mut(self.lists.entry(record.key).or_default());
        list.push(record.value);
        let place = u32::try_from(list.len() - 1).unwrap_or(u32::MAX);
        self.requests.insert(record.request, place);
        self.length += 1;
        place
    }
}

impl Store {
    pub(crate) fn new(
        number: usize,
        world: World,
        log: Log,
        net: Net,
        dice: Dice,
        lease: Duration,
        mutant: Mutant,
    ) -> Arc<Self> {
        Arc::new(Self {
            number,
            remote: Remote::new(world, net, log.clone(), dice, End::Store(number)),
            log,
            mutant,
            lease,
            state: Mutex::default(),
        })
    }

    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Whether a claim stands.
    pub(crate) fn is_claimed(&self) -> bool {
        self.state.lock().fence.holder().is_some()
    }

    /// Forgets the claim that stands.
    pub(crate) fn lose_fence(&self) {
        self.state.lock().fence = Fence::default();
    }

    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        node: usize,
        work: impl Fn(&Self) -> T + Send + Sync + 'static,
    ) -> Result<T, Refused> {
        let store = self.clone();
        self.remote
            .ask(End::Node(node), self.lease, move || work(&store))
            .await
    }

    /// Claims the store.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        life: Life,
        claim: Claim,
    ) -> Result<Claiming, Refused> {
        self.ask(life.node, move |store| store.do_claim(life, claim.clone()))
            .await
    }

    /// Reads everything; none when the claim does not stand.
    pub(crate) async fn load(
        self: &Arc<Self>,
        life: Life,
        claim: Claim,
    ) -> Result<Option<Content>, Refused> {
        self.ask(life.node, move |store| {
            let state = store.state.lock();
            let checked = store.mutant == Mutant::ReadBeforeClaim
                || store.mutant == Mutant::StoreWithoutFence
                || state.fence.check(&claim).is_ok();
            checked.then(|| state.content.clone())
        })
        .await
    }

    /// Puts `record` behind the first `at` records.
    pub(crate) async fn append(
        self: &Arc<Self>,
        life: Life,
        claim: Claim,
        at: u64,
        record: Record,
    ) -> Result<Appending, Refused> {
        self.ask(life.node, move |store| {
            store.do_append(life, &claim, at, &record)
        })
        .await
    }

    /// Whether it answers.
    pub(crate) async fn probe(self: &Arc<Self>, node: usize) -> Result<(), Refused> {
        self.ask(node, |_| ()).await
    }

    fn do_claim(&self, life: Life, claim: Claim) -> Claiming {
        let mut state = self.state.lock();
        let former = state.fence.holder().map(|claim| claim.epoch);
        let (store, epoch) = (self.number, claim.epoch.get());
        let unfenced = self.mutant == Mutant::StoreWithoutFence;
        if unfenced {
            state.fence = Fence::default();
        }
        let by = match state.fence.claim(claim) {
            Ok(()) => {
                self.log.add(Event::Claimed { store, life, epoch });
                return Claiming::Done(former);
            }
            Err(ClaimRefused::Superseded { by }) => by.epoch,
            // There is one cluster only.
            Err(ClaimRefused::OtherCluster { by, .. }) => by.epoch,
        };
        self.log.add(Event::ClaimRefused {
            store,
            life,
            epoch,
            by: by.get(),
        });
        Claiming::By(by)
    }

    fn do_append(&self, life: Life, claim: &Claim, at: u64, record: &Record) -> Appending {
        let mut state = self.state.lock();
        let (store, epoch) = (self.number, claim.epoch.get());
        let unfenced = self.mutant == Mutant::StoreWithoutFence;
        if !unfenced && let Err(fenced) = state.fence.check(claim) {
            self.log.add(Event::AppendRefused { store, life, epoch });
            return Appending::Fenced(match fenced {
                Fenced::By { by } => by.epoch,
                Fenced::Missing => Epoch::ZERO,
            });
        }
        let identity = (claim.epoch, record.request);
        let length = state.content.length;
        if at < length {
            let before = usize::try_from(at)
                .ok()
                .and_then(|at| state.records.get(at));
            if before == Some(&identity) {
                let place = state.content.requests.get(&record.request);
                return place.map_or(Appending::Conflict, |place| Appending::Done(*place));
            }
        }
        if at != length && !unfenced {
            return Appending::Conflict;
        }
        let place = state.content.apply(record);
        state.records.push(identity);
        let request = record.request;
        self.log.add(Event::Appended {
            store,
            life,
            epoch,
            request,
        });
        Appending::Done(place)
    }
}
