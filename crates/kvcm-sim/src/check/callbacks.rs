//! I5: promote and demote callbacks alternate.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::{
    event::{Event, Life},
    run::History,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Promoting(u64),
    Promoted(u64),
    Demoting(u64),
}

/// Epochs rise, too: none is led in twice by one life.
pub(super) fn check(history: &History, out: &mut Vec<Violation>) {
    let mut states: BTreeMap<Life, (State, u64)> = BTreeMap::new();
    for entry in &history.entries {
        let (life, epoch, from, to) = match entry.event {
            Event::PromoteBegan { life, epoch, .. } => {
                (life, epoch, State::Idle, State::Promoting(epoch))
            }
            Event::PromoteEnded { life, epoch, .. } => {
                (life, epoch, State::Promoting(epoch), State::Promoted(epoch))
            }
            Event::DemoteBegan { life, epoch } => {
                (life, epoch, State::Promoted(epoch), State::Demoting(epoch))
            }
            Event::DemoteEnded { life, epoch } => {
                (life, epoch, State::Demoting(epoch), State::Idle)
            }
            _ => continue,
        };
        let (state, highest) = states.entry(life).or_insert((State::Idle, 0));
        let panicked =
            matches!(entry.event, Event::DemoteBegan { .. }) && *state == State::Promoting(epoch);
        let again = matches!(entry.event, Event::PromoteBegan { .. }) && epoch <= *highest;
        if (*state != from && !panicked) || again {
            out.push(Violation {
                invariant: Invariant::HandlerAlternation,
                at: entry.at,
                text: format!("{:?} in state {state:?}", entry.event),
            });
        }
        *state = to;
        *highest = epoch.max(*highest);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{broken, life},
        *,
    };

    #[test]
    fn each_promotion_is_followed_by_its_demotion_and_nothing_overlaps() {
        let (life, epoch) = (life(0), 5);
        let began = |epoch| Event::PromoteBegan {
            life,
            epoch,
            cancelled: false,
        };
        let ended = Event::PromoteEnded {
            life,
            epoch,
            done: true,
        };
        let demoting = Event::DemoteBegan { life, epoch };
        let demoted = Event::DemoteEnded { life, epoch };
        let reign = [began(5), ended, demoting.clone(), demoted.clone()];
        let [a, b, c, d] = reign.clone();
        assert_eq!(broken(check, [a, b, c, d, began(6)]), []);
        assert_eq!(broken(check, [began(5), demoting.clone()]), [], "a panic");
        for skipped in 0..3 {
            let mut events = reign.to_vec();
            events.push(began(6));
            events.remove(skipped + 1);
            // Without the end of the promotion it looks like a panic.
            let expected = usize::from(skipped > 0);
            assert_eq!(broken(check, events).len(), expected, "{skipped}");
        }
        assert!(!broken(check, [demoting, demoted]).is_empty());
        let mut twice = reign.to_vec();
        twice.extend(reign);
        assert_eq!(broken(check, twice), [Invariant::HandlerAlternation]);
    }
}
