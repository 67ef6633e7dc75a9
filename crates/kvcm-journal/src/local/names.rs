//! The names of the files.

use std::collections::BTreeSet;

use kvcm_fence::Epoch;

/// A part of the log: the reign that wrote it, and its number in that reign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SegmentId {
    pub(super) epoch: Epoch,
    pub(super) number: u32,
}

/// A snapshot: the last batch that it holds, and the reign that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SnapshotId {
    pub(super) through: u64,
    pub(super) epoch: Epoch,
}

/// What a directory holds of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) claims: BTreeSet<Epoch>,
    pub(super) segments: BTreeSet<SegmentId>,
    pub(super) snapshots: BTreeSet<SnapshotId>,
    /// Files that were not finished, each with the reign that began it.
    pub(super) temporary: BTreeSet<(Epoch, String)>,
}

impl Names {
    /// Notes a file; others than ours are passed over.
    pub(super) fn add(&mut self, name: &str) {
        let mut parts = name.split('-');
        let mut part = || parts.next().unwrap_or_default();
        let (kind, first, second) = (part(), part(), part());
        let epoch = |text: &str| text.parse::<Epoch>().ok();
        match kind {
            "claim" => self.claims.extend(epoch(first)),
            "log" => {
                if let (Some(epoch), Ok(number)) = (epoch(first), second.parse()) {
                    self.segments.insert(SegmentId { epoch, number });
                }
            }
            "snapshot" => {
                if let (Ok(through), Some(epoch)) = (first.parse(), epoch(second)) {
                    self.snapshots.insert(SnapshotId { through, epoch });
                }
            }
            "new" => {
                if let Some(epoch) = epoch(first) {
                    self.temporary.insert((epoch, name.to_owned()));
                }
            }
            _ => {}
        }
    }

    /// Whether there is anything but claims.
    pub(super) fn has_content(&self) -> bool {
        !self.segments.is_empty() || !self.snapshots.is_empty()
    }
}

pub(super) fn claim(epoch: Epoch) -> String {
    format!("claim-{:016}", epoch.get())
}

pub(super) fn segment(id: SegmentId) -> String {
    format!("log-{:016}-{:06}", id.epoch.get(), id.number)
}

pub(super) fn snapshot(id: SnapshotId) -> String {
    format!("snapshot-{:020}-{:016}", id.through, id.epoch.get())
}

/// For a file that is not finished. Of its writer alone.
pub(super) fn temporary(epoch: Epoch) -> String {
    format!("new-{:016}-{:032x}", epoch.get(), fastrand::u128(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_passed_over() {
        let epoch = Epoch::new(1_800_000_000_000).unwrap();
        let id = SegmentId { epoch, number: 3 };
        let taken = SnapshotId { through: 9, epoch };
        let unfinished = temporary(epoch);
        let mut names = Names::default();
        for name in [
            &claim(epoch),
            &segment(id),
            &snapshot(taken),
            &unfinished,
            "claim-",
            "claim-x",
            "log-1",
            "lost+found",
            "notes.txt",
            "",
        ] {
            names.add(name);
        }
        let expected = Names {
            claims: [epoch].into(),
            segments: [id].into(),
            snapshots: [taken].into(),
            temporary: [(epoch, unfinished)].into(),
        };
        assert_eq!(names, expected);
        assert!(names.has_content());
    }
}
