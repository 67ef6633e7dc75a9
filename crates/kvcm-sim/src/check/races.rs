//! Which of the races that elections are known to lose came about.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use coordination_core::ReignEnd;
use elector::Role;

use crate::{
    event::{Event, Life},
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
}

pub(super) fn find(history: &History) -> BTreeMap<Race, u64> {
    let mut found = BTreeMap::new();
    let mut lives: BTreeMap<Life, Now> = BTreeMap::new();
    let mut minted = BTreeSet::new();
    let mut dead = BTreeSet::new();
    let mut holder: Option<Life> = None;
    let mut appended = HashMap::new();
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
                if *role != Role::Leader {
                    now.paused = None;
                }
            }
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
