//! Waiting for the lock as the elector does.

use std::time::Duration;

use anyhow::{Context, bail};
use coordination_core::{Hint, HintStream, LockOutcome};
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock, Moment, Timer, TokioTimer};
use kvcm_fence::{Epoch, Incarnation};
use tokio::sync::oneshot;

use crate::coordination::contender::Contender;

/// The end of a lease is told in whole milliseconds.
const RESOLUTION: Duration = Duration::from_millis(1);
/// A lock that cannot be had by then never will.
const TRIES_MAX: u32 = 10_000;

/// How a waiter learns that it is time to try again.
pub(super) struct Campaign<'a> {
    pub(super) contender: &'a Contender,
    /// None for one that only polls.
    pub(super) hints: Option<&'a mut HintStream>,
    pub(super) loop_interval: Duration,
    /// The lease that it asks for.
    pub(super) lease: Duration,
}

/// A lock that was had.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) at: Moment,
    pub(super) epoch: Epoch,
}

impl Campaign<'_> {
    /// Tries until the lock is had: on each hint, when the lease of the holder ends, and each
    /// loop interval. `waits` is told when the first try has found it held.
    pub(super) async fn win(mut self, waits: oneshot::Sender<()>) -> anyhow::Result<Taken> {
        let mut waits = Some(waits);
        let mut presumed_dead = None;
        let timer = TokioTimer::new(BootClock);
        for _ in 0..TRIES_MAX {
            let outcome = self.contender.try_lock(self.lease, presumed_dead).await?;
            let now = BootClock.now();
            let holder = match outcome {
                LockOutcome::Acquired(acquired) => {
                    let epoch = acquired.epoch;
                    return Ok(Taken { at: now, epoch });
                }
                LockOutcome::Held(holder) => holder,
                LockOutcome::Reserved(reserved) => bail!("nobody reserved it: {reserved:?}"),
            };
            if let Some(waits) = waits.take() {
                // Fails only when nobody wants to know.
                let _ = waits.send(());
            }
            let pause = self.loop_interval.min(holder.remaining + RESOLUTION);
            presumed_dead = tokio::select! {
                dead = hint(&mut self.hints) => dead?,
                () = timer.sleep_until(now + pause) => None,
            };
        }
        bail!("the lock was not had in {TRIES_MAX} tries")
    }
}

/// The next hint; who is dead by it, if anybody.
async fn hint(hints: &mut Option<&mut HintStream>) -> anyhow::Result<Option<(Incarnation, Epoch)>> {
    let Some(hints) = hints else {
        return std::future::pending().await;
    };
    Ok(match hints.next().await.context("no more hints come")? {
        Hint::Changed => None,
        Hint::HolderDied { incarnation, epoch } => Some((incarnation, epoch)),
    })
}
