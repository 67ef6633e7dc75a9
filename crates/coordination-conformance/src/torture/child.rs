//! What a child does: it campaigns, serves, renews and releases without end.

use std::{env, io::Write, sync::Arc, time::Duration};

use coordination_core::{
    Backend, Error, Hint, HintStream, LockOutcome, Owner, RenewOutcome, TryLock, UnlockOutcome,
};
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_fence::{Epoch, Incarnation};
use tokio::time::{sleep, timeout};

use super::event::{Event, What};
use crate::handle::KEY;

/// Tells a child its node id.
pub(super) const NODE: &str = "KVCM_TORTURE_NODE";
/// Tells a child how long its leases are, in milliseconds.
pub(super) const LEASE_MS: &str = "KVCM_TORTURE_LEASE_MS";

/// How often a waiter looks when nothing tells it to.
const LOOP_INTERVAL: Duration = Duration::from_millis(20);
/// How long a call may take.
const CALL_MAX: Duration = Duration::from_secs(2);

/// Whether this process was started by [`Torture::run`](super::Torture::run).
pub fn is_child() -> bool {
    env::var_os(NODE).is_some()
}

/// Contends for the lock and tells of it, until this process is killed.
pub async fn live(backend: Arc<dyn Backend>) -> ! {
    let lease_ms = env::var(LEASE_MS).unwrap().parse().unwrap();
    let mut child = Child {
        owner: Owner {
            node: env::var(NODE).unwrap().parse().unwrap(),
            incarnation: Incarnation::random(),
        },
        lease: Duration::from_millis(lease_ms),
        hints: backend.watch(KEY),
        backend,
    };
    loop {
        let (epoch, end) = child.campaign().await;
        child.lead(epoch, end).await;
        pause(Duration::from_millis(2)).await;
    }
}

struct Child {
    owner: Owner,
    lease: Duration,
    hints: HintStream,
    backend: Arc<dyn Backend>,
}

impl Child {
    /// Tries until it has the lock; the epoch, and when the lease ends at this process.
    async fn campaign(&mut self) -> (Epoch, Moment) {
        self.say_now(What::Campaigns, 0);
        let mut presumed_dead = None;
        loop {
            let since = BootClock.now();
            let request = TryLock {
                key: KEY,
                owner: &self.owner,
                ttl: self.lease,
                floor: Epoch::ZERO,
                info: "",
                presumed_dead,
            };
            let remaining = match self.backend.try_lock(request, since + CALL_MAX).await {
                Ok(LockOutcome::Acquired(acquired)) => {
                    let what = match acquired.previous {
                        _ if acquired.repeated => What::Repeated,
                        Some(previous) => What::Acquired(previous.end.into()),
                        None => What::First,
                    };
                    self.say(what, since, acquired.epoch.get());
                    return (acquired.epoch, self.local_end(since));
                }
                Ok(LockOutcome::Held(holder)) => holder.remaining,
                Ok(LockOutcome::Reserved(reserved)) => panic!("nobody reserves: {reserved:?}"),
                Err(error) => {
                    self.failed(&error);
                    Duration::ZERO
                }
            };
            let wait = LOOP_INTERVAL.min(remaining + Duration::from_millis(1));
            presumed_dead = match timeout(wait, self.hints.next()).await {
                Ok(Some(Hint::HolderDied { incarnation, epoch })) => Some((incarnation, epoch)),
                Ok(Some(Hint::Changed)) | Err(_) => None,
                Ok(None) => panic!("a watch does not end while its backend lives"),
            };
        }
    }

    /// Serves and renews for a while, and releases what it still has.
    async fn lead(&mut self, epoch: Epoch, mut end: Moment) {
        let number = epoch.get();
        for _ in 0..fastrand::u8(0..4) {
            pause(Duration::from_millis(3)).await;
            if !self.serve(number, end) {
                return;
            }
            let since = BootClock.now();
            self.say_now(What::Renews, number);
            let renewal =
                self.backend
                    .renew_lock(KEY, &self.owner, epoch, self.lease, "", since + CALL_MAX);
            match renewal.await {
                Ok(RenewOutcome::Renewed) => {
                    // What comes too late does not bring the lease back.
                    if BootClock.now() < end {
                        end = self.local_end(since);
                    }
                    self.say(What::Renewed, since, number);
                }
                Ok(RenewOutcome::NotHeld | RenewOutcome::HeldByOther(_)) => {
                    return self.say_now(What::Lost, number);
                }
                Err(error) => self.failed(&error),
            }
        }
        if !self.serve(number, end) {
            return;
        }
        let since = BootClock.now();
        self.say_now(What::Releases, number);
        let unlock = self
            .backend
            .unlock(KEY, &self.owner, epoch, None, since + CALL_MAX);
        match unlock.await {
            Ok(UnlockOutcome::Unlocked) => self.say(What::Released, since, number),
            Ok(UnlockOutcome::NotHeld | UnlockOutcome::HeldByOther(_)) => {
                self.say_now(What::Lost, number);
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Whether the own lease lasts. The moment that is told is the one that was compared: the
    /// process may be stopped right after it.
    fn serve(&self, epoch: u64, end: Moment) -> bool {
        let now = BootClock.now();
        let serves = now < end;
        let what = if serves { What::Serves } else { What::Lost };
        self.tell(what, now, now, epoch);
        serves
    }

    /// As the elector counts: from before the request was sent, less drift and margin.
    fn local_end(&self, since: Moment) -> Moment {
        since + (self.lease - self.lease / 1000).saturating_sub(Duration::from_millis(5))
    }

    fn failed(&self, error: &Error) {
        assert!(error.is_retryable(), "{error}");
        eprintln!("{}: {error}", self.owner);
        self.say_now(What::Failed, 0);
    }

    fn say_now(&self, what: What, epoch: u64) {
        let now = BootClock.now();
        self.tell(what, now, now, epoch);
    }

    fn say(&self, what: What, since: Moment, epoch: u64) {
        self.tell(what, since, BootClock.now(), epoch);
    }

    /// One write, so that it is told as a whole or not at all.
    fn tell(&self, what: What, since: Moment, at: Moment, epoch: u64) {
        let event = Event {
            incarnation: self.owner.incarnation.to_string(),
            since: since.as_nanos(),
            at: at.as_nanos(),
            what,
            epoch,
        };
        let line = format!("\n{event}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

async fn pause(longest: Duration) {
    sleep(longest.mul_f64(fastrand::f64())).await;
}
