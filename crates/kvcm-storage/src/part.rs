//! Which file of a grant a key is in.

/// Where a key's bytes are within its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A file (or object) of its own, named by the key.
    Whole,
    /// One block of a file that several keys share.
    Block {
        /// Names the file among those of its grant.
        file: u64,
        /// The block's position in the file.
        index: u32,
    },
}
