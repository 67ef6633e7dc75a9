//! Single calls.

use std::time::Duration;

use anyhow::ensure;
use kvcm_clock::{BootClock, Clock};

use crate::{
    coordination::{
        Options,
        contender::{Contender, LONG},
        place::Place,
        report::Measure,
    },
    samples::Stopwatch,
};

/// A slow disk gets fewer calls rather than more time.
const TIME_MAX: Duration = Duration::from_secs(30);

pub(super) async fn measure(place: &Place, options: &Options) -> anyhow::Result<Vec<Measure>> {
    let a = Contender::new(place.backend()?, "a")?;
    let b = Contender::new(place.backend()?, "b")?;
    let kind = place.kind();
    // Connections are opened by the first call.
    let epoch = b.lock(LONG).await?;
    b.unlock(epoch).await?;

    let (mut free, mut unlock) = (Stopwatch::new(), Stopwatch::new());
    let end = BootClock.now() + TIME_MAX;
    for _ in 0..options.calls {
        let epoch = free.time(a.lock(LONG)).await?;
        unlock.time(a.unlock(epoch)).await?;
        if BootClock.now() > end {
            break;
        }
    }

    let epoch = a.lock(LONG).await?;
    let (mut held, mut renew, mut holder) = (Stopwatch::new(), Stopwatch::new(), Stopwatch::new());
    let end = BootClock.now() + TIME_MAX;
    for _ in 0..options.calls {
        held.time(b.find_held(LONG)).await?;
        renew.time(a.renew(epoch)).await?;
        let found = holder.time(b.holder()).await?;
        ensure!(found.is_some_and(|found| found.epoch == epoch), "lost");
        if BootClock.now() > end {
            break;
        }
    }
    a.unlock(epoch).await?;
    Ok(vec![
        Measure::new(kind, "try_lock, held by another", held.samples()),
        Measure::new(kind, "try_lock, free", free.samples()),
        Measure::new(kind, "renew_lock", renew.samples()),
        Measure::new(kind, "lock_holder", holder.samples()),
        Measure::new(kind, "unlock", unlock.samples()),
    ])
}
