//! Hints come without polling.
//!
//! A single hint may be lost, so each check repeats its change until one comes; that none ever
//! comes is the fault.

use std::time::Duration;

use coordination_core::{HintStream, RenewOutcome, UnlockOutcome};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::{
    Subject,
    handle::{Handle, KEY, LONG, owner},
};

/// Followers campaign when the leader has released the lock.
pub async fn a_release_wakes(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let a = owner("a", 1);
    let mut hints = two.backend.watch(KEY);
    wakes(&mut hints, async |hints| {
        let epoch = one.acquire(&a, LONG).await.epoch;
        quiet(hints).await;
        assert_eq!(one.unlock(&a, epoch).await, UnlockOutcome::Unlocked);
    })
    .await;
}

/// Followers learn of a new leader.
pub async fn an_acquisition_wakes(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let a = owner("a", 1);
    let mut hints = two.backend.watch(KEY);
    wakes(&mut hints, async |hints| {
        if let Some(holder) = one.holder().await {
            one.unlock(&a, holder.epoch).await;
        }
        quiet(hints).await;
        one.acquire(&a, LONG).await;
    })
    .await;
}

/// Followers learn when a new leader starts to serve.
pub async fn a_changed_info_wakes(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let a = owner("a", 1);
    let epoch = one.acquire(&a, LONG).await.epoch;
    let mut hints = two.backend.watch(KEY);
    let mut count = 0u32;
    wakes(&mut hints, async |hints| {
        count += 1;
        quiet(hints).await;
        let renewed = one.renew(&a, epoch, LONG, &count.to_string()).await;
        assert_eq!(renewed, RenewOutcome::Renewed);
    })
    .await;
}

/// Makes the change until a hint follows it.
async fn wakes(hints: &mut HintStream, mut change: impl AsyncFnMut(&mut HintStream)) {
    for _ in 0..40 {
        change(hints).await;
        if let Ok(hint) = timeout(Duration::from_millis(500), hints.next()).await {
            hint.expect("a watch does not end while its backend lives");
            return;
        }
    }
    panic!("no hint followed any of 40 changes");
}

/// Waits until hints about earlier changes have come.
async fn quiet(hints: &mut HintStream) {
    while let Ok(Some(_)) = timeout(Duration::from_millis(50), hints.next()).await {}
}
