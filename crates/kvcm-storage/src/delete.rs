//! Deletion of files.

use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    Place,
    disk::Disk,
    pool::{Call, Lane, NoAnswer},
    root::Root,
};

/// What became of one place that was to be deleted. Deleting again is always safe: no place is
/// granted twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is gone now.
    Deleted,
    /// It was not there: never written, or deleted before.
    Absent,
    /// It is left to the storage, which evicts by itself.
    Left,
    /// It could not be deleted: try again later.
    Failed {
        /// Why, with the path.
        error: String,
    },
    /// It was not begun, for the permission or the time had ended: try again later.
    NotBegun,
    /// It was begun and did not return in time: it may go yet, or not.
    Unknown,
}

/// How many deletions ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletionCounts {
    /// The file went.
    pub deleted: u64,
    /// It was not there.
    pub absent: u64,
    /// It could not be deleted.
    pub failed: u64,
    /// It did not return in time.
    pub unknown: u64,
}

/// Counts deletions.
#[derive(Debug, Default)]
pub(crate) struct Deletions(Mutex<DeletionCounts>);

impl Deletions {
    fn count(&self, deletions: &[Deletion]) {
        let mut counts = self.0.lock();
        for deletion in deletions {
            match deletion {
                Deletion::Deleted => counts.deleted += 1,
                Deletion::Absent => counts.absent += 1,
                Deletion::Failed { .. } => counts.failed += 1,
                Deletion::Unknown => counts.unknown += 1,
                Deletion::Left | Deletion::NotBegun => {}
            }
        }
    }

    pub(crate) fn counts(&self) -> DeletionCounts {
        *self.0.lock()
    }
}

impl Deletion {
    /// Whether nothing is left to do.
    pub const fn is_done(&self) -> bool {
        matches!(self, Self::Deleted | Self::Absent | Self::Left)
    }
}

/// How far a call has come.
struct Progress {
    outcomes: Vec<Deletion>,
    /// The caller has taken the outcomes.
    is_over: bool,
}

/// Deletes files, those of one directory together. `may_go_on` is asked on the thread right before
/// each of them.
///
/// # Errors
/// Nothing was begun, and why.
pub(crate) async fn delete(
    root: &Arc<Root>,
    places: Vec<Place>,
    within: Duration,
    may_go_on: impl Fn() -> bool + Send + 'static,
) -> Result<Vec<Deletion>, &'static str> {
    let progress = Arc::new(Mutex::new(Progress {
        outcomes: vec![Deletion::NotBegun; places.len()],
        is_over: false,
    }));
    let (told, job_root) = (Arc::clone(&progress), Arc::clone(root));
    let job = move |call: &Call| {
        let begin = |at: usize| {
            let mut progress = told.lock();
            let begins = !progress.is_over && call.is_awaited() && may_go_on();
            if begins {
                progress.outcomes[at] = Deletion::Unknown;
            }
            begins
        };
        let end = |at: usize, outcome| told.lock().outcomes[at] = outcome;
        delete_all(&job_root, &places, begin, end);
    };
    let answer = root.pool.run(Lane::Bulk, within, job).await;
    if let Err(NoAnswer::NotBegun(why)) = answer {
        return Err(why);
    }
    let mut progress = progress.lock();
    progress.is_over = true;
    root.deletions.count(&progress.outcomes);
    Ok(std::mem::take(&mut progress.outcomes))
}

fn delete_all(
    root: &Root,
    places: &[Place],
    begin: impl Fn(usize) -> bool,
    end: impl Fn(usize, Deletion),
) {
    let disk = &root.disk;
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_unstable_by_key(|at| &places[*at]);
    // The directory of the last file.
    let mut open: Option<(&str, Opened)> = None;
    for at in order {
        if !begin(at) {
            return;
        }
        let (directory, name) = places[at].split();
        if open.as_ref().is_none_or(|(path, _)| *path != directory) {
            let opened = Opened::new(disk, directory);
            if matches!(opened, Opened::Absent) {
                // It was made before the place was handed out.
                root.lost();
            }
            open = Some((directory, opened));
        }
        let opened = open.as_ref().map(|(_, opened)| opened);
        let outcome = match opened {
            Some(Opened::There(handle)) => match disk.remove(handle, name) {
                Ok(()) => Deletion::Deleted,
                Err(error) => failed(disk, &places[at], &error),
            },
            Some(Opened::Failed(error)) => Deletion::Failed {
                error: error.clone(),
            },
            Some(Opened::Absent) | None => Deletion::Absent,
        };
        end(at, outcome);
    }
}

/// What there is under the name of a directory.
enum Opened {
    There(OwnedFd),
    Absent,
    Failed(String),
}

impl Opened {
    fn new(disk: &Disk, path: &str) -> Self {
        let failed = |error: io::Error| {
            let root = disk.root().display();
            Self::Failed(format!("cannot open {root}/{path}: {error}"))
        };
        // That the root is not there does not mean that its files are gone: it may be a mount.
        let mut handle = match disk.open_root() {
            Ok(handle) => handle,
            Err(error) => {
                return Self::Failed(format!("the root {}: {error}", disk.root().display()));
            }
        };
        for segment in path.split('/') {
            handle = match disk.open_directory(&handle, segment) {
                Ok(handle) => handle,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::Absent,
                Err(error) => return failed(error),
            };
        }
        Self::There(handle)
    }
}

fn failed(disk: &Disk, place: &Place, error: &io::Error) -> Deletion {
    match error.kind() {
        io::ErrorKind::NotFound => Deletion::Absent,
        _ => Deletion::Failed {
            error: format!("cannot delete {}/{place}: {error}", disk.root().display()),
        },
    }
}
