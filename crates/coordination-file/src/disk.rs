//! All that is asked of the file system, in one place, so that tests can let each of it fail.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, ReadDir},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use rustix::{fs::FlockOperation, io::Errno};

#[cfg(test)]
use crate::disk_fault_tests::may_fail;

#[cfg(not(test))]
const fn may_fail() -> Result<(), Errno> {
    Ok(())
}

pub(crate) fn metadata(path: &Path) -> io::Result<Metadata> {
    may_fail()?;
    fs::metadata(path)
}

pub(crate) fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    may_fail()?;
    DirBuilder::new().mode(mode).create(path)
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    may_fail()?;
    fs::read(path)
}

pub(crate) fn read_dir(path: &Path) -> io::Result<ReadDir> {
    may_fail()?;
    fs::read_dir(path)
}

pub(crate) fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    may_fail()?;
    options.open(path)
}

pub(crate) fn write_all(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    may_fail()?;
    file.write_all(bytes)
}

pub(crate) fn sync(file: &File) -> io::Result<()> {
    may_fail()?;
    file.sync_all()
}

pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    may_fail()?;
    fs::hard_link(from, to)
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    may_fail()?;
    fs::rename(from, to)
}

pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    may_fail()?;
    fs::remove_file(path)
}

/// Freeing a lock is not among them: nothing can make that fail.
pub(crate) fn lock(file: &File, operation: FlockOperation) -> Result<(), Errno> {
    may_fail()?;
    rustix::fs::flock(file, operation)
}
