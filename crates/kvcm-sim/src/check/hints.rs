//! I7: clients are sent forward only.

use std::collections::BTreeMap;

use super::{Invariant, Violation, epochs::loses_epochs};
use crate::{event::Event, run::History};

/// Clients follow hints to higher epochs only, each once; nodes go back only when the backend did.
pub(super) fn check(history: &History, out: &mut Vec<Violation>) {
    let mut followed: BTreeMap<usize, u64> = BTreeMap::new();
    let mut seen = BTreeMap::new();
    // What was asked before a loss may be heard long after it.
    let long = 4 * u64::try_from(history.lease.as_nanos()).unwrap_or(u64::MAX / 4);
    let mut lost = None;
    for entry in &history.entries {
        let text = match &entry.event {
            Event::FaultHit { fault } if loses_epochs(*fault) => {
                lost = Some(entry.at);
                continue;
            }
            Event::Redirected { client, epoch, .. } => {
                let last = followed.insert(*client, *epoch).unwrap_or(0);
                if last < *epoch {
                    continue;
                }
                format!("client {client} was sent to epoch {epoch} after {last}")
            }
            Event::LeaderSeen { life, epoch } => {
                let (last, then) = seen.insert(*life, (*epoch, entry.at)).unwrap_or((0, 0));
                if last <= *epoch || lost.is_some_and(|lost| lost + long > then) {
                    continue;
                }
                format!("{life} saw epoch {epoch} lead after {last}")
            }
            _ => continue,
        };
        out.push(Violation {
            invariant: Invariant::BoundedHint,
            at: entry.at,
            text,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::broken, *};

    #[test]
    fn a_second_redirect_to_one_epoch_is_found() {
        let sent = |client, epoch| Event::Redirected {
            client,
            epoch,
            node: 0,
        };
        assert_eq!(broken(check, [sent(0, 5), sent(1, 5), sent(0, 6)]), []);
        assert_eq!(
            broken(check, [sent(0, 5), sent(0, 5)]),
            [Invariant::BoundedHint]
        );
    }
}
