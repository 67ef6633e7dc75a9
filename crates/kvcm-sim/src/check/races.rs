//! Which of the races that elections are known to lose came about.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use coordination_core::ReignEnd;
use elector::Role;

use crate::{
    event::{Event, Life, Transferred},
    run::History,
};

/// A race by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Race {
    /// The lock was lost after it was won and before the promote callback began.
    LostBeforePromotion,
    /// The lock was lost while the promote callback ran, which went on although it was cancelled.
    LostDuringPromotion,
    /// While the promote callback of a lost epoch still ran, the backend gave its node the lock.
    RegainedDuringPromotion,
    /// While the demote callback ran, the backend gave its node the lock.
    RegainedDuringDemotion,
    /// The good answer to a renewal came after the lease that it was to extend.
    LateRenewal,
    /// A leader did not run for longer than its lease.
    PausedAcrossLease,
    /// The backend minted an epoch a second time.
    EpochMintedTwice,
    /// The holder got its lock a second time: an answer was lost, or a command came twice.
    LockRepeated,
    /// A dead process got the lock: its command came late.
    LockForTheDead,
    /// A node began while its own former life held the lock.
    FormerLifeHolds,
    /// A store refused a claim.
    ClaimRefused,
    /// A store refused the record of a leader that was superseded.
    RecordRefused,
    /// A node won the lock after an end that nobody could vouch for.
    Unproven,
    /// The lock was won after its release.
    WonAfterRelease,
    /// The lock was won after its lease had ended.
    WonAfterExpiry,
    /// The lock was won by the proof that its holder is dead.
    WonAfterDeath,
    /// A reign ended between the evaluation of a read and its answer.
    ReadUnconfirmed,
    /// A promote callback ignored its cancellation until its process was ended.
    Aborted,
    /// A drain ended with requests in flight.
    DrainedLate,
    /// A leader answered a request whose effect was of an earlier reign.
    AnsweredFromBefore,
    /// A promotion was called off and its node led again later.
    LedAfterFailure,
    /// The successor of a transfer was seen to hold the lock.
    TransferTaken,
    /// The lock was kept for a successor that did not take it in time.
    ReservationUnused,
    /// A successor died while the lock was kept for it.
    SuccessorDiedReserved,
    /// An operator took a transfer back, and the reign went on.
    ReopenedAfterCancel,
    /// A transfer was given up for its successor could no longer take over, and the reign went on.
    ReopenedAfterUnfit,
    /// Requests were in flight for too long for a transfer, and the reign went on.
    ReopenedAfterInFlight,
    /// An operator took a transfer back when the lock was already released.
    CancelledTooLate,
    /// The lock was lost while a transfer was under way.
    TransferCrossedByLoss,
    /// A transfer became a step-down.
    TransferMadeFirm,
    /// A node that leads was not kept out.
    KeepingRefused,
    /// A node was demoted and kept out in one step.
    SteppedDownAndKeptOut,
    /// A node that had been kept out led again in the same life.
    LedAfterLetIn,
    /// A node led although it could not serve by its own word.
    LedUnready,
}

impl Race {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::LostBeforePromotion,
        Self::LostDuringPromotion,
        Self::RegainedDuringPromotion,
        Self::RegainedDuringDemotion,
        Self::LateRenewal,
        Self::PausedAcrossLease,
        Self::EpochMintedTwice,
        Self::LockRepeated,
        Self::LockForTheDead,
        Self::FormerLifeHolds,
        Self::ClaimRefused,
        Self::RecordRefused,
        Self::Unproven,
        Self::WonAfterRelease,
        Self::WonAfterExpiry,
        Self::WonAfterDeath,
        Self::ReadUnconfirmed,
        Self::Aborted,
        Self::DrainedLate,
        Self::AnsweredFromBefore,
        Self::LedAfterFailure,
        Self::TransferTaken,
        Self::ReservationUnused,
        Self::SuccessorDiedReserved,
        Self::ReopenedAfterCancel,
        Self::ReopenedAfterUnfit,
        Self::ReopenedAfterInFlight,
        Self::CancelledTooLate,
        Self::TransferCrossedByLoss,
        Self::TransferMadeFirm,
        Self::KeepingRefused,
        Self::SteppedDownAndKeptOut,
        Self::LedAfterLetIn,
        Self::LedUnready,
    ];
}

/// What a life is at.
#[derive(Default)]
struct Now {
    promoting: Option<u64>,
    demoting: bool,
    leads: Option<u64>,
    paused: Option<u64>,
    failed: bool,
    /// The race that is reached when the same reign serves again.
    reopens: Option<(Race, u64)>,
    /// It has released its lock for a successor, and a transfer is still to be answered.
    reserved: bool,
    kept_out: bool,
    unready: bool,
}

