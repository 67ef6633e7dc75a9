//! Coordination of the processes of one host through a directory.
//!
//! [`FileBackend`] needs no server: a guard file gives mutual exclusion, records are replaced as
//! wholes, leases run on the host's boot clock, and the kernel tells at once when a holder's
//! process has died. The directory must be on a local file system of one host.
//!
//! What is in the directory (`K` is the key, escaped):
//!
//! | name | what |
//! |---|---|
//! | `guard` | locked with `flock` by whoever changes something |
//! | `lock-K.record` | the present or last reign of a lock |
//! | `lock-K.epoch.N` | empty: the highest epoch is N, whatever became of the record |
//! | `value-K.record` | a value |
//! | `version.N` | empty: the highest version of a value is N |
//! | `life.I` | locked with `flock` while the process of incarnation I lives |
//! | `*.damaged.N` | a record that failed its checksum, for people to look at |
//!
//! # What survives what
//!
//! Processes may be killed at any moment: what one wrote, the others of this boot see, whole,
//! without any sync, for records are replaced by rename and the kernel's cache is one for all.
//!
//! A power cut ends all processes of the host, holders included, and the next boot has another
//! id. So nothing has to reach the disk but what must not be forgotten by then:
//!
//! - The mark of a new epoch, synced before any record names the epoch: stores and clients on
//!   other hosts may remember it, and no epoch is ever minted twice. One sync for an acquisition;
//!   old marks are removed after it.
//! - Values without a time to live, and the marks of their versions.
//!
//! Not the record of a lock: no holder of another boot lives, whatever it says. An old record, or
//! a whole new one, is waited for as one of another boot; one that is torn or missing ends
//! unknown, above the epoch of the mark, and the next leader keeps its gate shut for a lease. A
//! lost renewal or release therefore costs one lease at most. Nor values with a time to live,
//! which end with their boot: their writers are dead, too.
//!
//! A disk that loses what it was given while the processes live shows by a checksum that fails,
//! or by a record older than one seen before; both end unknown.

mod backend;
mod directory;
mod disk;
#[cfg(test)]
mod disk_fault_tests;
mod error;
mod exclusion;
#[cfg(test)]
mod foreign_tests;
mod guard;
mod host;
mod inotify;
mod lives;
mod lock_file;
mod lock_record;
mod look;
mod names;
#[cfg(test)]
mod namespace_tests;
mod options;
#[cfg(test)]
mod power_cut_tests;
mod readiness;
mod record;
mod store;
mod tidy;
mod value_file;
mod watch;
mod worker;

pub use backend::FileBackend;
pub use options::Options;
