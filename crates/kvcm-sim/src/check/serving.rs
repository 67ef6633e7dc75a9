//! I2: nothing is served in an epoch that is over.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::{event::Event, run::History};

/// Once as the nodes know it, and once as clients can see it.
pub(super) fn check(history: &History, out: &mut Vec<Violation>) {
    let mut wrong = |at, text| {
        out.push(Violation {
            invariant: Invariant::NoStaleServe,
            at,
            text,
        });
    };
    let mut admitted = 0;
    let mut answered = 0;
    // What was the highest epoch in an answer when the request was invoked.
    let mut known = BTreeMap::new();
    for entry in &history.entries {
        match &entry.event {
            Event::Admitted { epoch, .. } => admitted = admitted.max(*epoch),
            Event::Confirmed { epoch, life, .. } | Event::Appended { epoch, life, .. }
                if *epoch < admitted =>
            {
                let text =
                    format!("{life} served in epoch {epoch} after an admission in {admitted}");
                wrong(entry.at, text);
            }
            Event::Invoked { request, .. } => {
                known.insert(*request, answered);
            }
            Event::Returned { request, told, .. } => {
                let before = known.remove(request).unwrap_or(0);
                let Some(epoch) = told.epoch() else { continue };
                if epoch < before {
                    let text = format!("{request:?} was answered in {epoch}, asked after {before}");
                    wrong(entry.at, text);
                }
                answered = answered.max(epoch);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        super::tests::{broken, life},
        *,
    };
    use crate::event::{Ask, RequestId, Told};

    const REQUEST: RequestId = RequestId(1);

    #[test]
    fn a_read_confirmed_after_a_later_admission_is_found() {
        let admitted = |node, epoch| Event::Admitted {
            life: life(node),
            epoch,
            request: REQUEST,
        };
        let confirmed = Event::Confirmed {
            life: life(0),
            epoch: 5,
            request: REQUEST,
        };
        let stale = [admitted(0, 5), admitted(1, 6), confirmed.clone()];
        assert_eq!(broken(check, stale), [Invariant::NoStaleServe]);
        let fine = [admitted(0, 5), confirmed, admitted(1, 6)];
        assert_eq!(broken(check, fine), []);
    }

    #[test]
    fn an_answer_of_an_older_epoch_is_found_unless_it_was_asked_for_before() {
        let asked = |number| Event::Invoked {
            client: 0,
            request: RequestId(number),
            ask: Ask::Read { key: 0 },
        };
        let told = |number, epoch| Event::Returned {
            client: 0,
            request: RequestId(number),
            told: Told::Values {
                epoch,
                values: Arc::default(),
            },
        };
        let stale = [asked(1), told(1, 6), asked(2), told(2, 5)];
        assert_eq!(broken(check, stale), [Invariant::NoStaleServe]);
        let fine = [asked(1), asked(2), told(1, 6), told(2, 5)];
        assert_eq!(broken(check, fine), []);
    }
}
