//! Where new blocks go.

use std::{fmt, sync::Arc};

use thiserror::Error;

use crate::{DataStorage, Kind};

/// Bytes used against a limit. At the limit is full, and a limit of 0 or less is always full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in use.
    pub used: u64,
    /// The limit in bytes.
    pub capacity: i64,
}

/// The limits of a group.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// All bytes of the group.
    pub group: Usage,
    /// Bytes by kind; a kind that is not listed has no limit of its own. Kinds are compared as
    /// [`Kind::quota_kind`] says.
    pub by_kind: &'a [(Kind, Usage)],
}

/// No storage can take new blocks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The group is full.
    #[error("the group's quota is used up: {0}")]
    GroupFull(Usage),
    /// The strategy's number has no meaning.
    #[error("data_storage_strategy {0} is not known, expected 1 to 10")]
    UnknownStrategy(i32),
    /// The group names no storage that exists.
    #[error("none of the group's storage_candidates exists; add a storage or name another one")]
    NoCandidates,
    /// Every candidate has a reason of its own.
    #[error("no storage can take new blocks: {}", list(.0))]
    AllRefused(Vec<(String, Reason)>),
}

/// Why one candidate cannot take new blocks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    /// An operator disabled it.
    #[error("it is disabled")]
    Disabled,
    /// It does not answer.
    #[error("it is not available")]
    Unavailable,
    /// Its kind is full.
    #[error("the group's quota for type {kind} is used up: {usage}")]
    KindFull {
        /// The kind whose quota it is.
        kind: Kind,
        /// How much.
        usage: Usage,
    },
    /// The group's strategy insists on another kind.
    #[error("data_storage_strategy {strategy} allows only type {wanted}")]
    OtherKind {
        /// The strategy.
        strategy: i32,
        /// The kind that it insists on.
        wanted: Kind,
    },
}

/// Chooses the storage for the new blocks of one write.
///
/// `candidates` are the group's, in its order. `strategy` is the number of the protocol's
/// CachePreferStrategy: odd numbers allow one kind only, even ones prefer it, 0 prefers nothing.
/// Storages that are not available or whose kind is full do not count.
///
/// # Errors
/// [`Refusal`], which names each limit with what is used of it.
pub fn choose(
    candidates: &[Arc<DataStorage>],
    strategy: i32,
    limits: &Limits<'_>,
) -> Result<Arc<DataStorage>, Refusal> {
    let preference = Preference::from_number(strategy)?;
    if limits.group.is_full() {
        return Err(Refusal::GroupFull(limits.group));
    }
    if candidates.is_empty() {
        return Err(Refusal::NoCandidates);
    }
    let usable = |storage: &&Arc<DataStorage>| problem(storage, limits).is_none();
    let first = || candidates.iter().find(usable);
    let of_kind = |kind| {
        let mut usable = candidates.iter().filter(usable);
        usable.find(|storage| storage.kind() == kind)
    };
    let chosen = match preference {
        Preference::None => first(),
        Preference::Always(kind) => of_kind(kind),
        Preference::Prefer(kind) => of_kind(kind).or_else(first),
    };
    chosen.cloned().ok_or_else(|| {
        let reasons = candidates.iter().filter_map(|storage| {
            let reason = match preference {
                Preference::Always(wanted) if storage.kind() != wanted => {
                    Some(Reason::OtherKind { strategy, wanted })
                }
                _ => problem(storage, limits),
            };
            Some((storage.name().to_owned(), reason?))
        });
        Refusal::AllRefused(reasons.collect())
    })
}

fn problem(storage: &DataStorage, limits: &Limits<'_>) -> Option<Reason> {
    if !storage.is_enabled() {
        return Some(Reason::Disabled);
    }
    if !storage.is_available() {
        return Some(Reason::Unavailable);
    }
    let kind = storage.kind().quota_kind();
    let mut limits = limits.by_kind.iter();
    let (_, usage) = limits.find(|(limited, _)| limited.quota_kind() == kind)?;
    usage.is_full().then_some(Reason::KindFull {
        kind,
        usage: *usage,
    })
}

#[derive(Clone, Copy)]
enum Preference {
    None,
    Always(Kind),
    Prefer(Kind),
}

impl Preference {
    fn from_number(strategy: i32) -> Result<Self, Refusal> {
        let kind = match strategy {
            0 => return Ok(Self::None),
            1 | 2 => Kind::Hf3fs,
            3 | 4 => Kind::Mooncake,
            5 | 6 => Kind::Pace,
            7 | 8 => Kind::VcnsHf3fs,
            9 | 10 => Kind::PaceSsd,
            other => return Err(Refusal::UnknownStrategy(other)),
        };
        Ok(if strategy % 2 == 1 {
            Self::Always(kind)
        } else {
            Self::Prefer(kind)
        })
    }
}

