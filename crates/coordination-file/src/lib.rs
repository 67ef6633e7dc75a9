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

mod backend;
mod directory;
mod error;
mod file_system;
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
mod options;
mod readiness;
mod record;
mod store;
mod tidy;
mod value_file;
mod watch;
mod worker;

pub use backend::FileBackend;
pub use options::Options;
