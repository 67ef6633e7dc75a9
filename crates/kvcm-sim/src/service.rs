//! What a node does while it leads: claims and reads the stores, serves requests, writes.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use elector::{Elector, Leadership, LossReason, PromoteError, Promotion, Role};
use kvcm_fence::{Claim, ClusterId, Epoch, Incarnation};
use parking_lot::Mutex;

use crate::{
    callbacks::{Callbacks, Promoting},
    coordination::Coordination,
    dice::Dice,
    event::{Ask, Event, Life, Log, RequestId},
    fault::Fault,
    mutant::Mutant,
    net::Refused,
    store::{Appending, Claiming, Content, Record, Store},
    world::World,
};

/// What a node answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Written {
        epoch: u64,
        place: u32,
    },
    Values {
        epoch: u64,
        values: Arc<Vec<u32>>,
    },
    /// Not executed; who leads, as far as the node knows.
    NotLeader(Option<(u64, usize)>),
    /// It may have happened.
    Unknown,
}

/// A request as it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) ask: Ask,
    /// The client has been answered in this epoch before, if it tells.
    pub(crate) seen: u64,
}

/// One life of a node, as its requests and callbacks see it.
pub(crate) struct Service {
    pub(crate) life: Life,
    pub(crate) incarnation: Incarnation,
    pub(crate) cluster: ClusterId,
    pub(crate) world: World,
    pub(crate) log: Log,
    pub(crate) dice: Dice,
    pub(crate) stores: Vec<Arc<Store>>,
    pub(crate) callbacks: Arc<Callbacks>,
    pub(crate) coordination: Arc<Coordination>,
    pub(crate) lease: Duration,
    pub(crate) mutant: Mutant,
    pub(crate) elector: OnceLock<Elector>,
    pub(crate) reign: Mutex<Option<Arc<Reign>>>,
    /// The reign whose background work a drain has stopped.
    pub(crate) quiesced: Mutex<Option<Arc<Reign>>>,
    /// A broken node serves this reign, whatever its gate says.
    pub(crate) reopened: Mutex<Option<Arc<Reign>>>,
}

/// What a leader has.
pub(crate) struct Reign {
    claim: Claim,
    over: AtomicBool,
    shards: Vec<Shard>,
}

/// What it has of one store.
struct Shard {
    /// Held over a write, so that records keep their order. False once the place of the next
    /// record is not known.
    writing: tokio::sync::Mutex<bool>,
    content: Mutex<Content>,
}

/// The reign ended, or the store refused: the write may have happened.
struct NotKnown;

impl Service {
    fn elector(&self) -> Option<&Elector> {
        self.elector.get()
    }

    /// Answers a request.
    pub(crate) async fn serve(&self, request: Request) -> Reply {
        let Some(elector) = self.elector() else {
            return Reply::NotLeader(None);
        };
        if self.mutant == Mutant::RefusesAll {
            return Reply::NotLeader(None);
        }
        if request.seen > 0
            && let Ok(seen) = Epoch::new(request.seen)
        {
            elector.epoch_seen(seen);
        }
        if self.mutant == Mutant::GateWithoutDeadline {
            return self.serve_by_role(elector, request).await;
        }
        let reopened = self.reopened.lock().clone();
        if let Some(reign) = reopened {
            return self.serve_unguarded(&reign, request).await;
        }
        let Ok(admission) = elector.gate().admit() else {
            return self.not_leader(elector);
        };
        let epoch = admission.epoch();
        if epoch.get() < request.seen {
            return self.not_leader(elector);
        }
        let life = self.life;
        self.log.add(Event::Admitted {
            life,
            epoch: epoch.get(),
            request: request.id,
        });
        let Some(reign) = self.reign_of(epoch) else {
            return self.not_leader(elector);
        };
        if self.mutant == Mutant::AbortStaysShut && self.has_quiesced(epoch) {
            return self.not_leader(elector);
        }
        self.work().await;
        match request.ask {
            Ask::Read { key } => {
                let values = self.read(&reign, key);
                self.work().await;
                if admission.confirm().is_err() {
                    let epoch = epoch.get();
                    self.log.add(Event::Unconfirmed { life, epoch });
                    return self.not_leader(elector);
                }
                self.log.add(Event::Confirmed {
                    life,
                    epoch: epoch.get(),
                    request: request.id,
                });
                let epoch = epoch.get();
                Reply::Values { epoch, values }
            }
            Ask::Write { key, value } => self.write(&reign, request.id, key, value).await,
        }
    }

    /// A node whose gate has no deadline, and so trusts what it last heard.
    async fn serve_by_role(&self, elector: &Elector, request: Request) -> Reply {
        let (role, epoch) = {
            let view = elector.view();
            (view.role, view.epoch)
        };
        let reign = epoch.and_then(|epoch| self.reign_of(epoch));
        let (Role::Leader, Some(reign)) = (role, reign) else {
            return self.not_leader(elector);
        };
        self.serve_unguarded(&reign, request).await
    }

