//! How late a lock is taken whose holder does not renew any more.

use anyhow::ensure;
use kvcm_clock::{BootClock, Clock};
use tokio::sync::oneshot;

use crate::coordination::{
    Options,
    campaign::Campaign,
    contender::{Contender, LONG},
    place::Place,
    report::{Goal, Measure},
};

/// The lease counts from when the holder asked for it: what the way to the backend takes is part
/// of the lateness.
pub(super) async fn measure(place: &Place, options: &Options) -> anyhow::Result<Measure> {
    let dead = Contender::new(place.backend()?, "dead")?;
    let waiter = Contender::new(place.backend()?, "waiter")?;
    let lease = options.lease();
    let mut late = Vec::new();
    for _ in 0..options.deaths {
        let asked = BootClock.now();
        let first = dead.lock(lease).await?;
        let campaign = Campaign {
            contender: &waiter,
            hints: None,
            loop_interval: options.loop_interval(),
            lease: LONG,
        };
        let (waits, _) = oneshot::channel();
        let taken = campaign.win(waits).await?;
        let end = asked + lease;
        ensure!(
            taken.at >= end && taken.epoch > first,
            "the lock was taken before its lease had ended"
        );
        late.push(taken.at.since(end));
        waiter.unlock(taken.epoch).await?;
    }
    let what = format!("takeover, after the end of a {} ms lease", options.lease_ms);
    let measure = Measure::new(place.kind(), &what, late.into_iter().collect());
    Ok(measure.with(Goal::p99_ms(15)))
}
