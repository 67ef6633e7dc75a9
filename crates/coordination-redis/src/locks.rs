//! The lock operations, over the lease's own connection.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coordination_core::{
    Error, Holder, LockOutcome, Owner, RenewOutcome, Reservation, TryLock, UnlockOutcome,
};
use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;
use kvcm_redis::{Answer, Lease, Link, Locator, Repeat, Replicas, Route, Script};
use tracing::warn;

use crate::{error::error, keys::Keys, reply::Reply, scripts};

#[derive(Debug)]
pub(crate) struct Locks {
    locator: Arc<Locator>,
    /// One connection for all locks; in a cluster one for the locks of each slot.
    leases: Mutex<BTreeMap<Route, Arc<Lease>>>,
    keys: Keys,
    clock: Arc<dyn Clock>,
    wait_replicas: u32,
    is_warned: AtomicBool,
}

/// One call of a lock script.
struct Call<'a> {
    script: &'static Script,
    key: &'a str,
    owner: Option<&'a Owner>,
    /// After those that all lock scripts have.
    args: &'a [&'a str],
    /// Whether what it wrote must be at the replicas.
    is_durable: bool,
}

impl Locks {
    pub(crate) fn new(locator: Arc<Locator>, keys: Keys, clock: Arc<dyn Clock>) -> Self {
        Self {
            wait_replicas: locator.config().wait_replicas,
            locator,
            leases: Mutex::default(),
            keys,
            clock,
            is_warned: AtomicBool::new(false),
        }
    }

    pub(crate) async fn try_lock(
        &self,
        request: TryLock<'_>,
        deadline: Moment,
    ) -> Result<LockOutcome, Error> {
        let (dead_incarnation, dead_epoch) = request
            .presumed_dead
            .map(|(incarnation, epoch)| (incarnation.to_string(), epoch.to_string()))
            .unwrap_or_default();
        let call = Call {
            script: &scripts::TRY_LOCK,
            key: request.key,
            owner: Some(request.owner),
            args: &[
                &milliseconds(request.ttl),
                &request.floor.to_string(),
                request.info,
                &dead_incarnation,
                &dead_epoch,
            ],
            is_durable: true,
        };
        let answer = self.run(call, deadline).await?;
        let outcome = Reply::new(answer.value).lock_outcome()?;
        self.compare_with_lease(request.key, request.ttl);
        if matches!(outcome, LockOutcome::Acquired(_)) {
            self.check_replicas(answer.acknowledged)?;
        }
        Ok(outcome)
    }

    pub(crate) async fn renew_lock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
        deadline: Moment,
    ) -> Result<RenewOutcome, Error> {
        let call = Call {
            script: &scripts::RENEW_LOCK,
            key,
            owner: Some(owner),
            args: &[&epoch.to_string(), &milliseconds(ttl), info],
            is_durable: true,
        };
        let answer = self.run(call, deadline).await?;
        let outcome = Reply::new(answer.value).renew_outcome()?;
        if outcome == RenewOutcome::Renewed {
            self.check_replicas(answer.acknowledged)?;
        }
        Ok(outcome)
    }

    pub(crate) async fn unlock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        deadline: Moment,
    ) -> Result<UnlockOutcome, Error> {
        let (node, duration) = match reserve_for {
            Some(wish) => (wish.node.as_str(), milliseconds(wish.duration)),
            None => ("", "0".to_owned()),
        };
        let call = Call {
            script: &scripts::UNLOCK,
            key,
            owner: Some(owner),
            args: &[&epoch.to_string(), node, &duration],
            is_durable: false,
        };
        let answer = self.run(call, deadline).await?;
        Reply::new(answer.value).unlock_outcome()
    }

    pub(crate) async fn lock_holder(
        &self,
        key: &str,
        deadline: Moment,
    ) -> Result<Option<Holder>, Error> {
        let call = Call {
            script: &scripts::LOCK_HOLDER,
            key,
            owner: None,
            args: &[],
            is_durable: false,
        };
        let answer = self.run(call, deadline).await?;
        Reply::new(answer.value).lock_holder()
    }

    /// All lock scripts may be repeated: a holder that tries again gets the same epoch, renewals
    /// are the same twice, and `unlock` is told of earlier tries.
    async fn run(&self, call: Call<'_>, deadline: Moment) -> Result<Answer<Vec<String>>, Error> {
        let pair = self.keys.lock(call.key);
        let channel = self.keys.channel(call.key);
        let node = call.owner.map_or("", |owner| owner.node.as_str());
        let incarnation = call.owner.map(|owner| owner.incarnation.to_string());
        let incarnation = incarnation.as_deref().unwrap_or_default();
        let (pair, channel, call) = (&pair, &channel, &call);
        let run = |mut link: Link, maybe_done: u32| async move {
            let keys = [pair.key.as_str(), pair.sibling.as_str()];
            let server = link.server.clone();
            let mut args = vec![node, incarnation, server.run_id.as_str(), channel];
            args.extend_from_slice(call.args);
            args.push(if maybe_done > 0 { "1" } else { "0" });
            let latest = link.server_millis_at(deadline).to_string();
            args.push(&latest);
            let replicas = match call.is_durable {
                true => self.replicas(deadline),
                false => None,
            };
            call.script.run(&mut link, &keys, &args, replicas).await
        };
        let lease = self.lease(&pair.key);
        let answer = lease.run(Repeat::Safe, deadline, run).await;
        answer.map_err(error)
    }

    fn lease(&self, key: &str) -> Arc<Lease> {
        let route = self.locator.config().route(key);
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let (locator, clock) = (self.locator.clone(), self.clock.clone());
            Arc::new(Lease::new(locator, route.clone(), clock))
        };
        leases.entry(route.clone()).or_insert_with(new).clone()
    }

    /// The server must answer before the deadline when replicas are missing, also when it waits
    /// twice because it did not know the script: an answer of too few keeps the connection.
    fn replicas(&self, deadline: Moment) -> Option<Replicas> {
        if self.wait_replicas == 0 {
            return None;
        }
        let left = self.clock.now().until(deadline).as_millis();
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        Some(Replicas {
            count: self.wait_replicas,
            timeout_ms: (left / 3).clamp(1, 60_000),
        })
    }

    fn check_replicas(&self, acknowledged: Option<u32>) -> Result<(), Error> {
        let wanted = self.wait_replicas;
        match acknowledged {
            Some(have) if have < wanted => Err(Error::unknown(format!(
                "{have} of {wanted} replicas (wait_replicas) have acknowledged the lease in time"
            ))),
            _ => Ok(()),
        }
    }

    /// Warns once about a server that is too far away for the lease.
    fn compare_with_lease(&self, key: &str, ttl: Duration) {
        if self.is_warned.load(Ordering::Relaxed) {
            return;
        }
        let Some(server) = self.lease(&self.keys.lock(key).key).server() else {
            return;
        };
        let round_trip = server.round_trip;
        if round_trip * 20 > ttl && !self.is_warned.swap(true, Ordering::Relaxed) {
            warn!(?round_trip, lease = ?ttl, "redis is slow for this lease; lengthen the lease");
        }
    }
}

/// Rounded up: a lease at the server must not be shorter than its owner believes. 2^40 ms are 34
/// years; more would overflow the server's arithmetic.
pub(crate) fn milliseconds(duration: Duration) -> String {
    let up = duration.as_nanos().div_ceil(1_000_000);
    up.min(1 << 40).to_string()
}
