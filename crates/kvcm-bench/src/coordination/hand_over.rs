//! From the release of the lock to its acquisition by a waiter.

use anyhow::Context;
use kvcm_clock::{BootClock, Clock, Timer, TokioTimer};
use tokio::sync::oneshot;

use crate::{
    coordination::{
        Options,
        campaign::Campaign,
        contender::{Contender, LONG},
        holder::Holder,
        place::Place,
        report::Measure,
    },
    samples::Samples,
};

/// Woken by the watch, and by nothing but the clock.
pub(super) struct HandOvers {
    pub(super) watch: Measure,
    pub(super) poll: Measure,
}

/// Rounds by watch and by poll take turns, so that both see the same machine. The holder is
/// another process where there can be one.
pub(super) async fn measure(place: &Place, options: &Options) -> anyhow::Result<HandOvers> {
    let waiter = Contender::new(place.backend()?, "waiter")?;
    let mut holder = Holder::start(place)?;
    let mut hints = waiter.watch();
    let loop_interval = options.loop_interval();
    let timer = TokioTimer::new(BootClock);
    let (mut watch, mut poll) = (Vec::new(), Vec::new());
    for round in 0..options.rounds * 2 {
        let by_watch = round % 2 == 0;
        holder.lock().await?;
        let campaign = Campaign {
            contender: &waiter,
            hints: by_watch.then_some(&mut hints),
            loop_interval,
            lease: LONG,
        };
        let (waits, settled) = oneshot::channel();
        let release = async {
            settled.await.context("nobody waits")?;
            // Any time since the last look of a poll is as likely as any other.
            let pause = loop_interval.mul_f64(fastrand::f64());
            timer.sleep_until(BootClock.now() + pause).await;
            holder.unlock().await
        };
        let (taken, asked) = tokio::try_join!(campaign.win(waits), release)?;
        let took = taken.at.since(asked);
        if by_watch { &mut watch } else { &mut poll }.push(took);
        waiter.unlock(taken.epoch).await?;
    }
    let kind = place.kind();
    let samples = |taken: Vec<_>| taken.into_iter().collect::<Samples>();
    let by_poll = format!("hand-over, poll each {} ms", options.loop_interval_ms);
    Ok(HandOvers {
        watch: Measure::new(kind, "hand-over, woken by watch", samples(watch)),
        poll: Measure::new(kind, &by_poll, samples(poll)),
    })
}
