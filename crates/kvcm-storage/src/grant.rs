//! What makes each granted place unique.

/// One grant of places. An epoch has one leader and a leader counts, so no grant comes twice; a
/// grant may cover many keys, because the key (or its file and block) is in the path as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grant {
    /// The epoch of the reign that granted.
    pub epoch: u64,
    /// Its number within the epoch.
    pub counter: u64,
}
