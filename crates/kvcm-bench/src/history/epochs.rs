//! Epochs rise in real time.

use std::fmt;

use super::{Call, History};

/// Two answers of which the later asked was given by the older leader.
#[derive(Clone, Debug, PartialEq)]
pub struct StaleReply {
    /// Had returned …
    earlier: Call,
    /// … before this one was sent, and is of an older epoch all the same.
    later: Call,
}

/// Every answer whose epoch is below that of an answer which had returned before its call was
/// sent: a superseded leader still served. One mistake for each such answer.
pub fn check_epochs(history: &History) -> Vec<StaleReply> {
    let mut by_return: Vec<_> = history.calls.iter().collect();
    by_return.sort_by_key(|call| call.returned);
    let mut by_invoke: Vec<_> = history.calls.iter().collect();
    by_invoke.sort_by_key(|call| call.invoked);

    let mut returned = by_return.into_iter().peekable();
    let mut highest: Option<&Call> = None;
    let mut wrong = Vec::new();
    for later in by_invoke {
        while let Some(call) = returned.next_if(|call| call.returned < later.invoked) {
            if highest.is_none_or(|highest| call.epoch > highest.epoch) {
                highest = Some(call);
            }
        }
        if let Some(earlier) = highest.filter(|earlier| earlier.epoch > later.epoch) {
            wrong.push(StaleReply {
                earlier: earlier.clone(),
                later: later.clone(),
            });
        }
    }
    wrong
}

impl fmt::Display for StaleReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { earlier, later } = self;
        write!(
            f,
            "engine {} was answered by {} under epoch {} at {}; engine {} asked at {} and was \
             answered by {} under epoch {}",
            earlier.engine,
            earlier.node,
            earlier.epoch,
            earlier.returned,
            later.engine,
            later.invoked,
            later.node,
            later.epoch
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            What,
            tests::{call, history},
        },
        *,
    };

    #[test]
    fn an_older_epoch_after_a_newer_answer_is_caught() {
        let newer = call(5, 0, 10, What::Other);
        let older = call(4, 11, 20, What::Other);
        let wrong = check_epochs(&history([older.clone(), newer.clone()]));
        assert_eq!(
            wrong,
            [StaleReply {
                earlier: newer,
                later: older
            }]
        );
        let text = wrong[0].to_string();
        assert!(
            text.contains("epoch 5") && text.contains("epoch 4"),
            "{text}"
        );
    }

    #[test]
    fn calls_that_overlap_in_time_may_see_either_leader() {
        let calls = [
            call(4, 0, 30, What::Other),
            call(5, 5, 10, What::Other),
            call(4, 9, 20, What::Other),
            call(4, 10, 12, What::Other),
            call(5, 31, 40, What::Other),
        ];
        assert_eq!(check_epochs(&history(calls)), []);
    }

    proptest! {
        #[test]
        fn finds_exactly_what_comparing_all_pairs_finds(
            calls in prop::collection::vec((1..4u64, 0..40u64, 0..10u64), 0..25),
        ) {
            let calls: Vec<_> = calls
                .into_iter()
                .map(|(epoch, from, length)| call(epoch, from, from + length, What::Other))
                .collect();
            let stale = |later: &&Call| {
                calls.iter().any(|c| c.returned < later.invoked && c.epoch > later.epoch)
            };
            let expected = calls.iter().filter(stale).count();
            prop_assert_eq!(check_epochs(&history(calls.clone())).len(), expected);
        }
    }
}
