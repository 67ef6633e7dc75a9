//! What to say when a file call fails.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use thiserror::Error;

/// A file call that failed: which, where, why, and what to do.
#[derive(Debug, Error)]
#[error("cannot {doing} {path}: {source}{}", advice(source.kind()), path = path.display())]
pub(crate) struct FileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    pub(super) fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self {
            doing,
            path,
            source,
        }
    }

    /// Whether something was not there.
    pub(super) fn is_missing(&self) -> bool {
        self.source.kind() == ErrorKind::NotFound
    }

    /// For `map_err`.
    pub(super) fn when(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::new(doing, path, source)
    }
}

const fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free space on that file system, nothing is lost and writing goes on by itself"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; let the process write there"
        }
        _ => "",
    }
}
