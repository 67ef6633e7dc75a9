//! From SIGKILL of the holder to the takeover by proof of its death.

use std::time::Duration;

use anyhow::Context;
use kvcm_clock::{BootClock, Clock, Timer, TokioTimer};
use tokio::sync::oneshot;

use crate::coordination::{
    Options,
    campaign::Campaign,
    contender::{Contender, LONG},
    holder::Other,
    place::Place,
    report::{Goal, Measure},
};

/// The waiter has time to find out whose death to wait for.
const SETTLING: Duration = Duration::from_millis(50);

/// Each holder is a process of its own whose lease would last for minutes.
pub(super) async fn measure(place: &Place, options: &Options) -> anyhow::Result<Measure> {
    let uri = place.uri().context("no other process can take part")?;
    let waiter = Contender::new(place.backend()?, "waiter")?;
    let mut hints = waiter.watch();
    let timer = TokioTimer::new(BootClock);
    let mut took = Vec::new();
    for _ in 0..options.deaths {
        let mut holder = Other::start(&uri)?;
        holder.lock().await?;
        let campaign = Campaign {
            contender: &waiter,
            hints: Some(&mut hints),
            loop_interval: options.loop_interval(),
            lease: LONG,
        };
        let (waits, settled) = oneshot::channel();
        let kill = async {
            settled.await.context("nobody waits")?;
            let pause = SETTLING.mul_f64(1.0 + fastrand::f64());
            timer.sleep_until(BootClock.now() + pause).await;
            let killed = BootClock.now();
            holder.kill()?;
            Ok(killed)
        };
        let (taken, killed) = tokio::try_join!(campaign.win(waits), kill)?;
        took.push(taken.at.since(killed));
        waiter.unlock(taken.epoch).await?;
    }
    let what = "takeover, after SIGKILL of the holder";
    let measure = Measure::new(place.kind(), what, took.into_iter().collect());
    Ok(measure.with(Goal::p50_ms(40)))
}
