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
    let calls = &history.calls;
    let nanos = |call: &Call| {
        (
            call.invoked.as_nanos(),
            call.returned.as_nanos(),
            call.epoch,
        )
    };
    let stale = kvcm_check::stale_answers(calls.iter().map(nanos)).into_iter();
    stale
        .map(|(earlier, later)| StaleReply {
            earlier: calls[earlier].clone(),
            later: calls[later].clone(),
        })
        .collect()
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
}
