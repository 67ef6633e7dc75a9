//! The index of one instance.

use parking_lot::RwLock;

use crate::table::Table;

/// The block index of one instance: key → locations.
///
/// Shared by reference; every call takes the lock once, readers share it. `now_s` is a coarse time
/// in seconds on any clock that the caller sticks to: it orders keys by last use.
///
/// Lookups take a `select` function that picks, among the locations of one key (at least one, in
/// any state), the one to read by its number in the list, or none. It decides what is readable: usually
/// [`Location::is_serving`](crate::Location::is_serving) and a storage that is available. It must
/// not look at the position: of neighbours that differ in nothing else only the first is asked about.
#[derive(Debug, Default)]
pub struct BlockIndex {
    pub(crate) table: RwLock<Table>,
}

impl BlockIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keys held, in any state.
    pub fn len(&self) -> usize {
        self.table.read().len()
    }

    /// Whether no key is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
