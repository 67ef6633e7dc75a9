//! What operators were told is so.

use std::collections::{BTreeMap, BTreeSet};

use super::{Invariant, Violation};
use crate::{
    event::{Event, Life, Transferred},
    run::History,
};

/// A node that is kept out serves nothing, a transfer that was answered with an epoch has reached
/// its successor, and what a drain has stopped is taken up again when the reign goes on.
pub(super) fn check(history: &History, out: &mut Vec<Violation>) {
    let mut wrong = |at, text| {
        out.push(Violation {
            invariant: Invariant::OperatorsObeyed,
            at,
            text,
        });
    };
    let mut kept_out = BTreeMap::new();
    let mut successors = BTreeMap::new();
    let mut owners = BTreeMap::new();
    let mut quiesced = BTreeMap::new();
    let lease = u64::try_from(history.lease.as_nanos()).unwrap_or(u64::MAX);
    for entry in &history.entries {
        let at = entry.at;
        match entry.event {
            Event::KeptOut { life, .. } => {
                kept_out.insert(life, at);
            }
            Event::LetIn { life } => {
                kept_out.remove(&life);
            }
            Event::Acquired { life, epoch, .. } => {
                owners.insert(epoch, life);
            }
            Event::TransferAsked { life, to } => {
                successors
                    .entry(life)
                    .or_insert_with(BTreeSet::new)
                    .insert(to);
            }
            Event::TransferEnded {
                life,
                end: Transferred::Taken(epoch),
            } => {
                let owner: Option<&Life> = owners.get(&epoch);
                let asked = successors.get(&life);
                let is_asked = |owner: &Life| asked.is_some_and(|to| to.contains(&owner.node));
                if !owner.is_some_and(is_asked) {
                    wrong(at, format!("{life} handed epoch {epoch} over to {owner:?}"));
                }
            }
            Event::Quiesced { life, epoch } => {
                quiesced.insert(life, (epoch, at));
            }
            Event::TakenUp { life, epoch } => match quiesced.remove(&life) {
                Some((stopped, _)) if stopped == epoch => {}
                other => wrong(at, format!("{life} took up {epoch}, stopped was {other:?}")),
            },
            Event::Admitted { life, epoch, .. } => {
                if let Some(since) = kept_out.get(&life) {
                    let text = format!("{life} serves in {epoch}, kept out since {since}");
                    wrong(at, text);
                }
                // Admitted long after the drain: the reign goes on.
                if at > history.heals_at.saturating_add(lease)
                    && let Some((_, since)) = quiesced
                        .remove(&life)
                        .filter(|(stopped, _)| *stopped == epoch)
                    && at > since.saturating_add(lease)
                {
                    wrong(
                        at,
                        format!("{life} serves in {epoch}, stopped since {since}"),
                    );
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{broken, life},
        *,
    };
    use crate::event::RequestId;

    fn admitted(node: usize) -> Event {
        Event::Admitted {
            life: life(node),
            epoch: 5,
            request: RequestId(1),
        }
    }

    #[test]
    fn a_node_that_is_kept_out_serves_nothing() {
        let kept_out = Event::KeptOut {
            life: life(0),
            stepped_down: true,
        };
        let let_in = Event::LetIn { life: life(0) };
        let disobeys = [kept_out.clone(), admitted(0)];
        assert_eq!(broken(check, disobeys), [Invariant::OperatorsObeyed]);
        assert_eq!(broken(check, [kept_out.clone(), admitted(1)]), []);
        assert_eq!(broken(check, [kept_out, let_in, admitted(0)]), []);
    }

    #[test]
    fn a_transfer_that_has_succeeded_has_reached_its_successor() {
        let asked = Event::TransferAsked {
            life: life(0),
            to: 1,
        };
        let acquired = |node| Event::Acquired {
            life: life(node),
            epoch: 6,
            previous: None,
            repeated: false,
        };
        let ended = Event::TransferEnded {
            life: life(0),
            end: Transferred::Taken(6),
        };
        assert_eq!(
            broken(check, [asked.clone(), acquired(1), ended.clone()]),
            []
        );
        assert_eq!(
            broken(check, [asked, acquired(2), ended]),
            [Invariant::OperatorsObeyed]
        );
    }

    #[test]
    fn what_was_not_stopped_is_not_taken_up() {
        let stopped = |epoch| Event::Quiesced {
            life: life(0),
            epoch,
        };
        let taken_up = Event::TakenUp {
            life: life(0),
            epoch: 5,
        };
        assert_eq!(broken(check, [stopped(5), taken_up.clone()]), []);
        assert_eq!(
            broken(check, [stopped(4), taken_up]),
            [Invariant::OperatorsObeyed]
        );
    }
}
