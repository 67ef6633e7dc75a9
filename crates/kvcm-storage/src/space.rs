//! Room in a file system.

use crate::health::{Problem, Reason};

/// Bytes that are to be free at least, when the file system is large.
const BYTES_MIN: u64 = 256 << 20;
/// Files that there has to be room for at least, when the file system is large.
const FILES_MIN: u64 = 10_000;

/// Room in a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that it has; 0 when it does not say.
    pub bytes: u64,
    /// Bytes that are free to users.
    pub bytes_free: u64,
    /// Files that it can have; 0 when it does not say or knows no limit.
    pub files: u64,
    /// Files that users can still make.
    pub files_free: u64,
    /// It may only be read.
    pub is_read_only: bool,
}

impl Space {
    /// Why no block can go there: less than 1 % or 256 MB is free, or room for less than 1 % or
    /// 10,000 files. One that was full needs twice that, so that it does not come and go.
    pub(crate) fn problem(&self, was_full: bool) -> Option<Problem> {
        let problem = |reason, detail| Some(Problem { reason, detail });
        if self.is_read_only {
            let detail = "it is mounted read-only".to_owned();
            return problem(Reason::ReadOnly, detail);
        }
        let least = |all: u64, most: u64| (all / 100).min(most) * if was_full { 2 } else { 1 };
        let (bytes, files) = (least(self.bytes, BYTES_MIN), least(self.files, FILES_MIN));
        if self.bytes > 0 && self.bytes_free <= bytes {
            let (free, all) = (self.bytes_free, self.bytes);
            let detail = format!("{free} of {all} bytes are free, it needs more than {bytes}");
            return problem(Reason::Full, detail);
        }
        if self.files > 0 && self.files_free <= files {
            let (free, all) = (self.files_free, self.files);
            let detail = format!("{free} of {all} files can be made, it needs more than {files}");
            return problem(Reason::Full, detail);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TB: u64 = 1 << 40;

    fn space(bytes: u64, bytes_free: u64, files: u64, files_free: u64) -> Space {
        Space {
            bytes,
            bytes_free,
            files,
            files_free,
            is_read_only: false,
        }
    }

    fn reason(space: Space, was_full: bool) -> Option<Reason> {
        space.problem(was_full).map(|problem| problem.reason)
    }

    #[test]
    fn too_little_room_of_either_kind_is_full() {
        let full = Some(Reason::Full);
        assert_eq!(reason(space(TB, BYTES_MIN + 1, 0, 0), false), None);
        assert_eq!(reason(space(TB, BYTES_MIN, 0, 0), false), full);
        assert_eq!(reason(space(100_000, 1001, 0, 0), false), None);
        assert_eq!(reason(space(100_000, 1000, 0, 0), false), full);
        assert_eq!(reason(space(0, 0, 1 << 30, FILES_MIN + 1), false), None);
        assert_eq!(reason(space(TB, TB, 1 << 30, FILES_MIN), false), full);
        assert_eq!(reason(space(TB, 0, 0, 0), false), full);
        // What says nothing has no limit.
        assert_eq!(reason(space(0, 0, 0, 0), true), None);
    }

    #[test]
    fn one_that_was_full_needs_twice_the_room() {
        let full = Some(Reason::Full);
        assert_eq!(reason(space(TB, 2 * BYTES_MIN, 0, 0), true), full);
        assert_eq!(reason(space(TB, 2 * BYTES_MIN + 1, 0, 0), true), None);
    }

    #[test]
    fn a_read_only_one_is_told_first() {
        let mut space = space(TB, 0, 0, 0);
        space.is_read_only = true;
        assert_eq!(reason(space, false), Some(Reason::ReadOnly));
    }
}
