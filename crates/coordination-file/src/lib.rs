//! Coordination of the processes of one host through a directory.
//!
//! [`FileBackend`] needs no server: a record is replaced by the next one of its chain, which only
//! one process can name first; leases run on the host's boot clock; and the kernel tells at once when
//! a holder's process has died. The directory must be on a local file system of one host.
//!
//! What is in the directory (`K` is the key of a lock, escaped; `C` is `lock-K` or `values`):
//!
//! | name | what |
//! |---|---|
//! | `C.record.N` | the Nth record of a chain: the present or last reign of a lock; all values. The highest number counts |
//! | `C.candidate.N.*` | would like to become the Nth record |
//! | `C.begun` | empty: there has been a record, so none comes first any more |
//! | `C.damaged.N` | a second name of a record that failed its checksum, for people to look at |
//! | `lock-K.epoch.E` | empty: the highest epoch is E, whatever became of the records |
//! | `values.copy.V` | a second name of the record in which values without a time to live last changed; on the disk |
//! | `life.I` | locked with `flock` while the process of incarnation I lives |
//! | `format.F` | empty: the format of all this |
//!
//! # Who waits for whom
//!
//! Nobody for anybody. A change is prepared beside the records, and done by one system call, the
//! `link(2)` that gives the next number; it fails for all but one. How numbers stay unique although old
//! records are removed, and why what is read is the newest, is proven in `chain.rs`. So a process that
//! is stopped, or hangs in a slow disk, *can* keep the lock until its lease ends, and leave a candidate
//! behind. It *cannot* keep others from acquiring, releasing or setting anything, nor change or undo,
//! when it goes on, what they have done: its link finds the number taken or its candidate gone, it reads
//! again, and learns that it has lost.
//!
//! # What survives what
//!
//! Processes may be killed at any moment: what one wrote, the others of this boot see, whole,
//! without any sync, for a record is complete before it has its name, and the kernel's cache is one
//! for all.
//!
//! A power cut ends all processes of the host, holders included, and the next boot has another
//! id. So nothing has to reach the disk but what must not be forgotten by then:
//!
//! - The mark of a new epoch, synced before any record names the epoch: stores and clients on
//!   other hosts may remember it, and no epoch is ever minted twice. One sync for an acquisition;
//!   old marks are removed after it.
//! - Values without a time to live, in the synced copy of their record.
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
mod chain;
#[cfg(test)]
mod chain_model_tests;
mod directory;
mod disk;
#[cfg(test)]
mod disk_fault_tests;
mod error;
mod exclusion;
#[cfg(test)]
mod foreign_tests;
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
#[cfg(test)]
mod stop_tests;
mod store;
mod tidy;
#[cfg(test)]
mod turn_tests;
mod value_file;
mod values_record;
mod watch;
mod worker;

pub use backend::FileBackend;
pub use options::Options;