pub(super) fn find(history: &History) -> BTreeMap<Race, u64> {
    let mut found = BTreeMap::new();
    let mut lives: BTreeMap<Life, Now> = BTreeMap::new();
    let mut minted = BTreeSet::new();
    let mut dead = BTreeSet::new();
    let mut holder: Option<Life> = None;
    let mut appended = HashMap::new();
    // For which place the lock is kept.
    let mut kept_for = None;
    let mut reach = |race| *found.entry(race).or_insert(0) += 1;
    let lease = u64::try_from(history.lease.as_nanos()).unwrap_or(u64::MAX);
    for entry in &history.entries {
        match &entry.event {
            Event::Acquired {
                life,
                epoch,
                previous,
                repeated,
            } => {
                if dead.contains(life) {
                    reach(Race::LockForTheDead);
                }
                let now = lives.entry(*life).or_default();
                if *repeated {
                    reach(Race::LockRepeated);
                } else {
                    if !minted.insert(*epoch) {
                        reach(Race::EpochMintedTwice);
                    }
                    match previous {
                        Some(ReignEnd::Released) => reach(Race::WonAfterRelease),
                        Some(ReignEnd::Expired) => reach(Race::WonAfterExpiry),
                        Some(ReignEnd::Dead) => reach(Race::WonAfterDeath),
                        Some(ReignEnd::Unknown) | None => {}
                    }
                    if now.promoting.is_some_and(|promoting| promoting != *epoch) {
                        reach(Race::RegainedDuringPromotion);
                    }
                    if now.demoting {
                        reach(Race::RegainedDuringDemotion);
                    }
                }
                holder = Some(*life);
                kept_for = None;
            }
            Event::Released { .. } => holder = None,
            Event::Started { life, .. } => {
                let former = holder.filter(|holder| holder.node == life.node);
                if former.is_some_and(|former| dead.contains(&former)) {
                    reach(Race::FormerLifeHolds);
                }
            }
            Event::Ended { life } => {
                dead.insert(*life);
                if kept_for == Some(life.node) {
                    reach(Race::SuccessorDiedReserved);
                    kept_for = None;
                }
            }
            Event::Aborted { .. } => reach(Race::Aborted),
            Event::DrainedLate { .. } => reach(Race::DrainedLate),
            Event::Unproven { .. } => reach(Race::Unproven),
            Event::RenewalHeard { .. } => reach(Race::LateRenewal),
            Event::ClaimRefused { .. } => reach(Race::ClaimRefused),
            Event::AppendRefused { .. } => reach(Race::RecordRefused),
            Event::Unconfirmed { .. } => reach(Race::ReadUnconfirmed),
            Event::PromoteBegan {
                life,
                epoch,
                cancelled,
            } => {
                if *cancelled {
                    reach(Race::LostBeforePromotion);
                }
                lives.entry(*life).or_default().promoting = Some(*epoch);
            }
            Event::PromoteEnded { life, done, .. } => {
                let now = lives.entry(*life).or_default();
                now.promoting = None;
                now.failed |= !done;
                if *done && now.leads.is_none() {
                    reach(Race::LostDuringPromotion);
                }
            }
            Event::DemoteBegan { life, .. } => {
                let now = lives.entry(*life).or_default();
                (now.promoting, now.demoting) = (None, true);
            }
            Event::DemoteEnded { life, .. } => lives.entry(*life).or_default().demoting = false,
            Event::Role { life, role, epoch } => {
                let now = lives.entry(*life).or_default();
                now.leads = *epoch;
                if *role == Role::Leader && std::mem::take(&mut now.failed) {
                    reach(Race::LedAfterFailure);
                }
                if *role == Role::Leader {
                    if std::mem::take(&mut now.kept_out) {
                        reach(Race::LedAfterLetIn);
                    }
                    if now.unready {
                        reach(Race::LedUnready);
                    }
                } else {
                    now.paused = None;
                }
            }
            Event::Reserved { life, to, .. } => {
                kept_for = Some(*to);
                lives.entry(*life).or_default().reserved = true;
            }
            Event::TransferCancelled { life }
                if lives.get(life).is_some_and(|now| now.reserved) =>
            {
                reach(Race::CancelledTooLate);
            }
            Event::TransferEnded { life, end } => {
                let now = lives.entry(*life).or_default();
                now.reserved = false;
                let mut reopens = |race| now.reopens = now.leads.map(|epoch| (race, epoch));
                match end {
                    Transferred::Refused => {}
                    Transferred::Taken(_) => reach(Race::TransferTaken),
                    Transferred::NotTaken => reach(Race::ReservationUnused),
                    Transferred::Cancelled => reopens(Race::ReopenedAfterCancel),
                    Transferred::Unfit => reopens(Race::ReopenedAfterUnfit),
                    Transferred::InFlight => reopens(Race::ReopenedAfterInFlight),
                    Transferred::SteppedDown => reach(Race::TransferMadeFirm),
                    Transferred::Lost => reach(Race::TransferCrossedByLoss),
                }
            }
            Event::Admitted { life, epoch, .. } => {
                let now = lives.entry(*life).or_default();
                if let Some((race, _)) = now.reopens.take_if(|(_, reopened)| reopened == epoch) {
                    reach(race);
                }
            }
            Event::KeptOut { life, stepped_down } => {
                lives.entry(*life).or_default().kept_out = true;
                if *stepped_down {
                    reach(Race::SteppedDownAndKeptOut);
                }
            }
            Event::KeepingRefused { .. } => reach(Race::KeepingRefused),
            Event::Ready { life, ready } => lives.entry(*life).or_default().unready = !ready,
            Event::Paused { life } => {
                let now = lives.entry(*life).or_default();
                now.paused = now.leads.map(|_| entry.at);
            }
            Event::Resumed { life } => {
                let since = lives.entry(*life).or_default().paused.take();
                if since.is_some_and(|since| entry.at > since + lease) {
                    reach(Race::PausedAcrossLease);
                }
            }
            Event::Appended { epoch, request, .. } => {
                appended.insert(*request, *epoch);
            }
            Event::Answered { life, request, .. } => {
                let leads = lives.get(life).and_then(|now| now.leads);
                let before = appended.get(request).copied();
                if leads.is_some() && before.is_some() && before < leads {
                    reach(Race::AnsweredFromBefore);
                }
            }
            _ => {}
        }
    }
    found
}
