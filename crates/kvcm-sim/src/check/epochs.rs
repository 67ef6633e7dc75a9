//! I1: epochs have one owner and rise.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::{
    event::{Event, Life},
    fault::Fault,
    run::History,
};

/// The backend may mint an epoch again once it has lost data; stores and gates never let two
/// owners act in it.
pub(super) fn check(history: &History, out: &mut Vec<Violation>) {
    let mut wrong = |at, text| {
        out.push(Violation {
            invariant: Invariant::ExclusiveEpoch,
            at,
            text,
        });
    };
    let mut minted = 0;
    let mut excused = false;
    let mut owners: BTreeMap<u64, Life> = BTreeMap::new();
    let mut claims: BTreeMap<usize, u64> = BTreeMap::new();
    for entry in &history.entries {
        let at = entry.at;
        match &entry.event {
            Event::FaultHit { fault } if loses_epochs(*fault) => excused = true,
            Event::Acquired {
                life,
                epoch,
                repeated: false,
                ..
            } => {
                if *epoch > minted {
                    minted = *epoch;
                    excused = false;
                } else if !excused {
                    wrong(at, format!("{life} acquired epoch {epoch} after {minted}"));
                }
            }
            // A fence that is lost refuses no claim; records it refuses.
            Event::FaultHit {
                fault: Fault::FenceLost,
            } => claims.clear(),
            Event::Claimed { store, life, epoch } => {
                let last = claims.insert(*store, *epoch).unwrap_or(0);
                if last >= *epoch {
                    let text = format!("{life} claimed store {store} in {epoch} after {last}");
                    wrong(at, text);
                }
            }
            Event::Admitted { life, epoch, .. }
            | Event::Confirmed { life, epoch, .. }
            | Event::Appended { life, epoch, .. } => {
                let owner = *owners.entry(*epoch).or_insert(*life);
                if owner != *life {
                    wrong(at, format!("{life} acts in epoch {epoch} of {owner}"));
                }
            }
            _ => {}
        }
    }
}

/// After which the backend may mint lower epochs than before.
pub(super) const fn loses_epochs(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::DataLost | Fault::DataLostClockBehind | Fault::CounterLost | Fault::DataRolledBack
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{broken, life},
        *,
    };

    fn acquired(node: usize, epoch: u64) -> Event {
        Event::Acquired {
            life: life(node),
            epoch,
            previous: None,
            repeated: false,
        }
    }

    #[test]
    fn an_epoch_minted_twice_is_found_unless_the_backend_lost_its_data() {
        let twice = [acquired(0, 5), acquired(1, 5)];
        assert_eq!(broken(check, twice.clone()), [Invariant::ExclusiveEpoch]);
        let lost = Event::FaultHit {
            fault: Fault::DataRolledBack,
        };
        let [first, second] = twice;
        assert_eq!(broken(check, [first, lost, second]), []);
    }

    #[test]
    fn two_owners_that_act_in_one_epoch_are_found_whatever_happened() {
        let lost = Event::FaultHit {
            fault: Fault::DataLost,
        };
        let claimed = |node| Event::Claimed {
            store: 0,
            life: life(node),
            epoch: 5,
        };
        assert_eq!(
            broken(check, [claimed(0), lost, claimed(1)]),
            [Invariant::ExclusiveEpoch]
        );
    }
}
