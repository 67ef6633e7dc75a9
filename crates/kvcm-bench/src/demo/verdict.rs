//! Whether a run was good.

use std::fmt::Display;

use super::{outcome::Outcome, phase::Phase};
use crate::{Change, check_epochs, check_reads, gap, reigns};

/// How many mistakes of a kind are told in full; their number is always told.
const SHOWN: usize = 5;

impl Outcome {
    /// What is wrong; nothing after a good run.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let changes = self.changes();
        let mut mistakes = Vec::new();
        if self.errors > 0 {
            mistakes.push(format!("{} errors reached an engine", self.errors));
            mistakes.extend(
                self.error_texts
                    .iter()
                    .take(SHOWN)
                    .map(|text| format!("  {text}")),
            );
        }
        let stale = check_epochs(&self.history);
        say(&mut mistakes, "answers of a superseded leader", &stale);
        let reads = check_reads(&self.history);
        say(&mut mistakes, "lookups that contradict writes", &reads);
        for reign in reigns(&self.history) {
            if reign.nodes.len() > 1 {
                mistakes.push(format!(
                    "epoch {} had {} leaders",
                    reign.epoch,
                    reign.nodes.len()
                ));
            }
        }
        // Registry, index and sessions are durable: engines hear nothing of a change of leader.
        let redone = [
            ("write sessions", self.sessions_redone),
            ("registrations", self.registrations_redone),
        ];
        for (what, count) in redone.into_iter().filter(|(_, count)| *count > 0) {
            mistakes.push(format!("{count} {what} were lost with their leader"));
        }
        // A run in which nothing happens must not pass.
        for incident in self
            .incidents
            .iter()
            .filter(|incident| incident.ends_a_reign)
        {
            let caused =
                |change: &Change| change.cause.as_ref().is_some_and(|c| c.0 == incident.at);
            match changes.iter().find(|change| caused(change)) {
                None => mistakes.push(format!("no leader followed after: {}", incident.text)),
                Some(change) if gap(&self.history, change).is_none() => {
                    mistakes.push(format!(
                        "no write was acknowledged after: {}",
                        incident.text
                    ));
                }
                Some(_) => {}
            }
        }
        for (phase, tally) in Phase::ALL.iter().zip(&self.tallies) {
            if tally.requests == 0 {
                mistakes.push(format!(
                    "no request was replayed in the phase: {}",
                    phase.title()
                ));
            }
        }
        mistakes
    }
}

fn say<T: Display>(mistakes: &mut Vec<String>, what: &str, found: &[T]) {
    if !found.is_empty() {
        mistakes.push(format!("{} {what}", found.len()));
        mistakes.extend(found.iter().take(SHOWN).map(|one| format!("  {one}")));
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            outcome::tests::{call, good},
            phase::Tally,
        },
        *,
    };
    use crate::What;

    #[test]
    fn a_good_run_has_no_mistakes() {
        assert_eq!(good().mistakes(), [] as [&str; 0]);
    }

    #[test]
    fn every_kind_of_mistake_is_named() {
        let mistakes = |change: &dyn Fn(&mut Outcome)| {
            let mut outcome = good();
            change(&mut outcome);
            outcome.mistakes().join("\n")
        };
        let text = mistakes(&|outcome| {
            outcome.errors = 2;
            outcome.error_texts = vec!["locate: no leader".to_owned()];
        });
        assert!(
            text.contains("2 errors") && text.contains("locate: no leader"),
            "{text}"
        );
        let text = mistakes(&|outcome| {
            outcome
                .history
                .calls
                .push(call(3, "127.0.0.1:1", 3000, What::Other));
        });
        assert!(text.contains("1 answers of a superseded leader"), "{text}");
        let text = mistakes(&|outcome| {
            let lookup = What::Lookup {
                keys: [1].into(),
                hits: 0,
            };
            outcome
                .history
                .calls
                .push(call(8, "127.0.0.1:2", 3000, lookup));
        });
        assert!(text.contains("1 lookups that contradict writes"), "{text}");
        let text = mistakes(&|outcome| {
            outcome
                .history
                .calls
                .push(call(8, "127.0.0.1:3", 3000, What::Other));
        });
        assert_eq!(text, "epoch 8 had 2 leaders");
        let text = mistakes(&|outcome| {
            outcome.sessions_redone = 2;
            outcome.registrations_redone = 1;
        });
        assert_eq!(
            text,
            "2 write sessions were lost with their leader\n1 registrations were lost with their \
             leader"
        );
        let text = mistakes(&|outcome| outcome.history.calls.truncate(1));
        assert_eq!(text, "no leader followed after: SIGKILL of node-1");
        let text = mistakes(&|outcome| outcome.history.calls.truncate(2));
        assert_eq!(text, "no write was acknowledged after: SIGKILL of node-1");
        let text = mistakes(&|outcome| outcome.tallies[2] = Tally::default());
        assert_eq!(
            text,
            "no request was replayed in the phase: after LeaderDemote"
        );
    }
}
