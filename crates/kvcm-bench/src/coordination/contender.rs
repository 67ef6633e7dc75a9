//! One owner with its backend.

use std::{sync::Arc, time::Duration};

use anyhow::{bail, ensure};
use coordination_core::{
    Backend, HintStream, Holder, LEADER_KEY, LockOutcome, Owner, RenewOutcome, TryLock,
    UnlockOutcome,
};
use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_fence::{Epoch, Incarnation};

/// Of a lock that is not to end by itself.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// No call takes longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// About as long as what the elector stores.
const INFO: &str = r#"{"phase":"leading","host":"127.0.0.1","rpc_port":6381,"http_port":6382}"#;

/// One life of a node, and its way to the lock.
pub(super) struct Contender {
    backend: Arc<dyn Backend>,
    owner: Owner,
}

impl Contender {
    pub(super) fn new(backend: Arc<dyn Backend>, node: &str) -> anyhow::Result<Self> {
        let owner = Owner {
            node: node.parse()?,
            incarnation: Incarnation::random(),
        };
        Ok(Self { backend, owner })
    }

    pub(super) async fn try_lock(
        &self,
        ttl: Duration,
        presumed_dead: Option<(Incarnation, Epoch)>,
    ) -> anyhow::Result<LockOutcome> {
        let request = TryLock {
            key: LEADER_KEY,
            owner: &self.owner,
            ttl,
            floor: Epoch::ZERO,
            info: INFO,
            presumed_dead,
        };
        Ok(self.backend.try_lock(request, deadline()).await?)
    }

    /// Takes a lock that must be free.
    pub(super) async fn lock(&self, ttl: Duration) -> anyhow::Result<Epoch> {
        match self.try_lock(ttl, None).await? {
            LockOutcome::Acquired(acquired) if !acquired.repeated => Ok(acquired.epoch),
            other => bail!("the lock is not free: {other:?}"),
        }
    }

    /// Finds a lock that another must hold.
    pub(super) async fn find_held(&self, ttl: Duration) -> anyhow::Result<Holder> {
        match self.try_lock(ttl, None).await? {
            LockOutcome::Held(holder) => Ok(holder),
            other => bail!("the lock is not held by another: {other:?}"),
        }
    }

    pub(super) async fn renew(&self, epoch: Epoch) -> anyhow::Result<()> {
        let renew = self
            .backend
            .renew_lock(LEADER_KEY, &self.owner, epoch, LONG, INFO, deadline());
        let outcome = renew.await?;
        ensure!(outcome == RenewOutcome::Renewed, "{outcome:?}");
        Ok(())
    }

    pub(super) async fn unlock(&self, epoch: Epoch) -> anyhow::Result<()> {
        let unlock = self
            .backend
            .unlock(LEADER_KEY, &self.owner, epoch, None, deadline());
        let outcome = unlock.await?;
        ensure!(outcome == UnlockOutcome::Unlocked, "{outcome:?}");
        Ok(())
    }

    pub(super) async fn holder(&self) -> anyhow::Result<Option<Holder>> {
        Ok(self.backend.lock_holder(LEADER_KEY, deadline()).await?)
    }

    pub(super) fn watch(&self) -> HintStream {
        self.backend.watch(LEADER_KEY)
    }
}

fn deadline() -> Moment {
    BootClock.now() + PATIENCE
}
