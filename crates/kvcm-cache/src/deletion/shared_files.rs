//! Which blocks still need the files that they share.

use std::collections::HashMap;

use kvcm_index::{Grant, Location, State};
use parking_lot::Mutex;

/// The blocks that live in each shared file, by their positions in its grant. Rebuilt from the
/// index by a recovery, so it needs no records of its own. Storages with one block per file are not
/// in it.
///
/// Taking a block out twice changes nothing, so a deletion may be repeated.
#[derive(Debug, Default)]
pub(crate) struct SharedFiles(Mutex<HashMap<FileName, File>>);

/// A grant, and the number of the file in it.
type FileName = (Grant, u32);

/// A file that blocks share.
#[derive(Debug, Default)]
struct File {
    /// The blocks that need it.
    blocks: Vec<Block>,
    /// Bytes of blocks that have gone, which the file still takes.
    held: u64,
}

#[derive(Debug)]
struct Block {
    position: u32,
    key: i64,
    /// It is on its way out.
    is_leaving: bool,
}

/// What the end of a block means for the bytes of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    /// Bytes that are free.
    pub(crate) bytes: u64,
    /// Bytes that were on their way out and are no more.
    pub(crate) left: u64,
}

/// The file of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Neighbours {
    pub(crate) file: FileName,
    /// The keys of all blocks that need it, in the order of their positions.
    pub(crate) keys: Vec<i64>,
    /// Bytes of blocks that have gone, which are free when these have gone too.
    pub(crate) held: u64,
}

impl SharedFiles {
    /// A block lives in the file.
    pub(crate) fn insert(&self, location: &Location, key: i64, keys_per_file: u32) {
        let mut files = self.0.lock();
        let file = files.entry(name(location, keys_per_file)).or_default();
        let position = location.position();
        if file.blocks.iter().all(|block| block.position != position) {
            file.blocks.push(Block {
                position,
                key,
                is_leaving: location.state() == State::Deleting,
            });
        }
    }

    /// A block is on its way out. Gives the bytes of blocks that have gone before and that now are,
    /// since all that need the file are.
    pub(crate) fn leave(&self, location: &Location, keys_per_file: u32) -> u64 {
        let mut files = self.0.lock();
        let Some(file) = files.get_mut(&name(location, keys_per_file)) else {
            return 0;
        };
        let position = location.position();
        for block in file.blocks.iter_mut().filter(|at| at.position == position) {
            block.is_leaving = true;
        }
        if file.is_leaving() { file.held } else { 0 }
    }

    /// A block leaves the file. True when no other one needs it: the file may go.
    pub(crate) fn remove(&self, location: &Location, keys_per_file: u32) -> bool {
        let mut files = self.0.lock();
        let Some(file) = files.get_mut(&name(location, keys_per_file)) else {
            return true;
        };
        let position = location.position();
        file.blocks.retain(|block| block.position != position);
        file.blocks.is_empty()
    }

    /// The record of a block of so many bytes has gone, after [`remove`](Self::remove). They are free
    /// when no other one needs the file.
    pub(crate) fn settle(&self, location: &Location, bytes: u64, keys_per_file: u32) -> Freed {
        let mut files = self.0.lock();
        let name = name(location, keys_per_file);
        match files.get_mut(&name) {
            Some(file) if !file.blocks.is_empty() => {
                file.held += bytes;
                Freed {
                    bytes: 0,
                    left: if file.is_leaving() { 0 } else { bytes },
                }
            }
            _ => {
                let bytes = bytes + files.remove(&name).map_or(0, |file| file.held);
                Freed { bytes, left: bytes }
            }
        }
    }

    /// The file of a location.
    pub(crate) fn neighbours(&self, location: &Location, keys_per_file: u32) -> Neighbours {
        let name = name(location, keys_per_file);
        let files = self.0.lock();
        let file = files.get(&name);
        let blocks = file.map_or(&[][..], |file| &file.blocks);
        let mut blocks: Vec<_> = blocks.iter().map(|at| (at.position, at.key)).collect();
        blocks.sort_unstable();
        Neighbours {
            file: name,
            keys: blocks.into_iter().map(|(_, key)| key).collect(),
            held: file.map_or(0, |file| file.held),
        }
    }
}

impl File {
    /// Whether all that need it are on their way out.
    fn is_leaving(&self) -> bool {
        self.blocks.iter().all(|block| block.is_leaving)
    }
}

fn name(location: &Location, keys_per_file: u32) -> FileName {
    (location.grant(), location.position() / keys_per_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn grant(counter: u64) -> Grant {
        Grant { epoch: 1, counter }
    }

    fn at(counter: u64, position: u32) -> Location {
        Location::new(grant(counter), position, 0, 0, State::Deleting)
    }

    const fn key(position: u32) -> i64 {
        100 + position as i64
    }

    #[test]
    fn the_bytes_of_a_file_are_free_when_its_last_block_has_gone() {
        let files = SharedFiles::default();
        let freed = |bytes, left| Freed { bytes, left };
        for position in [3, 1, 2] {
            let location = Location::new(grant(1), position, 0, 0, State::Serving);
            files.insert(&location, key(position), 4);
        }
        let neighbours = |held: u64, keys: &[i64]| Neighbours {
            file: (grant(1), 0),
            keys: keys.to_vec(),
            held,
        };
        assert_eq!(
            files.neighbours(&at(1, 1), 4),
            neighbours(0, &[101, 102, 103])
        );
        assert_eq!(files.leave(&at(1, 2), 4), 0);
        assert!(!files.remove(&at(1, 2), 4));
        assert_eq!(files.settle(&at(1, 2), 10, 4), freed(0, 10));
        assert_eq!(files.neighbours(&at(1, 1), 4), neighbours(10, &[101, 103]));
        // The last two go together, and one is done before the other: then the bytes of the first
        // are on their way out again.
        assert_eq!(files.leave(&at(1, 1), 4), 0);
        assert_eq!(files.leave(&at(1, 3), 4), 10);
        assert!(!files.remove(&at(1, 1), 4));
        assert_eq!(files.settle(&at(1, 1), 20, 4), freed(0, 0));
        assert!(files.remove(&at(1, 3), 4));
        assert_eq!(files.settle(&at(1, 3), 40, 4), freed(70, 70));
        assert_eq!(files.settle(&at(9, 0), 7, 4), freed(7, 7), "it never began");
        assert!(files.0.lock().is_empty());
    }

    #[test]
    fn a_file_goes_with_the_last_of_its_blocks_whatever_their_order() {
        let files = SharedFiles::default();
        for position in [0, 1, 2, 3, 4] {
            files.insert(&at(1, position), key(position), 4);
            files.insert(&at(1, position), key(position), 4);
        }
        files.insert(&at(2, 0), 0, 4);
        assert!(!files.remove(&at(1, 2), 4));
        assert!(!files.remove(&at(1, 2), 4), "the same one again");
        assert!(!files.remove(&at(1, 0), 4));
        assert!(!files.remove(&at(1, 3), 4));
        // The deletion failed: it needs its file again.
        assert!(files.remove(&at(1, 1), 4));
        files.insert(&at(1, 1), key(1), 4);
        assert!(files.remove(&at(1, 1), 4));
        assert!(files.remove(&at(1, 4), 4), "the next file of the grant");
        assert!(files.remove(&at(2, 0), 4), "a file of another grant");
        for location in [at(1, 0), at(1, 4), at(2, 0)] {
            files.settle(&location, 1, 4);
        }
        assert!(files.0.lock().is_empty());
    }
}
