//! The way to files: directories that are opened once for all neighbours.

use std::{io, os::fd::OwnedFd};

use crate::disk::Disk;

/// Handles of the directories that lead to the last file. Files are mostly asked for with their
/// neighbours, which then cost no look-up from the root on.
///
/// It lives as long as one call: a handle that is kept keeps a file system from being unmounted.
#[derive(Debug)]
pub(crate) struct Way<'a> {
    disk: &'a Disk,
    /// What is missing is made.
    makes: bool,
    root: Option<OwnedFd>,
    /// Below the root by name, each in the one before.
    open: Vec<(Box<str>, OwnedFd)>,
}

/// Where the way ends.
#[derive(Debug)]
pub(crate) enum Blocked {
    /// At the root.
    Root(io::Error),
    /// Below it.
    Below(io::Error),
}

impl<'a> Way<'a> {
    /// A way through directories that are there.
    pub(crate) const fn new(disk: &'a Disk) -> Self {
        Self {
            disk,
            makes: false,
            root: None,
            open: Vec::new(),
        }
    }

    /// A way that makes the directories that are missing.
    pub(crate) const fn making(disk: &'a Disk) -> Self {
        let mut way = Self::new(disk);
        way.makes = true;
        way
    }

    /// The directory of this path below the root.
    pub(crate) fn to(&mut self, path: &str) -> Result<&OwnedFd, Blocked> {
        let common = self
            .open
            .iter()
            .zip(path.split('/'))
            .take_while(|((name, _), segment)| **name == **segment)
            .count();
        self.open.truncate(common);
        let root = match self.root.take() {
            Some(root) => root,
            None if self.makes => self.disk.make_root().map_err(Blocked::Root)?,
            None => self.disk.open_root().map_err(Blocked::Root)?,
        };
        let root = &*self.root.insert(root);
        for segment in path.split('/').skip(common) {
            let parent = self.open.last().map_or(root, |(_, handle)| handle);
            let handle = if self.makes {
                self.disk.open_or_make_directory(parent, segment)
            } else {
                self.disk.open_directory(parent, segment)
            };
            let handle = handle.map_err(Blocked::Below)?;
            self.open.push((segment.into(), handle));
        }
        Ok(self.open.last().map_or(root, |(_, handle)| handle))
    }
}

impl Blocked {
    /// Why, wherever.
    pub(crate) fn into_error(self) -> io::Error {
        match self {
            Self::Root(error) | Self::Below(error) => error,
        }
    }
}
