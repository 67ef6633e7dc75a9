//! Whether the file system can do what we need.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

use rustix::{fs::FlockOperation, io::Errno};

use crate::disk;

/// What the file system lacks that we rely on, tried with the file `temporary`: locks that keep
/// others out, second names. None also when that cannot be tried: then nothing will be locked, either.
pub(crate) fn lack(temporary: &Path) -> Option<&'static str> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let one = disk::open(options.clone().create(true).truncate(false), temporary);
    // Another process, in tidying up, may have removed it.
    let other = disk::open(&options, temporary);
    let (Ok(one), Ok(other)) = (one, other) else {
        return None;
    };
    let exclude = excludes(&one, &other);
    let second = temporary.with_extension("link");
    let linked = disk::link(temporary, &second);
    // Left for the tidying when they cannot be removed.
    let _ = disk::remove_file(temporary);
    let _ = disk::remove_file(&second);
    match linked {
        _ if !exclude => Some("two locks of one file can be had"),
        Err(error) if lacks_links(&error) => Some("a file cannot have two names"),
        _ => None,
    }
}

fn lacks_links(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::PERM | Errno::OPNOTSUPP)
    )
}

fn excludes(one: &File, other: &File) -> bool {
    let lock = |file| disk::lock(file, FlockOperation::NonBlockingLockExclusive);
    lock(one).is_err() || lock(other) == Err(Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_second_names_is_noticed() {
        for (errno, lacks) in [
            (Errno::PERM, true),
            (Errno::OPNOTSUPP, true),
            (Errno::NOSPC, false),
        ] {
            assert_eq!(lacks_links(&errno.into()), lacks);
        }
    }

    #[test]
    fn a_lock_that_keeps_nobody_out_is_noticed() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("tmp.1");
        assert_eq!(lack(&path), None);
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        assert_eq!(lack(&dir.path().join("absent/tmp.1")), None);
        // One open file, as where all processes are the same to the server of a file system.
        let file = File::create(&path).unwrap();
        assert!(!excludes(&file, &file.try_clone().unwrap()));
    }
}
