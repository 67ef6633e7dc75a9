//! Whether file locks exclude.

use std::{
    fs::{File, OpenOptions},
    path::Path,
};

use rustix::{fs::FlockOperation, io::Errno};

use crate::disk;

/// Whether a lock of a file keeps others from locking it, tried with the file `temporary`. True when
/// that cannot be tried: then nothing will be locked, either.
pub(crate) fn locks_exclude(temporary: &Path) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let one = disk::open(options.clone().create(true).truncate(false), temporary);
    // Another process, in tidying up, may have removed it.
    let other = disk::open(&options, temporary);
    let (Ok(one), Ok(other)) = (one, other) else {
        return true;
    };
    let exclude = excludes(&one, &other);
    // Left for the tidying when it cannot be removed.
    let _ = disk::remove_file(temporary);
    exclude
}

fn excludes(one: &File, other: &File) -> bool {
    let lock = |file| disk::lock(file, FlockOperation::NonBlockingLockExclusive);
    lock(one).is_err() || lock(other) == Err(Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_keeps_nobody_out_is_noticed() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("tmp.1");
        assert!(locks_exclude(&path) && !path.exists());
        assert!(locks_exclude(&dir.path().join("absent/tmp.1")));
        // One open file, as where all processes are the same to the server of a file system.
        let file = File::create(&path).unwrap();
        assert!(!excludes(&file, &file.try_clone().unwrap()));
    }
}
