//! File systems that hosts may share.

use std::{io, path::Path};

use rustix::fs::statfs;

/// File systems where a lock may be local to each host, or end without notice, and where a host
/// may be shown old content. By the numbers of statfs(2).
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

/// The name of the file system of `path` when it may be shared between hosts, or be a program.
///
/// # Errors
/// When the system does not tell, for instance because `path` is not there.
pub fn shared(path: &Path) -> io::Result<Option<&'static str>> {
    let number = statfs(path)?.f_type;
    // The kernel's numbers are 32 bits; the field is signed and its width depends on the machine.
    Ok(name(number as u64 & 0xffff_ffff))
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
    fn the_proc_file_system_is_recognised_as_local() {
        assert_eq!(shared(Path::new("/proc")).unwrap(), None);
    }
}
