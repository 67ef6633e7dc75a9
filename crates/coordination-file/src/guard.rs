//! Mutual exclusion between processes.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use coordination_core::Error;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{directory::Directory, disk, error::not_done, names::GUARD, worker::Call};

/// The first wait between two tries; waits double up to [`WAIT_MAX`].
const WAIT_MIN: Duration = Duration::from_micros(50);
/// The longest wait between two tries.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// The guard file.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    file: Option<Arc<File>>,
}

/// The guard is held; dropping this frees it.
#[derive(Debug)]
pub(crate) struct Guarded {
    file: Arc<File>,
}

impl Guard {
    /// Waits until no other process holds the guard, or nobody waits for the call any more. Never
    /// with a blocking `flock`: whoever is stopped while it holds the guard would stop us, too.
    pub(crate) fn enter(&mut self, directory: &Directory, call: &Call) -> Result<Guarded, Error> {
        let path = directory.path_of(GUARD);
        let mut wait = WAIT_MIN;
        loop {
            call.check()?;
            directory.check()?;
            let file = match &self.file {
                Some(file) => file.clone(),
                None => {
                    let file = open(&path).map_err(not_done("open", &path))?;
                    self.file.insert(Arc::new(file)).clone()
                }
            };
            match disk::lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    let guarded = Guarded { file };
                    if is_at(&guarded.file, &path).map_err(not_done("examine", &path))? {
                        return Ok(guarded);
                    }
                    // Removed under us; others may be working with the file that stands there now.
                    self.file = None;
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    // Jitter, so that contenders do not go on in step.
                    thread::sleep(wait.mul_f64(0.5 + fastrand::f64()));
                    wait = (wait * 2).min(WAIT_MAX);
                }
                Err(error) => return Err(not_done("lock", &path)(error)),
            }
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::error!(%error, "cannot free the guard");
        }
    }
}

/// Whether the open file is the one that stands at `path`.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match disk::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    disk::open(&options, path)
}