    async fn serve_unguarded(&self, reign: &Arc<Reign>, request: Request) -> Reply {
        let (life, epoch) = (self.life, reign.claim.epoch.get());
        let id = request.id;
        self.log.add(Event::Admitted {
            life,
            epoch,
            request: id,
        });
        match request.ask {
            Ask::Read { key } => {
                let values = self.read(reign, key);
                self.log.add(Event::Confirmed {
                    life,
                    epoch,
                    request: id,
                });
                Reply::Values { epoch, values }
            }
            Ask::Write { key, value } => self.write(reign, id, key, value).await,
        }
    }

    fn has_quiesced(&self, epoch: Epoch) -> bool {
        let quiesced = self.quiesced.lock();
        quiesced
            .as_ref()
            .is_some_and(|reign| reign.claim.epoch == epoch)
    }

    /// An operator takes a transfer back.
    pub(crate) fn transfer_cancelled(&self) {
        if self.mutant == Mutant::ReopensAfterUnlock {
            *self.reopened.lock() = self.quiesced.lock().clone();
        }
    }

    /// Some work; others get their turn.
    async fn work(&self) {
        let time = self.dice.between(0, 2_000_000);
        self.world.sleep(Duration::from_nanos(time)).await;
    }

    fn reign_of(&self, epoch: Epoch) -> Option<Arc<Reign>> {
        let reign = self.reign.lock().clone();
        reign.filter(|reign| reign.claim.epoch == epoch)
    }

    fn not_leader(&self, elector: &Elector) -> Reply {
        let view = elector.view();
        let hint = view.leader.as_ref().and_then(|leader| {
            let node = place_of(leader.owner.node.as_str())?;
            (node != self.life.node).then_some((leader.epoch.get(), node))
        });
        Reply::NotLeader(hint)
    }

    fn shard<'a>(&self, reign: &'a Reign, key: u32) -> (usize, &'a Shard) {
        let store = key as usize % reign.shards.len();
        (store, &reign.shards[store])
    }

    fn read(&self, reign: &Reign, key: u32) -> Arc<Vec<u32>> {
        let content = self.shard(reign, key).1.content.lock();
        content.lists.get(&key).cloned().unwrap_or_default()
    }

    async fn write(&self, reign: &Arc<Reign>, request: RequestId, key: u32, value: u32) -> Reply {
        let record = Record {
            request,
            key,
            value,
        };
        let Ok(place) = self.written(reign, record).await else {
            return Reply::Unknown;
        };
        self.log.add(Event::Answered {
            life: self.life,
            request,
            place,
        });
        let epoch = reign.claim.epoch.get();
        Reply::Written { epoch, place }
    }

    /// The place of the value: from before, when the request comes again.
    async fn written(&self, reign: &Arc<Reign>, record: Record) -> Result<u32, NotKnown> {
        let (number, shard) = self.shard(reign, record.key);
        let mut known = shard.writing.lock().await;
        let at = {
            let content = shard.content.lock();
            if let Some(place) = content.requests.get(&record.request) {
                return Ok(*place);
            }
            content.length
        };
        if !*known {
            return Err(NotKnown);
        }
        if self.mutant == Mutant::AcknowledgedEarly {
            let place = shard.content.lock().apply(&record);
            let (store, claim) = (self.stores[number].clone(), reign.claim.clone());
            let _ = self.timed(store.append(self.life, claim, at, record)).await;
            return Ok(place);
        }
        // A record whose outcome is unknown keeps its place: only ever forward.
        while !reign.over.load(Relaxed) {
            let (store, claim) = (&self.stores[number], reign.claim.clone());
            match self.timed(store.append(self.life, claim, at, record)).await {
                Some(Ok(Appending::Done(place))) => {
                    shard.content.lock().apply(&record);
                    return Ok(place);
                }
                Some(Ok(Appending::Fenced(by))) => {
                    *known = false;
                    if let Some(elector) = self.elector() {
                        elector.store_refused(reign.claim.epoch, by);
                    }
                    return Err(NotKnown);
                }
                Some(Ok(Appending::Conflict)) => break,
                Some(Err(Refused)) | None => self.world.sleep(Duration::from_millis(20)).await,
            }
        }
        *known = false;
        Err(NotKnown)
    }

    /// The answer, unless it takes too long.
    async fn timed<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let timeout = self.world.sleep(self.lease / 4);
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = timeout => None,
        }
    }

    /// Whether all stores answer.
    pub(crate) async fn stores_answer(&self) -> bool {
        for store in &self.stores {
            let answer = self.timed(store.probe(self.life.node)).await;
            if !matches!(answer, Some(Ok(()))) {
                return false;
            }
        }
        true
    }

    /// Claims the stores and reads them.
    async fn recover(&self, promotion: &Promotion) -> Result<Reign, PromoteError> {
        let failed = |what: &str| PromoteError::Failed(what.to_owned());
        let claim = Claim {
            cluster: self.cluster.clone(),
            epoch: promotion.epoch,
            incarnation: self.incarnation,
        };
        let mut shards = Vec::new();
        let early = self.mutant == Mutant::ReadBeforeClaim;
        for store in &self.stores {
            let mut content = None;
            if early {
                let loaded = self.timed(store.load(self.life, claim.clone())).await;
                content = loaded.and_then(Result::ok).flatten();
                self.world.sleep(self.lease / 4).await;
            }
            match self.timed(store.claim(self.life, claim.clone())).await {
                Some(Ok(Claiming::Done(former))) => {
                    if let (Some(former), Some(elector)) = (former, self.elector()) {
                        elector.store_remembers(former).await;
                    }
                }
                Some(Ok(Claiming::By(by))) => return Err(PromoteError::Fenced { by }),
                Some(Err(Refused)) | None => return Err(failed("a store cannot be claimed")),
            }
            promotion.progress.advance();
            if !early {
                let loaded = self.timed(store.load(self.life, claim.clone())).await;
                content = loaded.and_then(Result::ok).flatten();
            }
            let Some(mut content) = content else {
                return Err(failed("a store cannot be read"));
            };
            if self.mutant == Mutant::RequestsForgotten {
                content.requests.clear();
            }
            promotion.progress.advance();
            shards.push(Shard {
                writing: tokio::sync::Mutex::new(true),
                content: Mutex::new(content),
            });
        }
        Ok(Reign {
            claim,
            over: AtomicBool::new(false),
            shards,
        })
    }

    /// Promotes, as well as it goes.
    async fn promote(&self, promotion: &Promotion) -> Result<(), PromoteError> {
        let failed = |what: &str| PromoteError::Failed(what.to_owned());
        match self.callbacks.promoting() {
            Promoting::Works(time) => {
                let steps = 8;
                for _ in 0..steps {
                    self.callbacks.wait(time / steps).await;
                    promotion.progress.advance();
                }
            }
            Promoting::Fails => return Err(failed("as the nemesis wishes")),
            // Unlike a panic it prints nothing.
            Promoting::Panics => std::panic::resume_unwind(Box::new("as the nemesis wishes")),
            Promoting::Hangs => self.callbacks.wait(Duration::from_secs(3600)).await,
            Promoting::IgnoresCancel(time) => self.callbacks.wait(time).await,
        }
        let reign = self.recover(promotion).await?;
        *self.reopened.lock() = None;
        *self.reign.lock() = Some(Arc::new(reign));
        Ok(())
    }
}

