//! From errors of files to errors of the backend.
//!
//! A file operation that fails may succeed later (space, permissions, a remounted disk), so all
//! are `Unavailable`; none ever counts as "the lock is free".

use std::{
    io,
    path::{Path, PathBuf},
};

use coordination_core::Error;
use thiserror::Error as ThisError;

/// A file operation that failed.
#[derive(Debug, ThisError)]
#[error("cannot {doing} {}: {source}", path.display())]
pub(crate) struct FileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// For `map_err`: nothing has changed.
pub(crate) fn not_done<E: Into<io::Error>>(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> Error {
    move |error| Error::not_done(file_error(doing, path, error.into()))
}

/// For `map_err`: the change is made, but it may not survive a power cut.
pub(crate) fn unknown<E: Into<io::Error>>(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> Error {
    move |error| Error::unknown(file_error(doing, path, error.into()))
}

/// The error for people.
pub(crate) fn file_error(doing: &'static str, path: &Path, source: io::Error) -> FileError {
    FileError {
        doing,
        path: path.to_owned(),
        source,
    }
}
