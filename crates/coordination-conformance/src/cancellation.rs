//! Calls that are given up, at every point where they can be.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use coordination_core::{DeleteOutcome, Expect, RenewOutcome, UnlockOutcome};
use kvcm_fence::Epoch;

use crate::{
    Subject,
    handle::{Handle, LONG, acquired, owner},
};

/// No call waits more often than that.
const WAITS_MAX: u32 = 1000;

/// A lock operation that was dropped has happened or not; either way the lock has one holder at
/// most, its holder can use it, and it becomes free again.
pub async fn a_lock_operation_may_be_dropped_wherever_it_waits(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let (a, b) = (owner("a", 1), owner("b", 2));
    let mut last = Epoch::ZERO;
    drop(one.try_lock(&a, LONG));
    for drops in Drops::all() {
        let mut completed = true;
        completed &= drops.run(one.try_lock(&a, LONG)).await;
        // The same caller finds out what became of it.
        let epoch = one.acquire(&a, LONG).await.epoch;
        assert!(epoch > last, "{drops:?}");
        completed &= drops.run(one.renew(&a, epoch, LONG, "renewed")).await;
        assert_eq!(one.renew(&a, epoch, LONG, "").await, RenewOutcome::Renewed);
        completed &= drops.run(one.holder()).await;
        let holder = one.holder().await.unwrap();
        assert_eq!((&holder.owner, holder.epoch), (&a, epoch), "{drops:?}");
        completed &= drops.run(one.unlock(&a, epoch)).await;
        let unlocked = one.unlock(&a, epoch).await;
        assert!(
            matches!(unlocked, UnlockOutcome::Unlocked | UnlockOutcome::NotHeld),
            "{drops:?}: {unlocked:?}"
        );
        let other = acquired(two.try_lock(&b, LONG).await).epoch;
        assert!(other > epoch, "{drops:?}");
        assert_eq!(two.unlock(&b, other).await, UnlockOutcome::Unlocked);
        last = other;
        if drops.are_over(completed) {
            break;
        }
    }
}

/// The same of values: what is set afterwards stays.
pub async fn a_value_operation_may_be_dropped_wherever_it_waits(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let mut last = 0;
    for drops in Drops::all() {
        let mut completed = true;
        completed &= drops.run(one.set("k", "dropped", None, Expect::Any)).await;
        let version = one.store("k", "kept").await;
        assert!(version > last, "{drops:?}");
        last = version;
        completed &= drops.run(one.get("k")).await;
        completed &= drops.run(one.list("")).await;
        let listed = two.list("").await;
        let texts: Vec<_> = listed.iter().map(|(_, v)| v.text.as_str()).collect();
        assert_eq!(texts, ["kept"], "{drops:?}");
        completed &= drops.run(one.delete("k", Expect::Any)).await;
        let deleted = one.delete("k", Expect::Any).await;
        assert!(
            matches!(deleted, DeleteOutcome::Deleted | DeleteOutcome::Absent),
            "{drops:?}: {deleted:?}"
        );
        assert_eq!(two.get("k").await, None, "{drops:?}");
        if drops.are_over(completed) {
            break;
        }
    }
}

/// When calls are dropped.
#[derive(Clone, Copy, Debug)]
struct Drops {
    /// After so many waits.
    waits: u32,
    /// Not before the wait is over: what it waited for has come, and is not looked at.
    when_woken: bool,
}

impl Drops {
    fn all() -> impl Iterator<Item = Self> {
        (1..WAITS_MAX).flat_map(|waits| [false, true].map(|when_woken| Self { waits, when_woken }))
    }

    /// Runs a call until it is to be dropped; whether it has completed.
    async fn run<T>(self, call: impl Future<Output = T>) -> bool {
        let mut call = pin!(call);
        let mut waited = 0;
        poll_fn(|context| {
            if waited == self.waits {
                return Poll::Ready(false);
            }
            if call.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            waited += 1;
            if waited == self.waits && !self.when_woken {
                return Poll::Ready(false);
            }
            Poll::Pending
        })
        .await
    }

    /// Whether no call waits as often as this any more.
    fn are_over(self, completed: bool) -> bool {
        assert!(self.waits + 1 < WAITS_MAX, "calls never complete");
        self.when_woken && completed
    }
}