#[async_trait]
impl Leadership for Service {
    async fn on_become_leader(&self, promotion: Promotion) -> Result<(), PromoteError> {
        let (life, epoch) = (self.life, promotion.epoch.get());
        let cancelled = promotion.cancel.is_cancelled();
        self.log.add(Event::PromoteBegan {
            life,
            epoch,
            cancelled,
        });
        if self.callbacks.ambushes() {
            let coordination = self.coordination.clone();
            let delay = self.dice.time(Duration::ZERO, self.lease / 10);
            self.world.after(delay, move || {
                coordination.forget_holder(Fault::AmbushPromotion);
                coordination.repeat_try(life);
            });
        }
        let ignores_cancel = self.dice.chance(0.2);
        let done = tokio::select! {
            biased;
            done = self.promote(&promotion) => done,
            () = promotion.cancel.cancelled(), if !ignores_cancel => {
                Err(PromoteError::Failed("cancelled".to_owned()))
            }
        };
        self.log.add(Event::PromoteEnded {
            life,
            epoch,
            done: done.is_ok(),
        });
        done
    }

    async fn quiesce(&self, epoch: Epoch) {
        let (life, number) = (self.life, epoch.get());
        self.log.add(Event::Quiesced {
            life,
            epoch: number,
        });
        *self.quiesced.lock() = self.reign_of(epoch);
        self.callbacks.wait(self.callbacks.draining()).await;
    }

    async fn resume(&self, epoch: Epoch) {
        let (life, epoch) = (self.life, epoch.get());
        self.log.add(Event::TakenUp { life, epoch });
        if self.mutant != Mutant::AbortStaysShut {
            *self.quiesced.lock() = None;
        }
    }

    async fn flush(&self, _: Epoch) {
        self.callbacks.wait(self.callbacks.draining()).await;
    }

    async fn on_no_longer_leader(&self, epoch: Epoch, _: LossReason) {
        let (life, epoch) = (self.life, epoch.get());
        let times = if self.mutant == Mutant::DemotesTwice {
            2
        } else {
            1
        };
        for _ in 0..times {
            self.log.add(Event::DemoteBegan { life, epoch });
            if self.callbacks.ambushes() {
                self.coordination.repeat_try(self.life);
            }
            if let Some(reign) = self.reign.lock().take() {
                reign.over.store(true, Relaxed);
            }
            self.callbacks.wait(self.callbacks.demoting()).await;
            self.log.add(Event::DemoteEnded { life, epoch });
        }
    }

    async fn probe(&self) -> Result<(), String> {
        if self.stores_answer().await {
            return Ok(());
        }
        self.log.add(Event::ProbeFailed { life: self.life });
        Err("a store does not answer".to_owned())
    }
}

/// Node ids begin with the number of their place.
pub(crate) fn place_of(node: &str) -> Option<usize> {
    let digits = node.strip_prefix('n')?;
    let end = digits.find('-').unwrap_or(digits.len());
    digits[..end].parse().ok()
}
