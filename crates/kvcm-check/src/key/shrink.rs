//! The smallest history that is still wrong.

use super::{Entry, KeyState, Verdict, search};

/// Of a wrong history the entries that suffice to show it: nothing after the first answer that
/// cannot be, and no read that is not needed. Places in `entries`.
pub(crate) fn shrink(first: KeyState, entries: &[Entry], may_be_removed: bool) -> Vec<usize> {
    let is_wrong = |chosen: &[usize], end: u64| {
        let cut: Vec<_> = chosen
            .iter()
            .map(|place| Entry {
                returned: entries[*place].returned.filter(|returned| *returned <= end),
                ..entries[*place]
            })
            .collect();
        search(first, &cut, may_be_removed) == Verdict::Wrong
    };
    let until = |end: u64| -> Vec<usize> {
        let begun = entries.iter().enumerate();
        let begun = begun.filter(|(_, entry)| entry.invoke <= end);
        begun.map(|(place, _)| place).collect()
    };
    // More history can only be more wrong, so the first end that is can be searched for.
    let mut ends: Vec<_> = entries.iter().filter_map(|entry| entry.returned).collect();
    ends.sort_unstable();
    let first_wrong = ends.partition_point(|end| !is_wrong(&until(*end), *end));
    let Some(end) = ends.get(first_wrong).copied() else {
        return (0..entries.len()).collect();
    };
    let mut chosen = until(end);
    let is_spare = |place: &usize| entries[*place].op.is_read();
    let reads: Vec<_> = chosen.iter().copied().filter(is_spare).collect();
    for read in reads {
        let without: Vec<_> = chosen
            .iter()
            .copied()
            .filter(|place| *place != read)
            .collect();
        if is_wrong(&without, end) {
            chosen = without;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::{KeyOp::*, KeyState::*};
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let entry = |op, invoke, returned| Entry {
            invoke,
            returned: Some(returned),
            op,
        };
        let entries = [
            entry(Missing, 0, 1),
            entry(Granted(1), 2, 3),
            entry(Missing, 4, 5),
            entry(Finish(1), 6, 7),
            entry(Found(1), 8, 9),
            entry(Missing, 10, 11),
            entry(Found(1), 12, 13),
            entry(Missing, 14, 15),
        ];
        assert_eq!(shrink(Absent, &entries, false), [1, 3, 5]);
    }
}
