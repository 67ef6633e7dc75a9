//! A journal in a directory of this host.
//!
//! The directory holds one file `claim-<epoch>` per claim, at least one file `log-<epoch>-<number>`
//! per reign, and `snapshot-<through>-<epoch>`. Nothing is locked and nothing is overwritten, so a
//! process that stands still, wherever it does, blocks nobody and harms nothing:
//!
//! - The claim that stands is the one with the highest epoch.
//! - **A claim makes its own file visible first, and looks at the last log afterwards.** What is
//!   whole in that log by then belongs to the journal; the header of the new log names it and the
//!   byte where it is cut. Bytes that its writer adds later are never read.
//! - **A writer writes and syncs first, and looks for newer claims afterwards;** it acknowledges
//!   only when there is none. So either it comes before the claim, and the claimant finds its
//!   bytes, or it comes after, and does not acknowledge.
//!
//! Which logs count is told by the headers alone, each of which names the one before it. A claimant
//! that was overtaken may leave a log behind, which no other names.

mod claim;
mod compact;
mod directory;
mod disk;
mod file_error;
mod journal;
mod load;
mod mark;
mod names;
mod segment;
mod snapshot_file;
mod store;
#[cfg(test)]
mod tests;

pub use journal::LocalJournal;
