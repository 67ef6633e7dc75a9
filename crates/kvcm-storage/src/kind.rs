//! The kinds of data storage.

use std::fmt;

/// A kind of data storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// 3FS.
    Hf3fs,
    /// Mooncake.
    Mooncake,
    /// PACE memory pool.
    Pace,
    /// Files on a shared file system.
    File,
    /// 3FS through VCNS.
    VcnsHf3fs,
    /// PACE pool on SSD.
    PaceSsd,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Hf3fs,
        Self::Mooncake,
        Self::Pace,
        Self::File,
        Self::VcnsHf3fs,
        Self::PaceSsd,
    ];

    /// The number of the protocol's StorageType.
    pub const fn number(self) -> i32 {
        match self {
            Self::Hf3fs => 1,
            Self::Mooncake => 2,
            Self::Pace => 3,
            Self::File => 4,
            Self::VcnsHf3fs => 5,
            Self::PaceSsd => 9,
        }
    }

    /// The kind with this number on the wire.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hf3fs => "hf3fs",
            Self::Mooncake => "mooncake",
            Self::Pace => "pace",
            Self::File => "file",
            Self::VcnsHf3fs => "vcns_hf3fs",
            Self::PaceSsd => "pace_ssd",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_one_kind_each() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(Kind::from_number(0), None);
    }
}