// === impl Usage ===

impl Usage {
    /// Whether nothing more fits.
    pub fn is_full(&self) -> bool {
        u64::try_from(self.capacity).map_or(true, |capacity| self.used >= capacity)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes used", self.used, self.capacity)?;
        if self.capacity <= 0 {
            f.write_str("; set a capacity above 0 in the group's quota")?;
        }
        Ok(())
    }
}

fn list(reasons: &[(String, Reason)]) -> String {
    let reasons: Vec<_> = reasons
        .iter()
        .map(|(name, reason)| format!("`{name}`: {reason}"))
        .collect();
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    const ROOM: Usage = Usage {
        used: 1,
        capacity: 10,
    };
    const FULL: Usage = Usage {
        used: 10,
        capacity: 10,
    };
    const FREE: Limits<'_> = Limits {
        group: ROOM,
        by_kind: &[],
    };

    fn stores() -> Vec<Arc<DataStorage>> {
        let file = |root: &str| Settings::File {
            root_path: root.to_owned(),
            key_count_per_file: 1,
        };
        let hf3fs = Settings::Hf3fs {
            mountpoint: "m".to_owned(),
            root_dir: "r".to_owned(),
            key_count_per_file: 1,
        };
        let all = [
            ("f1", file("/1/")),
            ("f2", file("/2/")),
            ("h", hf3fs),
            ("m", Settings::Mooncake),
        ];
        all.iter()
            .map(|(name, settings)| Arc::new(DataStorage::open(name, settings).unwrap()))
            .collect()
    }

    fn name(
        stores: &[Arc<DataStorage>],
        strategy: i32,
        limits: &Limits<'_>,
    ) -> Result<String, String> {
        choose(stores, strategy, limits)
            .map(|storage| storage.name().to_owned())
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn strategies_insist_on_or_prefer_a_kind() {
        let stores = stores();
        let expected = [
            (0, "f1"),
            (1, "h"),
            (2, "h"),
            (3, "m"),
            (4, "m"),
            (6, "f1"),
            (8, "f1"),
            (10, "f1"),
        ];
        for (strategy, storage) in expected {
            assert_eq!(name(&stores, strategy, &FREE).as_deref(), Ok(storage));
        }
        for strategy in [5, 7, 9] {
            let refusal = name(&stores[..1], strategy, &FREE).unwrap_err();
            assert!(refusal.contains("`f1`: data_storage_strategy"), "{refusal}");
        }
        assert_eq!(
            choose(&stores, 11, &FREE).unwrap_err(),
            Refusal::UnknownStrategy(11)
        );
    }

    #[test]
    fn storages_that_are_away_or_full_are_passed_over() {
        let stores = stores();
        stores[0].set_enabled(false);
        assert_eq!(name(&stores, 0, &FREE).as_deref(), Ok("f2"));
        stores[1].set_healthy(false);
        assert_eq!(name(&stores, 0, &FREE).as_deref(), Ok("h"));
        // VCNS and 3FS share a quota.
        let limits = Limits {
            group: ROOM,
            by_kind: &[(Kind::File, ROOM), (Kind::VcnsHf3fs, FULL)],
        };
        assert_eq!(name(&stores, 2, &limits).as_deref(), Ok("m"));
        assert_eq!(
            name(&stores[..3], 2, &limits).unwrap_err(),
            "no storage can take new blocks: `f1`: it is disabled; `f2`: it is not available; \
             `h`: the group's quota for type hf3fs is used up: 10 of 10 bytes used"
        );
    }

    #[test]
    fn a_full_group_is_refused_with_what_is_used() {
        let full = |used, capacity| {
            let limits = Limits {
                group: Usage { used, capacity },
                by_kind: &[],
            };
            name(&stores(), 0, &limits).unwrap_err()
        };
        assert_eq!(
            full(12, 10),
            "the group's quota is used up: 12 of 10 bytes used"
        );
        assert_eq!(
            full(0, 0),
            "the group's quota is used up: 0 of 0 bytes used; set a capacity above 0 in the \
             group's quota"
        );
        assert!(full(0, -1).contains("0 of -1 bytes used"));
    }

    #[test]
    fn a_group_without_storages_is_told_so() {
        assert_eq!(choose(&[], 2, &FREE).unwrap_err(), Refusal::NoCandidates);
    }
}
