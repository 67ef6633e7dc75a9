//! One fault, and what the prober sees of it.

use std::time::Duration;

use anyhow::Context;
use kvcm_clock::{BootClock, Clock};

use super::{
    Fault,
    measure::{leaders, longest_gap, stale},
    prober::Prober,
    record::Round,
    setting::Setting,
    system::System,
};
use crate::interrupt::Interrupt;

/// How long the observation goes on when all is well again.
const AFTER: Duration = Duration::from_millis(300);
/// An upper limit for anything that should take some leases.
const LIMIT: Duration = Duration::from_secs(60);

/// Mends what an earlier round has broken, waits until one node leads, and breaks it.
pub(super) fn play(
    system: &mut dyn System,
    setting: &Setting,
    fault: Fault,
    number: u32,
    interrupt: &Interrupt,
) -> anyhow::Result<Round> {
    system.mend()?;
    let granted = system.granted();
    let limit = LIMIT + 5 * granted;
    // No two writes of a run have the same key.
    let prober = Prober::start(
        &system.targets(),
        i64::from(fastrand::u16(..)) << 44,
        interrupt,
    )?;
    let leader = prober.leader(limit)?;
    // At a random moment between two renewals of whoever renews most rarely.
    let phase = u64::try_from(granted.as_millis())? / 3;
    interrupt.sleep(Duration::from_millis(fastrand::u64(..=phase)))?;

    let struck = BootClock.now();
    let recovered = match (fault, fault.outage(granted)) {
        (_, Some(away)) => {
            system.stop_backend(leader)?;
            interrupt.sleep(away)?;
            system.cont_backend(leader)?;
            let back = BootClock.now();
            let recovered = prober.wait_for(limit, |ack| ack.begun > back);
            // Somebody may take over only now.
            interrupt.sleep(granted.min(Duration::from_secs(2)))?;
            recovered
        }
        (Fault::Stop, _) => {
            system.stop(leader)?;
            let recovered = prober.wait_for(limit, |ack| ack.node != leader);
            interrupt.sleep(AFTER)?;
            system.cont(leader)?;
            // It finds out that it does not lead any more, or goes on writing.
            interrupt.sleep(granted.min(Duration::from_secs(1)))?;
            recovered
        }
        (Fault::HandOver, _) => {
            system.hand_over(leader)?;
            prober.wait_for(limit, |ack| ack.node != leader)
        }
        _ => {
            system.kill(leader)?;
            prober.wait_for(limit, |ack| ack.node != leader)
        }
    };
    interrupt.sleep(AFTER)?;
    // Whoever was back for a moment only is waited for again.
    let recovered = recovered && prober.leader(limit).is_ok();
    // Then there was nothing that could have been seen.
    interrupt.check()?;
    let ended = BootClock.now();
    let seen = prober.finish();
    let gap = longest_gap(&seen.acks, struck, ended).context("nobody wrote before the fault")?;
    let (from, to) = leaders(&seen.acks, struck).context("nobody wrote before the fault")?;
    let unknown = seen.unknown.iter().filter(|moment| **moment >= struck);
    Ok(Round {
        system: setting.kind,
        lane: setting.lane,
        lease_ms: setting.lease_ms(),
        granted_ms: u64::try_from(granted.as_millis())?,
        fault,
        round: number,
        gap_us: u64::try_from(gap.as_micros())?,
        recovered,
        changed: from != to,
        stale: stale(&seen.acks, from, to) as u64,
        unknown: unknown.count() as u64,
        writes: seen.acks.len() as u64,
    })
}
