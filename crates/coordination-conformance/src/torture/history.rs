//! Whether what was told fits together.

use std::{collections::BTreeMap, time::Duration};

use super::event::{End, Event, What};

/// One reign.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reign {
    incarnation: String,
    /// How it began.
    what: What,
    /// When the call that acquired the lock was sent.
    asked: u64,
    /// When its owner knew.
    known: u64,
    /// The last moment at which it surely lasted.
    last_proof: u64,
}

/// All reigns that were told of, by epoch.
#[derive(Debug, Default)]
pub(super) struct History {
    reigns: BTreeMap<u64, Reign>,
}

impl History {
    /// Takes the events of one process, in their order.
    pub(super) fn add(&mut self, events: &[Event]) -> Result<(), String> {
        for event in events {
            self.add_one(event)?;
        }
        Ok(())
    }

    fn add_one(&mut self, event: &Event) -> Result<(), String> {
        let Event { epoch, .. } = *event;
        if event.what.is_acquisition() {
            let Some(known) = self.reigns.get(&epoch) else {
                let reign = Reign {
                    incarnation: event.incarnation.clone(),
                    what: event.what,
                    asked: event.since,
                    known: event.at,
                    last_proof: event.since,
                };
                self.reigns.insert(epoch, reign);
                return Ok(());
            };
            // After an answer that was lost.
            if known.incarnation == event.incarnation && event.what == What::Repeated {
                return Ok(());
            }
            let (one, other) = (&known.incarnation, &event.incarnation);
            return Err(format!("epoch {epoch} was minted for {one} and {other}"));
        }
        // A call that succeeded found the lock held at some moment after it was sent.
        if matches!(event.what, What::Serves | What::Renewed | What::Released) {
            let reign = self.reigns.get_mut(&epoch);
            let reign = reign.filter(|reign| reign.incarnation == event.incarnation);
            let Some(reign) = reign else {
                return Err(format!("{event}: it does not hold the lock"));
            };
            reign.last_proof = reign.last_proof.max(event.since);
        }
        Ok(())
    }

    /// How many reigns there were.
    pub(super) fn reigns(&self) -> usize {
        self.reigns.len()
    }

    /// How many reigns began how.
    pub(super) fn ends(&self) -> BTreeMap<String, usize> {
        let mut ends = BTreeMap::new();
        for reign in self.reigns.values() {
            *ends.entry(reign.what.to_string()).or_default() += 1;
        }
        ends
    }

    /// How long after `killed_at` another knew that it had the lock of the holder in `epoch`, which
    /// was killed then; none when the holder had given it up or lost it before.
    pub(super) fn takeover(&self, epoch: u64, killed_at: u64) -> Option<Duration> {
        let (_, next) = self.reigns.range(epoch + 1..).next()?;
        let taken = matches!(next.what, What::Acquired(End::Dead | End::Expired));
        let lateness = next.known.checked_sub(killed_at)?;
        taken.then_some(Duration::from_nanos(lateness))
    }

    /// Of each pair of reigns: the later one has the higher epoch, and the earlier one had ended
    /// before anybody knew of the later one.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut first_above: Option<(u64, u64)> = None;
        for (epoch, reign) in self.reigns.iter().rev() {
            if let Some((known, above)) = first_above {
                if reign.asked > known {
                    return Err(format!(
                        "epoch {epoch} was asked for after {above} was known"
                    ));
                }
                if reign.last_proof > known {
                    return Err(format!("epoch {epoch} lasted when {above} was known"));
                }
            }
            let this = (reign.known, *epoch);
            first_above = Some(first_above.map_or(this, |first| first.min(this)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::event::End;

    fn event(incarnation: &str, since: u64, at: u64, what: What, epoch: u64) -> Event {
        Event {
            incarnation: incarnation.to_owned(),
            since,
            at,
            what,
            epoch,
        }
    }

    fn acquired(incarnation: &str, since: u64, at: u64, epoch: u64) -> Event {
        event(incarnation, since, at, What::Acquired(End::Released), epoch)
    }

    fn verdict(processes: &[&[Event]]) -> Result<(), String> {
        let mut history = History::default();
        for process in processes {
            history.add(process)?;
        }
        history.check()
    }

    #[test]
    fn reigns_one_after_the_other_are_fine() {
        let one = [
            acquired("a", 1, 2, 1),
            event("a", 3, 3, What::Serves, 1),
            event("a", 4, 9, What::Released, 1),
            acquired("a", 10, 30, 3),
            event("a", 31, 32, What::Repeated, 3),
        ];
        // Knows of its lock before the first one knows of its release.
        let two = [acquired("b", 3, 5, 2), event("b", 20, 21, What::Renewed, 2)];
        assert_eq!(verdict(&[&one, &two]), Ok(()));
    }

    #[test]
    fn an_epoch_with_two_owners_is_found() {
        let found = verdict(&[&[acquired("a", 1, 2, 1)], &[acquired("b", 3, 4, 1)]]);
        assert!(
            found
                .unwrap_err()
                .contains("epoch 1 was minted for a and b")
        );
        let same = [acquired("a", 1, 2, 1), acquired("a", 3, 4, 1)];
        assert!(verdict(&[&same]).is_err());
    }

    #[test]
    fn an_epoch_that_falls_is_found_whoever_is_between() {
        let found = verdict(&[
            &[acquired("a", 1, 2, 8)],
            &[acquired("b", 3, 9, 6)],
            &[acquired("c", 1, 2, 7)],
        ]);
        assert!(found.unwrap_err().contains("epoch 6 was asked for after"));
    }

    #[test]
    fn a_reign_that_lasts_into_a_later_one_is_found() {
        for what in [What::Serves, What::Renewed, What::Released] {
            let one = [acquired("a", 1, 2, 1), event("a", 7, 8, what, 1)];
            let found = verdict(&[&one, &[acquired("b", 3, 6, 2)]]);
            assert!(found.unwrap_err().contains("epoch 1 lasted when 2"));
        }
    }

    #[test]
    fn a_renewal_of_what_another_holds_is_found() {
        let two = [event("b", 3, 4, What::Renewed, 1)];
        assert!(verdict(&[&[acquired("a", 1, 2, 1)], &two]).is_err());
    }
}
