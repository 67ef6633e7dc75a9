//! Which file systems are refused.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

use rustix::{
    fs::{FlockOperation, statfs},
    io::Errno,
};

use crate::disk;

/// File systems where `flock` may be local to each host, or end without notice. By the numbers
/// of statfs(2).
const SHARED: [(u64, &str); 14] = [
    (0x6969, "nfs"),
    (0x6573_5546, "fuse"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x517b, "smb"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x5346_414f, "afs"),
    (0x7375_7245, "coda"),
];

/// The name of the file system of `path` when it may be shared between hosts.
pub(crate) fn shared(path: &Path) -> io::Result<Option<&'static str>> {
    let number = statfs(path)?.f_type;
    // The kernel's numbers are 32 bits; the field is signed and its width depends on the machine.
    Ok(name(number as u64 & 0xffff_ffff))
}

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

fn name(number: u64) -> Option<&'static str> {
    let found = SHARED.iter().find(|(shared, _)| *shared == number);
    found.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nfs_and_fuse_are_shared_and_ext4_is_not() {
        assert_eq!(name(0x6969), Some("nfs"));
        assert_eq!(name(0x6573_5546), Some("fuse"));
        assert_eq!(name(0xef53), None);
    }

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

    #[test]
    fn the_proc_file_system_is_recognised_as_local() {
        assert_eq!(shared(Path::new("/proc")).unwrap(), None);
    }
}
