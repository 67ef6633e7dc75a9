//! Which blocks still need the files that they share.

use std::collections::HashMap;

use kvcm_index::{Grant, Location};
use parking_lot::Mutex;

/// The blocks that live in each shared file, by their positions in its grant. Rebuilt from the
/// index by a recovery, so it needs no records of its own. Storages with one block per file are not
/// in it.
///
/// Taking a block out twice changes nothing, so a deletion may be repeated.
#[derive(Debug, Default)]
pub(crate) struct SharedFiles(Mutex<HashMap<(Grant, u32), Vec<u32>>>);

impl SharedFiles {
    /// A block lives in the file.
    pub(crate) fn insert(&self, grant: Grant, position: u32, keys_per_file: u32) {
        let mut files = self.0.lock();
        let positions = files.entry((grant, position / keys_per_file)).or_default();
        if !positions.contains(&position) {
            positions.push(position);
        }
    }

    /// A block leaves the file. True when no other one needs it: the file may go.
    pub(crate) fn remove(&self, location: &Location, keys_per_file: u32) -> bool {
        let mut files = self.0.lock();
        let file = (location.grant(), location.position() / keys_per_file);
        let Some(positions) = files.get_mut(&file) else {
            return true;
        };
        positions.retain(|position| *position != location.position());
        let is_last = positions.is_empty();
        if is_last {
            files.remove(&file);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use kvcm_index::State;

    use super::*;

    const fn grant(counter: u64) -> Grant {
        Grant { epoch: 1, counter }
    }

    fn at(counter: u64, position: u32) -> Location {
        Location::new(grant(counter), position, 0, 0, State::Deleting)
    }

    #[test]
    fn a_file_goes_with_the_last_of_its_blocks_whatever_their_order() {
        let files = SharedFiles::default();
        for position in [0, 1, 2, 3, 4] {
            files.insert(grant(1), position, 4);
            files.insert(grant(1), position, 4);
        }
        files.insert(grant(2), 0, 4);
        assert!(!files.remove(&at(1, 2), 4));
        assert!(!files.remove(&at(1, 2), 4), "the same one again");
        assert!(!files.remove(&at(1, 0), 4));
        assert!(!files.remove(&at(1, 3), 4));
        // The deletion failed: it needs its file again.
        assert!(files.remove(&at(1, 1), 4));
        files.insert(grant(1), 1, 4);
        assert!(files.remove(&at(1, 1), 4));
        assert!(files.remove(&at(1, 4), 4), "the next file of the grant");
        assert!(files.remove(&at(2, 0), 4), "a file of another grant");
        assert!(files.0.lock().is_empty());
    }
}
