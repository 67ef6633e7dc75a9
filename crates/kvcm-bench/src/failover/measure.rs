//! What the acknowledged writes around a fault say.

use std::time::Duration;

use kvcm_clock::Moment;

/// An acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// Who acknowledged it.
    pub(super) node: usize,
    /// Taken before it was sent.
    pub(super) begun: Moment,
    /// Taken after the answer was there.
    pub(super) returned: Moment,
}

/// The longest time around and after the fault in which no write was acknowledged.
///
/// It begins at the last acknowledgement before the fault at the earliest, and the time from the
/// last acknowledgement to the end of the observation counts too: whoever looks away too early does
/// not measure less. `None` when no write was acknowledged before the fault.
pub(super) fn longest_gap(acks: &[Ack], struck: Moment, ended: Moment) -> Option<Duration> {
    let mut moments: Vec<_> = acks.iter().map(|ack| ack.returned).collect();
    moments.sort_unstable();
    moments.push(ended.max(moments.last().copied()?));
    let after = moments.partition_point(|moment| *moment < struck);
    let first = after.checked_sub(1)?;
    let pairs = moments[first..].windows(2);
    pairs.map(|pair| pair[1].since(pair[0])).max()
}

/// Who acknowledged the last write before the fault, and who the last of all.
pub(super) fn leaders(acks: &[Ack], struck: Moment) -> Option<(usize, usize)> {
    let before = acks.iter().filter(|ack| ack.returned < struck);
    let before = before.max_by_key(|ack| ack.returned)?;
    let last = acks.iter().max_by_key(|ack| ack.returned)?;
    Some((before.node, last.node))
}

/// Writes that the old leader acknowledged although they were begun after the new one had
/// acknowledged one: two led at once.
pub(super) fn stale(acks: &[Ack], from: usize, to: usize) -> usize {
    if from == to {
        return 0;
    }
    let new = acks.iter().filter(|ack| ack.node == to);
    let Some(since) = new.map(|ack| ack.returned).min() else {
        return 0;
    };
    let is_stale = |ack: &&Ack| ack.node == from && ack.begun > since;
    acks.iter().filter(is_stale).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn ack(node: usize, begun: u64, returned: u64) -> Ack {
        Ack {
            node,
            begun: at(begun),
            returned: at(returned),
        }
    }

    fn gap(acks: &[Ack], struck: u64, ended: u64) -> Option<u128> {
        longest_gap(acks, at(struck), at(ended)).map(|gap| gap.as_millis())
    }

    #[test]
    fn the_gap_reaches_from_the_last_write_before_the_fault_to_the_first_after_it() {
        let acks = [ack(0, 8, 9), ack(0, 18, 19), ack(1, 70, 71), ack(1, 72, 73)];
        assert_eq!(gap(&acks, 20, 80), Some(52));
        // In whatever order the nodes' writes were noted.
        let acks = [acks[2], acks[3], acks[0], acks[1]];
        assert_eq!(gap(&acks, 20, 80), Some(52));
    }

    #[test]
    fn what_was_before_the_fault_does_not_count_and_what_comes_later_does() {
        let acks = [
            ack(0, 0, 1),
            ack(0, 500, 501),
            ack(1, 520, 521),
            ack(1, 560, 561),
        ];
        assert_eq!(gap(&acks, 502, 562), Some(40));
    }

    #[test]
    fn a_gap_is_not_cut_short_by_the_end_of_the_observation() {
        let acks = [ack(0, 8, 9), ack(1, 14, 15)];
        assert_eq!(gap(&acks, 10, 400), Some(385));
        assert_eq!(gap(&acks[..1], 10, 400), Some(391));
    }

    #[test]
    fn without_a_write_before_the_fault_nothing_is_measured() {
        assert_eq!(gap(&[ack(1, 14, 15)], 10, 20), None);
        assert_eq!(gap(&[], 10, 20), None);
        assert_eq!(leaders(&[], at(10)), None);
    }

    #[test]
    fn the_old_leader_may_answer_late_but_take_no_new_write() {
        let acks = [ack(0, 8, 9), ack(0, 10, 90), ack(2, 50, 51), ack(2, 91, 92)];
        assert_eq!(leaders(&acks, at(20)), Some((0, 2)));
        assert_eq!(stale(&acks, 0, 2), 0);
        let two = [acks[0], acks[2], ack(0, 52, 53), acks[3]];
        assert_eq!(stale(&two, 0, 2), 1);
        // It has won again.
        assert_eq!(stale(&two[..3], 0, 0), 0);
    }
}
