//! I6 and I8: where nothing is wrong there is a leader, and nothing happens.

use std::{collections::BTreeSet, time::Duration};

use super::{Invariant, Violation};
use crate::{
    event::{Entry, Event, Told},
    fault::Fault,
    run::History,
};

/// What a recovery may take beyond a lease.
const SLACK: Duration = Duration::from_millis(200);

/// Gives the time from the end of all faults to the first answer.
pub(super) fn check(history: &History, out: &mut Vec<Violation>) -> Option<u64> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let lease = history.lease;
    // A backend that mints below the epochs that the stores know costs one more lease: nobody can
    // vouch for whoever claimed them.
    let refused = |entry: &Entry| {
        matches!(entry.event, Event::ClaimRefused { .. }) && entry.at + ns(lease) > history.heals_at
    };
    // A probe of the stores that has failed is repeated a cool-down later, which is a lease here.
    let probed = |entry: &Entry| {
        matches!(entry.event, Event::ProbeFailed { .. }) && entry.at + ns(lease) > history.heals_at
    };
    let any = |found: &dyn Fn(&Entry) -> bool| u32::from(history.entries.iter().any(found));
    let more = any(&refused) + any(&probed);
    let bound = lease + more * lease + SLACK;
    let healed = history.heals_at + ns(bound);
    // Clients have waits and timeouts of their own.
    let settled = healed + ns(lease / 4) + ns(SLACK);
    let mut first = None;
    let mut reigns = 0;
    let mut present = 0_u32;
    // A promotion that hangs does so until it is cancelled, whether or not the next one would.
    let (mut promotes, mut hanging) = (None, BTreeSet::new());
    // Nothing has been wrong since, and nobody was answered since.
    let (mut well_since, mut answered) = (0, false);
    for entry in &history.entries {
        let at = entry.at;
        let mut wrong = |invariant, text| {
            out.push(Violation {
                invariant,
                at,
                text,
            });
        };
        // A stretch without faults and without answers.
        let due = present == 0 && hanging.is_empty() && at > well_since + ns(2 * lease + SLACK);
        if due && !answered {
            answered = true;
            wrong(
                Invariant::Liveness,
                format!("nobody was answered for two leases, well since {well_since}"),
            );
        }
        match &entry.event {
            Event::FaultBegan { .. } => present += 1,
            Event::FaultEnded { .. } => {
                present = present.saturating_sub(1);
                (well_since, answered) = (at, false);
            }
            Event::FaultHit { fault } => {
                (well_since, answered) = (at, false);
                let hangs = matches!(
                    fault,
                    Fault::PromoteHangs | Fault::PromoteIgnoresCancel | Fault::PromoteSlow
                );
                hanging.extend(promotes.filter(|_| hangs));
            }
            Event::PromoteBegan { life, .. } => promotes = Some(*life),
            Event::PromoteEnded { life, .. } | Event::Ended { life } if hanging.remove(life) => {
                (well_since, answered) = (at, false);
            }
            Event::Returned { told, request, .. } => {
                if *told != Told::Nothing {
                    answered = true;
                    if at >= history.heals_at && first.is_none() {
                        first = Some(at - history.heals_at);
                    }
                } else if at < history.chaos_at || at > settled {
                    wrong(Invariant::Quiet, format!("{request:?} was not answered"));
                }
            }
            Event::Acquired {
                life,
                epoch,
                repeated: false,
                ..
            } => {
                let quiet = at < history.chaos_at && reigns > 0;
                reigns += 1;
                if quiet || at > healed {
                    wrong(
                        Invariant::Quiet,
                        format!("{life} took the lock, epoch {epoch}"),
                    );
                }
            }
            _ => {}
        }
    }
    if first.is_none_or(|first| first > ns(bound)) && history.heals_at < history.end {
        let text = match first {
            Some(first) => format!("healed after {} ms, lease {lease:?}", first / 1_000_000),
            None => "the cluster did not heal".to_owned(),
        };
        out.push(Violation {
            invariant: Invariant::Liveness,
            at: healed,
            text,
        });
    }
    first
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{history, life},
        *,
    };
    use crate::event::Life;

    /// What is found when a promotion hangs and nothing is answered for five leases.
    fn found(hangs: bool) -> Vec<Invariant> {
        let life: Life = life(0);
        let began = Event::PromoteBegan {
            life,
            epoch: 5,
            cancelled: false,
        };
        let hit = Event::FaultHit {
            fault: Fault::PromoteHangs,
        };
        let ended = Event::PromoteEnded {
            life,
            epoch: 5,
            done: false,
        };
        let mut history = history([began, hit, ended]);
        if !hangs {
            history.entries.remove(1);
        }
        if let Some(last) = history.entries.last_mut() {
            last.at = 5_000_000_000;
        }
        history.end = history.heals_at;
        let mut out = Vec::new();
        check(&history, &mut out);
        out.into_iter().map(|found| found.invariant).collect()
    }

    #[test]
    fn two_leases_without_an_answer_are_found_unless_a_promotion_hangs() {
        assert_eq!(found(false), [Invariant::Liveness]);
        assert_eq!(found(true), []);
    }
}
