//! The kinds of data storage.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A kind of data storage, with its text in JSON and its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StorageType {
    /// 3FS.
    #[serde(rename = "hf3fs")]
    Hf3fs,
    /// Mooncake.
    #[serde(rename = "mooncake")]
    Mooncake,
    /// PACE memory pool.
    #[serde(rename = "pace")]
    Pace,
    /// Files on a shared file system.
    #[serde(rename = "file")]
    File,
    /// 3FS through VCNS.
    #[serde(rename = "vcns_hf3fs")]
    VcnsHf3fs,
    /// PACE pool on SSD.
    #[serde(rename = "pace_ssd")]
    PaceSsd,
}

impl StorageType {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::File,
        Self::Hf3fs,
        Self::VcnsHf3fs,
        Self::Mooncake,
        Self::Pace,
        Self::PaceSsd,
    ];

    /// The text in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hf3fs => "hf3fs",
            Self::Mooncake => "mooncake",
            Self::Pace => "pace",
            Self::File => "file",
            Self::VcnsHf3fs => "vcns_hf3fs",
            Self::PaceSsd => "pace_ssd",
        }
    }

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

impl fmt::Display for StorageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StorageType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
                format!("`{text}` is not a storage type ({})", known.join(", "))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_json_and_number_agree() {
        for kind in StorageType::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(StorageType::from_number(kind.number()), Some(kind));
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
        }
        assert_eq!(StorageType::from_number(0), None);
        assert_eq!(StorageType::from_number(263), None);
    }
}
