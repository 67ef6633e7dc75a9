//! Where the bytes of a block lie in their storage.

use std::fmt;

/// A file below the root of its storage, or the key of an object: the part of a URI that names it.
///
/// Only [`Uri::place`](crate::Uri::place) makes one, so that a place and its URI cannot disagree.
/// Its segments are names that were made safe: none is empty, `.` or `..`, and none is longer than
/// file systems take.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(Box<str>);

impl Place {
    pub(crate) fn new(path: String) -> Self {
        Self(path.into())
    }

    /// The path, relative to the root; the object's key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory and the name in it.
    pub(crate) fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
