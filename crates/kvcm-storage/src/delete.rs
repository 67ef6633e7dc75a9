//! Deletion of files.

use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    Place,
    disk::Disk,
    pool::{Call, Lane, NoAnswer},
    root::Root,
    way::{Blocked, Way},
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
    let directory = |at: &usize| places[*at].split().0;
    let mut order: Vec<usize> = (0..places.len()).collect();
    // They mostly come in this order.
    order.sort_by(|a, b| directory(a).cmp(directory(b)));
    let mut way = Way::new(disk);
    for neighbours in order.chunk_by(|a, b| directory(a) == directory(b)) {
        let first = neighbours[0];
        if !begin(first) {
            return;
        }
        let opened = Opened::new(root, &mut way, directory(&first));
        for at in neighbours.iter().copied() {
            if at != first && !begin(at) {
                return;
            }
            let outcome = match &opened {
                Opened::There(handle) => match disk.remove(handle, places[at].split().1) {
                    Ok(()) => Deletion::Deleted,
                    Err(error) => failed(disk, &places[at], &error),
                },
                Opened::Failed(error) => Deletion::Failed {
                    error: error.clone(),
                },
                Opened::Absent => Deletion::Absent,
            };
            end(at, outcome);
        }
    }
}

/// What there is under the name of a directory.
enum Opened<'a> {
    There(&'a OwnedFd),
    Absent,
    Failed(String),
}

impl<'a> Opened<'a> {
    fn new(root: &Root, way: &'a mut Way<'_>, path: &str) -> Self {
        let disk = &root.disk;
        match way.to(path) {
            Ok(handle) => Self::There(handle),
            Err(Blocked::Below(error)) if error.kind() == io::ErrorKind::NotFound => {
                // It was made before the place was handed out.
                root.lost();
                Self::Absent
            }
            Err(Blocked::Below(error)) => {
                let root = disk.root().display();
                Self::Failed(format!("cannot open {root}/{path}: {error}"))
            }
            // That the root is not there does not mean that its files are gone: it may be a mount.
            Err(Blocked::Root(error)) => {
                Self::Failed(format!("the root {}: {error}", disk.root().display()))
            }
        }
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
